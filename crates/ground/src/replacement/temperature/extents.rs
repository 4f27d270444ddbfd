//! The extents that are known, by name: a hash table, whose entries keep their place while they are known.
//!
//! 1. Every extent that is known is in the chain of the bucket that its name hashes to; every other one on
//!    the chain of free ones or beyond `used`.

use std::sync::atomic::Ordering::Relaxed;

use super::super::{Memory, piece};
use crate::interleave::{AtomicU32, AtomicU64};
use crate::region::shared;

#[repr(C)]
struct Head {
    /// Extents that have ever been taken, and the first free one of those, counted from 1.
    used: AtomicU32,
    free: AtomicU32,
    /// The extent that was looked for last.
    found: AtomicU32,
}

/// Half a cache line: what a reference looks at is never in two.
#[repr(C)]
pub(super) struct Extent {
    /// Its first page divided by its size, counted from 1; 0 if the extent is free.
    name: AtomicU64,
    pub(super) temperature: AtomicU64,
    /// Time of the last reference.
    pub(super) last: AtomicU64,
    /// Which page of the extent that was, counted from 1.
    pub(super) position: AtomicU32,
    /// The newest frame of its ring, counted from 1, whose newer one is the oldest; 0 if it has no frames.
    pub(super) newest: AtomicU32,
}
shared!(Head, Extent);

/// The view of their memory.
pub(super) struct Extents<'r> {
    head: &'r Head,
    extents: &'r [Extent],
    buckets: &'r [AtomicU32],
    /// By extent: the next in its bucket's chain, or in that of free extents, counted from 1.
    chains: &'r [AtomicU32],
}

impl<'r> Extents<'r> {
    pub(super) fn bytes(count: u32) -> usize {
        piece::<Head>(1) + piece::<Extent>(count as usize) + 2 * piece::<AtomicU32>(count as usize)
    }

    /// Room for `count` extents.
    pub(super) fn laid(memory: &mut Memory<'r>, count: u32) -> Self {
        let count = count as usize;
        Self {
            head: memory.one(),
            extents: memory.take(count),
            buckets: memory.take(count),
            chains: memory.take(count),
        }
    }

    #[inline(always)]
    pub(super) fn get(&self, extent: u32) -> &'r Extent {
        &self.extents[extent as usize]
    }

    #[inline(always)]
    fn chain(&self, extent: u32) -> &'r AtomicU32 {
        &self.chains[extent as usize]
    }

    /// The first in the chain that a name would be in, counted from 1; whatever the name, if it is not
    /// `wanted`, the answer means nothing.
    #[inline(always)]
    pub(super) fn first_of(&self, name: u64, wanted: bool) -> u32 {
        self.buckets[self.place(name) & usize::from(wanted).wrapping_neg()].load(Relaxed)
    }

    /// Which bucket a name's is.
    #[inline(always)]
    fn place(&self, name: u64) -> usize {
        // The high half of a product depends on all bits of the name (Knuth, "The art of computer
        // programming", 6.4).
        let hash = name.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        ((hash * self.buckets.len() as u64) >> 32) as usize
    }

    #[inline(always)]
    pub(super) fn find(&self, name: u64) -> Option<u32> {
        let found = self.head.found.load(Relaxed);
        if self.get(found).name.load(Relaxed) == name {
            return Some(found);
        }
        self.look_up(name)
    }

    #[inline]
    fn look_up(&self, name: u64) -> Option<u32> {
        let mut link = self.buckets[self.place(name)].load(Relaxed);
        while let Some(extent) = link.checked_sub(1) {
            if self.get(extent).name.load(Relaxed) == name {
                self.head.found.store(extent, Relaxed);
                return Some(extent);
            }
            link = self.chain(extent).load(Relaxed);
        }
        None
    }

    /// Adds an extent that is not known yet; it is cold and has no frames.
    ///
    /// # Panics
    ///
    /// If there is room for no more.
    pub(super) fn add(&self, name: u64) -> u32 {
        let extent = self.free_extent();
        let added = self.get(extent);
        added.name.store(name, Relaxed);
        added.temperature.store(0, Relaxed);
        added.last.store(0, Relaxed);
        added.position.store(0, Relaxed);
        let bucket = &self.buckets[self.place(name)];
        self.chain(extent).store(bucket.load(Relaxed), Relaxed);
        bucket.store(extent + 1, Relaxed);
        self.head.found.store(extent, Relaxed);
        extent
    }

    fn free_extent(&self) -> u32 {
        if let Some(free) = self.head.free.load(Relaxed).checked_sub(1) {
            self.head.free.store(self.chain(free).load(Relaxed), Relaxed);
            return free;
        }
        let used = self.head.used.load(Relaxed);
        self.head.used.store(used + 1, Relaxed);
        used
    }

    /// Forgets an extent that is known.
    pub(super) fn forget(&self, extent: u32) {
        let forgotten = self.get(extent);
        let mut link = &self.buckets[self.place(forgotten.name.load(Relaxed))];
        forgotten.name.store(0, Relaxed);
        while link.load(Relaxed) != extent + 1 {
            let next = link.load(Relaxed).checked_sub(1);
            link = self.chain(next.expect("extents invariant 1: an extent is in its bucket's chain"));
        }
        link.store(self.chain(extent).load(Relaxed), Relaxed);
        self.chain(extent).store(self.head.free.load(Relaxed), Relaxed);
        self.head.free.store(extent + 1, Relaxed);
    }

    /// Checks the invariant; the extents that are known.
    pub(super) fn check(&self) -> Vec<u32> {
        let mut known = Vec::new();
        for (index, bucket) in self.buckets.iter().enumerate() {
            let mut link = bucket.load(Relaxed);
            while let Some(extent) = link.checked_sub(1) {
                assert_eq!(
                    self.place(self.get(extent).name.load(Relaxed)),
                    index,
                    "extents invariant 1: {extent}"
                );
                known.push(extent);
                link = self.chain(extent).load(Relaxed);
            }
        }
        let mut free = 0;
        let mut link = self.head.free.load(Relaxed);
        while let Some(extent) = link.checked_sub(1) {
            assert_eq!(self.get(extent).name.load(Relaxed), 0, "extents invariant 1: {extent} is free");
            free += 1;
            link = self.chain(extent).load(Relaxed);
        }
        assert_eq!(known.len() + free, self.head.used.load(Relaxed) as usize, "extents invariant 1");
        known
    }
}
