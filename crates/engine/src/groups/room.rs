//! Room at the rear of the queue, beside frames that are bad and pages that are lost.
//!
//! Everything at the front can leave it without room at the rear but the names of lost pages (see
//! `unreadable`). A page that is found lost frees a frame that nothing is put in any more, and its name needs
//! a good one. So pages that come in, second chances and syncs that have host metadata alone stop while there
//! is room for the names of pages that are lost one after the other, in good frames: bad ones behind the rear
//! do not count, since all that is put there is void records.
//!
//! Names take the last room there is, and leave that of a summary behind it, for a group that carries the
//! front. If a name finds none, the front waits until something has made room. Where nothing can, because
//! more pages are lost side by side than there is room for, the tier ends writing with the page that is in
//! the way.

use crate::core::Tier;
use crate::failure::latch::Failure;
use crate::groups::segments::SegmentBuffer;
use crate::ids::Position;
use crate::planted::{self, Bug};

impl Tier {
    /// A number that changes whenever there may be more room at the rear.
    pub(crate) fn room(&self) -> u64 {
        let control = self.control();
        let moved = control.ends.front().number() + control.passed.durable_front().number();
        1 + moved + control.groups.retired().number() + control.resize.changes()
    }

    /// Whether the front waits for room at the rear. Under the control lock.
    pub(crate) fn waits_for_room(&self) -> bool {
        self.control().front_wait.room() == self.room()
    }

    /// A page of this group, which is lost, has found no room: its group and those behind it stay at the
    /// front until there is more than this `room`.
    pub(crate) fn wait_for_room(&self, group: Position, room: u64) {
        let control = self.control();
        let _guard = control.lock.lock(self.owner);
        control.batch.ends_at(group);
        control.front_wait.wait_for_more_than(room);
    }

    /// There is no job. If the front waits for room that nothing under way will make, this is the end of
    /// writing; true if it is to look again. Under no lock.
    pub(crate) fn look_for_room(&self) -> bool {
        let control = self.control();
        // Without the lock, since nearly always nobody waits.
        if control.front_wait.room() == 0 || self.failure().is_some() {
            return false;
        }
        let _guard = control.lock.lock(self.owner);
        if !self.waits_for_room() || !self.nothing_moves() || planted::is(Bug::LostWaitsForEver) {
            return false;
        }
        if control.append.open().is_some() {
            // It was opened since, and has room.
            control.front_wait.waits_no_more();
            return true;
        }
        if self.rest_for_want_of_room() {
            return false;
        }
        let group = control.passed.cleaned();
        let pages = self.pages_of(group, &self.group_at(group));
        let first = pages.start;
        // What is left of it is what was not appended again.
        let lost = Position::each(pages).find(|&position| self.waits_at_front(position)).unwrap_or(first);
        control.batch.sticks();
        self.latch(Failure::FlashRead { position: lost });
        false
    }

    /// Whether nothing makes room any more, at either end. Under the control lock.
    fn nothing_moves(&self) -> bool {
        self.stands_still() && !self.resize_waits()
    }

    /// Whether the queue stands still: all that was appended is durable and in a segment, all that was passed
    /// has left, and no job is out that could change that. Under the control lock.
    pub(crate) fn stands_still(&self) -> bool {
        let control = self.control();
        let cleaned = control.passed.cleaned();
        let passed = [control.passed.releasable(), control.ends.front(), control.passed.durable_front()];
        let end = match control.append.open() {
            None => control.groups.next(),
            Some(open) if self.group_of(open).records() == 0 => open,
            _ => return false,
        };
        let in_segments = control.segments.buffers.iter().all(SegmentBuffer::takes_groups);
        self.nobody_works()
            && in_segments
            && control.segments.are_covered()
            && passed.iter().all(|end| *end == cleaned)
            && control.groups.retired() == end
            && cleaned < control.ends.staged_from()
    }

    /// Whether no job is out that could make room. Under the control lock.
    pub(crate) fn nobody_works(&self) -> bool {
        let control = self.control();
        control.batch.is_idle()
            && control.disk_sync.is_idle()
            && !control.flush.is_under_way()
            && !control.release.is_under_way()
            && control.draining.get() == 0
    }
}
