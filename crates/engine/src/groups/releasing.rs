//! Frames that are leaving the queue (see `release`).

use mezzanine_ground::region::Word;

use crate::ids::Position;
use crate::planted::{self};

/// Entries that are being unlinked, by one at a time. Changes under the control lock.
#[repr(C)]
pub(crate) struct Release {
    /// 1 while they are.
    pub(super) under_way: Word,
    /// Up to where.
    pub(super) end: Word,
    pub(super) owner: Word,
}

impl Release {
    pub(crate) fn is_under_way(&self) -> bool {
        self.under_way.get() != 0
    }

    /// Up to where entries were unlinked last, or are being.
    pub(crate) fn end(&self) -> Position {
        Position::from_number(self.end.get())
    }

    pub(super) fn begin(&self, end: Position, owner: u32) {
        self.under_way.set(1);
        planted::inside("release: taken");
        self.end.set(end.number());
        self.owner.set(owner.into());
    }

    pub(super) fn over(&self) {
        self.under_way.set(0);
    }

    /// Lets others release what an owner that has died was releasing: unlinking is idempotent.
    pub(crate) fn abandon(&self, dead: u64) {
        if self.is_under_way() && self.owner.get() == dead {
            self.over();
        }
    }
}
