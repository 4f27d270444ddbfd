//! What is handed out and given back: free slots, flights, memory for copies; and the queue of flights. All
//! under one lock, which is taken last and held for a few steps.

use mezzanine_ground::lock::{Guard, RegionLock};
use mezzanine_ground::region::{Word, shared};

use crate::budget::Budget;
use crate::cache::{Cache, OWNER};
use crate::descriptor::SlotState;
use crate::ids::{FlightNumber, Slot};
use crate::planted::{self, Bug};
use crate::small::{Link, Small};
use crate::validity::mask;

/// Slots of the free list that are found to be behind the limit in one call.
const WITHDRAWN_AT_ONCE: u32 = 64;

/// Zero is: everything is free.
#[repr(C, align(64))]
pub(crate) struct Pools {
    lock: RegionLock,
    free_slots: Link,
    /// Slots from here on were never used.
    fresh_slots: Small,
    /// Slots behind the limit that are free, but for those that were never used: their list, its last one and
    /// its length. The free list may have more of them.
    withdrawn_first: Link,
    withdrawn_last: Link,
    withdrawn: Small,
    /// By how many slots the cache is smaller than it could be. Read without the lock.
    shrunk_by: Small,
    /// Slots that are not free. Read without the lock.
    used_slots: Small,
    /// Of these, those that are retired, and the first and last of their list. The number is read without the
    /// lock.
    retired_slots: Small,
    retired_first: Link,
    retired_last: Link,
    free_flights: Link,
    fresh_flights: Small,
    used_flights: Small,
    queue_first: Link,
    queue_last: Link,
    used_copies: Small,
    /// Where to look for memory next, in words of its bitmap.
    copies_next: Small,
    pub(crate) budget: Budget,
}
shared!(Pools);

impl Pools {
    pub(crate) fn used_slots(&self) -> u32 {
        self.used_slots.get()
    }

    /// Of so many slots, how many are in use.
    pub(crate) fn limit(&self, slots: u32) -> u32 {
        slots - self.shrunk_by.get()
    }

    /// Of so many slots, those that are free and in use by the limit, as far as that is known: the free list
    /// may have some behind it.
    pub(crate) fn free_slots(&self, slots: u32) -> u32 {
        // Not all read at one moment.
        let never_used = slots - self.fresh_slots.get().max(self.limit(slots)).min(slots);
        slots.saturating_sub(self.used_slots() + self.withdrawn.get() + never_used)
    }

    pub(crate) fn retired_slots(&self) -> u32 {
        self.retired_slots.get()
    }

    pub(crate) fn used_flights(&self) -> u32 {
        self.used_flights.get()
    }

    /// Whether flights wait to be written: read without the lock.
    pub(crate) fn has_queued(&self) -> bool {
        self.queue_first.get().is_some()
    }

    pub(crate) fn used_copies(&self) -> u32 {
        self.used_copies.get()
    }
}

/// The pools under their lock.
pub(crate) struct LockedPools<'c> {
    cache: &'c Cache,
    pools: &'c Pools,
    _guard: Guard<'c>,
}

impl Cache {
    pub(crate) fn lock_pools(&self) -> LockedPools<'_> {
        let pools = &self.control().pools;
        LockedPools { cache: self, pools, _guard: pools.lock.lock(OWNER) }
    }

    pub(crate) fn copies_taken(&self) -> &[Word] {
        let blocks = self.geometry.copy_blocks() as usize;
        self.region.slice(self.geometry.layout.copies_taken, blocks.div_ceil(64))
    }
}

