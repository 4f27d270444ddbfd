//! Pages that the host is asked for (see `pull`).

use mezzanine_ground::region::Word;

use crate::planted;

/// Pages that the host is asked for. Changes under the control lock, but for `on`.
#[repr(C)]
pub(crate) struct Pull {
    /// The host can be asked.
    pub(super) on: Word,
    /// How many are wanted.
    pub(super) wanted: Word,
    /// Who was asked; 0 if nobody is.
    pub(super) owner: Word,
}

impl Pull {
    /// How many to ask for, if somebody may be asked.
    pub(super) fn take(&self, owner: u32) -> Option<u64> {
        let wanted = self.wanted.get();
        if wanted == 0 || self.owner.get() != 0 {
            return None;
        }
        self.wanted.set(0);
        planted::inside("pull: taken");
        self.owner.set(owner.into());
        Some(wanted)
    }

    pub(super) fn done(&self) {
        planted::inside("pull: done");
        self.owner.set(0);
    }

    /// Who was asked is dead.
    pub(crate) fn abandon(&self, dead: u64) {
        if self.owner.get() == dead {
            self.done();
        }
    }
}
