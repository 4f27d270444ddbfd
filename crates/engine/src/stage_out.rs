//! Stage-out: groups leave at the front of the queue.
//!
//! ```text
//!            ReadFront           second chances          WriteDisk
//!   IDLE --------------> READING -------------> TO_WRITE ---------> WRITING --+
//!     ^  (nothing to read: straight on)            | (nothing to write)        |
//!     +--------------------------------------------+---------------------------+   `cleaned` moves
//!
//!            SyncDisk                  barrier durable         entries unlinked
//!   IDLE --------------> SYNCING -> BARRIER ----------> RELEASING ----------> IDLE  `front` moves
//! ```
//!
//! The two machines run side by side: the lane cleans groups ahead of need, the disk sync releases them
//! in bands. Between the two a page is on disk, perhaps unsynced, and still answered from flash. A
//! frame is released only when (invariant 5)
//! - its page's disk write is synced (SyncDisk was issued after the write was complete), and
//! - every version that superseded it or carries it on, and every tombstone, is durable: all groups
//!   that existed when the sync was issued (the barrier);
//!
//! and it is overwritten only when the new front is durable itself, carried by a later group.

use crate::config::{Design, RESERVED_GROUPS};
use crate::control::NONE;
use crate::directory::{DIRTY, GroupHead, REFERENCED, VALID};
use crate::format::{GroupSummary, Record, RecordKind};
use crate::ids::{IdRange, PageId};
use crate::interleave::AtomicU32;
use crate::jobs::Failure;
use crate::planted::{self, Bug};
use crate::region::Word;
use crate::staging::{FREE, Reserve};
use crate::tier::Tier;

pub(crate) const LANE_IDLE: u64 = 0;
pub(crate) const LANE_READING: u64 = 1;
pub(crate) const LANE_TO_WRITE: u64 = 2;
pub(crate) const LANE_WRITING: u64 = 3;
pub(crate) const LANE_STUCK: u64 = 4;

pub(crate) const SYNC_IDLE: u64 = 0;
pub(crate) const SYNC_RUNNING: u64 = 1;
pub(crate) const SYNC_BARRIER: u64 = 2;
pub(crate) const SYNC_RELEASING: u64 = 3;

impl Tier {
    /// Frames from the rear up to `end`.
    fn frames_before(&self, end: u64) -> u64 {
        end.saturating_sub(self.control().rear.get())
    }

    /// New groups will soon find no frames: flushes and syncs that could wait are issued now.
    pub(crate) fn pressing(&self) -> bool {
        self.segment_blocked()
            || self.frames_before(self.writable_end()) < (RESERVED_GROUPS + 2) * self.geometry.group_frames
    }

    fn lane_memory(&self, page: u64) -> usize {
        let frames = (self.geometry.summary_frames() + page) as usize;
        self.geometry.layout.lane_buffer + frames * self.geometry.page_size()
    }

    fn lane_list(&self) -> &[AtomicU32] {
        let pages = self.geometry.group_pages() as usize;
        self.region.slice(self.geometry.layout.lane_pages, pages)
    }

    fn page_position(&self, first: u64, page: u64) -> u64 {
        first + self.geometry.summary_frames() + page
    }

    /// Takes the next group at the front if stage-out is wanted; true if it must be read. Groups that
    /// need no I/O are passed at once. Under the control lock.
    pub(crate) fn take_front(&self) -> bool {
        let control = self.control();
        while control.lane.get() == LANE_IDLE && control.draining.get() == 0 {
            let position = control.cleaned.get();
            let ahead = self.frames_before(position + self.geometry.frames()) < self.geometry.ready_frames;
            // Groups still in staging memory are not taken: they are not durable yet.
            if position >= control.staged_from.get() || !(ahead || self.segment_blocked()) {
                return false;
            }
            let Some(head) = self.directory().head(self.geometry.frame_of(position)) else {
                panic!("the queue holds no group at position {position}");
            };
            control.lane_position.set(position);
            control.lane_end.set(self.page_position(position, head.pages.into()));
            if self.must_read(position, &head) {
                control.lane.set(LANE_READING);
                return true;
            }
            self.group_cleaned();
        }
        false
    }

