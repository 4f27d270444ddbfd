//! The sync of the disk, of which one is under way at a time, and the barrier behind it: see `release`.

use mezzanine_ground::region::{StateWord, Word, states};

use crate::ids::{Position, Sequence};
use crate::planted::{self, Bug};

states! {
    /// How far a sync of the disk is.
    enum Stage {
        /// None is wanted.
        Idle = 0,
        Running = 1,
        /// It is done, and all groups that existed when it was issued have to be durable.
        Barrier = 2,
    }
}

/// Changes under the control lock.
#[repr(C)]
pub(crate) struct DiskSync {
    stage: StateWord<Stage>,
    /// It covers the frames before this position.
    end: Word,
    /// Groups before this one must be durable before those frames may leave.
    barrier: Word,
    owner: Word,
}

impl DiskSync {
    pub(crate) fn is_idle(&self) -> bool {
        self.stage.get() == Stage::Idle
    }

    pub(crate) fn is_running(&self) -> bool {
        self.stage.get() == Stage::Running
    }

    pub(crate) fn is_at_barrier(&self) -> bool {
        self.stage.get() == Stage::Barrier
    }

    /// The groups that are waited for, if any are.
    pub(crate) fn barrier(&self) -> Sequence {
        if self.is_at_barrier() { Sequence::from_number(self.barrier.get()) } else { Sequence::ZERO }
    }

    /// The frames that it covers lie before this position.
    pub(crate) fn end(&self) -> Position {
        Position::from_number(self.end.get())
    }

    /// It is taken, for frames before `end` that wait for the groups before `barrier`.
    pub(crate) fn take(&self, end: Position, barrier: Sequence) {
        self.end.set(end.number());
        self.barrier.set(barrier.number());
        self.run();
    }

    /// It is taken where no frames wait for it.
    pub(crate) fn run(&self) {
        self.stage.set(Stage::Running);
    }

    /// It is handed out.
    pub(crate) fn hand_out(&self, owner: u32) {
        planted::inside("hand out SyncDisk: under way");
        self.owner.set(owner.into());
    }

    pub(crate) fn done(&self) {
        self.stage.set(Stage::Barrier);
    }

    /// The barrier was passed.
    pub(crate) fn over(&self) {
        self.stage.set(Stage::Idle);
    }

    /// Whether it is under way by this owner.
    pub(crate) fn is_of(&self, owner: u64) -> bool {
        self.owner.get() == owner
    }

    /// Takes it back from an owner that has died. Where pages are written in place, who dies while it lets
    /// pages go after a sync leaves the rest to the next one.
    pub(crate) fn abandon(&self, dead: u64, in_place: bool) {
        if self.is_running() && self.is_of(dead) {
            self.stage.set(if planted::is(Bug::DeadSyncCounts) { Stage::Barrier } else { Stage::Idle });
        }
        if in_place && self.is_at_barrier() && self.is_of(dead) {
            self.over();
        }
    }
}
