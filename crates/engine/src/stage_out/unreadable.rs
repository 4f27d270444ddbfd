//! Pages that flash does not give back (docs/decisions/0019-pages-that-cannot-be-read.md).
//!
//! Whatever stage-out, a drain or a cleaner reads for its pages and does not get whole is read again, each
//! page alone (see `reread`). One that still is not whole is *judged* under its shard's lock:
//! 1. *Dead*, superseded or gone since: no effect. The newer version is durable before the frame is reused,
//!    whatever lies in it.
//! 2. *On disk, not synced yet*: no effect either. The frame is kept until the sync covers it.
//! 3. *Clean*: its tombstone is appended. It leaves when that is durable; without it a crash would find the
//!    old record again, which may say that the page is dirty, and it could be had from nowhere though disk
//!    has it.
//! 4. *Dirty*: there is no other copy, as far as the tier knows; a host may find that disk has this very
//!    version all the same, by its checksum. In sync mode `durable` it is *lost*, below; in `drained` the
//!    database has its log, and the tier is given up.
//!
//! A *lost* page keeps its entry, marked `LOST`, with the checksum of what is lost: so whoever looks it up
//! finds a page that is dirty and has another checksum, and is told. It ends when the page is staged in
//! again, whole (as what it is, or, given up by name, as [`given_up_page`]), or dropped. Drains do not write
//! it and say so. In the queue its name is carried on: at the front it is appended again, by a record that
//! says that its frame holds nothing. In place the record is relocated like any other, and the page keeps its
//! home, so that the bad place is given to no other. There is an end to what is carried (`lost_max`).

use crate::answers::{FlashPage, NoRoom};
use crate::config::{SyncMode, lost_max};
use crate::core::Tier;
use crate::directory::{
    DIRTY, GroupHead, HEAD, HOMED, LOST, LockedShard, REFERENCED, VALID, WRITTEN, is_lost, needs_disk,
};
use crate::format::{Record, RecordKind};
use crate::groups::group::Reserve;
use crate::ids::{EntryNumber, IdRange, PageId, Position, Version};
use crate::placement::Carried;
use crate::planted::{self, Bug};
use crate::stage_out::batch::BatchPage;

/// Fills the frame of a page that is lost.
const NOTHING: &[u8; 16] = b"MEZZ: LOST PAGE ";
/// Fills a page that was given up. No database takes it for one of its own, with or without checksums:
/// PostgreSQL finds flags in its header that do not exist and a lower end of the free space behind the upper
/// one, SQLite a kind of page, a header of a file and a next page that there are not. A page of zeros would
/// pass for a new one, and the version on disk for the newest.
const GIVEN_UP: &[u8; 16] = b"MEZZ: GIVEN UP  ";

/// Makes `page` one that was given up: what takes the place of a lost page that its owner does without, by
/// name. The host stages it in as a dirty page.
pub fn given_up_page(page: &mut [u8]) {
    for (byte, given_up) in page.iter_mut().zip(GIVEN_UP.iter().cycle()) {
        *byte = *given_up;
    }
}

/// Why the pages that were read cannot be listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unread {
    /// A page is not whole.
    NotWhole,
    /// A page that is lost finds no room at the rear.
    NoRoom,
    /// Only flash has a page, and nobody needs its frame yet: another read may bring it.
    NotNeeded,
    /// Only flash had the page at this position, and it cannot be given up.
    OnlyCopy(Position),
}

/// Version and log position of a page that is appended again: those of its record, if that is known and is
/// the page's; else it gets the next version. Under the lock of its shard it is the newest anyway.
pub(crate) fn version_of(record: Option<&Record>, id: &PageId) -> (Option<(u32, Version)>, u64) {
    match record.map(|record| (record, &record.kind)) {
        Some((record, RecordKind::Page { id: recorded, lsn, .. })) if recorded == id => {
            (Some((record.epoch, record.version)), *lsn)
        }
        _ => (None, 0),
    }
}

impl Tier {
    /// Whether what was read is what is put in the frame of a page that is lost.
    pub(crate) fn holds_nothing(&self, page: BatchPage) -> bool {
        let bytes = self.batch_bytes(page.place, self.geometry.page_size());
        bytes.chunks_exact(NOTHING.len()).all(|chunk| chunk == NOTHING)
    }

    /// Whether a page of a group at the front is still to be done something for; where the read failed, also
    /// whether it could be had again after a crash.
    pub(crate) fn matters(&self, position: Position, failed: bool) -> bool {
        let state = self.directory().state(self.entry_of(position));
        let valid = state & VALID != 0 && self.reads_whole_groups();
        self.position_needs_disk(position) || valid && (failed || self.survives(state))
    }

