//! A lazy heap of some of the numbers `0..count`, smallest key on top, for keys that only rise while their
//! number is in it.
//!
//! The heap has a copy of each key, as it was when it last looked. A key that has risen since is still in a
//! place that is not too deep, so nothing needs to be done when it rises: only when a number comes to the top
//! is its key looked at, and the number sinks to where it belongs. What rises often and is seldom on top, as
//! the hot pages of a cache, costs nothing.
//!
//! What costs time here is neither comparing nor copying but what the processor has to guess. So keys are
//! compared without branches, and a free place goes down to the bottom before it is looked at where what
//! comes into it belongs: that is at the bottom, as a rule.
//!
//! Four children per node: half as many levels as with two, and the children of a node whose keys have one
//! word share a cache line.
//!
//! 1. No node's key is larger than those of its children.
//! 2. No node's key is larger than its number's key, while the caller lowers none.
//! 3. `places` and `nodes` are each other's inverse for what is in the heap, and nothing else has a place.

use std::sync::atomic::Ordering::Relaxed;

use super::{Memory, piece};
use crate::interleave::{AtomicU32, AtomicU64};
use crate::region::{Shared, shared};

/// A number and what its key was.
#[repr(C)]
pub(super) struct Node<const WORDS: usize> {
    key: [AtomicU64; WORDS],
    number: AtomicU32,
    /// So that four nodes of one word fill a cache line.
    unused: AtomicU32,
}
shared!(Node<1>, Node<2>);

/// A key of several words, the first of which weighs most.
pub(super) type Key<const WORDS: usize> = [u64; WORDS];

/// The heap's view of its memory.
pub(super) struct LazyHeap<'r, const WORDS: usize> {
    /// How many numbers are in it.
    len: &'r AtomicU32,
    /// Parents before children, from [`TOP`] on.
    nodes: &'r [Node<WORDS>],
    /// By number: its node; 0 is none.
    places: &'r [AtomicU32],
}

const CHILDREN: usize = 4;
/// The first node: the children of a node at `place` are then those from `(place - 2) * 4` on, a multiple of
/// four.
const TOP: usize = 3;

const fn parent(place: usize) -> usize {
    place / CHILDREN + 2
}

const fn first_child(place: usize) -> usize {
    (place - 2) * CHILDREN
}

/// Whether one key is smaller than another, without a branch.
#[inline(always)]
pub(super) fn is_below<const WORDS: usize>(a: Key<WORDS>, b: Key<WORDS>) -> bool {
    (0..WORDS).rev().fold(false, |later, word| (a[word] < b[word]) | ((a[word] == b[word]) & later))
}

