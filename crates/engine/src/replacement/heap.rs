//! A heap of some of the numbers `0..count`, smallest key on top. The keys are the caller's.
//!
//! Four children per node: half as many levels as with two, and four children share a cache line.
//!
//! 1. A node's key is not larger than those of its children, while the caller changes no key of a number that is in the heap.
//! 2. `places` and `nodes` are each other's inverse for what is in the heap, and nothing else has a place.

use std::sync::atomic::Ordering::Relaxed;

use super::{Memory, piece};
use crate::interleave::AtomicU32;

/// The heap's view of its memory.
pub(super) struct Heap<'r> {
    /// How many numbers are in it.
    len: &'r AtomicU32,
    /// Numbers, parents before children.
    nodes: &'r [AtomicU32],
    /// Each number's place among the nodes, counted from 1; 0 is none.
    places: &'r [AtomicU32],
}

const CHILDREN: usize = 4;

impl<'r> Heap<'r> {
    pub(super) fn bytes(count: u32) -> usize {
        piece::<AtomicU32>(1) + 2 * piece::<AtomicU32>(count as usize)
    }

    pub(super) fn laid(memory: &mut Memory<'r>, count: u32) -> Self {
        let len = memory.one();
        Self { len, nodes: memory.take(count as usize), places: memory.take(count as usize) }
    }

    fn len(&self) -> usize {
        self.len.load(Relaxed) as usize
    }

    pub(super) fn contains(&self, number: u32) -> bool {
        self.places[number as usize].load(Relaxed) != 0
    }

    pub(super) fn smallest(&self) -> Option<u32> {
        (self.len() > 0).then(|| self.node(0))
    }

    fn node(&self, place: usize) -> u32 {
        self.nodes[place].load(Relaxed)
    }

    fn put(&self, place: usize, number: u32) {
        self.nodes[place].store(number, Relaxed);
        self.places[number as usize].store(place as u32 + 1, Relaxed);
    }

    /// Adds a number that is not in the heap.
    pub(super) fn insert<K: Ord>(&self, number: u32, key: impl Fn(u32) -> K) {
        let place = self.len();
        self.len.store(place as u32 + 1, Relaxed);
        self.rise(place, number, key);
    }

    pub(super) fn remove<K: Ord>(&self, number: u32, key: impl Fn(u32) -> K) {
        let place = self.places[number as usize].swap(0, Relaxed);
        let place = (place as usize).checked_sub(1).expect("only what is in a heap leaves it");
        let last = self.len() - 1;
        self.len.store(last as u32, Relaxed);
        if place == last {
            return;
        }
        // The last node takes the place, and goes from there to where it belongs.
        let moved = self.node(last);
        if place > 0 && key(moved) < key(self.node((place - 1) / CHILDREN)) {
            self.rise(place, moved, key);
        } else {
            self.sink(place, moved, key);
        }
    }

    /// Puts a number at a free place or above it.
    fn rise<K: Ord>(&self, mut place: usize, number: u32, key: impl Fn(u32) -> K) {
        let own = key(number);
        while place > 0 {
            let above = (place - 1) / CHILDREN;
            let parent = self.node(above);
            if key(parent) <= own {
                break;
            }
            self.put(place, parent);
            place = above;
        }
        self.put(place, number);
    }

    /// Puts a number at a free place or below it.
    fn sink<K: Ord>(&self, mut place: usize, number: u32, key: impl Fn(u32) -> K) {
        let own = key(number);
        let len = self.len();
        loop {
            let first = place * CHILDREN + 1;
            let children = first..(first + CHILDREN).min(len);
            let Some(smallest) = children.min_by_key(|child| key(self.node(*child))) else { break };
            let child = self.node(smallest);
            if own <= key(child) {
                break;
            }
            self.put(place, child);
            place = smallest;
        }
        self.put(place, number);
    }

    /// Checks the invariants.
    pub(super) fn check<K: Ord>(&self, key: impl Fn(u32) -> K) {
        for place in 0..self.len() {
            let number = self.node(place);
            let above = self.node(place.saturating_sub(1) / CHILDREN);
            assert!(key(above) <= key(number), "heap invariant 1: {above} above {number}");
            let known = self.places[number as usize].load(Relaxed);
            assert_eq!(known as usize, place + 1, "heap invariant 2: the place of {number}");
        }
        let placed = self.places.iter().filter(|place| place.load(Relaxed) != 0).count();
        assert_eq!(placed, self.len(), "heap invariant 2: how many have a place");
    }
}
