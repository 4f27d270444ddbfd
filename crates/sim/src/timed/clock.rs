//! The event clock.
//!
//! 1. Time never runs backwards: what is to happen before now happens now.
//! 2. Events of the same moment happen in the order in which they were entered, so a run has one order.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// What will happen, and when; times are ns.
pub(super) struct Clock<E> {
    now: u64,
    entered: u64,
    heap: BinaryHeap<Entry<E>>,
}

struct Entry<E> {
    /// When, and in the lower half its number: one comparison for both.
    key: u128,
    event: E,
}

impl<E> Clock<E> {
    /// At time 0.
    pub(super) fn new() -> Self {
        Self { now: 0, entered: 0, heap: BinaryHeap::new() }
    }

    /// The time of the event that happened last.
    #[inline]
    pub(super) fn now(&self) -> u64 {
        self.now
    }

    /// Has an event happen at a time.
    pub(super) fn enter(&mut self, at: u64, event: E) {
        self.entered += 1;
        let key = u128::from(at.max(self.now)) << 64 | u128::from(self.entered);
        self.heap.push(Entry { key, event });
    }

    /// The next event; the clock moves on to it. `None` if nothing will ever happen again.
    pub(super) fn next(&mut self) -> Option<E> {
        let Entry { key, event } = self.heap.pop()?;
        let at = (key >> 64) as u64;
        debug_assert!(at >= self.now, "invariant 1");
        self.now = at;
        Some(event)
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    /// The heap gives out its largest first, so the earliest is the largest.
    fn cmp(&self, other: &Self) -> Ordering {
        other.key.cmp(&self.key)
    }
}
