//! The directory: which frame holds the valid version of a page.
//!
//! One entry of 32 bytes per frame, and a hash table from page id to the frame of its valid version.
//! The table is split into shards by hash; a shard's lock guards its buckets, its counters and the
//! entries of the pages that hash to it while they are linked. An entry that is linked is valid; one
//! that is not linked is free to be overwritten by the group that takes its frame.
//!
//! An entry is eight 32-bit words: five of page id, the link to the next frame of the bucket, the
//! state, the page's checksum. A frame's position needs no room: of the positions that fall on a
//! frame only one lies within the last revolution of the queue.

use std::sync::atomic::Ordering;

use crate::config::Geometry;
use crate::ids::{PAGE_ID_BYTES, PageId};
use crate::interleave::AtomicU32;
use crate::lock::{Guard, SpinLock};
use crate::region::{Region, Word};

/// 32-bit words of an entry.
pub(crate) const ENTRY_WORDS: usize = 8;
const _: () = assert!(ENTRY_WORDS * 4 == 32, "the papers' directory entry has 32 bytes");
/// Counters of changes per shard. Pages share them by hash, so a change elsewhere seldom refuses an
/// offer, and never admits a stale one.
pub(crate) const COUNTERS_PER_SHARD: usize = 64;

const LINK: usize = 5;
const STATE: usize = 6;
const CHECKSUM: usize = 7;
const NO_FRAME: u32 = 0;

/// The frame holds the newest version of its page and is linked.
pub(crate) const VALID: u32 = 1;
/// Newer than its disk copy.
pub(crate) const DIRTY: u32 = 2;
/// Looked up since it entered; gives a second chance.
pub(crate) const REFERENCED: u32 = 4;
/// Written to disk since it was staged in; the next sync of the disk covers it.
pub(crate) const WRITTEN: u32 = 16;
/// Written by the drain under way; its last sync makes the page clean.
pub(crate) const DRAINED: u32 = 32;
/// First frame of a group: the id holds sequence, pages and records, the checksum the summary's.
pub(crate) const HEAD: u32 = 8;

/// A dirty page's *dirty since* takes the bits from here on: the number of the last mark before its oldest change
/// that is not on disk (see `checkpoint`).
const SINCE_SHIFT: u32 = 8;
/// Marks after which a page's age is no longer told apart.
pub(crate) const SINCE_MAX: u64 = (1 << (32 - SINCE_SHIFT)) - 1;

/// The state bits for a page dirty since mark `since`.
pub(crate) fn dirty_since(since: u64) -> u32 {
    DIRTY | (since.min(SINCE_MAX) as u32) << SINCE_SHIFT
}

/// The mark since which a dirty page is dirty.
pub(crate) fn since(state: u32) -> u64 {
    u64::from(state >> SINCE_SHIFT)
}

/// Whether the frame holds a version that is still to be written to disk.
pub(crate) fn needs_disk(state: u32) -> bool {
    state & (VALID | DIRTY | WRITTEN) == VALID | DIRTY
}

/// A shard's lock and the counts of its lookups, together in one cache line: whoever holds the lock has
/// the line already, so counting costs no second one and needs no atomic addition.
#[repr(C, align(64))]
pub(crate) struct Shard {
    lock: SpinLock,
    hits_memory: Word,
    hits_flash: Word,
    misses: Word,
}
const _: () = assert!(size_of::<Shard>() == 64);

/// What a lookup found, for the counts.
#[derive(Clone, Copy)]
pub(crate) enum Found {
    InMemory,
    OnFlash,
    Nothing,
}

crate::region::shared!(Shard);

/// The directory's parts in a region.
#[derive(Clone, Copy)]
pub(crate) struct Directory<'r> {
    shards: &'r [Shard],
    counters: &'r [AtomicU32],
    buckets: &'r [AtomicU32],
    entries: &'r [AtomicU32],
    buckets_per_shard: usize,
}

/// A shard under its lock.
pub(crate) struct LockedShard<'r> {
    directory: Directory<'r>,
    shard: &'r Shard,
    bucket: usize,
    counter: usize,
    _guard: Guard<'r>,
}

/// Where a page's hash leads.
#[derive(Clone, Copy)]
pub(crate) struct Slotted {
    shard: usize,
    bucket: usize,
    counter: usize,
}

/// What a group's first entry says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GroupHead {
    pub(crate) sequence: u64,
    pub(crate) pages: u32,
    pub(crate) records: u32,
    pub(crate) checksum: u32,
}

