//! The planner: what is populated next, by whom, how fast, and for which fragments others leave.
//!
//! Everything here changes under its lock, which is taken before a shard's. Foreground requests only try
//! for it, to note a miss.

use mezzanine_ground::lock::{Guard, RegionLock};
use mezzanine_ground::region::{StateWord, Word, shared, states};

use crate::cache::{Cache, OWNER};
use crate::config::WORKERS_MAX;
use crate::ids::WorkerNumber;
use crate::resize::Resizing;
use crate::small::Small;
use crate::throttle::Window;

states! {
    /// What a population worker does: a cycle of the paper's Algorithm 1.
    pub(crate) enum WorkerState {
        /// Its cycle has ended. It sleeps from when somebody next asks for a job, with the time.
        Ended = 0,
        /// It sleeps until `ready_at`.
        Resting = 1,
        /// A job reads its fragment from the backing device.
        Reading = 2,
        /// Its buffer is to be written.
        ToWrite = 3,
        /// A job writes it to the cache device.
        Writing = 4,
        /// It waits for what lies in `slot` to leave.
        Evicting = 5,
    }
}

/// A population worker: a place for one fragment on its way into the cache.
#[repr(C)]
pub(crate) struct Worker {
    pub(crate) state: StateWord<WorkerState>,
    /// In nanoseconds of the host's clock.
    pub(crate) ready_at: Word,
    /// The fragment's version when its slot was given to it.
    pub(crate) version: Word,
    pub(crate) fragment: Small,
    pub(crate) slot: Small,
    /// How often in a row populations of the fragment have come to nothing.
    pub(crate) failures: Small,
}

/// Zero is: nothing was missed, and nobody populates.
#[repr(C, align(64))]
pub(crate) struct Planner {
    lock: RegionLock,
    /// CLOCK's hand: the slot that it looks at next.
    pub(crate) hand: Small,
    /// How far it has gone since it last found a victim.
    pub(crate) passed: Word,
    /// How many misses were noted.
    pub(crate) notes: Word,
    /// The latest time that the host has said.
    pub(crate) now: Word,
    pub(crate) window: Window,
    pub(crate) resizing: Resizing,
    workers: [Worker; WORKERS_MAX as usize],
}
shared!(Planner);

/// The planner under its lock.
pub(crate) struct LockedPlanner<'c> {
    pub(crate) cache: &'c Cache,
    pub(crate) planner: &'c Planner,
    _guard: Guard<'c>,
}

impl Cache {
    pub(crate) fn lock_planner(&self) -> LockedPlanner<'_> {
        let planner = &self.control().planner;
        LockedPlanner { cache: self, planner, _guard: planner.lock.lock(OWNER) }
    }

    pub(crate) fn try_lock_planner(&self) -> Option<LockedPlanner<'_>> {
        let planner = &self.control().planner;
        let guard = planner.lock.try_lock(OWNER)?;
        Some(LockedPlanner { cache: self, planner, _guard: guard })
    }
}

impl Planner {
    pub(crate) fn worker(&self, number: WorkerNumber) -> &Worker {
        &self.workers[number.0 as usize]
    }
}

impl<'c> LockedPlanner<'c> {
    /// The workers that the cache has buffers for.
    pub(crate) fn workers(&self) -> impl Iterator<Item = WorkerNumber> + use<> {
        (0..self.cache.geometry.config().population_workers).map(WorkerNumber)
    }

    pub(crate) fn worker(&self, number: WorkerNumber) -> &'c Worker {
        self.planner.worker(number)
    }
}
