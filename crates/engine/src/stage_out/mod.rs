//! Stage-out: what becomes of the groups at the front of the queue ("Flash as cache extension for online
//! transactional workloads", section 4.3, "Group replacement" and "Group second chance").
//!
//! A group is taken while fewer frames than are needed are clean ahead of the rear, and earlier than that
//! the more idle the disk is. If several are wanted because stage-out lags behind, they are taken together:
//! an array of disks writes the pages of eight groups in not much more time than those of one. Pages that are
//! invalid, or clean and not referenced, need nothing. Referenced ones go to the rear again, from the buffer
//! that read the front. Dirty ones are written to disk. Then the groups are *cleaned*; their frames leave
//! later (see `release`).

pub(crate) mod bad_list;

pub(crate) mod pulling;

pub(crate) mod refusals;

pub(crate) mod batch;

pub(crate) mod pages;

pub(crate) mod survivors;

pub(crate) mod refused;

pub(crate) mod unreadable;

pub(crate) mod reread;

pub(crate) mod bad_frames;

pub(crate) mod disk_sync;

pub(crate) mod pull;

use crate::config::Design;
use crate::core::Tier;
use crate::directory::{
    DIRTY, GroupHead, HEAD, REFERENCED, VALID, WRITTEN, dirty_since, is_lost, needs_disk,
};
use crate::format::{GroupSummary, Record, RecordKind};
use crate::groups::group::Reserve;
use crate::ids::Position;
use crate::planted::{self, Bug};
use crate::stage_out::batch::BatchPage;
use crate::stage_out::refused::Again;
use crate::stage_out::unreadable::Unread;

impl Tier {
    pub(crate) fn page_position(&self, first: Position, page: u64) -> Position {
        first + self.geometry.summary_frames() + page
    }

    /// Frames that are to be clean ahead of the rear however busy the disk is.
    pub(crate) fn frames_needed(&self) -> u64 {
        self.geometry.ready_frames + self.placement().names_room()
    }

    /// Says how busy the host's disk is, in thousandths of its time; at first it counts as fully busy.
    ///
    /// Stage-out runs ahead of need by up to `ahead_frames` of the configuration while the disk is idle
    /// and not at all while it is busy, so that it takes the time that nobody else wants.
    pub fn set_disk_utilisation(&self, permille: u32) {
        self.control().disk_idle.set(1000u64.saturating_sub(permille.into()));
    }

    /// Takes the next group at the front if stage-out is wanted; true if it must be read. Groups that
    /// need no I/O are passed at once. Under the control lock.
    pub(crate) fn take_groups_at_front(&self) -> bool {
        let control = self.control();
        if self.rests_for_disk() {
            return false;
        }
        while control.batch.is_idle() && control.draining.get() == 0 && !self.waits_for_room() {
            let position = control.passed.cleaned();
            if !self.group_wanted(position) {
                return false;
            }
            let head = self.group_at(position);
            planted::inside("front: group to be taken");
            self.front_goes_on();
            control.batch.take_groups(position, self.page_position(position, head.pages.into()));
            if self.must_read(position, &head) {
                self.take_along();
                control.batch.reads();
                return true;
            }
            self.group_cleaned();
        }
        false
    }

    /// Whether the group at `position` is to be staged out now, for its frames, for the segment that stands
    /// for it or for homes of pages that it names. Under the control lock.
    pub(crate) fn group_wanted(&self, position: Position) -> bool {
        // One that was left at the front is looked at again when its frames are needed.
        let left = self.control().front_wait.has_left(position);
        let ahead =
            !left && self.frames_before(position + self.frames_wanted()) < self.placement().frames_ahead();
        // Groups still in staging memory are not taken: they are not durable yet.
        position < self.control().ends.staged_from() && (ahead || self.group_needed(position))
    }

    /// Whether the group at `position` has to leave soon, or somebody waits for its frames, the segment that
    /// stands for it or homes of pages that it names.
    pub(crate) fn group_needed(&self, position: Position) -> bool {
        let for_frames = self.frames_before(position + self.frames_wanted()) < self.frames_needed();
        for_frames
            || position < self.front_wanted_for_segments()
            || position < self.placement().front_wanted()
    }