impl<'r> Directory<'r> {
    pub(crate) fn new(region: &'r Region, geometry: &Geometry) -> Self {
        let layout = &geometry.layout;
        let shards = geometry.config().shards as usize;
        Self {
            shards: region.slice(layout.shards, shards),
            counters: region.slice(layout.counters, shards * COUNTERS_PER_SHARD),
            buckets: region.slice(layout.buckets, shards * layout.buckets_per_shard),
            entries: region.slice(layout.entries, geometry.frames() as usize * ENTRY_WORDS),
            buckets_per_shard: layout.buckets_per_shard,
        }
    }

    pub(crate) fn slot(&self, id: &PageId) -> Slotted {
        let hash = id.hash();
        let shard = hash as usize & (self.shards.len() - 1);
        // The high half picks the bucket by multiplication, so that their number may be any.
        let bucket = ((hash >> 32) * self.buckets_per_shard as u64) >> 32;
        let counter = (hash >> 16) as usize % COUNTERS_PER_SHARD;
        Slotted {
            shard,
            bucket: shard * self.buckets_per_shard + bucket as usize,
            counter: shard * COUNTERS_PER_SHARD + counter,
        }
    }

    pub(crate) fn lock(&self, slotted: Slotted, owner: u32) -> LockedShard<'r> {
        let guard = self.shards[slotted.shard].lock.lock(owner);
        self.locked(slotted, guard)
    }

    pub(crate) fn try_lock(&self, slotted: Slotted, owner: u32) -> Option<LockedShard<'r>> {
        let guard = self.shards[slotted.shard].lock.try_lock(owner)?;
        Some(self.locked(slotted, guard))
    }

    fn locked(&self, slotted: Slotted, guard: Guard<'r>) -> LockedShard<'r> {
        let shard = &self.shards[slotted.shard];
        LockedShard {
            directory: *self,
            shard,
            bucket: slotted.bucket,
            counter: slotted.counter,
            _guard: guard,
        }
    }

    /// Lookups answered from memory, answered from flash, and not answered.
    pub(crate) fn lookups(&self) -> (u64, u64, u64) {
        self.shards.iter().fold((0, 0, 0), |(memory, flash, misses), shard| {
            let counts = (shard.hits_memory.get(), shard.hits_flash.get(), shard.misses.get());
            (memory + counts.0, flash + counts.1, misses + counts.2)
        })
    }

    /// Returns when everything that was under way under some shard's lock is complete.
    pub(crate) fn pass_locks(&self, owner: u32) {
        for shard in self.shards {
            drop(shard.lock.lock(owner));
        }
    }

    /// The owners that hold a shard now.
    pub(crate) fn holders(&self) -> impl Iterator<Item = u32> + 'r {
        self.shards.iter().filter_map(|shard| shard.lock.holder())
    }

    pub(crate) fn poison(&self) {
        for shard in self.shards {
            shard.lock.poison();
        }
    }

    pub(crate) fn is_poisoned(&self) -> bool {
        self.shards.iter().any(|shard| shard.lock.is_poisoned())
    }

    fn word(&self, frame: u32, word: usize) -> &'r AtomicU32 {
        &self.entries[frame as usize * ENTRY_WORDS + word]
    }

    pub(crate) fn state(&self, frame: u32) -> u32 {
        self.word(frame, STATE).load(Ordering::Acquire)
    }

    pub(crate) fn checksum(&self, frame: u32) -> u32 {
        self.word(frame, CHECKSUM).load(Ordering::Relaxed)
    }

    pub(crate) fn id(&self, frame: u32) -> PageId {
        let mut bytes = [0; PAGE_ID_BYTES];
        for (word, out) in bytes.chunks_exact_mut(4).enumerate() {
            out.copy_from_slice(&self.word(frame, word).load(Ordering::Relaxed).to_be_bytes());
        }
        PageId::from_bytes(bytes)
    }

    fn set_id(&self, frame: u32, id: &PageId) {
        for (word, bytes) in id.as_bytes().chunks_exact(4).enumerate() {
            let value = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            self.word(frame, word).store(value, Ordering::Relaxed);
        }
    }

    fn is(&self, frame: u32, id: &PageId) -> bool {
        id.as_bytes().chunks_exact(4).enumerate().all(|(word, bytes)| {
            let value = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            self.word(frame, word).load(Ordering::Relaxed) == value
        })
    }

    /// Makes the entry of a frame that holds no valid page the head of a group.
    pub(crate) fn set_head(&self, frame: u32, head: &GroupHead) {
        assert_eq!(self.state(frame) & VALID, 0, "invariant 5: a valid frame is being overwritten");
        let words = [head.sequence as u32, (head.sequence >> 32) as u32, head.pages, head.records];
        for (word, value) in words.into_iter().enumerate() {
            self.word(frame, word).store(value, Ordering::Relaxed);
        }
        self.word(frame, CHECKSUM).store(head.checksum, Ordering::Relaxed);
        self.word(frame, STATE).store(HEAD, Ordering::Release);
    }

    /// The head of a group, if the frame is one.
    pub(crate) fn head(&self, frame: u32) -> Option<GroupHead> {
        if self.state(frame) & HEAD == 0 {
            return None;
        }
        let word = |index| self.word(frame, index).load(Ordering::Relaxed);
        Some(GroupHead {
            sequence: u64::from(word(0)) | u64::from(word(1)) << 32,
            pages: word(2),
            records: word(3),
            checksum: word(CHECKSUM),
        })
    }

    /// Marks the entry of a frame without a valid page as empty.
    pub(crate) fn clear(&self, frame: u32) {
        assert_eq!(self.state(frame) & VALID, 0, "a linked entry cannot be cleared");
        self.word(frame, STATE).store(0, Ordering::Release);
    }
}

