//! Frames that could not be read: nothing is kept there any more.
//!
//! What is written to such a frame may be unreadable again, and a flush of the device says nothing of that.
//! So no page is put there: in the queue, where a position leads to its frame by arithmetic, the frame gets a
//! *void* record, which takes a place in its group and stands for nothing; a group is ended one frame earlier
//! if the summary of the next one would lie there. By these records recovery knows the frames again, and so
//! they are left out as long as there is the tier. The list has room for a number of frames; beyond, the
//! oldest is forgotten, and found again at the cost of what is put there.
//!
//! In place each home has a mark of its own, and one that is marked is not given out again; a restart forgets
//! that. Only when so many homes are left out that those that are left would not be enough
//! (`PlacedGeometry::bad_max`) one of them is given out again, so that no number of bad places brings a tier
//! to a halt.

use crate::core::Tier;
use crate::groups::group::StagingGroup;
use crate::ids::Frame;
use crate::planted::{self, Bug};

impl Tier {
    /// Whether nothing is to be put in this frame.
    #[inline]
    pub(crate) fn is_bad(&self, frame: Frame) -> bool {
        self.has_bad() && self.is_noted(frame)
    }

    /// Whether there are such frames.
    #[inline]
    pub(crate) fn has_bad(&self) -> bool {
        self.control().bad.noted.get() != 0
    }

    #[cold]
    fn is_noted(&self, frame: Frame) -> bool {
        self.placement().is_unreadable(frame) && !planted::is(Bug::BadFrameReused)
    }

    /// A frame could not be read. The control lock is not held.
    pub(crate) fn note_bad(&self, frame: Frame) {
        let _guard = self.control().lock.lock(self.owner);
        self.placement().read_failed(frame);
    }

    /// Whether a group takes one more page. Under the control lock.
    pub(crate) fn has_place(&self, group: &StagingGroup) -> bool {
        !group.is_full(self.geometry.records_max)
    }
}
