//! What is remembered of pages that are away: a time for each of the last `capacity` that left and have not
//! come back.
//!
//! All that belongs to a slot lies side by side, so that a page costs a cache line and its neighbours in the
//! order one each. Slot 0 is both ends of the order, which is a ring; so links count slots from 1, and 0 is
//! none.
//!
//! 1. Every remembered page has one slot, which is in the order and in the chain of the bucket that its key
//!    hashes to.
//! 2. Slots beyond `used` were never taken; every other one is in the order or on the chain of free ones.
//! 3. When no slot is free, the page that left first is forgotten.

use std::sync::atomic::Ordering::Relaxed;

use super::{Memory, PageKey, piece};
use crate::interleave::{AtomicU32, AtomicU64};
use crate::region::{prefetch, shared};

#[repr(C)]
struct Slot {
    page: AtomicU64,
    /// 0 if it is not in the order.
    time: AtomicU64,
    /// The next in its chain: its bucket's, or that of free slots.
    chain: AtomicU32,
    /// The one before it in its bucket's chain, [`END`] if it is the first: who is forgotten need not be
    /// looked for in the chain.
    before: AtomicU32,
    /// Whose page left before, and after.
    older: AtomicU32,
    newer: AtomicU32,
}

#[repr(C)]
struct Head {
    /// Slots that have ever been taken.
    used: AtomicU32,
    /// The first free one of those.
    free: AtomicU32,
}
shared!(Slot, Head);

/// The history's view of its memory.
pub(super) struct History<'r> {
    head: &'r Head,
    buckets: &'r [AtomicU32],
    /// One more than pages can be remembered.
    slots: &'r [Slot],
}

/// The ends of the order.
const END: u32 = 0;

impl<'r> History<'r> {
    pub(super) fn bytes(capacity: u32) -> usize {
        let count = capacity as usize;
        piece::<Head>(1) + piece::<AtomicU32>(count) + piece::<Slot>(count + 1)
    }

    pub(super) fn laid(memory: &mut Memory<'r>, capacity: u32) -> Self {
        let count = capacity as usize;
        Self { head: memory.one(), buckets: memory.take(count), slots: memory.take(count + 1) }
    }