impl LockedShard<'_> {
    /// The frame that holds the valid version of `id`.
    pub(crate) fn find(&self, id: &PageId) -> Option<u32> {
        let mut link = self.directory.buckets[self.bucket].load(Ordering::Relaxed);
        while link != NO_FRAME {
            let frame = link - 1;
            if self.directory.is(frame, id) {
                return Some(frame);
            }
            link = self.directory.word(frame, LINK).load(Ordering::Relaxed);
        }
        None
    }

    /// Makes `frame` the valid version of `id`. No other frame of the page may be linked.
    pub(crate) fn link(&self, frame: u32, id: &PageId, flags: u32, checksum: u32) {
        let directory = &self.directory;
        assert_eq!(directory.state(frame) & VALID, 0, "invariant 5: a valid frame is being overwritten");
        debug_assert!(self.find(id).is_none(), "invariant 2: one valid frame per page");
        directory.set_id(frame, id);
        directory.word(frame, CHECKSUM).store(checksum, Ordering::Relaxed);
        let bucket = &directory.buckets[self.bucket];
        directory.word(frame, LINK).store(bucket.load(Ordering::Relaxed), Ordering::Relaxed);
        bucket.store(frame + 1, Ordering::Relaxed);
        directory.word(frame, STATE).store(VALID | flags, Ordering::Release);
    }

    /// Makes `frame` invalid.
    ///
    /// # Panics
    /// If it is not linked in this bucket.
    pub(crate) fn unlink(&self, frame: u32) {
        let directory = &self.directory;
        let mut at = &directory.buckets[self.bucket];
        loop {
            let link = at.load(Ordering::Relaxed);
            assert_ne!(link, NO_FRAME, "invariant 2: a valid frame is linked in its bucket");
            if link - 1 == frame {
                break;
            }
            at = directory.word(link - 1, LINK);
        }
        at.store(directory.word(frame, LINK).load(Ordering::Relaxed), Ordering::Relaxed);
        directory.word(frame, STATE).store(0, Ordering::Release);
    }

    pub(crate) fn set_flags(&self, frame: u32, flags: u32) {
        let state = self.directory.word(frame, STATE);
        state.store(state.load(Ordering::Relaxed) | flags, Ordering::Release);
    }

    pub(crate) fn clear_flags(&self, frame: u32, flags: u32) {
        let state = self.directory.word(frame, STATE);
        state.store(state.load(Ordering::Relaxed) & !flags, Ordering::Release);
    }

    pub(crate) fn count(&self, found: Found) {
        let count = match found {
            Found::InMemory => &self.shard.hits_memory,
            Found::OnFlash => &self.shard.hits_flash,
            Found::Nothing => &self.shard.misses,
        };
        count.set(count.get() + 1);
    }

    /// Counts a change, so that offers of pages read before it are refused.
    pub(crate) fn changed(&self) {
        self.directory.counters[self.counter].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn changes(&self) -> u32 {
        self.directory.counters[self.counter].load(Ordering::Relaxed)
    }
}
