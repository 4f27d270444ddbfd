//! The number with the smallest key, of some of the numbers `0..count` whose keys only rise while they are
//! among them.
//!
//! ```text
//!   keys     smallest                                                       largest
//!          +----------------+ +--------+ +--------+     +--------+ +----------------+
//!          |  near: a heap  | | a list | | a list | ... | a list | |     a list     |
//!          +----------------+ +--------+ +--------+     +--------+ +----------------+
//!   steps    up to `front`    front + 1  front + 2       the last    all beyond it
//! ```
//!
//! Keys are divided into *steps*. Only the numbers of the lowest ones are in order, by a heap that is small
//! for that; those of each further step are in a list, as they come. When the heap is empty, the next list
//! goes into it; when there are no more lists, that of all further ones is divided. A number whose key rises
//! stays where it is, and that is not too far back: where it belongs is looked at when it is the first of the
//! heap, or the turn of its list has come. So what rises often and is seldom among the smallest, as the hot
//! pages of a cache, costs nothing, and what is met in vain costs a list's links and no way through a large
//! heap.
//!
//! A list is put in order at once, by whoever asks for the smallest number then. It is a few numbers, or it
//! took as many references to fill it; but all numbers may be at one step, and risen, as in any heap that is
//! put right when it is asked.
//!
//! 1. A number that is here is in `near` or in one of the lists.
//! 2. What is in a list is beyond `front`, and its key's step not before the list's.

use super::lazy_heap::{Key, LazyHeap, Node, is_below};
use super::list::List;
use super::{Memory, piece};
use crate::region::{Shared, Word, shared};

/// The keys of numbers.
pub(super) trait Keys<const WORDS: usize> {
    /// A number's key, as it is now.
    fn key(&self, number: u32) -> Key<WORDS>;

    /// The step of a key; that of a larger key is the same or larger.
    fn step(&self, key: Key<WORDS>) -> u64;

    /// The number's key may be asked for next.
    fn ahead(&self, number: u32);
}

/// The view of their memory.
pub(super) struct BucketQueue<'r, const WORDS: usize> {
    head: &'r Head,
    near: LazyHeap<'r, WORDS>,
    /// The list before those of the steps.
    lists: List<'r>,
}

#[repr(C)]
struct Head {
    /// The step of the first list.
    base: Word,
    /// What is at this step and before it is in `near`.
    front: Word,
}
shared!(Head);

/// Steps with a list of their own.
const STEPS: u64 = 256;
/// How many lists [`BucketQueue::laid`] has to be given beside the first.
pub(super) const LISTS: u32 = STEPS as u32 + 1;

impl<'r, const WORDS: usize> BucketQueue<'r, WORDS>
where
    Node<WORDS>: Shared,
{
    /// Without the lists.
    pub(super) fn bytes(count: u32, most: u32) -> usize {
        piece::<Head>(1) + LazyHeap::<WORDS>::bytes(count, most)
    }

    /// The first of `lists` is left alone, and numbers in it are not here.
    pub(super) fn laid(memory: &mut Memory<'r>, count: u32, most: u32, lists: List<'r>) -> Self {
        Self { head: memory.one(), near: LazyHeap::laid(memory, count, most), lists }
    }

    /// The list of a step, or that of all beyond the last one.
    #[inline(always)]
    fn list(&self, step: u64) -> List<'r> {
        self.lists.beside(1 + (step - self.head.base.get()).min(STEPS) as u32)
    }

    /// Adds a number that is not here, nor in the first list.
    #[inline]
    pub(super) fn insert(&self, number: u32, of: &impl Keys<WORDS>) {
        self.put(number, of.key(number), of);
    }

    #[inline]
    fn put(&self, number: u32, key: Key<WORDS>, of: &impl Keys<WORDS>) {
        let step = of.step(key);
        if step <= self.head.front.get() {
            self.near.insert(number, key);
        } else {
            self.list(step).append(number);
        }
    }

    /// Whether the smallest key may be below this one: if not, there is no number to look for.
    #[inline(always)]
    pub(super) fn is_below(&self, key: Key<WORDS>) -> bool {
        self.near.first().is_none_or(|(_, first)| is_below(first, key))
    }

    /// Whether a number is here or in the first list.
    #[inline(always)]
    pub(super) fn contains(&self, number: u32) -> bool {
        self.near.contains(number) || self.lists.contains(number)
    }

    /// Tells of the numbers whose keys are asked for next.
    #[inline(always)]
    pub(super) fn tell_ahead(&self, of: &impl Keys<WORDS>) {
        self.near.tell_ahead(|number| of.ahead(number));
    }

    /// The number with the smallest key.
    #[inline(always)]
    pub(super) fn smallest(&self, of: &impl Keys<WORDS>) -> Option<u32> {
        match self.near.first() {
            Some((number, was)) if of.key(number) == was => Some(number),
            _ => self.put_right(of),
        }
    }

    /// Puts the first ones where they belong, until one is there already.
    #[inline(never)]
    fn put_right(&self, of: &impl Keys<WORDS>) -> Option<u32> {
        loop {
            while let Some((number, was)) = self.near.first() {
                let now = of.key(number);
                if now == was {
                    return Some(number);
                }
                if of.step(now) <= self.head.front.get() {
                    self.near.sink_first(now);
                } else {
                    self.near.remove_first();
                    self.put(number, now, of);
                }
                self.tell_ahead(of);
            }
            if !self.advance(of) {
                return None;
            }
        }
    }

    /// Goes on to the next list that has something in it. False if there is none.
    #[cold]
    #[inline(never)]
    fn advance(&self, of: &impl Keys<WORDS>) -> bool {
        let head = self.head;
        let beyond = head.base.get() + STEPS;
        let next = (head.front.get() + 1..beyond).find(|step| self.list(*step).oldest().is_some());
        let list = self.list(next.unwrap_or(beyond));
        let Some(last) = list.newest() else { return false };
        let lowest = next.or_else(|| list.iter().map(|number| of.step(of.key(number))).min());
        let lowest = lowest.expect("a list with a newest number has numbers");
        head.front.set(lowest);
        if next.is_none() {
            head.base.set(lowest);
        }
        while let Some(number) = list.oldest() {
            if let Some(after) = list.after(number) {
                of.ahead(after);
            }
            list.remove(number);
            self.insert(number, of);
            // What is behind it has been put here again.
            if number == last {
                break;
            }
        }
        true
    }

    /// Takes a number out that is here or in the first list.
    #[inline]
    pub(super) fn remove(&self, number: u32) {
        if self.near.contains(number) {
            self.near.remove(number);
        } else {
            self.lists.remove(number);
        }
    }

    /// Checks the invariants; the numbers that are here.
    pub(super) fn check(&self, of: &impl Keys<WORDS>) -> Vec<u32> {
        self.near.check(|number| of.key(number));
        self.lists.check();
        let (base, front) = (self.head.base.get(), self.head.front.get());
        assert!((base..base + STEPS).contains(&front), "bucket queue, invariant 2: {front} from {base} on");
        let mut numbers: Vec<_> = self.near.iter().collect();
        for step in base..=base + STEPS {
            for number in self.list(step).iter() {
                let is = of.step(of.key(number));
                assert!(
                    front < step && step <= is,
                    "bucket queue, invariant 2: {number} at {step}, not {is}"
                );
                assert!(!self.near.contains(number), "bucket queue, invariant 1: {number}");
                numbers.push(number);
            }
        }
        numbers
    }
}
