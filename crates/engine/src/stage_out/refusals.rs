//! Pages that disk has refused, counted, and whether stage-out rests for them (see `refused`).

use mezzanine_ground::region::{StateWord, Word, states};

use crate::planted::{self, Bug};

states! {
    /// What stage-out does about pages that disk has refused.
    pub(super) enum Resting {
        /// It goes on.
        GoesOn = 0,
        /// The front waits for room at the rear (see `room`), for a page that disk has refused.
        Waits = 1,
        /// It rests until disk is to be tried again.
        Rests = 2,
    }
}

/// Pages that disk has refused, and that were appended again or stay in place. Changes under the control
/// lock.
#[repr(C)]
pub(crate) struct Refusals {
    /// Read without the lock.
    pub(super) resting: StateWord<Resting>,
    /// How many since the rear, or the next version, was at `since`.
    pub(super) carried: Word,
    pub(super) since: Word,
    /// How many more attempts have let be appended again, and where the rear, or the next version, was at the
    /// last one.
    pub(super) more: Word,
    pub(super) more_at: Word,
    /// Whether the host lets its disk refuse pages, so that room is kept for them.
    pub(super) keeps_room: Word,
}

impl Refusals {
    pub(crate) fn keeps_room(&self) -> bool {
        self.keeps_room.get() != 0
    }

    /// So many of those that were carried do not count any more.
    pub(super) fn forgive(&self, pages: u64) {
        self.carried.set(self.carried.get().saturating_sub(pages));
    }

    /// An attempt at `now` may carry so many pages more.
    pub(super) fn attempt(&self, more: u64, now: u64) {
        if !planted::is(Bug::AttemptsInVain) {
            self.forgive(more);
        }
        self.more.bump(more);
        self.more_at.set(now);
    }

    /// A revolution begins at `now`.
    pub(super) fn begin_revolution(&self, now: u64) {
        // One without attempts, in which not too many were refused: the next ones begin anew.
        if self.more_at.get() < self.since.get() {
            self.more.set(0);
        }
        self.since.set(now);
        self.carried.set(0);
    }
}