    /// Adds to the group that was taken those behind it that are wanted as well and must be read, as far as
    /// there is room. Under the control lock.
    fn take_along(&self) {
        let control = self.control();
        let room_end = control.batch.position() + self.geometry.batch_frames();
        loop {
            let position = control.batch.end();
            if !self.group_wanted(position) {
                return;
            }
            let head = self.group_at(position);
            let end = self.pages_of(position, &head).end;
            if end > room_end || !self.must_read(position, &head) {
                return;
            }
            control.batch.ends_at(end);
            planted::inside("front: one more group taken along");
        }
    }

    fn must_read(&self, position: Position, head: &GroupHead) -> bool {
        let directory = self.directory();
        let itself = Position::each(self.pages_of(position, head)).any(|page| {
            let state = directory.state(self.entry_of(page));
            needs_disk(state) || self.survives(state) || is_lost(state)
        });
        itself || self.keeps_unreferenced() && !self.survivors_of(position, head).pages.is_empty()
    }

    /// Whether groups at the front are read whole.
    pub(crate) fn reads_whole_groups(&self) -> bool {
        self.geometry.config().design != Design::FaceBasic
    }

    /// What ReadFront reads of the batch's groups: all of them in one go, or for `face-basic` the frames of
    /// dirty valid pages one by one.
    pub(crate) fn group_reads(&self) -> Vec<(u64, usize, usize)> {
        let control = self.control();
        let (position, end) = (control.batch.position(), control.batch.end());
        let page_size = self.geometry.page_size();
        if self.reads_whole_groups() {
            let pieces = self.geometry.pieces(self.ring(), position, end - position);
            return pieces
                .map(|(at, frames)| {
                    (self.offset_of(at), self.batch_memory(at - position), frames as usize * page_size)
                })
                .collect();
        }
        self.batch_groups()
            .flat_map(|(group, head)| Position::each(self.pages_of(group, &head)))
            .filter(|&at| self.position_needs_disk(at))
            .map(|at| (self.offset_of(at), self.batch_memory(at - position), page_size))
            .collect()
    }

    /// The front has been read: gives second chances and lists what must go to disk.
    ///
    /// # Errors
    /// A page was not read whole, or, once that was *judged*, is one that only flash had.
    pub(crate) fn group_was_read(&self, judged: bool) -> Result<(), Unread> {
        let mut list = Vec::new();
        // Before anything is appended: what makes room from now on is not missed.
        let room = self.room();
        for (group, head) in self.batch_groups() {
            match self.list_group(group, &head, judged, &mut list) {
                Ok(()) => continue,
                Err(Unread::NoRoom) => self.wait_for_room(group, room),
                Err(Unread::NotNeeded) => self.leave_at_front(group),
                Err(stuck) => return Err(stuck),
            }
            list.retain(|page| page.position < group);
            break;
        }
        self.set_batch_list_by_id(list);
        Ok(())
    }

    /// A page of this group cannot be read, or disk refuses it, and nobody needs its frame yet: the group and
    /// those behind it stay.
    pub(crate) fn leave_at_front(&self, group: Position) {
        let control = self.control();
        let _guard = control.lock.lock(self.owner);
        control.batch.ends_at(group);
        control.front_wait.leave(group);
    }

