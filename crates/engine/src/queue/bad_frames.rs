//! Groups are put between frames that could not be read: see `stage_out::bad_frames`.

use crate::format::RecordKind;
use crate::groups::group::Reserve;
use crate::groups::group::StagingGroup;
use crate::ids::{EntryNumber, Frame, Position};
use crate::planted::{self, Bug};
use crate::queue::Queue;

impl Queue<'_> {
    /// How many of the frames between two positions are listed. They are fewer than the ring has.
    #[cold]
    fn bad_between(&self, from: Position, to: Position) -> u64 {
        let ring = self.ring();
        let first = u64::from(ring.entry_of(from).0);
        let between = |listed: u64| {
            listed > 0
                && listed <= ring.frames
                && from + (listed - 1 + ring.frames - first) % ring.frames < to
        };
        self.control().bad.frames.iter().filter(|listed| between(listed.get())).count() as u64
    }

    pub(super) fn is_listed(&self, Frame(frame): Frame) -> bool {
        self.control().bad.has(frame)
    }

    pub(super) fn list_bad(&self, frame: Frame) {
        if !self.is_listed(frame) {
            self.control().bad.list(frame.0);
        }
    }

    /// What bad frames between two positions behind the rear cost: a void record takes the frame itself, and
    /// the group is another one, with a summary of its own, sooner.
    pub(super) fn room_of_bad(&self, from: Position, to: Position) -> u64 {
        if !self.has_bad() {
            return 0;
        }
        if planted::is(Bug::BadFramesAreRoom) || planted::is(Bug::LostPagesFindNoRoom) {
            return 0;
        }
        let cost = self.bad_between(from, to) * (1 + self.geometry.summary_frames());
        cost.min(self.half_to_spare())
    }

    /// Gives the open group void records for frames that nothing is put in, up to the next good one.
    pub(super) fn pass_listed(&self, group: &StagingGroup) -> bool {
        let next = || group.position() + self.geometry.summary_frames() + group.pages();
        while self.is_bad(self.entry_of(next()).frame_in_queue()) {
            if !self.has_place(group) {
                return false;
            }
            self.push_void(group, self.entry_of(next()));
        }
        self.has_place(group)
    }

    /// Gives the next place of a group to nothing. Under the control lock.
    fn push_void(&self, group: &StagingGroup, entry: EntryNumber) {
        self.directory().clear(entry);
        self.push_record(group, RecordKind::Void);
        group.take_page();
        group.page_is_filled();
        self.control().counters.voids.count(1);
    }

    pub(super) fn short_of_listed(&self, rear: Position, group: u64) -> u64 {
        // Behind the cut of a resize the queue goes on in another frame than it would now; and a group that
        // ended before it would leave it a rest in which none may begin, so that the cut would be missed.
        let at_cut = || self.reaches_cut(group) && !planted::is(Bug::CutShortOfBad);
        if !self.has_bad() || at_cut() {
            return group;
        }
        let fits = |frames: &u64| self.is_good_start(rear + *frames);
        let summary = self.geometry.summary_frames();
        (summary + 1..=group).rev().find(fits).unwrap_or(group)
    }

    /// With no pages at all the next one begins right before the bad frames and can pass as many as it may
    /// have pages.
    pub(super) fn clear_of_listed(&self, rear: Position, group: u64) -> u64 {
        let frames = self.short_of_listed(rear, group);
        let summary = self.geometry.summary_frames();
        // As it is where it was made shorter, and where it must not be.
        let settled = frames < group || !self.has_bad();
        if settled || self.reaches_cut(group) || self.is_good_start(rear + frames) {
            return frames;
        }
        // With less the next one could not pass them, or leave room for one that carries the front; and what
        // is before them is needed for the names of lost pages.
        let room = rear + summary + group + summary <= self.room_end(Reserve::Lost);
        let room = room || planted::is(Bug::EmptyGroupTakesRoom);
        let helps = room && self.is_good_start(rear + summary) && !planted::is(Bug::SummaryBeforeBadRun);
        if helps { summary } else { frames }
    }

    pub(super) fn end_before_unlisted(&self, group: &StagingGroup) {
        if !self.has_bad() {
            return;
        }
        let end = || group.position() + self.geometry.summary_frames() + group.pages();
        while !self.is_good_start(end()) && self.has_place(group) {
            self.push_void(group, self.entry_of(end()));
        }
    }

    fn is_good_start(&self, position: Position) -> bool {
        (0..self.geometry.summary_frames())
            .all(|frame| !self.is_bad(self.entry_of(position + frame).frame_in_queue()))
    }
}