    fn must_read(&self, position: u64, head: &GroupHead) -> bool {
        let directory = self.directory();
        let gsc = self.geometry.config().design == Design::FaceGsc;
        let wanted = if gsc { DIRTY | REFERENCED } else { DIRTY };
        (0..u64::from(head.pages)).any(|page| {
            let state = directory.state(self.geometry.frame_of(self.page_position(position, page)));
            state & VALID != 0 && state & wanted != 0
        })
    }

    /// What ReadFront reads: (flash offset, region offset, bytes). The whole group in one go, or for
    /// `face-basic` the frames of dirty valid pages one by one.
    pub(crate) fn front_reads(&self) -> Vec<(u64, usize, usize)> {
        let control = self.control();
        let (position, end) = (control.lane_position.get(), control.lane_end.get());
        let page_size = self.geometry.page_size();
        let buffer = self.geometry.layout.lane_buffer;
        if self.geometry.config().design != Design::FaceBasic {
            let runs = self.geometry.runs(position, end - position);
            return runs
                .into_iter()
                .filter(|(_, frames)| *frames > 0)
                .map(|(at, frames)| {
                    let memory = buffer + (at - position) as usize * page_size;
                    (self.geometry.offset_of(at), memory, frames as usize * page_size)
                })
                .collect();
        }
        let directory = self.directory();
        let first = self.page_position(position, 0);
        (first..end)
            .filter(|&at| {
                let state = directory.state(self.geometry.frame_of(at));
                state & VALID != 0 && state & DIRTY != 0
            })
            .map(|at| (self.geometry.offset_of(at), self.lane_memory(at - first), page_size))
            .collect()
    }

    /// The front has been read: gives second chances and lists what must go to disk.
    ///
    /// # Errors
    /// The position of a dirty page that flash no longer holds.
    pub(crate) fn front_read(&self) -> Result<(), u64> {
        let control = self.control();
        let (position, end) = (control.lane_position.get(), control.lane_end.get());
        let pages = end - self.page_position(position, 0);
        let survivors = self.choose_survivors(position, pages);
        let list = self.lane_list();
        let mut count = 0;
        for page in 0..pages {
            let at = self.page_position(position, page);
            let frame = self.geometry.frame_of(at);
            let state = self.directory().state(frame);
            if state & VALID == 0 || state & (DIRTY | REFERENCED) == 0 {
                continue;
            }
            let survives = survivors.contains(&page);
            if !survives && state & DIRTY == 0 {
                continue;
            }
            let bytes = self.region.lease(self.lane_memory(page), self.geometry.page_size());
            let whole = crc32c::crc32c(bytes) == self.directory().checksum(frame);
            if survives && whole && self.second_chance(position, page, bytes) {
                continue;
            }
            if state & DIRTY == 0 {
                continue;
            }
            if !whole && self.directory().state(frame) & VALID != 0 {
                return Err(at);
            }
            // Between the read and now the page may have been superseded; then the newer version
            // goes to disk in its turn, and writing this one as well would be wasted.
            if self.directory().state(frame) & VALID != 0 && !planted::is(Bug::DirtyDroppedAtFront) {
                list[count].store(page as u32, std::sync::atomic::Ordering::Relaxed);
                count += 1;
            }
        }
        control.lane_pages.set(count as u64);
        self.sort_lane(position, count);
        Ok(())
    }

    /// Referenced pages of the group, at most as many as may survive. If there are more, those at the
    /// very front go, as in the paper (section 4.3, "Group second chance").
    fn choose_survivors(&self, position: u64, pages: u64) -> Vec<u64> {
        let config = self.geometry.config();
        if config.design != Design::FaceGsc {
            return Vec::new();
        }
        let directory = self.directory();
        let mut referenced: Vec<u64> = (0..pages)
            .filter(|&page| {
                let state = directory.state(self.geometry.frame_of(self.page_position(position, page)));
                state & VALID != 0 && state & REFERENCED != 0
            })
            .collect();
        let excess = referenced.len().saturating_sub(config.survivors_max as usize);
        self.control().counters.second_chances_refused.count(excess as u64);
        referenced.drain(..excess);
        referenced
    }