impl LockedPools<'_> {
    pub(crate) fn budget(&self) -> &Budget {
        &self.pools.budget
    }

    /// A slot that nothing lies in.
    pub(crate) fn take_slot(&self) -> Option<Slot> {
        let limit = self.pools.limit(self.cache.geometry.slots());
        for _ in 0..WITHDRAWN_AT_ONCE {
            let Some(free) = self.pools.free_slots.get() else {
                let fresh = self.pools.fresh_slots.get();
                if fresh >= limit {
                    return None;
                }
                self.pools.fresh_slots.set(fresh + 1);
                self.pools.used_slots.raise(1);
                return Some(Slot(fresh));
            };
            self.pools.free_slots.set(self.cache.descriptor(Slot(free)).flights.get());
            self.cache.descriptor(Slot(free)).flights.set(None);
            if free < limit || planted::is(Bug::SlotBehindLimit) {
                self.pools.used_slots.raise(1);
                return Some(Slot(free));
            }
            self.withdraw(Slot(free));
        }
        None
    }

    /// A free slot is behind the limit.
    fn withdraw(&self, slot: Slot) {
        let first = self.pools.withdrawn_first.get();
        self.cache.descriptor(slot).flights.set(first);
        self.pools.withdrawn_first.set(Some(slot.0));
        if first.is_none() {
            self.pools.withdrawn_last.set(Some(slot.0));
        }
        self.pools.withdrawn.raise(1);
    }

    /// So many slots are in use from now on. What was withdrawn is looked at again.
    pub(crate) fn set_limit(&self, limit: u32) {
        self.pools.shrunk_by.set(self.cache.geometry.slots() - limit);
        if let Some(last) = self.pools.withdrawn_last.get() {
            self.cache.descriptor(Slot(last)).flights.set(self.pools.free_slots.get());
            self.pools.free_slots.set(self.pools.withdrawn_first.get());
            self.pools.withdrawn_first.set(None);
            self.pools.withdrawn_last.set(None);
            self.pools.withdrawn.set(0);
        }
        self.keep_half();
    }

    /// Takes all slots, each of which is given back by itself.
    pub(crate) fn take_all_slots(&self) {
        let slots = self.cache.geometry.slots();
        self.pools.fresh_slots.set(slots);
        self.pools.used_slots.set(slots);
    }

    pub(crate) fn give_slot(&self, slot: Slot) {
        if slot.0 >= self.pools.limit(self.cache.geometry.slots()) && !planted::is(Bug::SlotBehindLimit) {
            self.withdraw(slot);
            self.pools.used_slots.lower(1);
            return;
        }
        self.cache.descriptor(slot).flights.set(self.pools.free_slots.get());
        self.pools.free_slots.set(Some(slot.0));
        self.pools.used_slots.lower(1);
    }

    /// Keeps a slot back that the cache device has refused a fragment in, so that it is not the next one to
    /// be taken again. At most half of the slots are kept: when there are more, the one that was refused
    /// first is free again, since a device that has failed for a while works again.
    pub(crate) fn retire_slot(&self, slot: Slot) {
        self.cache.descriptor(slot).set_state(SlotState::Retired);
        self.cache.descriptor(slot).flights.set(None);
        match self.pools.retired_last.get() {
            Some(last) => self.cache.descriptor(Slot(last)).flights.set(Some(slot.0)),
            None => self.pools.retired_first.set(Some(slot.0)),
        }
        self.pools.retired_last.set(Some(slot.0));
        self.pools.retired_slots.raise(1);
        self.keep_half();
    }

    /// Of the slots within the limit half are retired at most.
    fn keep_half(&self) {
        while self.pools.retired_slots() > self.pools.limit(self.cache.geometry.slots()) / 2 {
            self.reinstate_slot();
        }
    }

    /// The slot that was retired first is free again; false if there is none.
    pub(crate) fn reinstate_slot(&self) -> bool {
        let Some(first) = self.pools.retired_first.get() else {
            return false;
        };
        let descriptor = self.cache.descriptor(Slot(first));
        let next = descriptor.flights.get();
        self.pools.retired_first.set(next);
        if next.is_none() {
            self.pools.retired_last.set(None);
        }
        self.pools.retired_slots.lower(1);
        descriptor.set_state(SlotState::Free);
        self.give_slot(Slot(first));
        true
    }

    pub(crate) fn take_flight(&self) -> Option<FlightNumber> {
        let number = match self.pools.free_flights.get() {
            Some(free) => {
                self.pools.free_flights.set(self.cache.flight(FlightNumber(free)).next_queued.get());
                free
            }
            None => {
                let fresh = self.pools.fresh_flights.get();
                if fresh == self.cache.geometry.config().flights {
                    return None;
                }
                self.pools.fresh_flights.set(fresh + 1);
                fresh
            }
        };
        self.pools.used_flights.raise(1);
        Some(FlightNumber(number))
    }

    pub(crate) fn give_flight(&self, number: FlightNumber) {
        self.cache.flight(number).next_queued.set(self.pools.free_flights.get());
        self.pools.free_flights.set(Some(number.0));
        self.pools.used_flights.lower(1);
    }

    /// The first of so many free blocks of the memory for copies that lie side by side: 64 at most.
    pub(crate) fn take_copies(&self, count: u32) -> Option<u32> {
        let (taken, blocks) = (self.cache.copies_taken(), self.cache.geometry.copy_blocks());
        let words = taken.len() as u32;
        if count > blocks - self.pools.used_copies() {
            return None;
        }
        let next = self.pools.copies_next.get() % words;
        for word in (next..words).chain(0..next) {
            let free = free_bits(taken, word, blocks);
            // A bit stays set where so many free ones begin.
            let begins = (1..count).fold(free, |begins, further| begins & free >> further);
            let low = begins as u64;
            if low != 0 {
                let first = word * 64 + low.trailing_zeros();
                set(taken, first, count, true);
                self.pools.used_copies.raise(count);
                self.pools.copies_next.set((first + count) / 64);
                return Some(first);
            }
        }
        None
    }

    pub(crate) fn give_copies(&self, first: u32, count: u32) {
        set(self.cache.copies_taken(), first, count, false);
        self.pools.used_copies.lower(count);
    }

    /// Puts a flight behind all that wait to be written.
    pub(crate) fn enqueue(&self, number: FlightNumber) {
        self.cache.flight(number).next_queued.set(None);
        match self.pools.queue_last.get() {
            Some(last) => self.cache.flight(FlightNumber(last)).next_queued.set(Some(number.0)),
            None => self.pools.queue_first.set(Some(number.0)),
        }
        self.pools.queue_last.set(Some(number.0));
    }

    /// The flight that has waited longest.
    pub(crate) fn dequeue(&self) -> Option<FlightNumber> {
        let first = self.pools.queue_first.get()?;
        let next = self.cache.flight(FlightNumber(first)).next_queued.get();
        self.pools.queue_first.set(next);
        if next.is_none() {
            self.pools.queue_last.set(None);
        }
        Some(FlightNumber(first))
    }
}

/// The free blocks of a word of the bitmap and the one behind it.
fn free_bits(taken: &[Word], word: u32, blocks: u32) -> u128 {
    let of = |word: u32| {
        let exist = mask(0..blocks.saturating_sub(word * 64).min(64));
        taken.get(word as usize).map_or(0, |taken| !taken.get() & exist)
    };
    u128::from(of(word)) | u128::from(of(word + 1)) << 64
}

fn set(taken: &[Word], first: u32, count: u32, value: bool) {
    for block in first..first + count {
        let (word, bit) = (&taken[block as usize / 64], 1 << (block % 64));
        assert_eq!(word.get() & bit == 0, value, "invariant 8: memory is given to one flight at a time");
        word.set(word.get() ^ bit);
    }
}
