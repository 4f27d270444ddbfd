//! How fast the cache fills (section 3.6 of the paper and Algorithm 1).
//!
//! Each worker looks at the state of the cache whenever it wakes, so stages go back as well: when the
//! working set changes and reads miss again, more workers populate.
//!
//! What a crash has cost a cache comes back at the pace of the first stage, however few reads miss: what it
//! kept answers most of them, and at the pace of a full cache the rest would take hours.

use mezzanine_ground::counters::sums;
use mezzanine_ground::region::{Word, shared};

use crate::cache::Cache;
use crate::config::Stage;
use crate::planner::LockedPlanner;
use crate::statistics::Event;

/// The reads over which the miss rate is measured: those since the window before this one began. Counts of
/// all reads, and of those that missed.
#[repr(C)]
pub(crate) struct Window {
    reads_before: Word,
    misses_before: Word,
    reads: Word,
    misses: Word,
    /// What a cache is told of reads and misses that gets a sample of them only; 0 of others, which count.
    told_reads: Word,
    told_misses: Word,
    /// Fragments that the crash before this opening has cost; 0 again when no slot was free.
    pub(crate) crash_cost: Word,
}
shared!(Window);

/// What the throttle goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Reads of the window.
    pub reads: u64,
    /// Those of which the cache had not everything.
    pub misses: u64,
    /// Fragments that the cache device has room for.
    pub slots: u64,
    /// Of these, those that nothing lies in.
    pub slots_free: u64,
}

impl Load {
    /// The number of the stage that holds: the first that has not ended.
    pub fn stage(&self, stages: &[Stage; 3]) -> usize {
        let holds = |stage: &Stage| {
            // Before the first read everything is missing.
            let misses = self.reads == 0
                || u128::from(self.misses) * 100 >= u128::from(stage.miss_percent) * u128::from(self.reads);
            let room = stage.free_percent == 0
                || u128::from(self.slots_free) * 100
                    > u128::from(stage.free_percent) * u128::from(self.slots);
            misses && room
        };
        stages.iter().position(holds).unwrap_or(stages.len() - 1)
    }
}

impl Cache {
    /// What the throttle goes by just now, and the number of its stage, from 0 on.
    pub fn load(&self) -> (Load, usize) {
        let planner = self.lock_planner();
        let load = planner.load(false);
        (load, planner.stage_number(&load))
    }
}

impl Cache {
    /// How many reads and misses there are to be thought of, for a cache that gets a sample of them only:
    /// since its beginning, so neither falls.
    pub(crate) fn tell_load(&self, reads: u64, misses: u64) {
        let window = &self.lock_planner().planner.window;
        window.told_reads.raise(reads);
        window.told_misses.raise(misses);
    }
}

impl LockedPlanner<'_> {
    /// The stage that holds.
    pub(crate) fn stage(&self) -> Stage {
        let stages = &self.cache.geometry.config().throttle.stages;
        let load = self.load(true);
        if load.slots_free == 0 {
            // A cache that was shrunk since is full before as many have come in as the crash has cost.
            self.planner.window.crash_cost.set(0);
        }
        stages[self.stage_number(&load)]
    }

    fn stage_number(&self, load: &Load) -> usize {
        let is_refilled = load.slots_free == 0
            || self.cache.counters().populations_done.get() >= self.planner.window.crash_cost.get();
        if is_refilled { load.stage(&self.cache.geometry.config().throttle.stages) } else { 0 }
    }

    /// The window moves on only when a worker looks: `moves`. Who asks otherwise changes nothing.
    fn load(&self, moves: bool) -> Load {
        let geometry = &self.cache.geometry;
        let sums = sums(&self.cache.region);
        let window = &self.planner.window;
        let (reads, misses) = match window.told_reads.get() {
            0 => {
                let misses = sums[Event::ReadPartial as usize] + sums[Event::ReadMiss as usize];
                (sums[Event::ReadHit as usize] + misses, misses)
            }
            told => (told, window.told_misses.get()),
        };
        let is_full = reads - window.reads.get() >= geometry.config().throttle.window_reads;
        let before = if is_full {
            (&window.reads, &window.misses)
        } else {
            (&window.reads_before, &window.misses_before)
        };
        let before = (before.0.get(), before.1.get());
        if is_full && moves {
            window.reads_before.set(before.0);
            window.misses_before.set(before.1);
            window.reads.set(reads);
            window.misses.set(misses);
        }
        Load {
            reads: reads - before.0,
            // Threads that count meanwhile may have been seen with one and not with the other.
            misses: misses.saturating_sub(before.1),
            slots: self.cache.slots_limit().into(),
            slots_free: self.cache.control().pools.free_slots(geometry.slots()).into(),
        }
    }
}
