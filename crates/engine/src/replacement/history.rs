//! What is remembered of pages that are away: a time for each of the last `capacity` that left and have not come back.
//!
//! 1. Every remembered page has one slot, which is in `order` and in the chain of the bucket that its key hashes to.
//! 2. Slots from `used` on were never taken; every other one is in `order` or on the chain of free ones.
//! 3. When no slot is free, the page that left first is forgotten.

use std::sync::atomic::Ordering::Relaxed;

use super::list::List;
use super::{Memory, PageKey, piece};
use crate::interleave::{AtomicU32, AtomicU64};
use crate::region::shared;

#[repr(C)]
struct Slot {
    page: AtomicU64,
    time: AtomicU64,
}

#[repr(C)]
struct Head {
    /// Slots that have ever been taken.
    used: AtomicU32,
    /// The first free one of those, counted from 1.
    free: AtomicU32,
}
shared!(Slot, Head);

/// The history's view of its memory. Links count slots from 1; 0 is none.
pub(super) struct History<'r> {
    head: &'r Head,
    buckets: &'r [AtomicU32],
    /// The next in a slot's chain: its bucket's, or that of free slots.
    chain: &'r [AtomicU32],
    slots: &'r [Slot],
    /// Taken slots, first left first.
    order: List<'r>,
}

impl<'r> History<'r> {
    pub(super) fn bytes(capacity: u32) -> usize {
        let count = capacity as usize;
        piece::<Head>(1) + 2 * piece::<AtomicU32>(count) + piece::<Slot>(count) + List::bytes(capacity)
    }

    pub(super) fn laid(memory: &mut Memory<'r>, capacity: u32) -> Self {
        let count = capacity as usize;
        Self {
            head: memory.one(),
            buckets: memory.take(count),
            chain: memory.take(count),
            slots: memory.take(count),
            order: List::laid(memory, capacity),
        }
    }

    fn bucket(&self, page: PageKey) -> &'r AtomicU32 {
        // The high half of a product depends on all bits of the key (Knuth, "The art of computer programming", 6.4).
        let hash = page.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        &self.buckets[((hash * self.buckets.len() as u64) >> 32) as usize]
    }

    /// Remembers that a page has left, and a time with it.
    pub(super) fn remember(&self, page: PageKey, time: u64) {
        if self.slots.is_empty() {
            return;
        }
        let slot = self.free_slot();
        self.slots[slot as usize].page.store(page.0, Relaxed);
        self.slots[slot as usize].time.store(time, Relaxed);
        let bucket = self.bucket(page);
        self.chain[slot as usize].store(bucket.load(Relaxed), Relaxed);
        bucket.store(slot + 1, Relaxed);
        self.order.append(slot);
    }

    /// What was remembered of a page that comes back.
    pub(super) fn recall(&self, page: PageKey) -> Option<u64> {
        if self.slots.is_empty() {
            return None;
        }
        let mut link = self.bucket(page).load(Relaxed);
        while let Some(slot) = link.checked_sub(1) {
            let held = &self.slots[slot as usize];
            if held.page.load(Relaxed) == page.0 {
                self.forget(slot);
                self.chain[slot as usize].store(self.head.free.swap(slot + 1, Relaxed), Relaxed);
                return Some(held.time.load(Relaxed));
            }
            link = self.chain[slot as usize].load(Relaxed);
        }
        None
    }

    /// A slot that is neither in the order nor on a chain.
    fn free_slot(&self) -> u32 {
        if let Some(free) = self.head.free.load(Relaxed).checked_sub(1) {
            self.head.free.store(self.chain[free as usize].load(Relaxed), Relaxed);
            return free;
        }
        let used = self.head.used.load(Relaxed);
        if (used as usize) < self.slots.len() {
            self.head.used.store(used + 1, Relaxed);
            return used;
        }
        let first =
            self.order.oldest().expect("history invariant 2: a slot that is not free is in the order");
        self.forget(first);
        first
    }

    /// Takes a slot out of the order and its bucket's chain.
    fn forget(&self, slot: u32) {
        self.order.remove(slot);
        let page = PageKey(self.slots[slot as usize].page.load(Relaxed));
        let mut link = self.bucket(page);
        while link.load(Relaxed) != slot + 1 {
            let next = link.load(Relaxed).checked_sub(1);
            link = &self.chain[next.expect("history invariant 1: a slot is in its bucket's chain") as usize];
        }
        link.store(self.chain[slot as usize].load(Relaxed), Relaxed);
    }

    fn chained(&self, first: &AtomicU32) -> impl Iterator<Item = u32> + use<'r> {
        let chain = self.chain;
        let follow = move |slot: &u32| chain[*slot as usize].load(Relaxed).checked_sub(1);
        std::iter::successors(first.load(Relaxed).checked_sub(1), follow)
    }

    /// Checks the invariants.
    pub(super) fn check(&self) {
        self.order.check();
        let used = self.head.used.load(Relaxed);
        let (mut chained, mut free) = (0, 0);
        for bucket in self.buckets {
            for slot in self.chained(bucket) {
                let page = PageKey(self.slots[slot as usize].page.load(Relaxed));
                assert!(std::ptr::eq(self.bucket(page), bucket), "history invariant 1: slot {slot}'s bucket");
                assert!(
                    self.order.contains(slot),
                    "history invariant 1: slot {slot} is chained, not in the order"
                );
                chained += 1;
            }
        }
        for slot in self.chained(&self.head.free) {
            assert!(!self.order.contains(slot), "history invariant 2: slot {slot} is free and in the order");
            free += 1;
        }
        assert_eq!(self.order.iter().count(), chained, "history invariant 1");
        assert_eq!(chained + free, used as usize, "history invariant 2");
    }
}