    /// Appends a page of the lane's group at the rear again; false if it must leave after all.
    fn second_chance(&self, position: u64, page: u64, bytes: &[u8]) -> bool {
        let old_frame = self.geometry.frame_of(self.page_position(position, page));
        let directory = self.directory();
        let id = directory.id(old_frame);
        let Some(record) = self.lane_record(page) else { return false };
        let RecordKind::Page { id: recorded, lsn, checksum, .. } = record.kind else { return false };
        if recorded != id {
            return false;
        }
        let shard = directory.lock(directory.slot(&id), self.owner);
        // Invariant 7: it keeps its version, so it must still be the newest when it is appended.
        let newest = shard.find(&id) == Some(old_frame);
        if !newest && !planted::is(Bug::SecondChanceUnchecked) {
            return false;
        }
        let flags = directory.state(old_frame) & DIRTY;
        let kind = RecordKind::Page { id, dirty: flags != 0, second_chance: true, lsn, checksum };
        let version = Some((record.epoch, record.version));
        let Some(place) = self.append(kind, version, Reserve::StageOut) else {
            self.control().counters.second_chances_refused.count(1);
            return false;
        };
        // Invariant 5: no write covers the frames that its contents came from.
        assert_ne!(place.frame, old_frame, "a second chance would overwrite its own source");
        self.region.copy_in(place.memory, bytes);
        if let Some(linked) = shard.find(&id) {
            shard.unlink(linked);
        }
        shard.link(place.frame, &id, flags, checksum);
        self.filled(place);
        self.control().counters.second_chances.count(1);
        true
    }

    /// The record of the `page`th page of the lane's group, from the summary that was read with it.
    fn lane_record(&self, page: u64) -> Option<Record> {
        let control = self.control();
        let bytes = self.geometry.summary_frames() as usize * self.geometry.page_size();
        let summary = self.region.lease(self.geometry.layout.lane_buffer, bytes);
        let (header, checksum) = GroupSummary::decode(summary).ok()?;
        let head = self.directory().head(self.geometry.frame_of(control.lane_position.get()))?;
        if checksum != head.checksum || header.sequence != head.sequence {
            return None;
        }
        (0..header.records as usize)
            .filter_map(|index| GroupSummary::record(summary, index))
            .filter(|record| matches!(record.kind, RecordKind::Page { .. }))
            .nth(page as usize)
    }

    /// Sorts the list by page id, so that the disk is written in the order of addresses.
    fn sort_lane(&self, position: u64, count: usize) {
        use std::sync::atomic::Ordering::Relaxed;
        let list = &self.lane_list()[..count];
        let directory = self.directory();
        let mut pages: Vec<u32> = list.iter().map(|page| page.load(Relaxed)).collect();
        pages.sort_by_key(|&page| {
            directory.id(self.geometry.frame_of(self.page_position(position, page.into())))
        });
        for (word, page) in list.iter().zip(pages) {
            word.store(page, Relaxed);
        }
    }

    /// The pages that WriteDisk writes.
    pub(crate) fn lane_writes(&self) -> impl Iterator<Item = (PageId, &[u8])> {
        let control = self.control();
        let position = control.lane_position.get();
        let list = &self.lane_list()[..control.lane_pages.get() as usize];
        list.iter().map(move |page| {
            let page = u64::from(page.load(std::sync::atomic::Ordering::Relaxed));
            let frame = self.geometry.frame_of(self.page_position(position, page));
            let bytes = self.region.lease(self.lane_memory(page), self.geometry.page_size());
            (self.directory().id(frame), bytes)
        })
    }

    /// The lane's group needs no more I/O. Under the control lock.
    pub(crate) fn group_cleaned(&self) {
        let control = self.control();
        control.cleaned.set(control.lane_end.get());
        control.lane.set(LANE_IDLE);
        control.counters.groups_staged_out.count(1);
    }

