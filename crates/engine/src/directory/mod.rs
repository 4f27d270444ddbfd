//! The directory: which frame holds the valid version of a page.
//!
//! One entry of 32 bytes per frame, and a hash table from page id to the frame of its valid version.
//! The table is split into shards by hash; a shard's lock guards its buckets, its counters and the
//! entries of the pages that hash to it while they are linked. An entry that is linked is valid; one
//! that is not linked is free to be overwritten by the group that takes its frame.
//!
//! A frame's position needs no room in its entry: of the positions that fall on a frame only one lies
//! within the last revolution of the queue.

pub(crate) mod bucket;

pub(crate) mod second_touch;

use std::cell::Cell;
use std::sync::atomic::{Ordering, fence};

use mezzanine_ground::interleave::{AtomicU32, AtomicU64};
use mezzanine_ground::lock::{Guard, RegionLock};
use mezzanine_ground::region::Region;

use crate::config::Geometry;
use crate::control::Control;
use crate::directory::bucket::{Bucket, NO_LINK, tag_of};
use crate::ids::{EntryNumber, PageId, Sequence};
use crate::planted::{self, Bug};

/// Counters of changes per shard. Pages share them by hash, so a change elsewhere seldom refuses an
/// offer, and never admits a stale one.
pub(crate) const COUNTERS_PER_SHARD: usize = 64;

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
/// The page lies at its home although its record is in staging memory (see `in_place`).
pub(crate) const HOMED: u32 = 64;
/// The page is lost: dirty, and no read brings it back (see `unreadable`). Its entry has the checksum of what
/// is lost, so whatever lies in the frame is not taken for the page.
pub(crate) const LOST: u32 = 128;
/// First frame of a group: the id holds sequence, pages and records, the checksum the summary's.
pub(crate) const HEAD: u32 = 8;

/// A dirty page's *dirty since* takes the bits from here on: the number of the last mark before its oldest
/// change that is not on disk (see `checkpoint`).
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

/// Whether the frame holds a version that is still to be written to disk, and can be.
pub(crate) fn needs_disk(state: u32) -> bool {
    state & (VALID | DIRTY | WRITTEN | LOST) == VALID | DIRTY
}

/// Whether the frame stands for a page that is lost.
pub(crate) fn is_lost(state: u32) -> bool {
    state & (VALID | LOST) == VALID | LOST
}

/// A shard's lock, which has a line of its own.
#[repr(C, align(64))]
pub(crate) struct Shard {
    lock: RegionLock,
}
const _: () = assert!(size_of::<Shard>() == 64);

/// Counts the changes of the pages that share it.
#[repr(transparent)]
pub(crate) struct ChangeCounter(AtomicU32);

/// One frame's entry.
#[repr(C, align(32))]
pub(crate) struct Entry {
    /// The page's id.
    id: [AtomicU64; 2],
    id_end: AtomicU32,
    /// The next of the bucket's chain.
    link: AtomicU32,
    state: AtomicU32,
    /// The page's checksum.
    checksum: AtomicU32,
}
const _: () = assert!(size_of::<Entry>() == 32, "the papers' directory entry has 32 bytes");

/// A walk along a chain of links that others changed on the way.
pub(crate) struct Astray;

const LAID_OUT: &str = "a tier is laid out before it is used";
/// How often a lookup looks again before it takes the lock.
pub(crate) const ATTEMPTS: usize = 8;
/// Links of a chain that a lookup follows without the lock: more than there will ever be.
const STEPS_MAX: usize = 32;

/// The directory's parts in a region.
#[derive(Clone, Copy)]
pub(crate) struct Directory<'r> {
    region: &'r Region,
    geometry: &'r Geometry,
}

/// A shard under its lock.
pub(crate) struct LockedShard<'r> {
    directory: Directory<'r>,
    hashed: Hashed,
    /// The holder has made the bucket's number of changes odd.
    began: Cell<bool>,
    /// Pages that the holder has unlinked, less those that he has linked.
    unlinked: Cell<i32>,
    guard: Guard<'r>,
}

/// Where a page's hash leads.
#[derive(Clone, Copy)]
pub(crate) struct Hashed {
    hash: u64,
    bucket: usize,
}

/// What a group's first entry says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GroupHead {
    pub(crate) sequence: Sequence,
    pub(crate) pages: u32,
    pub(crate) records: u32,
    pub(crate) checksum: u32,
}