    /// A page in the batch that was read again in vain. Its frame is `needed`, or the page may as well stay.
    /// Under no lock.
    ///
    /// # Errors
    /// If it is lost, and cannot be carried on, or would be if its frame were needed.
    pub(crate) fn judge_unreadable(&self, position: Position, needed: bool) -> Result<(), Unread> {
        planted::outside("unreadable: not judged yet");
        let directory = self.directory();
        let entry = self.entry_of(position);
        let id = directory.id(entry);
        let shard = directory.lock(directory.hashed(&id), self.owner);
        if shard.find(&id) != Some(entry) && !planted::is(Bug::DeadPageMissed) {
            return Ok(());
        }
        let state = directory.state(entry);
        // One that was lost before, and not carried on, is being invalidated, and was counted.
        if is_lost(state) && !planted::is(Bug::LostCountedAgain) {
            return Ok(());
        }
        let lasts = self.sync_mode() == SyncMode::Durable && !planted::is(Bug::LostEndsWriting);
        // A device that answers nothing has lost nothing: it ends writing, and may have everything at the
        // next opening.
        let silent = self.flash_is_silent() && !planted::is(Bug::SilenceTakenForLoss);
        let may_stay = !needed && needs_disk(state) && lasts && !silent;
        if may_stay && !planted::is(Bug::LostAheadOfNeed) {
            self.drain_misses(&id, state);
            return Err(Unread::NotNeeded);
        }
        self.control().counters.unreadable.count(1);
        if !self.flash_is_silent() {
            self.note_bad(self.placement().frame_at(entry));
        }
        if state & DIRTY == 0 && !planted::is(Bug::DeadPageMissed) {
            // Without room it leaves all the same: that costs something only if a crash comes before the
            // front is durable.
            let _ = self.bury(&id, Reserve::StageOut);
            return Ok(());
        }
        if state & WRITTEN != 0 || is_lost(state) {
            return Ok(());
        }
        if !needs_disk(state) || !lasts || silent || !self.may_lose() {
            return Err(Unread::OnlyCopy(position));
        }
        self.drain_misses(&id, state);
        match self.placement().carry_lost(&shard, entry) {
            Carried::Appended => {}
            Carried::Invalidated if planted::is(Bug::LostCountedAgain) => {}
            // It is gone in a moment, and nobody has lost it.
            Carried::Invalidated => return Ok(()),
            Carried::NoRoom => return Err(Unread::NoRoom),
        }
        self.control().lost.add(1);
        self.control().counters.lost.count(1);
        Ok(())
    }

    /// How many pages may be lost at a time. Each takes a place that no other page can have, and is appended
    /// again at each round of the queue.
    fn lost_max(&self) -> u64 {
        lost_max(self.placement().page_frames())
    }

    /// Whether one more page may be lost. Under the lock of a shard, so no other is taken here.
    fn may_lose(&self) -> bool {
        let control = self.control();
        if control.lost.get() >= self.lost_max() && !planted::is(Bug::RewrittenStaysLost) {
            // Some may have been written anew.
            control.lost.set(self.lost_entries().count() as u64);
        }
        control.lost.get() < self.lost_max()
    }

