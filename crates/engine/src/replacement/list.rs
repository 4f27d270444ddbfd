//! A list of some of the numbers `0..count`, in the order in which they were appended.
//!
//! ```text
//!        +--------------------------- newer ---------------------------+
//!        v                                                             |
//!   [ 0: the end ] <-older- [ oldest ] <-older- ... <-older- [ newest ]
//!        |                                                        ^
//!        +------------------------- older ------------------------+
//! ```
//!
//! Number `n` has the link `n + 1`; link 0 is both ends of a ring, so that neither end is a special case and zeros are an empty
//! list.
//!
//! 1. For every link in the ring: the older one's newer is it, and the newer one's older.
//! 2. A number is in the list exactly if its older link's newer is it: what has left the list points at nobody who points back.

use std::sync::atomic::Ordering::Relaxed;

use super::{Memory, piece};
use crate::interleave::AtomicU32;
use crate::region::{prefetch, shared};

#[repr(C)]
struct Link {
    older: AtomicU32,
    newer: AtomicU32,
}
shared!(Link);

/// The list's view of its memory.
pub(super) struct List<'r> {
    links: &'r [Link],
}

const END: u32 = 0;

impl<'r> List<'r> {
    pub(super) fn bytes(count: u32) -> usize {
        piece::<Link>(count as usize + 1)
    }

    pub(super) fn laid(memory: &mut Memory<'r>, count: u32) -> Self {
        Self { links: memory.take(count as usize + 1) }
    }

    #[inline(always)]
    fn link(&self, at: u32) -> &'r Link {
        &self.links[at as usize]
    }

    #[inline(always)]
    fn join(&self, older: u32, newer: u32) {
        self.link(older).newer.store(newer, Relaxed);
        self.link(newer).older.store(older, Relaxed);
    }

    #[inline(always)]
    pub(super) fn contains(&self, number: u32) -> bool {
        let older = self.link(number + 1).older.load(Relaxed);
        self.link(older).newer.load(Relaxed) == number + 1
    }

    /// Makes a number that is not in the list its newest.
    #[inline(always)]
    pub(super) fn append(&self, number: u32) {
        let newest = self.link(END).older.load(Relaxed);
        self.join(newest, number + 1);
        self.join(number + 1, END);
    }

    #[inline(always)]
    pub(super) fn remove(&self, number: u32) {
        assert!(self.contains(number), "only what is in a list leaves it");
        let link = self.link(number + 1);
        self.join(link.older.load(Relaxed), link.newer.load(Relaxed));
        link.older.store(END, Relaxed);
        link.newer.store(END, Relaxed);
    }

    /// Makes a number of the list its newest.
    #[inline(always)]
    pub(super) fn renew(&self, number: u32) {
        if self.link(END).older.load(Relaxed) != number + 1 {
            self.remove(number);
            self.append(number);
        }
    }

    #[inline(always)]
    pub(super) fn oldest(&self) -> Option<u32> {
        self.link(END).newer.load(Relaxed).checked_sub(1)
    }

    /// What became the newest after a number of the list.
    #[inline(always)]
    pub(super) fn after(&self, number: u32) -> Option<u32> {
        self.link(number + 1).newer.load(Relaxed).checked_sub(1)
    }

    /// Has what [`Self::renew`] needs of a number first come into the processor's cache.
    #[inline(always)]
    pub(super) fn ahead(&self, number: u32) {
        prefetch(self.link(number + 1));
    }

    /// The numbers, oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = u32> + use<'r> {
        let links = self.links;
        let follow = move |at: u32| links[at as usize].newer.load(Relaxed);
        let mut at = END;
        std::iter::from_fn(move || {
            at = follow(at);
            at.checked_sub(1)
        })
    }

    /// Checks the invariants.
    pub(super) fn check(&self) {
        let mut listed = vec![false; self.links.len() - 1];
        let mut older = END;
        for number in self.iter() {
            let seen = std::mem::replace(&mut listed[number as usize], true);
            assert!(!seen, "list invariant 1: {number} is met twice");
            assert_eq!(self.link(number + 1).older.load(Relaxed), older, "list invariant 1");
            older = number + 1;
        }
        assert_eq!(self.link(END).older.load(Relaxed), older, "list invariant 1: the end");
        for (number, listed) in listed.into_iter().enumerate() {
            assert_eq!(self.contains(number as u32), listed, "list invariant 2: {number}");
        }
    }
}