    /// Whether the disk is to be synced now; notes what the sync will cover. Under the control lock.
    pub(crate) fn take_disk_sync(&self) -> bool {
        let control = self.control();
        let cleaned = control.cleaned.get();
        let band = cleaned - control.front.get();
        if control.disk_sync.get() != SYNC_IDLE
            || band == 0
            || (band < self.geometry.config().band_frames && !self.pressing())
        {
            return false;
        }
        control.disk_sync_end.set(cleaned);
        // The barrier: every group that exists now, the open one included.
        control.disk_sync_barrier.set(control.next_sequence.get());
        control.disk_sync.set(SYNC_RUNNING);
        true
    }

    /// Releases the band if everything that must be durable first is. Not under the control lock; the
    /// caller's change of state makes it the only one to release.
    pub(crate) fn release_if_durable(&self) {
        let control = self.control();
        {
            let _guard = control.lock.lock(self.owner);
            let durable = control.flushed.get() >= control.disk_sync_barrier.get();
            let ready = durable || planted::is(Bug::ReuseBeforeSuperseder);
            if control.disk_sync.get() != SYNC_BARRIER || !ready {
                return;
            }
            control.disk_sync.set(SYNC_RELEASING);
        }
        let (front, end) = (control.front.get(), control.disk_sync_end.get());
        for position in front..end {
            self.release(position);
        }
        let _guard = control.lock.lock(self.owner);
        control.front.set(end);
        control.disk_sync.set(SYNC_IDLE);
    }

    /// Unlinks what is still valid on a frame that leaves the queue: disk has it.
    fn release(&self, position: u64) {
        let frame = self.geometry.frame_of(position);
        let directory = self.directory();
        let counters = &self.control().counters;
        let state = directory.state(frame);
        if state & VALID == 0 {
            if directory.head(frame).is_none() {
                counters.left_invalid.count(1);
            }
            return;
        }
        let id = directory.id(frame);
        let shard = directory.lock(directory.slot(&id), self.owner);
        if shard.find(&id) == Some(frame) {
            shard.unlink(frame);
            shard.changed();
            let left: &Word = &counters.left_clean;
            left.count(1);
        }
    }

    /// Appends an empty group when only a durable front stands between the writers and free frames.
    /// True if something was sealed. Under the control lock.
    pub(crate) fn seal_for_progress(&self) -> bool {
        let control = self.control();
        if control.draining.get() != 0 || !self.pressing() {
            return false;
        }
        let open = control.open.get();
        let barrier_waits =
            control.disk_sync.get() == SYNC_BARRIER && open != NONE && open < control.disk_sync_barrier.get();
        let front = control.front.get();
        let carried = self
            .slots()
            .iter()
            .filter(|slot| slot.state.get() != FREE && slot.sequence.get() >= control.flushed.get())
            .any(|slot| slot.sequence.get() < control.composed.get() && slot.front.get() >= front);
        // Groups not yet composed will state the present front.
        let pending = (control.composed.get()..control.next_sequence.get()).any(|seq| seq != open);
        let front_waits = front > control.durable_front.get() && !carried && !pending;
        // A segment that was written waits for a flush, and a flush needs something to flush; but a
        // flush alone will do, so no group is appended for it.
        if !(barrier_waits || front_waits) {
            return false;
        }
        let Some(sequence) = self.open_group(Reserve::Carrier) else { return false };
        self.seal(self.slot_of(sequence), true);
        true
    }

    /// Whether stage-out may still write pages of `range` to disk.
    ///
    /// A host that has invalidated the range waits until this is false before it removes the pages from
    /// disk: a write under way would bring them back.
    pub fn stage_out_touches(&self, range: &IdRange) -> bool {
        let control = self.control();
        let _guard = control.lock.lock(self.owner);
        if control.lane.get() == LANE_IDLE {
            return false;
        }
        let directory = self.directory();
        let first = self.page_position(control.lane_position.get(), 0);
        (first..control.lane_end.get())
            .any(|position| range.contains(&directory.id(self.geometry.frame_of(position))))
    }

    /// A dirty page at the front can be neither read nor dropped: stage-out ends here.
    pub(crate) fn lane_stuck(&self, position: u64) {
        let control = self.control();
        let _guard = control.lock.lock(self.owner);
        control.lane.set(LANE_STUCK);
        self.latch(Failure::FlashRead { position });
    }
}