    /// Gives second chances to pages of one of the batch's groups and adds to the list what must go to disk.
    ///
    /// # Errors
    /// See [`Self::group_was_read`].
    fn list_group(
        &self,
        group: Position,
        head: &GroupHead,
        judged: bool,
        list: &mut Vec<BatchPage>,
    ) -> Result<(), Unread> {
        self.carry_lost_of(group, head)?;
        let survivors = self.survivors_of(group, head);
        self.control().counters.second_chances_refused.count(survivors.refused);
        let survivors = survivors.pages;
        planted::outside("front read: survivors chosen");
        let records = if survivors.is_empty() { Vec::new() } else { self.batch_records(group, head) };
        let read_from = self.control().batch.position();
        let failed = judged && self.control().batch.has_failed();
        if failed {
            self.judge_summary(group, head);
        }
        for (index, position) in Position::each(self.pages_of(group, head)).enumerate() {
            let page = BatchPage { position, place: position - read_from };
            let survives = survivors.contains(&position);
            let wanted =
                survives || self.position_needs_disk(position) || failed && self.matters(position, true);
            if !wanted {
                if failed
                    && self.reads_whole_groups()
                    && !self.batch_page_whole(page)
                    && !self.holds_nothing(page)
                    && !self.flash_is_silent()
                {
                    self.note_bad(self.placement().frame_at(self.entry_of(position)));
                }
                continue;
            }
            let whole = self.batch_page_whole(page);
            if !whole && judged {
                // Others were read once only: nobody loses anything by their leaving.
                if self.matters(position, failed) {
                    self.judge_unreadable(position, self.group_needed(group))?;
                }
                continue;
            }
            if !whole && self.matters(position, false) {
                return Err(Unread::NotWhole);
            }
            let record = records.get(index).filter(|_| survives && whole);
            if record.is_some_and(|record| self.second_chance(page, record)) {
                planted::outside("second chance: given");
                continue;
            }
            // Between the read and now the page may have been superseded; then the newer version
            // goes to disk in its turn, and writing this one as well would be wasted.
            if !self.position_needs_disk(position) || planted::is(Bug::DirtyDroppedAtFront) {
                continue;
            }
            if whole {
                list.push(page);
            }
        }
        Ok(())
    }

    /// Frames of the group's summary that cannot be read are not used again, once what failed has been read
    /// again.
    fn judge_summary(&self, group: Position, head: &GroupHead) {
        let unread = self.reads_whole_groups() && !self.batch_summary_whole(group, head);
        if unread && !self.flash_is_silent() && !planted::is(Bug::BadSummaryForgotten) {
            // Of several frames nothing tells which one it is.
            Position::each(group..self.page_position(group, 0))
                .for_each(|position| self.note_bad(self.entry_of(position).frame_in_queue()));
        }
    }

    /// Appends a page of one of the batch's groups at the rear again; false if it must leave after all.
    fn second_chance(&self, page: BatchPage, record: &Record) -> bool {
        let old_entry = self.entry_of(page.position);
        let directory = self.directory();
        let id = directory.id(old_entry);
        let RecordKind::Page { id: recorded, lsn, checksum, .. } = record.kind else { return false };
        if recorded != id {
            return false;
        }
        let shard = directory.lock(directory.hashed(&id), self.owner);
        // Invariant 7: it keeps its version, so it must still be the newest when it is appended.
        let newest = shard.find(&id) == Some(old_entry);
        if !newest && !planted::is(Bug::SecondChanceUnchecked) {
            return false;
        }
        let state = directory.state(old_entry);
        let mut flags = state & !(VALID | REFERENCED | HEAD);
        let dirty = flags & DIRTY != 0 && !planted::is(Bug::SecondChanceRecordedClean);
        let kind = RecordKind::again(id, dirty, false, lsn, checksum);
        if planted::is(Bug::SecondChanceRejuvenates) && flags & DIRTY != 0 {
            flags = flags & WRITTEN | dirty_since(self.control().mark.get());
        }
        let version = Some((record.epoch, record.version));
        if !self.append_again(&shard, page, &Again { kind, version, flags }, Reserve::StageOut) {
            self.control().counters.second_chances_refused.count(1);
            return false;
        }
        self.control().counters.second_chances.count(1);
        true
    }

    /// The records of the pages of one of the batch's groups, from the summary that was read with them; none
    /// if that is damaged.
    pub(crate) fn batch_records(&self, group: Position, head: &GroupHead) -> Vec<Record> {
        let Some((summary, records)) = self.batch_summary(group, head) else { return Vec::new() };
        (0..records)
            .filter_map(|index| GroupSummary::record(summary, index))
            .filter(Record::has_frame)
            .collect()
    }

    /// The batch's groups need no more I/O. Under the control lock.
    pub(crate) fn group_cleaned(&self) {
        let control = self.control();
        let groups = self.batch_groups().count() as u64;
        control.passed.are_cleaned(self.behind_rest(control.batch.end()));
        planted::inside("group cleaned: batch not idle");
        control.batch.over();
        control.counters.groups_staged_out.count(groups);
        self.want_pull();
    }
}
