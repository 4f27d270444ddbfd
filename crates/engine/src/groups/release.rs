//! Frames leave the queue: the front moves when frames are needed. Where pages lie in the queue the disk is
//! synced for them in bands before (`queue::band`).
//!
//! ```text
//!            SyncDisk             all groups that existed then are durable
//!   IDLE --------------> RUNNING -> BARRIER ----------> IDLE   `releasable` moves
//!
//!   front <= releasable <= cleaned       entries before `front` are unlinked, a few groups at a time
//! ```
//!
//! Between `front` and `cleaned` a page is on disk and still answered from flash: staging out ahead of
//! need costs no hits. A frame is releasable only when (invariant 5)
//! - its page's disk write is synced (SyncDisk was issued after the write was complete), and
//! - every version that superseded it or carries it on, and every tombstone, is durable: all groups that
//!   existed when the sync was issued (the barrier);
//!
//! and it is overwritten only when the new front is durable itself, carried by a later group.

use crate::config::RESERVED_GROUPS;
use crate::core::Tier;
use crate::directory::VALID;
use crate::groups::group::Reserve;
use crate::ids::Position;
use crate::planted::{self, Bug};

/// Groups released in one go: entries are unlinked between two looks at what is needed.
const GROUPS_AT_ONCE: usize = 16;

impl Tier {
    /// Frames from the rear up to `end`, without what bad ones among them cost.
    pub(crate) fn frames_before(&self, end: Position) -> u64 {
        let rear = self.control().ends.rear();
        end.distance_from(rear).unwrap_or(0).saturating_sub(self.placement().bad_room(rear, end))
    }

    /// New groups will soon find no frames: flushes and syncs that could wait are issued now.
    pub(crate) fn pressing(&self) -> bool {
        self.control().passed.durable_front() < self.front_wanted_for_segments()
            || self.placement().is_short()
            || self.placement().summaries_left() < RESERVED_GROUPS + 2
            || self.frames_before(self.room_end(Reserve::Foreground))
                < (RESERVED_GROUPS + 2) * self.geometry.group_frames
                    + self.geometry.slack()
                    + self.placement().names_room()
    }

    /// Up to where frames are to leave now; the caller is the one who releases them. Under the control
    /// lock.
    fn take_release(&self) -> Option<(Position, Position)> {
        let control = self.control();
        self.placement().pass_barrier();
        let front = control.ends.front();
        let frames = self.frames_wanted();
        let unsynced = planted::is(Bug::ReleasedWhenCleaned);
        let releasable = if unsynced { control.passed.cleaned() } else { control.passed.releasable() };
        if control.release.is_under_way() {
            return None;
        }
        let wanted = self.front_wanted_for_segments().max(self.placement().front_wanted());
        let kept_free = self.geometry.free_frames + self.placement().names_room();
        let mut end = front;
        for _ in 0..GROUPS_AT_ONCE {
            let free = self.frames_before(end + frames);
            let needed = free < kept_free || end < wanted;
            if end >= releasable || !needed {
                break;
            }
            end = self.behind_rest(self.pages_of(end, &self.group_at(end)).end);
        }
        if end == front {
            return None;
        }
        control.release.begin(end, self.owner);
        Some((front, end))
    }

    /// Releases what may leave and is needed. True if the front moved.
    pub(crate) fn release_as_needed(&self) -> bool {
        let control = self.control();
        let taken = {
            let _guard = control.lock.lock(self.owner);
            self.take_release()
        };
        let Some((front, end)) = taken else { return false };
        planted::outside("release: begun");
        for position in Position::each(front..end) {
            self.release(position);
            planted::outside("release: one frame");
        }
        let _guard = control.lock.lock(self.owner);
        self.placement().records_leave(front, end);
        control.ends.left(end);
        planted::inside("release: front moved");
        control.release.over();
        true
    }

    /// A number that changes whenever room was made: frames left the queue, groups left memory, or a segment
    /// became durable that stands for some.
    pub fn progress(&self) -> u64 {
        let control = self.control();
        let segments = control.segments.durable_sequence().number();
        let placement = self.placement();
        control.ends.front().number()
            + control.groups.retired().number()
            + segments
            + placement.freed()
            + placement.slots_durable()
    }

    /// The front that metadata segments and superblocks state: what a durable group has stated before. They
    /// carry no host metadata. What that has to say before pages may leave lies in the group that states
    /// the front, or in an earlier one, and is durable with it. Under the control lock.
    pub(crate) fn front_to_state(&self) -> Position {
        let control = self.control();
        // What a durable group has stated lies behind all that superseded it, too, and would hide what is
        // broken without the barrier.
        let unseen = planted::is(Bug::BarrierWithoutOpenGroup) || planted::is(Bug::ReuseBeforeSuperseder);
        let early = planted::is(Bug::FrontStatedBeforeNote) || unseen;
        if early { control.ends.front() } else { control.passed.durable_front() }
    }

    /// Unlinks what is still valid on a frame that leaves the queue: disk has it.
    fn release(&self, position: Position) {
        let entry = self.entry_of(position);
        let directory = self.directory();
        let counters = &self.control().counters;
        let state = directory.state(entry);
        if state & VALID == 0 {
            if directory.head(entry).is_none() {
                counters.left_invalid.count(1);
            }
            return;
        }
        let id = directory.id(entry);
        let shard = directory.lock(directory.hashed(&id), self.owner);
        if shard.find(&id) == Some(entry) {
            shard.unlink(entry);
            planted::inside("release: unlinked, not counted as changed");
            shard.changed();
            counters.left_clean.count(1);
        }
    }

    /// Appends an empty group when only a durable front stands between the writers and free frames.
    /// True if something was sealed. Under the control lock.
    pub(crate) fn seal_for_progress(&self) -> bool {
        let control = self.control();
        if control.draining.get() != 0 || !self.pressing() {
            return false;
        }
        let open = control.append.open();
        let placement = self.placement();
        let barrier_waits = open.is_some_and(|open| open < placement.barrier());
        let homes_wait = open.is_some_and(|open| placement.waits_for(open));
        let front = control.ends.front();
        let carried = self
            .staging_groups()
            .iter()
            .filter(|group| group.is_closed())
            .any(|group| group.sequence() >= control.groups.flushed() && group.front() >= front);
        let front_waits = front > control.passed.durable_front() && !carried;
        // A segment that was written waits for a flush, and a flush needs something to flush; but a
        // flush alone will do, so no group is appended for it.
        if !(barrier_waits || front_waits || homes_wait) {
            return false;
        }
        let Some(group) = self.open_group(Reserve::Carrier) else {
            // An empty group may have filled the rest of a ring that is being cut: it is to be written, too.
            return control.groups.composed() < control.groups.next();
        };
        self.seal(group, true);
        true
    }
}
