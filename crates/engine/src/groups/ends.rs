//! The ends of the queue, as positions.
//!
//! ```text
//!   durable front <= front <= releasable <= cleaned <= staged from <= rear
//!
//!   durable front   a crash finds the queue to begin here: frames before it may be written (invariant 5)
//!   front           frames before it have left the queue
//!   releasable      frames before it may leave: what they need is durable, and their pages are on disk, synced
//!   cleaned         frames before it have been staged out; their disk writes may not be synced yet
//!   staged from     pages from here on are in staging memory
//!   rear            the next position to be given out; while a group is open, past all that it may use
//! ```
//!
//! They move by one function each, under the control lock, and forward only; but the rear goes back over what
//! a group has not used when that is closed.

use mezzanine_ground::region::Word;

use crate::groups::ring::Ring;
use crate::ids::{EntryNumber, Position};

/// The ends that lookups read without the control lock, with what turns positions into entries.
#[repr(C)]
pub(crate) struct Ends {
    rear: Word,
    /// The position of frame 0 in the revolution of the frame before the rear. Read after `rear`.
    lap: Word,
    /// The frames in use, packed (see `ring`). Read after `lap`.
    ring: Word,
    front: Word,
    staged_from: Word,
}

/// The ends between. Read without the control lock by those for whom an older one will do.
#[repr(C)]
pub(crate) struct Passed {
    durable_front: Word,
    cleaned: Word,
    releasable: Word,
    /// Clean pages before it were invalidated in memory alone: their records are still on flash.
    invalidated_in_memory_end: Word,
}

impl Ends {
    #[inline(always)]
    pub(crate) fn rear(&self) -> Position {
        Position::from_number(self.rear.get())
    }

    #[inline(always)]
    pub(crate) fn ring(&self) -> Ring {
        Ring::from_packed(self.ring.get())
    }

    #[inline(always)]
    pub(crate) fn front(&self) -> Position {
        Position::from_number(self.front.get())
    }

    #[inline(always)]
    pub(crate) fn staged_from(&self) -> Position {
        Position::from_number(self.staged_from.get())
    }

    /// The queue that recovery has found: between these positions, all of it on flash.
    pub(crate) fn begin(&self, ring: Ring, front: Position, rear: Position) {
        self.front.set(front.number());
        self.ring.set(ring.packed());
        self.rear_is(rear);
        self.staged_from.set(rear.number());
    }

    /// Moves the rear: forward, or back over what a group has not used.
    pub(crate) fn rear_is(&self, rear: Position) {
        // An empty queue has no pages to be asked for.
        let lap = if rear == Position::ZERO { 0 } else { self.ring().lap(rear) };
        // In this order: see `position_of`.
        self.lap.set(lap);
        self.rear.set(rear.number());
    }

    /// The queue goes on in another ring.
    pub(crate) fn ring_is(&self, ring: Ring) {
        self.ring.set(ring.packed());
    }

    /// Frames before `end` have left the queue.
    pub(crate) fn left(&self, end: Position) {
        assert!(end >= self.front(), "the front moves forward");
        self.front.set(end.number());
    }

    /// Pages before `end` have left staging memory.
    pub(crate) fn left_memory(&self, end: Position) {
        assert!(end >= self.staged_from(), "groups leave memory in their order");
        self.staged_from.set(end.number());
    }

    /// The position at which the content of a frame was appended. Only for frames whose entry is linked and
    /// stays so.
    ///
    /// First the rear is read, then the lap, then the ring, each set before the one that is read before it.
    /// The rear is not older than the link, so the position lies before it, and after it less one
    /// revolution.
    /// 1. The lap belongs to this rear: the position is the last one before it, by `Ring::last_position`.
    /// 2. The lap is a later one, of a rear that has come round since: all of it lies past the rear that was
    ///    read, so the position is taken to be in the revolution before, as it is: pages in the one before
    ///    that have been unlinked.
    /// 3. The lap is an earlier one, because a group that had reached round was sealed short of that: then
    ///    the frames that it had reached hold no pages but those of the revolution before, to which the
    ///    earlier lap takes them.
    /// 4. If the rear has passed a cut of the ring, the ring is the one after it; and before, either gives
    ///    the same positions and laps (see `resize`).
    #[inline(always)]
    pub(crate) fn position_of(&self, entry: EntryNumber) -> Position {
        let rear = self.rear();
        let lap = self.lap.get();
        self.ring().last_position(entry, rear, lap)
    }
}

impl Passed {
    pub(crate) fn durable_front(&self) -> Position {
        Position::from_number(self.durable_front.get())
    }

    pub(crate) fn cleaned(&self) -> Position {
        Position::from_number(self.cleaned.get())
    }

    pub(crate) fn releasable(&self) -> Position {
        Position::from_number(self.releasable.get())
    }

    pub(crate) fn invalidated_in_memory_end(&self) -> Position {
        Position::from_number(self.invalidated_in_memory_end.get())
    }

    /// Recovery has found this front.
    pub(crate) fn begin(&self, front: Position) {
        for end in [&self.durable_front, &self.releasable, &self.cleaned] {
            end.set(front.number());
        }
    }

    /// Frames before `end` have been staged out.
    pub(crate) fn are_cleaned(&self, end: Position) {
        assert!(end >= self.cleaned(), "groups are staged out in their order");
        self.cleaned.set(end.number());
    }

    /// Frames before `end` may leave.
    pub(crate) fn may_leave(&self, end: Position) {
        self.releasable.set(end.number());
    }

    /// A group that states this front is durable.
    pub(crate) fn front_is_durable(&self, front: Position) {
        self.durable_front.set(self.durable_front().max(front).number());
    }

    /// A clean page at this position was invalidated in memory alone.
    pub(crate) fn invalidated_in_memory(&self, position: Position) {
        self.invalidated_in_memory_end.set(self.invalidated_in_memory_end().max(position.next()).number());
    }
}
