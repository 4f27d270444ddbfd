//! Lists of some of the numbers `0..count`, each in the order in which they were appended. A number is in one
//! of them at most.
//!
//! ```text
//!        +----------------------- newer -----------------------+
//!        v                                                     |
//!   [ the end ] <-older- [ oldest ] <-older- ... <-older- [ newest ]
//!        |                                                ^
//!        +--------------------- older --------------------+
//! ```
//!
//! Each list is a ring with an *end* in it, so that neither of its ends is a special case. With `ends` lists,
//! list `l` has the link `l` as its end, and number `n` has the link `n + ends`. What a link says is where
//! its neighbours are from it: zeros point at themselves, which is a list with nothing in it, and a number
//! that is in none.
//!
//! 1. For every link in a ring: the older one's newer is it, and the newer one's older.
//! 2. A number is in a list exactly if its link does not point at itself.

use std::sync::atomic::Ordering::Relaxed;

use super::{Memory, piece};
use crate::interleave::AtomicU32;
use crate::region::{prefetch, shared};

#[repr(C)]
struct Link {
    /// By how much the older neighbour's link is further on than this one, and the newer's.
    older: AtomicU32,
    newer: AtomicU32,
}
shared!(Link);

/// One list, and others of the same numbers beside it.
#[derive(Clone, Copy)]
pub(super) struct List<'r> {
    links: &'r [Link],
    /// How many lists share the numbers, and which of them this is.
    ends: u32,
    end: u32,
}

impl<'r> List<'r> {
    pub(super) fn bytes(count: u32, ends: u32) -> usize {
        piece::<Link>(count as usize + ends as usize)
    }

    /// The first of `ends` lists.
    pub(super) fn laid(memory: &mut Memory<'r>, count: u32, ends: u32) -> Self {
        Self { links: memory.take(count as usize + ends as usize), ends, end: 0 }
    }

    /// Another list of the same numbers.
    #[inline(always)]
    pub(super) fn beside(&self, end: u32) -> Self {
        debug_assert!(end < self.ends);
        Self { end, ..*self }
    }

    #[inline(always)]
    fn link(&self, at: u32) -> &'r Link {
        &self.links[at as usize]
    }

    #[inline(always)]
    fn older(&self, at: u32) -> u32 {
        at.wrapping_add(self.link(at).older.load(Relaxed))
    }

    #[inline(always)]
    fn newer(&self, at: u32) -> u32 {
        at.wrapping_add(self.link(at).newer.load(Relaxed))
    }

    #[inline(always)]
    fn join(&self, older: u32, newer: u32) {
        self.link(older).newer.store(newer.wrapping_sub(older), Relaxed);
        self.link(newer).older.store(older.wrapping_sub(newer), Relaxed);
    }

    /// Whether a number is in this list or in one beside it.
    #[inline(always)]
    pub(super) fn contains(&self, number: u32) -> bool {
        self.link(number + self.ends).older.load(Relaxed) != 0
    }

    /// Makes a number that is in no list the newest of this one.
    #[inline(always)]
    pub(super) fn append(&self, number: u32) {
        let at = number + self.ends;
        self.join(self.older(self.end), at);
        self.join(at, self.end);
    }

    /// Takes a number out of this list or one beside it.
    #[inline(always)]
    pub(super) fn remove(&self, number: u32) {
        assert!(self.contains(number), "only what is in a list leaves it");
        let at = number + self.ends;
        self.join(self.older(at), self.newer(at));
        self.link(at).older.store(0, Relaxed);
        self.link(at).newer.store(0, Relaxed);
    }

    /// Makes a number of this list its newest.
    #[inline(always)]
    pub(super) fn renew(&self, number: u32) {
        if self.older(self.end) != number + self.ends {
            self.remove(number);
            self.append(number);
        }
    }

    #[inline(always)]
    pub(super) fn oldest(&self) -> Option<u32> {
        self.newer(self.end).checked_sub(self.ends)
    }

    #[inline(always)]
    pub(super) fn newest(&self) -> Option<u32> {
        self.older(self.end).checked_sub(self.ends)
    }

    /// What became the newest after a number of this list.
    #[inline(always)]
    pub(super) fn after(&self, number: u32) -> Option<u32> {
        self.newer(number + self.ends).checked_sub(self.ends)
    }

    /// Has what [`Self::renew`] needs of a number first come into the processor's cache.
    #[inline(always)]
    pub(super) fn ahead(&self, number: u32) {
        prefetch(self.link(number + self.ends));
    }

    /// The numbers, oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = u32> + use<'r> {
        let list = *self;
        let mut at = list.end;
        std::iter::from_fn(move || {
            at = list.newer(at);
            at.checked_sub(list.ends)
        })
    }

    /// Checks the invariants of this list and those beside it.
    pub(super) fn check(&self) {
        let mut listed = vec![false; self.links.len() - self.ends as usize];
        for end in 0..self.ends {
            let list = self.beside(end);
            let mut older = end;
            for number in list.iter() {
                let seen = std::mem::replace(&mut listed[number as usize], true);
                assert!(!seen, "list invariant 1: {number} is met twice");
                assert_eq!(list.older(number + self.ends), older, "list invariant 1");
                older = number + self.ends;
            }
            assert_eq!(list.older(end), older, "list invariant 1: the end");
        }
        for (number, listed) in listed.into_iter().enumerate() {
            assert_eq!(self.contains(number as u32), listed, "list invariant 2: {number}");
        }
    }
}