impl<'r, const WORDS: usize> LazyHeap<'r, WORDS>
where
    Node<WORDS>: Shared,
{
    /// Of a heap that never has more than `most` of the numbers.
    pub(super) fn bytes(count: u32, most: u32) -> usize {
        let nodes = most as usize + TOP;
        piece::<AtomicU32>(1) + piece::<Node<WORDS>>(nodes) + piece::<AtomicU32>(count as usize)
    }

    pub(super) fn laid(memory: &mut Memory<'r>, count: u32, most: u32) -> Self {
        let (nodes, count) = (most as usize + TOP, count as usize);
        Self { len: memory.one(), nodes: memory.take(nodes), places: memory.take(count) }
    }

    /// The place behind the last node.
    #[inline(always)]
    fn end(&self) -> usize {
        TOP + self.len.load(Relaxed) as usize
    }

    #[inline(always)]
    fn key(&self, place: usize) -> Key<WORDS> {
        std::array::from_fn(|word| self.nodes[place].key[word].load(Relaxed))
    }

    #[inline(always)]
    fn number(&self, place: usize) -> u32 {
        self.nodes[place].number.load(Relaxed)
    }

    #[inline(always)]
    fn put(&self, place: usize, number: u32, key: Key<WORDS>) {
        let node = &self.nodes[place];
        node.key.iter().zip(key).for_each(|(to, word)| to.store(word, Relaxed));
        node.number.store(number, Relaxed);
        self.places[number as usize].store(place as u32, Relaxed);
    }

    #[inline(always)]
    pub(super) fn contains(&self, number: u32) -> bool {
        self.places[number as usize].load(Relaxed) != 0
    }

    /// Adds a number that is not in the heap.
    #[inline]
    pub(super) fn insert(&self, number: u32, key: Key<WORDS>) {
        let place = self.end();
        self.len.store((place - TOP) as u32 + 1, Relaxed);
        self.rise(place, number, key);
    }

    /// The number on top and its key as it was.
    #[inline(always)]
    pub(super) fn first(&self) -> Option<(u32, Key<WORDS>)> {
        (self.end() > TOP).then(|| (self.number(TOP), self.key(TOP)))
    }

    /// Puts the number on top where it belongs with the key that it has now.
    #[inline]
    pub(super) fn sink_first(&self, key: Key<WORDS>) {
        let number = self.number(TOP);
        self.rise(self.dig(TOP), number, key);
    }

    /// Takes the number on top out.
    #[inline]
    pub(super) fn remove_first(&self) {
        self.remove(self.number(TOP));
    }

    /// The numbers in it.
    pub(super) fn iter(&self) -> impl Iterator<Item = u32> {
        (TOP..self.end()).map(|place| self.number(place))
    }

    /// The number with the smallest key. `ahead` is told of numbers whose keys may be asked for next.
    #[inline]
    pub(super) fn smallest(&self, key: impl Fn(u32) -> Key<WORDS>, ahead: impl Fn(u32)) -> Option<u32> {
        while self.end() > TOP {
            let number = self.number(TOP);
            let now = key(number);
            if now == self.key(TOP) {
                return Some(number);
            }
            self.rise(self.dig(TOP), number, now);
            self.tell_ahead(&ahead);
        }
        None
    }

    /// Tells of the numbers of which one will be the next on top.
    #[inline(always)]
    pub(super) fn tell_ahead(&self, ahead: impl Fn(u32)) {
        (TOP..self.end().min(first_child(TOP) + CHILDREN)).for_each(|place| ahead(self.number(place)));
    }

    #[inline]
    pub(super) fn remove(&self, number: u32) {
        let place = self.places[number as usize].load(Relaxed) as usize;
        self.places[number as usize].store(0, Relaxed);
        assert!(place != 0, "only what is in a heap leaves it");
        let last = self.end() - 1;
        self.len.store((last - TOP) as u32, Relaxed);
        if place == last {
            return;
        }
        // The last node takes the place of one at the bottom: above it would not stay, as a rule.
        let (moved, key) = (self.number(last), self.key(last));
        self.rise(self.dig(place), moved, key);
    }

    /// Puts a number at a free place or above it.
    #[inline]
    fn rise(&self, mut place: usize, number: u32, key: Key<WORDS>) {
        while place > TOP {
            let above = parent(place);
            let parent = self.key(above);
            if !is_below(key, parent) {
                break;
            }
            self.put(place, self.number(above), parent);
            place = above;
        }
        self.put(place, number, key);
    }

    /// Has a free place at the bottom for one further up: the smallest child of each takes its parent's
    /// place. Nothing on the way depends on a comparison with what is to come into the place, whose
    /// outcome the processor could not foretell.
    #[inline]
    fn dig(&self, mut place: usize) -> usize {
        let end = self.end();
        loop {
            let first = first_child(place);
            if first >= end {
                return place;
            }
            let child = self.smallest_of(first, end);
            self.put(place, self.number(child), self.key(child));
            place = child;
        }
    }

    /// The node with the smallest key of a family that begins at `first` and may be cut off at `end`.
    #[inline(always)]
    fn smallest_of(&self, first: usize, end: usize) -> usize {
        // As numbers, and not as a choice that the processor would have to foretell.
        let smaller = |a: usize, b: usize| {
            let is_b = usize::from(is_below(self.key(b), self.key(a)));
            a ^ ((a ^ b) & is_b.wrapping_neg())
        };
        if first + CHILDREN <= end {
            // Two and two, so that no comparison waits for all others.
            return smaller(smaller(first, first + 1), smaller(first + 2, first + 3));
        }
        (first + 1..end).fold(first, smaller)
    }

    /// Checks the invariants.
    pub(super) fn check(&self, key: impl Fn(u32) -> Key<WORDS>) {
        for place in TOP..self.end() {
            let number = self.number(place);
            assert!(place == TOP || self.key(parent(place)) <= self.key(place), "heap invariant 1: {number}");
            assert!(self.key(place) <= key(number), "heap invariant 2: {number}");
            let known = self.places[number as usize].load(Relaxed);
            assert_eq!(known as usize, place, "heap invariant 3: the place of {number}");
        }
        let placed = self.places.iter().filter(|place| place.load(Relaxed) != 0).count();
        assert_eq!(placed, self.end() - TOP, "heap invariant 3: how many have a place");
    }
}