    #[inline(always)]
    fn slot(&self, slot: u32) -> &'r Slot {
        &self.slots[slot as usize]
    }

    #[inline(always)]
    fn bucket(&self, page: PageKey) -> &'r AtomicU32 {
        &self.buckets[self.place(page)]
    }

    /// Which bucket a page's is.
    #[inline(always)]
    fn place(&self, page: PageKey) -> usize {
        // The high half of a product depends on all bits of the key (Knuth, "The art of computer
        // programming", 6.4).
        let hash = page.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        ((hash * self.buckets.len() as u64) >> 32) as usize
    }

    /// Remembers that a page has left, and a time above 0 with it.
    #[inline]
    pub(super) fn remember(&self, page: PageKey, time: u64) {
        if self.buckets.is_empty() {
            return;
        }
        let at = self.free_slot();
        let (slot, bucket) = (self.slot(at), self.bucket(page));
        slot.page.store(page.0, Relaxed);
        slot.time.store(time, Relaxed);
        let next = bucket.load(Relaxed);
        bucket.store(at, Relaxed);
        slot.before.store(END, Relaxed);
        slot.chain.store(next, Relaxed);
        // Of slot 0 nobody asks what is before it.
        self.slot(next).before.store(at, Relaxed);
        let newest = self.slot(END).older.load(Relaxed);
        self.join(newest, at);
        self.join(at, END);
    }

    /// What was remembered of a page that comes back.
    #[inline]
    pub(super) fn recall(&self, page: PageKey) -> Option<u64> {
        if self.buckets.is_empty() {
            return None;
        }
        let mut at = self.bucket(page).load(Relaxed);
        while at != END {
            let slot = self.slot(at);
            if slot.page.load(Relaxed) == page.0 {
                let time = self.forget(at);
                slot.chain.store(self.head.free.load(Relaxed), Relaxed);
                self.head.free.store(at, Relaxed);
                return Some(time);
            }
            at = slot.chain.load(Relaxed);
        }
        None
    }

    /// Has what [`Self::recall`] looks at first come into the processor's cache, or something that is there
    /// already if the page is not away: without a branch, whose outcome the processor could not foretell.
    #[inline(always)]
    pub(super) fn ahead(&self, page: PageKey, is_away: bool) {
        if !self.buckets.is_empty() {
            let bucket = self.place(page) & usize::from(is_away).wrapping_neg();
            prefetch(self.slot(self.buckets[bucket].load(Relaxed)));
        }
    }

    /// A slot that is neither in the order nor on a chain.
    #[inline]
    fn free_slot(&self) -> u32 {
        let free = self.head.free.load(Relaxed);
        if free != END {
            self.head.free.store(self.slot(free).chain.load(Relaxed), Relaxed);
            return free;
        }
        let used = self.head.used.load(Relaxed);
        if (used as usize) < self.buckets.len() {
            self.head.used.store(used + 1, Relaxed);
            return used + 1;
        }
        let first = self.slot(END).newer.load(Relaxed);
        self.forget(first);
        // For the next time.
        let next = self.slot(self.slot(END).newer.load(Relaxed));
        prefetch(self.bucket(PageKey(next.page.load(Relaxed))));
        prefetch(self.slot(next.newer.load(Relaxed)));
        first
    }

    /// Takes a slot out of the order and its bucket's chain; the time that was in it.
    #[inline(always)]
    fn forget(&self, at: u32) -> u64 {
        let slot = self.slot(at);
        let time = slot.time.load(Relaxed);
        slot.time.store(0, Relaxed);
        assert!(time != 0, "history invariant 2: what is forgotten was remembered");
        let (before, next) = (slot.before.load(Relaxed), slot.chain.load(Relaxed));
        let link = if before == END {
            self.bucket(PageKey(slot.page.load(Relaxed)))
        } else {
            &self.slot(before).chain
        };
        link.store(next, Relaxed);
        self.slot(next).before.store(before, Relaxed);
        self.join(slot.older.load(Relaxed), slot.newer.load(Relaxed));
        time
    }

    #[inline(always)]
    fn join(&self, older: u32, newer: u32) {
        self.slot(older).newer.store(newer, Relaxed);
        self.slot(newer).older.store(older, Relaxed);
    }

    fn chained(&self, first: &AtomicU32) -> impl Iterator<Item = u32> + use<'r> {
        let slots = self.slots;
        let some = |at: u32| (at != END).then_some(at);
        let follow = move |at: &u32| some(slots[*at as usize].chain.load(Relaxed));
        std::iter::successors(some(first.load(Relaxed)), follow)
    }

    /// Checks the invariants.
    pub(super) fn check(&self) {
        let is_taken = |at: u32| self.slot(at).time.load(Relaxed) != 0;
        let (mut chained, mut free) = (0, 0);
        for bucket in self.buckets {
            let mut before = END;
            for at in self.chained(bucket) {
                assert_eq!(self.slot(at).before.load(Relaxed), before, "history invariant 1: before {at}");
                before = at;
                let page = PageKey(self.slot(at).page.load(Relaxed));
                assert!(std::ptr::eq(self.bucket(page), bucket), "history invariant 1: slot {at}'s bucket");
                assert!(is_taken(at), "history invariant 1: slot {at} is chained, not in the order");
                chained += 1;
            }
        }
        for at in self.chained(&self.head.free) {
            assert!(!is_taken(at), "history invariant 2: slot {at} is free and in the order");
            free += 1;
        }
        assert_eq!(chained + free, self.head.used.load(Relaxed), "history invariant 2");
        let (mut older, mut listed) = (END, 0);
        loop {
            let at = self.slot(older).newer.load(Relaxed);
            assert_eq!(self.slot(at).older.load(Relaxed), older, "history invariant 1: the order at {at}");
            if at == END {
                break;
            }
            assert!(is_taken(at) && listed < chained, "history invariant 1: slot {at} in the order");
            (older, listed) = (at, listed + 1);
        }
        assert_eq!(listed, chained, "history invariant 1");
    }
}