    /// The entries that stand for lost pages, as they are passed.
    fn lost_entries(&self) -> impl Iterator<Item = EntryNumber> + '_ {
        let directory = self.directory();
        EntryNumber::all(self.geometry.entries()).filter(move |&entry| is_lost(directory.state(entry)))
    }

    /// Whether the page at a position at the front is lost, or would be.
    pub(crate) fn waits_at_front(&self, position: Position) -> bool {
        let state = self.directory().state(self.entry_of(position));
        is_lost(state) || needs_disk(state)
    }

    /// The pages that are lost now, in the order of their names. A pass over the directory, if there were
    /// any. Under no lock.
    pub fn lost(&self) -> Vec<PageId> {
        if self.control().lost.get() == 0 {
            return Vec::new();
        }
        let directory = self.directory();
        let named = |entry: EntryNumber| {
            // The entry may have become another page's since: then this name may be half of each, and leads
            // elsewhere.
            let id = directory.id(entry);
            let shard = directory.lock(directory.hashed(&id), self.owner);
            (shard.find(&id) == Some(entry) && is_lost(directory.state(entry))).then_some(id)
        };
        let mut lost: Vec<PageId> = self.lost_entries().filter_map(named).collect();
        lost.sort_unstable();
        lost
    }

    /// The flags of a page that recovery finds lost.
    pub(crate) fn found_lost(&self) -> u32 {
        self.control().lost.add(1);
        LOST | HOMED
    }

    /// Appends the pages of one of the batch's groups that were lost before.
    pub(crate) fn carry_lost_of(&self, group: Position, head: &GroupHead) -> Result<(), Unread> {
        let directory = self.directory();
        let lost = |position: &Position| is_lost(directory.state(self.entry_of(*position)));
        let Some(first) = Position::each(self.pages_of(group, head)).find(lost) else { return Ok(()) };
        let records = self.batch_records(group, head);
        for position in Position::each(first..self.pages_of(group, head).end).filter(lost) {
            let id = directory.id(self.entry_of(position));
            let shard = directory.lock(directory.hashed(&id), self.owner);
            if shard.find(&id) != Some(self.entry_of(position)) || planted::is(Bug::LostNotCarried) {
                continue;
            }
            self.drain_misses(&id, directory.state(self.entry_of(position)));
            let record = records.get((position - self.page_position(group, 0)) as usize);
            if self.append_lost(&shard, position, record) == Carried::NoRoom {
                return Err(Unread::NoRoom);
            }
        }
        Ok(())
    }

    /// Appends the name of a page that is lost, in the place of what stands for it at this position, unless
    /// it is being invalidated. Under the lock of its shard. It keeps its version if that is known, and is
    /// the newest anyway.
    pub(crate) fn append_lost(
        &self,
        shard: &LockedShard<'_>,
        position: Position,
        record: Option<&Record>,
    ) -> Carried {
        let directory = self.directory();
        let entry = self.entry_of(position);
        let (id, state, checksum) = (directory.id(entry), directory.state(entry), directory.checksum(entry));
        let (version, lsn) = version_of(record, &id);
        let kind = RecordKind::again(id, true, true, lsn, checksum);
        let Some(place) = self.append(kind, version, Reserve::Lost, None) else {
            // A page whose range is being invalidated need not be carried on, and is not for want of room.
            // Who invalidates it waits for the shard, and so is still at it; if he dies, somebody else
            // unlinks it.
            let _guard = self.control().lock.lock(self.owner);
            let invalidated = self.is_being_invalidated(&kind) && !planted::is(Bug::DroppedWaitsForRoom);
            return if invalidated { Carried::Invalidated } else { Carried::NoRoom };
        };
        planted::inside("unreadable: place given out");
        let nothing = NOTHING.repeat(self.geometry.page_size() / NOTHING.len());
        self.region.copy_in(place.memory, &nothing);
        shard.unlink(entry);
        // Staging memory does not have it.
        let flags = state & !(VALID | REFERENCED | HEAD) | LOST | HOMED;
        shard.link(place.entry, &id, flags, checksum);
        shard.changed();
        planted::inside("unreadable: linked, not counted as filled");
        self.filled(place);
        Carried::Appended
    }

    /// Appends the tombstone of a clean page that stays linked until that is durable. True if there is one.
    /// Under the lock of its shard.
    fn bury(&self, id: &PageId, reserve: Reserve) -> Result<bool, NoRoom> {
        // A tier that never holds only copies is emptied after a crash.
        if self.sync_mode() == SyncMode::Through || planted::is(Bug::UnreadableUnsaid) {
            return Ok(false);
        }
        self.append_tombstone(IdRange { start: *id, count: 1, shift: 0 }, None, reserve)?;
        planted::inside("unreadable: tombstone appended");
        Ok(true)
    }

    /// Whether disk has this version of a page, synced: for a page that [`FlashPage::dirty`] says is newer
    /// than its disk copy, and that cannot be read. Stage-out may have brought it to disk ahead of need;
    /// it counts as dirty until its frame leaves, which may be long after. If so, the host goes on as
    /// with a clean page.
    pub fn on_disk(&self, id: &PageId, page: &FlashPage) -> bool {
        let directory = self.directory();
        let shard = directory.lock(directory.hashed(id), self.owner);
        let newest = shard.find(id).filter(|&entry| self.position_of(entry) == page.position);
        newest.is_some_and(|entry| self.state_says_on_disk(directory.state(entry), page.position))
    }

    /// Whether `bytes`, which the host has read from the page's place on disk, are this very version of it:
    /// for a page that neither flash gives back nor [`Self::on_disk`] knows. Stage-out, or a drain, may have
    /// written it there before a crash, which its record does not know: then nothing is lost. What was read
    /// may not be synced yet.
    pub fn disk_has(&self, page: &FlashPage, bytes: &[u8]) -> bool {
        !planted::is(Bug::DiskNotCompared) && self.verify(page, bytes)
    }

    /// See [`Self::on_disk`]. Under the lock of the page's shard, so that its frame has not left.
    pub(crate) fn state_says_on_disk(&self, state: u32, position: Position) -> bool {
        let synced = self.placement().is_synced(position);
        let left_behind = state & WRITTEN != 0 && synced && !planted::is(Bug::SyncedCountsAsLost);
        state & DIRTY == 0 || left_behind
    }

    /// A clean page could not be read, twice. Before the host has disk answer for it: true if a record was
    /// appended that has to be durable first ([`Self::request_sync`]), or a crash might find the page
    /// again as one that only flash has. Then, and in any case, the host calls [`Self::invalidate_clean`].
    ///
    /// # Errors
    /// [`NoRoom`]: nothing was done. A host that cannot wait invalidates the page all the same; disk has it.
    pub fn bury_clean(&self, id: &PageId, page: &FlashPage) -> Result<bool, NoRoom> {
        let directory = self.directory();
        let shard = directory.lock(directory.hashed(id), self.owner);
        let Some(entry) = shard.find(id) else { return Ok(false) };
        let same = entry == self.entry_of(page.position) && self.position_of(entry) == page.position;
        if !same || !self.state_says_on_disk(directory.state(entry), page.position) {
            return Ok(false);
        }
        self.note_bad(self.placement().frame_at(entry));
        self.bury(id, Reserve::Foreground)
    }
}
