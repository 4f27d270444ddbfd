//! Pages lie in the queue itself, where they were appended ("Flash as cache extension for online
//! transactional workloads", section 4): the placement of FaCE.
//!
//! The front comes to each page in turn: a page that is dirty goes to disk, one that was referenced is
//! appended again, and the frames are free when a durable front lies past them.

mod bad_frames;

mod band;

mod room;

use std::ops::Deref;

use crate::core::Tier;
use crate::directory::LockedShard;
use crate::format::RecordKind;
use crate::groups::group::StagingGroup;
use crate::ids::{EntryNumber, Frame, PageId, Position, Sequence};
use crate::placement::Carried;
use crate::placement::{Placement, QueueRules, Recorded};
use crate::planted::{self, Bug};

/// See the module.
#[derive(Clone, Copy)]
pub(crate) struct Queue<'t> {
    tier: &'t Tier,
}

/// What the placements share.
impl Deref for Queue<'_> {
    type Target = Tier;

    #[inline(always)]
    fn deref(&self) -> &Tier {
        self.tier
    }
}

impl<'t> Queue<'t> {
    #[inline(always)]
    pub(crate) fn of(tier: &'t Tier) -> Self {
        Self { tier }
    }
}

impl Placement for Queue<'_> {
    #[inline(always)]
    fn frame_at(&self, entry: EntryNumber) -> Frame {
        entry.frame_in_queue()
    }

    fn page_frames(&self) -> u64 {
        self.geometry.frames()
    }

    fn frames(&self) -> u64 {
        self.ring().frames
    }

    fn can_resize(&self) -> bool {
        self.geometry.zones.is_none()
    }

    /// Changes when a group was begun or is complete.
    #[inline(always)]
    fn work(&self) -> u64 {
        let control = self.control();
        control.groups.next().number() * 2 + u64::from(control.append.open().is_none())
    }

    /// The group that is open owns its frames; whether one can be opened is asked for itself.
    #[inline(always)]
    fn has_room(&self) -> bool {
        true
    }

    #[inline(always)]
    fn assign(&self, _: &mut RecordKind) -> bool {
        true
    }

    #[inline(always)]
    fn assigned(&self, _: EntryNumber, _: &RecordKind, _: Recorded) {}

    #[inline(always)]
    fn entered(&self, _: EntryNumber, _: &PageId, _: Option<EntryNumber>, _: bool) {}

    #[inline(always)]
    fn hit(&self, entry: EntryNumber) -> Frame {
        entry.frame_in_queue()
    }

    /// The front tells.
    #[inline(always)]
    fn still_holds(&self, _: u64, _: impl FnOnce() -> EntryNumber) -> bool {
        true
    }

    fn tells_of_memory(&self, _: u32) -> bool {
        true
    }

    fn left(&self, _: EntryNumber) {}

    fn invalidated_in_memory(&self, _: EntryNumber) {}

    fn carry_lost(&self, shard: &LockedShard<'_>, entry: EntryNumber) -> Carried {
        self.append_lost(shard, self.position_of(entry), None)
    }

    fn read_failed(&self, frame: Frame) {
        self.list_bad(frame);
    }

    fn is_unreadable(&self, frame: Frame) -> bool {
        self.is_listed(frame)
    }

    fn groups_durable(&self) {}

    fn take_records(&self, group: &StagingGroup) -> bool {
        self.push_to_segment(group)
    }

    fn take_disk_sync(&self) -> bool {
        self.take_sync_of_band()
    }

    fn is_short(&self) -> bool {
        false
    }

    fn waits_for(&self, _: Sequence) -> bool {
        false
    }

    fn freed(&self) -> u64 {
        0
    }

    fn is_filling(&self) -> bool {
        let control = self.control();
        let held = control.ends.rear() - control.ends.front();
        held + self.geometry.ready_frames + self.geometry.config().ahead_frames + self.geometry.batch_frames()
            < self.frames_allowed()
    }

    fn round(&self) -> (u64, u64) {
        (self.control().ends.rear().number(), self.frames_wanted())
    }

    fn may_make_room(&self) -> bool {
        !self.stands_still()
    }

    fn abandon(&self, dead: u64) {
        self.control().disk_sync.abandon(dead, false);
    }
}

impl QueueRules for Queue<'_> {
    /// Those that are needed, and more while the disk is idle anyway.
    fn frames_ahead(&self) -> u64 {
        let idle = self.control().disk_idle.get();
        self.frames_needed() + self.geometry.config().ahead_frames * idle / 1000
    }

    fn take_front(&self) -> bool {
        self.take_groups_at_front()
    }

    fn pass_barrier(&self) {
        self.pass_sync_barrier();
    }

    fn barrier(&self) -> Sequence {
        self.control().disk_sync.barrier()
    }

    fn records_leave(&self, _: Position, _: Position) {}

    fn synced_end(&self) -> Position {
        self.control().disk_sync.end()
    }

    /// The front may follow up to `releasable` because a sync has covered every disk write before it.
    fn is_synced(&self, position: Position) -> bool {
        position < self.control().passed.releasable()
    }

    /// Invariant 9: the groups that recovery would have to scan keep their frames.
    fn scanned_from(&self) -> Position {
        if planted::is(Bug::ScannedFramesReused) {
            return Position::END;
        }
        self.control().segments.durable_end()
    }

    fn names_room(&self) -> u64 {
        self.room_for_names()
    }

    fn bad_room(&self, from: Position, to: Position) -> u64 {
        self.room_of_bad(from, to)
    }

    #[inline]
    fn pass_bad(&self, group: &StagingGroup) -> bool {
        self.pass_listed(group)
    }

    fn short_of_bad(&self, rear: Position, group: u64) -> u64 {
        self.short_of_listed(rear, group)
    }

    fn clear_of_bad(&self, rear: Position, group: u64) -> u64 {
        self.clear_of_listed(rear, group)
    }

    fn end_before_good(&self, group: &StagingGroup) {
        self.end_before_unlisted(group);
    }
}
