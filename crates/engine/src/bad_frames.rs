//! Frames that could not be read: nothing is kept there any more.
//!
//! What is written to such a frame may be unreadable again, and a flush of the device says nothing of that.
//! So no page is put there: in the queue, where a position leads to its frame by arithmetic, the frame gets a
//! *void* record, which takes a place in its group and stands for nothing; a group is ended one frame earlier
//! if the summary of the next one would lie there. By these records recovery knows the frames again, and so
//! they are left out as long as there is the tier. In place a home is not given out again; a restart forgets
//! that.
//!
//! The list has room for a number of frames; beyond, the oldest is forgotten, and found again at the cost of
//! what is put there.

use crate::control::Slot;
use crate::format::RecordKind;
use crate::planted::{self, Bug};
use crate::region::{Word, shared};
use crate::tier::Tier;

/// Frames that are remembered.
const BAD_MAX: usize = 256;

/// The list, a ring. Changed under the control lock, and read without it.
#[repr(C)]
pub(crate) struct BadFrames {
    /// Frames noted, ever.
    noted: Word,
    /// Each plus one.
    frames: [Word; BAD_MAX],
}

shared!(BadFrames);

impl Tier {
    /// Whether nothing is to be put in this frame.
    #[inline]
    pub(crate) fn is_bad(&self, frame: u32) -> bool {
        self.has_bad() && self.is_listed(frame)
    }

    /// Whether there are such frames.
    #[inline]
    pub(crate) fn has_bad(&self) -> bool {
        self.control().bad.noted.get() != 0
    }

    #[cold]
    fn is_listed(&self, frame: u32) -> bool {
        let listed = self.control().bad.frames.iter().any(|listed| listed.get() == u64::from(frame) + 1);
        listed && !planted::is(Bug::BadFrameReused)
    }

    /// A frame could not be read. Under the control lock.
    pub(crate) fn note_bad_locked(&self, frame: u32) {
        let bad = &self.control().bad;
        let listed = bad.frames.iter().any(|listed| listed.get() == u64::from(frame) + 1);
        if !listed {
            bad.frames[(bad.noted.get() % BAD_MAX as u64) as usize].set(u64::from(frame) + 1);
            bad.noted.bump(1);
        }
    }

    /// [`Self::note_bad_locked`], without the control lock.
    pub(crate) fn note_bad(&self, frame: u32) {
        let _guard = self.control().lock.lock(self.owner);
        self.note_bad_locked(frame);
    }

    /// Passes frames that nothing is put in: the open group gets void records for them. Whether the next
    /// place of the group is good; if not it is full. Under the control lock.
    pub(crate) fn pass_bad(&self, slot: &Slot) -> bool {
        let next = || slot.position.get() + self.geometry.summary_frames() + slot.pages.get();
        while self.geometry.placed.is_none() && self.is_bad(self.frame_of(next())) {
            let full = slot.pages.get() == slot.capacity.get()
                || slot.records.get() == u64::from(self.geometry.records_max);
            if full {
                return false;
            }
            self.push_void(slot, self.frame_of(next()));
        }
        slot.pages.get() < slot.capacity.get() && slot.records.get() < u64::from(self.geometry.records_max)
    }

    /// Gives the next place of a group to nothing. Under the control lock.
    fn push_void(&self, slot: &Slot, frame: u32) {
        self.directory().clear(frame);
        self.push_record(slot, RecordKind::Void);
        slot.pages.bump(1);
        slot.filled.add(1);
        self.control().counters.voids.count(1);
    }

    /// Frames of a group that begins at `rear` and may have `group` of them, so that the next one does not
    /// begin with a frame that nothing is put in.
    pub(crate) fn short_of_bad(&self, rear: u64, group: u64) -> u64 {
        if !self.has_bad() || self.geometry.placed.is_some() {
            return group;
        }
        let fits = |frames: &u64| self.is_good_start(rear + frames);
        (self.geometry.summary_frames() + 1..=group).rev().find(fits).unwrap_or(group)
    }

    /// Has a group that is closed early end where the next one can begin, if it has room. Under the control
    /// lock.
    pub(crate) fn end_before_good(&self, slot: &Slot) {
        if !self.has_bad() || self.geometry.placed.is_some() {
            return;
        }
        let end = || slot.position.get() + self.geometry.summary_frames() + slot.pages.get();
        while !self.is_good_start(end())
            && slot.pages.get() < slot.capacity.get()
            && slot.records.get() < u64::from(self.geometry.records_max)
        {
            self.push_void(slot, self.frame_of(end()));
        }
    }

    fn is_good_start(&self, position: u64) -> bool {
        (0..self.geometry.summary_frames()).all(|frame| !self.is_bad(self.frame_of(position + frame)))
    }
}
