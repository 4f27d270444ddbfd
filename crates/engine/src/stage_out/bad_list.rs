//! The list of frames that nothing is put in (see `bad_frames`).

use mezzanine_ground::region::{Word, shared};

/// Frames that are remembered, where pages lie in the queue.
pub(crate) const BAD_MAX: usize = 256;

/// The list, a ring. Changed under the control lock, and read without it.
#[repr(C)]
pub(crate) struct BadFrames {
    /// Frames noted, ever; homes, too.
    pub(crate) noted: Word,
    /// Each plus one.
    pub(crate) frames: [Word; BAD_MAX],
}

shared!(BadFrames);

impl BadFrames {
    /// One more was noted: a home, which has a mark of its own.
    pub(crate) fn note(&self) {
        self.noted.bump(1);
    }

    pub(crate) fn has(&self, frame: u32) -> bool {
        self.frames.iter().any(|listed| listed.get() == u64::from(frame) + 1)
    }

    pub(crate) fn list(&self, frame: u32) {
        self.frames[(self.noted.get() % BAD_MAX as u64) as usize].set(u64::from(frame) + 1);
        self.note();
    }
}