impl Hashed {
    /// Which bucket it is; there are fewer than frames.
    #[inline]
    pub(crate) fn bucket_number(&self) -> u32 {
        self.bucket as u32
    }

    #[inline]
    fn tag(&self) -> u8 {
        tag_of(self.hash as u8)
    }
}

impl Entry {
    #[inline]
    fn is(&self, id: &PageId) -> bool {
        let ([a, b], c) = id.words();
        self.id[0].load(Ordering::Relaxed) == a
            && self.id[1].load(Ordering::Relaxed) == b
            && self.id_end.load(Ordering::Relaxed) == c
    }

    #[inline]
    fn set_id(&self, id: &PageId) {
        let ([a, b], c) = id.words();
        self.id[0].store(a, Ordering::Relaxed);
        self.id[1].store(b, Ordering::Relaxed);
        self.id_end.store(c, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn state(&self) -> u32 {
        self.state.load(Ordering::Acquire)
    }

    #[inline]
    pub(crate) fn checksum(&self) -> u32 {
        self.checksum.load(Ordering::Relaxed)
    }

    /// Notes that a lookup has found the entry in `state`. If the state has changed since, the entry may be
    /// another page's by now, and the note is lost.
    #[cold]
    pub(crate) fn refer(&self, state: u32) {
        if planted::is(Bug::ReferenceStored) {
            self.state.store(state | REFERENCED, Ordering::Release);
        }
        // Whichever way it goes: a lost reference costs a page its second chance, no more.
        let _ = self.state.compare_exchange(state, state | REFERENCED, Ordering::AcqRel, Ordering::Relaxed);
    }
}

impl<'r> Directory<'r> {
    #[inline]
    pub(crate) fn new(region: &'r Region, geometry: &'r Geometry) -> Self {
        Self { region, geometry }
    }

    #[inline]
    pub(crate) fn hashed(&self, id: &PageId) -> Hashed {
        let hash = id.hash();
        // The high half picks the bucket by multiplication, so that their number may be any.
        let bucket = ((hash >> 32) * self.geometry.layout.buckets as u64) >> 32;
        Hashed { hash, bucket: bucket as usize }
    }

    #[inline(always)]
    fn control(&self) -> &'r Control {
        self.region.at(0).expect(LAID_OUT)
    }

    #[inline(always)]
    fn shard(&self, hashed: Hashed) -> &'r Shard {
        self.region.at(self.shard_index(hashed)).expect(LAID_OUT)
    }

    /// Which of so many parts of the shards a page belongs to; they are a power of two, and no more than
    /// there are shards.
    #[inline]
    pub(crate) fn part_of(&self, hashed: Hashed, parts: usize) -> usize {
        self.shard_index(hashed) & (parts - 1)
    }

    /// Neighbouring buckets belong to different shards.
    #[inline]
    fn shard_index(&self, hashed: Hashed) -> usize {
        hashed.bucket & (self.geometry.config().shards as usize - 1)
    }

