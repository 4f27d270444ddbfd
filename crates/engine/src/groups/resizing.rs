//! A resize that was asked for (see `resize`).

use mezzanine_ground::region::{StateWord, Word, states};

use crate::ids::Position;
use crate::planted::{self, Bug};

states! {
    /// How far a resize is.
    pub(super) enum Stage {
        /// None is under way.
        Idle = 0,
        Seeking = 1,
        AtCut = 2,
        Stated = 3,
    }
}

/// A resize that was asked for. Changes under the control lock.
#[repr(C)]
pub(crate) struct Resize {
    pub(super) stage: StateWord<Stage>,
    /// The frames asked for.
    pub(super) frames: Word,
    /// From where on frames were kept then.
    pub(super) base: Word,
    /// Resizes that were begun, given up or finished.
    pub(super) changes: Word,
}

impl Resize {
    /// From where on frames were kept when it was asked for.
    pub(super) fn base(&self) -> Position {
        Position::from_number(self.base.get())
    }

    /// A number that is another one when which groups may be opened has changed.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.get()
    }

    pub(super) fn change(&self, stage: Stage) {
        self.stage.set(stage);
        // A front that waits for room looks again.
        self.changes.bump(1);
    }

    /// Whether a superblock with the new ring may be on flash.
    pub(super) fn is_stated(&self) -> bool {
        self.stage.get() == Stage::Stated && !planted::is(Bug::StatedResizeForgotten)
    }
}
