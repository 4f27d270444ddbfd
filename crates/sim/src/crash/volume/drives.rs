//! What it means for a life that its drives lose what was flushed, where they are asked to.
//!
//! A drive that keeps what it has promised excuses nothing. One that takes along what was flushed (a corrupt
//! map, a drive that does not start, pages that share cells) excuses an error, which ends the life, and
//! nothing that was never written there. One whose older versions pass for what was flushed cannot be told
//! from one that has not flushed: it excuses an older version as well.

use super::world::{World, trace};
use crate::crash::driver::{Invariant, Stop};

impl World {
    /// Whether an error may be all that is left of what the drive has promised. Copies of the machine have no
    /// such drive, and zeros where it reports an error.
    pub(super) fn drive_refuses(&self) -> bool {
        self.scenario.drive.as_ref().is_some_and(|drive| drive.refuses)
    }

    /// The end of a session, by what its drive may have done.
    pub(super) fn excused_by_drive(&mut self, stop: Stop) -> Stop {
        let Some(drive) = self.scenario.drive.as_ref().filter(|drive| drive.refuses) else { return stop };
        let Stop::Violated(invariant, text) = &stop else { return stop };
        let is_older = *invariant == Invariant::NoGoingBack || stop.is_of_older_page();
        if *invariant == Invariant::NoUnprovokedError {
            trace!(self, "told: {text}");
            self.life.coverage.drives_told += 1;
        } else if drive.goes_back && is_older {
            trace!(self, "believed: {text}");
            self.life.coverage.drives_believed += 1;
        } else {
            return stop;
        }
        Stop::Lost
    }
}