    fn shards(&self) -> &'r [Shard] {
        self.region.slice(self.geometry.layout.shards, self.geometry.config().shards as usize)
    }

    #[inline(always)]
    fn bucket(&self, hashed: Hashed) -> &'r Bucket {
        self.region.at(hashed.bucket).expect(LAID_OUT)
    }

    #[inline]
    fn counter(&self, hashed: Hashed) -> &'r AtomicU32 {
        let within = (hashed.hash >> 8) as usize % COUNTERS_PER_SHARD;
        let index = self.shard_index(hashed) * COUNTERS_PER_SHARD + within;
        &self.region.at::<ChangeCounter>(index).expect(LAID_OUT).0
    }

    #[inline]
    fn entry(&self, at: EntryNumber) -> &'r Entry {
        self.region.at(at.0 as usize).expect("links and positions name entries that there are")
    }

    #[inline]
    pub(crate) fn lock(&self, hashed: Hashed, owner: u32) -> LockedShard<'r> {
        let guard = self.shard(hashed).lock.lock(owner);
        self.locked(hashed, guard)
    }

    pub(crate) fn try_lock(&self, hashed: Hashed, owner: u32) -> Option<LockedShard<'r>> {
        let guard = self.shard(hashed).lock.try_lock(owner)?;
        Some(self.locked(hashed, guard))
    }

    #[inline]
    fn locked(&self, hashed: Hashed, guard: Guard<'r>) -> LockedShard<'r> {
        LockedShard { directory: *self, hashed, began: Cell::new(false), unlinked: Cell::new(0), guard }
    }

    /// Looks without the shard's lock. What was seen is returned if nothing was linked or unlinked in the
    /// bucket meanwhile; otherwise, or if `look` cannot tell, `None`.
    ///
    /// Why what is returned is what a holder of the lock would have seen (invariant 2):
    /// 1. Entries of a bucket are linked and unlinked only between a step of its number of changes to an odd
    ///    one and the step to the next even one, both under the lock. A page's older version is unlinked and
    ///    its newer one linked within one such span, in the same bucket, so at even numbers every page has
    ///    the one valid frame that it is to have.
    /// 2. `before` is even and its load acquires: whatever was changed before that number is seen.
    /// 3. Should a load below see a change made after `before`, then the store of the odd number that came
    ///    before the change (release fence in `begin_change`) is seen by the last load, which comes after the
    ///    acquire fence. The numbers differ and nothing is returned. An id that is stored into an entry which
    ///    is not linked yet (`name`) comes after the change that unlinked it from this bucket, and a release
    ///    fence as well; so does what it becomes in another bucket.
    /// 4. So with equal numbers the chain was the same all the while. Its entries were linked all the while,
    ///    hence not written to by the owners of unlinked entries either (access rule 1). And a word that
    ///    moves only once an entry has been unlinked, like the rear that passes its frame again, was not seen
    ///    moved: the load of such a word acquires, and 3 applies.
    /// 5. A walk that is led astray by changes ends after `STEPS_MAX` links, all of which are entries: the
    ///    words of buckets and links never hold anything else.
    /// 6. The numbers are equal after 2^32 steps as well: who looks would have to be stopped for so many
    ///    changes of one bucket, and go on at this very one.
    #[inline(always)]
    fn undisturbed<T>(&self, hashed: Hashed, look: impl FnOnce(&'r Bucket) -> Option<T>) -> Option<T> {
        let bucket = self.bucket(hashed);
        let before = bucket.changes().load(Ordering::Acquire);
        if before % 2 == 1 || self.control().poisoned.get() != 0 {
            return None;
        }
        let seen = look(bucket)?;
        planted::outside("lookup: looked, not checked");
        fence(Ordering::Acquire);
        let after = bucket.changes().load(Ordering::Relaxed);
        (after == before || planted::is(Bug::LookupUnconfirmed)).then_some(seen)
    }

    /// [`Self::look`] for the common case: the page is where its tag leads first, or nowhere. It is written
    /// for few instructions, so that the processor has several lookups under way.
    #[inline(always)]
    pub(crate) fn glance<T>(
        &self,
        hashed: Hashed,
        id: &PageId,
        look: impl FnOnce(Option<(EntryNumber, &'r Entry)>) -> T,
    ) -> Option<T> {
        self.undisturbed(hashed, |bucket| match bucket.first(hashed.tag()) {
            Some(link) => {
                let at = EntryNumber(link.wrapping_sub(1));
                let entry: &Entry = self.region.at(at.0 as usize)?;
                entry.is(id).then(|| look(Some((at, entry))))
            }
            None => (bucket.chain() == NO_LINK).then(|| look(None)),
        })
    }

    /// What `look` makes of the entry that is linked for a page, or of none, without the shard's lock; `None`
    /// if something was linked or unlinked in the bucket meanwhile.
    pub(crate) fn look<T>(
        &self,
        hashed: Hashed,
        id: &PageId,
        look: impl FnOnce(Option<(EntryNumber, &'r Entry)>) -> T,
    ) -> Option<T> {
        self.undisturbed(hashed, |_| Some(look(self.walk(hashed, id, STEPS_MAX).ok()?)))
    }

    /// The entry linked for `id`; an error if its bucket's chain goes on after `steps_max` links.
    fn walk(
        &self,
        hashed: Hashed,
        id: &PageId,
        steps_max: usize,
    ) -> Result<Option<(EntryNumber, &'r Entry)>, Astray> {
        let bucket = self.bucket(hashed);
        for link in bucket.candidates(hashed.tag()) {
            let entry = self.entry(EntryNumber(link - 1));
            if entry.is(id) {
                return Ok(Some((EntryNumber(link - 1), entry)));
            }
        }
        let mut link = bucket.chain();
        for _ in 0..steps_max {
            if link == NO_LINK {
                return Ok(None);
            }
            let entry = self.entry(EntryNumber(link - 1));
            if entry.is(id) {
                return Ok(Some((EntryNumber(link - 1), entry)));
            }
            link = entry.link.load(Ordering::Relaxed);
        }
        Err(Astray)
    }

    /// Tells that a page will be looked for soon.
    pub(crate) fn prefetch(&self, id: &PageId) {
        self.prefetch_bucket(self.hashed(id));
    }

    /// [`Self::prefetch`] for a page whose place is known.
    #[inline]
    pub(crate) fn prefetch_bucket(&self, hashed: Hashed) {
        self.region.prefetch::<Bucket>(hashed.bucket);
    }

    /// [`Self::prefetch_bucket`] by [`Hashed::bucket_number`].
    #[inline]
    pub(crate) fn prefetch_numbered(&self, bucket: u32) {
        self.region.prefetch::<Bucket>(bucket as usize);
    }

    /// Tells that an entry will be written soon.
    #[inline]
    pub(crate) fn prefetch_at(&self, at: EntryNumber) {
        self.region.prefetch::<Entry>(at.0 as usize);
    }

    /// Tells that a page that was announced is looked for now or never.
    pub(crate) fn prefetch_entry(&self, id: &PageId) {
        let hashed = self.hashed(id);
        self.prefetch_first(hashed);
    }

    /// [`Self::prefetch_entry`] for a page whose place is known.
    #[inline]
    pub(crate) fn prefetch_first(&self, hashed: Hashed) {
        if let Some(link) = self.bucket(hashed).first(hashed.tag()) {
            self.region.prefetch::<Entry>(link.wrapping_sub(1) as usize);
        }
    }

    /// How often pages that share this page's counter have changed.
    #[inline]
    pub(crate) fn changes(&self, hashed: Hashed) -> u32 {
        self.counter(hashed).load(Ordering::Relaxed)
    }

    /// Returns when everything that was under way under some shard's lock is complete.
    pub(crate) fn pass_locks(&self, owner: u32) {
        for shard in self.shards() {
            drop(shard.lock.lock(owner));
        }
    }

    /// The owners that hold a shard now.
    pub(crate) fn holders(&self) -> impl Iterator<Item = u32> + 'r {
        self.shards().iter().filter_map(|shard| shard.lock.holder())
    }

    pub(crate) fn poison(&self) {
        for shard in self.shards() {
            shard.lock.poison();
        }
        self.control().poisoned.set(1);
    }

    pub(crate) fn is_poisoned(&self) -> bool {
        self.shards().iter().any(|shard| shard.lock.is_poisoned())
    }

    pub(crate) fn state(&self, at: EntryNumber) -> u32 {
        self.entry(at).state()
    }

    pub(crate) fn checksum(&self, at: EntryNumber) -> u32 {
        self.entry(at).checksum()
    }

    pub(crate) fn id(&self, at: EntryNumber) -> PageId {
        let entry = self.entry(at);
        let words = [entry.id[0].load(Ordering::Relaxed), entry.id[1].load(Ordering::Relaxed)];
        PageId::from_words(words, entry.id_end.load(Ordering::Relaxed))
    }

    /// Gives the entry of a frame that was just given out the id of its page, before it is linked.
    #[inline]
    pub(crate) fn name(&self, at: EntryNumber, id: &PageId) {
        let entry = self.entry(at);
        assert_eq!(entry.state() & VALID, 0, "invariant 5: a valid frame is being overwritten");
        // For a lookup that an old link has led here: see 3 of `undisturbed`.
        fence(Ordering::Release);
        entry.set_id(id);
    }

    /// Makes the entry of a frame that holds no valid page the head of a group.
    pub(crate) fn set_head(&self, at: EntryNumber, head: &GroupHead) {
        assert_eq!(self.state(at) & VALID, 0, "invariant 5: a valid frame is being overwritten");
        let entry = self.entry(at);
        entry.id[0].store(head.sequence.number(), Ordering::Relaxed);
        entry.id[1].store(u64::from(head.pages) | u64::from(head.records) << 32, Ordering::Relaxed);
        entry.checksum.store(head.checksum, Ordering::Relaxed);
        entry.state.store(HEAD, Ordering::Release);
    }

    /// The head of a group, if the frame is one.
    pub(crate) fn head(&self, at: EntryNumber) -> Option<GroupHead> {
        if self.state(at) & HEAD == 0 {
            return None;
        }
        let entry = self.entry(at);
        let counts = entry.id[1].load(Ordering::Relaxed);
        Some(GroupHead {
            sequence: Sequence::from_number(entry.id[0].load(Ordering::Relaxed)),
            pages: counts as u32,
            records: (counts >> 32) as u32,
            checksum: entry.checksum.load(Ordering::Relaxed),
        })
    }

    /// Marks the entry of a frame without a valid page as empty.
    pub(crate) fn clear(&self, at: EntryNumber) {
        assert_eq!(self.state(at) & VALID, 0, "a linked entry cannot be cleared");
        self.entry(at).state.store(0, Ordering::Release);
    }
}

impl<'r> LockedShard<'r> {
    /// The entry of the valid version of `id`.
    pub(crate) fn find(&self, id: &PageId) -> Option<EntryNumber> {
        self.find_entry(id).map(|(at, _)| at)
    }

    /// The number of the entry of the valid version of `id`, and the entry.
    pub(crate) fn find_entry(&self, id: &PageId) -> Option<(EntryNumber, &'r Entry)> {
        let Ok(found) = self.directory.walk(self.hashed, id, usize::MAX) else {
            unreachable!("a chain of links is no longer than the directory")
        };
        found
    }

    fn bucket(&self) -> &'r Bucket {
        self.directory.bucket(self.hashed)
    }

    /// The link behind that of a page in its bucket's chain.
    fn next(&self, link: u32) -> &'r AtomicU32 {
        &self.directory.entry(EntryNumber(link - 1)).link
    }

    /// Tells lookups that entries of the bucket are about to change, until the shard is unlocked.
    fn begin_change(&self) {
        if !self.began.replace(true) {
            let changes = self.bucket().changes();
            changes.store(changes.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
            fence(Ordering::Release);
        }
    }

    /// Lookups may go by what they see again.
    fn end_change(&self) {
        let bucket = self.bucket();
        if self.unlinked.get() > 0 {
            let tag = |link: u32| tag_of(self.directory.id(EntryNumber(link - 1)).hash() as u8);
            bucket.settle(|link| self.next(link), tag);
        }
        let changes = bucket.changes();
        changes.store(changes.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
    }

    /// Makes the entry `at` the valid version of `id`. No other entry of the page may be linked.
    pub(crate) fn link(&self, at: EntryNumber, id: &PageId, flags: u32, checksum: u32) {
        let directory = &self.directory;
        assert_eq!(directory.state(at) & VALID, 0, "invariant 5: a valid frame is being overwritten");
        debug_assert!(self.find(id).is_none(), "invariant 2: one valid frame per page");
        self.begin_change();
        let entry = directory.entry(at);
        entry.set_id(id);
        entry.checksum.store(checksum, Ordering::Relaxed);
        self.bucket().insert(self.hashed.tag(), at.0 + 1, |link| self.next(link));
        self.unlinked.set(self.unlinked.get() - 1);
        entry.state.store(VALID | flags, Ordering::Release);
    }

    /// Makes the entry `at` invalid.
    ///
    /// # Panics
    /// If it is not linked in this bucket.
    pub(crate) fn unlink(&self, at: EntryNumber) {
        let directory = &self.directory;
        self.begin_change();
        let removed = self.bucket().remove(at.0 + 1, |link| self.next(link));
        assert!(removed, "invariant 2: a valid frame is linked in its bucket");
        self.unlinked.set(self.unlinked.get() + 1);
        directory.entry(at).state.store(0, Ordering::Release);
    }

    // Flags change in one step, because lookups set one without the lock.
    pub(crate) fn set_flags(&self, at: EntryNumber, flags: u32) {
        self.directory.entry(at).state.fetch_or(flags, Ordering::AcqRel);
    }

    pub(crate) fn clear_flags(&self, at: EntryNumber, flags: u32) {
        self.directory.entry(at).state.fetch_and(!flags, Ordering::AcqRel);
    }

    /// Counts a change, so that offers of pages read before it are refused.
    #[inline]
    pub(crate) fn changed(&self) {
        // Whoever shares the counter has the same shard's lock.
        let counter = self.directory.counter(self.hashed);
        counter.store(counter.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    pub(crate) fn changes(&self) -> u32 {
        self.directory.changes(self.hashed)
    }
}

impl Drop for LockedShard<'_> {
    fn drop(&mut self) {
        if self.guard.poisons() {
            // What a panic has left half done stays marked as such.
            self.directory.control().poisoned.set(1);
        } else if self.began.get() {
            self.end_change();
        }
    }
}
