//! The event clock.
//!
//! 1. Time never runs backwards: what is to happen before now happens now.
//! 2. Events of the same moment happen in the order in which they were entered, so a run has one order.
//! 3. What is ahead of the present moment was entered before it came, and so before all that is in `present`.
//! 4. Several moments may have one time. Events go to the last of them, and the first of them comes first.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

/// What will happen, and when; times are ns.
pub(super) struct Clock<E> {
    now: u64,
    /// Moments that were begun.
    begun: u64,
    /// Moments to come. Many events have one: all that wait for a disk look again when it is free.
    heap: BinaryHeap<Entry>,
    /// By number: what happens in a moment. Empty ones have their numbers in `unused`.
    moments: Vec<VecDeque<E>>,
    unused: Vec<u32>,
    /// The moment that is now, as long as something of it has not happened.
    current: Option<u32>,
    /// What was entered for now, in order.
    present: VecDeque<E>,
    /// By some bits of a time: a time, and the last moment that has it.
    recent: [(u64, u32); RECENT],
}

/// Moments that events are added to; what comes for others begins a new one.
const RECENT: usize = 64;

struct Entry {
    /// When, and in the lower half its number: one comparison for both.
    key: u128,
    moment: u32,
}

impl<E> Clock<E> {
    /// At time 0.
    pub(super) fn new() -> Self {
        Self {
            now: 0,
            begun: 0,
            heap: BinaryHeap::new(),
            moments: Vec::new(),
            unused: Vec::new(),
            current: None,
            present: VecDeque::new(),
            recent: [(0, 0); RECENT],
        }
    }

    /// The time of the event that happened last.
    #[inline]
    pub(super) fn now(&self) -> u64 {
        self.now
    }

    /// Has an event happen at a time.
    pub(super) fn enter(&mut self, at: u64, event: E) {
        if at <= self.now {
            self.present.push_back(event);
            return;
        }
        // Neighbouring times differ in their low bits; the product's high ones depend on all.
        let place = (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - RECENT.ilog2())) as usize;
        // A moment that is over is of a time that is not to come.
        let moment = match self.recent[place] {
            (time, moment) if time == at => moment,
            _ => {
                let moment = self.begin(at);
                self.recent[place] = (at, moment);
                moment
            }
        };
        self.moments[moment as usize].push_back(event);
    }

    /// A new moment with this time.
    fn begin(&mut self, at: u64) -> u32 {
        let moment = self.unused.pop().unwrap_or_else(|| {
            self.moments.push(VecDeque::new());
            self.moments.len() as u32 - 1
        });
        self.begun += 1;
        self.heap.push(Entry { key: u128::from(at) << 64 | u128::from(self.begun), moment });
        moment
    }

    /// The next event; the clock moves on to it. `None` if nothing will ever happen again.
    pub(super) fn next(&mut self) -> Option<E> {
        loop {
            if let Some(current) = self.current {
                let event = self.moments[current as usize].pop_front();
                if event.is_some() {
                    return event;
                }
                self.unused.push(current);
                self.current = None;
            }
            let is_present = |next: &Entry| next.at() == self.now;
            if !self.present.is_empty() && !self.heap.peek().is_some_and(is_present) {
                return self.present.pop_front();
            }
            let next = self.heap.pop()?;
            debug_assert!(next.at() >= self.now, "invariant 1");
            (self.now, self.current) = (next.at(), Some(next.moment));
        }
    }
}

impl Entry {
    fn at(&self) -> u64 {
        (self.key >> 64) as u64
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    /// The heap gives out its largest first, so the earliest is the largest.
    fn cmp(&self, other: &Self) -> Ordering {
        other.key.cmp(&self.key)
    }
}
