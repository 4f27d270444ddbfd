//! The buffer pool: which pages are in memory, in which version, and what has to happen before they may
//! leave.
//!
//! A page is its version, so the pool keeps no bytes; they are made when a page leaves.

use mezzanine_ground::random::Random;

use super::log::Lsn;
use super::places::{Extent, Place};

/// A page in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Buffer {
    pub(crate) place: Place,
    pub(crate) version: u32,
    /// Up to where the log must be durable before the page may leave; 0 for a page without a log.
    pub(crate) lsn: Lsn,
    pub(crate) dirty: bool,
    /// Dirty since before the mark of the checkpoint under way, which waits for it.
    pub(crate) before_mark: bool,
    /// On its way out.
    pub(crate) busy: bool,
    used: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Pool {
    buffers: Vec<Buffer>,
    tick: u64,
}

impl Pool {
    pub(crate) fn len(&self) -> usize {
        self.buffers.len()
    }

    fn index(&self, place: Place) -> Option<usize> {
        self.buffers.iter().position(|buffer| buffer.place == place)
    }

    /// The page at `place`, if it is in memory.
    pub(crate) fn find(&self, place: Place) -> Option<Buffer> {
        self.index(place).map(|index| self.buffers[index])
    }

    /// As [`Self::find`], and the page counts as used.
    pub(crate) fn touch(&mut self, place: Place) -> Option<&mut Buffer> {
        self.tick += 1;
        let tick = self.tick;
        let buffer = self.buffers.iter_mut().find(|buffer| buffer.place == place)?;
        buffer.used = tick;
        Some(buffer)
    }

    /// Puts a page in. There must be room, and it must not be there.
    pub(crate) fn put(&mut self, place: Place, version: u32, lsn: Lsn, dirty: bool) {
        assert!(self.index(place).is_none(), "a page is in the pool once");
        self.tick += 1;
        let used = self.tick;
        self.buffers.push(Buffer { place, version, lsn, dirty, before_mark: false, busy: false, used });
    }

    pub(crate) fn set_busy(&mut self, place: Place, busy: bool) {
        if let Some(index) = self.index(place) {
            self.buffers[index].busy = busy;
        }
    }

    /// The page was written out in its present version.
    pub(crate) fn cleaned(&mut self, place: Place) {
        if let Some(index) = self.index(place) {
            self.buffers[index].dirty = false;
            self.buffers[index].before_mark = false;
        }
    }

    pub(crate) fn remove(&mut self, place: Place) {
        if let Some(index) = self.index(place) {
            self.buffers.swap_remove(index);
        }
    }

    /// Forgets the pages of an extent, dirty or not.
    pub(crate) fn forget(&mut self, extent: &Extent) {
        self.buffers.retain(|buffer| !extent.contains(buffer.place));
    }

    /// The page that leaves next: the least recently used one in `lru_share` of 16 cases, else any. `None` if
    /// all are on their way.
    pub(crate) fn victim(&self, lru_share: u64, random: &mut Random) -> Option<Buffer> {
        let free = || self.buffers.iter().filter(|buffer| !buffer.busy);
        if random.chance(lru_share, 16) {
            return free().min_by_key(|buffer| buffer.used).copied();
        }
        let count = free().count() as u64;
        (count > 0).then(|| free().nth(random.below(count) as usize).copied()).flatten()
    }

    /// The `count` least recently used pages that stay where they are.
    pub(crate) fn tail(&self, count: usize) -> Vec<Buffer> {
        let mut tail: Vec<_> = self.buffers.iter().filter(|buffer| !buffer.busy).copied().collect();
        tail.sort_by_key(|buffer| buffer.used);
        tail.truncate(count);
        tail
    }

    /// Every dirty page now waits for the checkpoint that begins.
    pub(crate) fn mark(&mut self) {
        self.buffers.iter_mut().for_each(|buffer| buffer.before_mark = buffer.dirty);
    }

    /// A page that the checkpoint under way waits for.
    pub(crate) fn before_mark(&self, random: &mut Random) -> Option<Buffer> {
        let waiting = || self.buffers.iter().filter(|buffer| buffer.before_mark && !buffer.busy);
        let count = waiting().count() as u64;
        (count > 0).then(|| waiting().nth(random.below(count) as usize).copied()).flatten()
    }

    /// A dirty page of an extent.
    pub(crate) fn dirty_in(&self, extent: &Extent) -> Option<Buffer> {
        self.buffers.iter().find(|buffer| buffer.dirty && extent.contains(buffer.place)).copied()
    }
}
