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

use mezzanine_ground::region::{Word, shared};

use crate::control::Slot;
use crate::format::RecordKind;
use crate::planted::{self, Bug};
use crate::tier::Tier;

/// Frames that are remembered, where pages lie in the queue.
pub(crate) const BAD_MAX: usize = 256;

/// The list, a ring. Changed under the control lock, and read without it.
#[repr(C)]
pub(crate) struct BadFrames {
    /// Frames noted, ever; homes, too.
    noted: Word,
    /// Each plus one.
    frames: [Word; BAD_MAX],
}

shared!(BadFrames);

impl Tier {
    /// Whether nothing is to be put in this frame.
    #[inline]
    pub(crate) fn is_bad(&self, frame: u32) -> bool {
        self.has_bad() && self.is_noted(frame)
    }

    /// Whether there are such frames.
    #[inline]
    pub(crate) fn has_bad(&self) -> bool {
        self.control().bad.noted.get() != 0
    }

    #[cold]
    fn is_noted(&self, frame: u32) -> bool {
        let bad = match self.homes() {
            Some(homes) => homes.is_unreadable(frame),
            None => self.control().bad.frames.iter().any(|listed| listed.get() == u64::from(frame) + 1),
        };
        bad && !planted::is(Bug::BadFrameReused)
    }

    /// How many of the frames between two positions are listed. They are fewer than the ring has.
    #[cold]
    pub(crate) fn bad_between(&self, from: u64, to: u64) -> u64 {
        let ring = self.ring();
        let first = u64::from(ring.frame_of(from));
        let between = |listed: u64| {
            listed > 0
                && listed <= ring.frames
                && from + (listed - 1 + ring.frames - first) % ring.frames < to
        };
        self.control().bad.frames.iter().filter(|listed| between(listed.get())).count() as u64
    }

    /// A frame, or a home, could not be read. The control lock is not held.
    pub(crate) fn note_bad(&self, frame: u32) {
        let _guard = self.control().lock.lock(self.owner);
        let bad = &self.control().bad;
        if self.homes().is_some() {
            self.mark_unreadable(frame);
            bad.noted.bump(1);
            return;
        }
        let listed = bad.frames.iter().any(|listed| listed.get() == u64::from(frame) + 1);
        if !listed {
            bad.frames[(bad.noted.get() % BAD_MAX as u64) as usize].set(u64::from(frame) + 1);
            bad.noted.bump(1);
        }
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
        // Behind the cut of a resize the queue goes on in another frame than it would now; and a group that
        // ended before it would leave it a rest in which none may begin, so that the cut would be missed.
        let at_cut = || self.reaches_cut(group) && !planted::is(Bug::CutShortOfBad);
        if !self.has_bad() || self.geometry.placed.is_some() || at_cut() {
            return group;
        }
        let fits = |frames: &u64| self.is_good_start(rear + frames);
        let summary = self.geometry.summary_frames();
        (summary + 1..=group).rev().find(fits).unwrap_or(group)
    }

    /// [`Self::short_of_bad`], or no pages at all where that is the only way and there is room: the next one
    /// begins right before the bad frames and can pass as many as it may have pages.
    pub(crate) fn clear_of_bad(&self, rear: u64, group: u64) -> u64 {
        let frames = self.short_of_bad(rear, group);
        let summary = self.geometry.summary_frames();
        // As it is where it was made shorter, and where it must not be.
        let settled = frames < group || !self.has_bad() || self.geometry.placed.is_some();
        if settled || self.reaches_cut(group) || self.is_good_start(rear + frames) {
            return frames;
        }
        // With less the next one could not pass them, or leave room for one that carries the front; and what
        // is before them is needed for the names of lost pages.
        let room = rear + summary + group + summary <= self.writable_end();
        let room = room || planted::is(Bug::EmptyGroupTakesRoom);
        let helps = room && self.is_good_start(rear + summary) && !planted::is(Bug::SummaryBeforeBadRun);
        if helps { summary } else { frames }
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
