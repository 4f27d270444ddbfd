//! Population: hot fragments are copied into the cache in the background (section 3.2 of the paper).
//!
//! A population begins only while nobody writes to the fragment. The blocks that writes and discards touch
//! from then on have their bits set in the bitmap that will say which are valid; at the end all others become
//! valid (invariant 4): the write wins. Where nothing would be left, the population ends early.

use crate::cache::Cache;
use crate::clock::Swept;
use crate::config::Stage;
use crate::descriptor::SlotState;
use crate::ids::{Fragment, Slot, WorkerNumber};
use crate::jobs::{DeviceError, Job, Next, ReadFragment, WriteFragment};
use crate::planner::{LockedPlanner, WorkerState};
use crate::planted::{self, Bug};
use crate::shard::Place;

/// What a worker that is awake has found.
enum Begun {
    Job(WorkerNumber),
    /// It goes to sleep again.
    Nothing,
    /// It waits until a fragment has left.
    Leaving,
    /// It is not done looking.
    Again,
}

impl Cache {
    /// A population's next step, or when there may be one.
    pub(crate) fn next_population_job(&self, now: u64) -> Next<'_> {
        let planner = self.lock_planner();
        planner.planner.now.raise(now);
        if let Some(until) = self.populations_yield_until() {
            if planner.has_something() {
                self.counters().populations_yielded.count(1);
                return Next::NotBefore(until);
            }
        }
        for number in planner.workers() {
            if planner.worker(number).state.get() != WorkerState::ToWrite {
                continue;
            }
            let (fragment, slot) = self.populating(number);
            // It may have been written to since it was read.
            if planner.goes_on(number, fragment, slot, Ok(())) {
                planner.worker(number).state.set(WorkerState::Writing);
                self.population_goes_on();
                return Next::Job(Job::WriteFragment(WriteFragment { cache: self, number }));
            }
        }
        let mut stage = None;
        // Of a cache that is offline nothing leaves any more.
        let mut next = if self.is_offline() { u64::MAX } else { planner.shrink() };
        if self.is_quiescing() || self.is_offline() {
            return Next::NotBefore(next);
        }
        for number in planner.workers() {
            let worker = planner.worker(number);
            match worker.state.get() {
                WorkerState::Reading | WorkerState::ToWrite | WorkerState::Writing => continue,
                WorkerState::Resting if worker.ready_at.get() > now => {
                    next = next.min(worker.ready_at.get());
                    continue;
                }
                WorkerState::Evicting if self.descriptor(Slot(worker.slot.get())).is_leaving() => continue,
                WorkerState::Resting | WorkerState::Ended | WorkerState::Evicting => {}
            }
            // Only somebody who is awake looks at the state of the cache.
            let stage = *stage.get_or_insert_with(|| planner.stage());
            let wakes_at = now.saturating_add(u64::from(stage.period_ms) * 1_000_000);
            if worker.state.get() == WorkerState::Ended {
                worker.state.set(WorkerState::Resting);
            } else {
                match planner.cycle(number, &stage) {
                    Begun::Job(number) => {
                        self.population_goes_on();
                        return Next::Job(Job::ReadFragment(ReadFragment { cache: self, number }));
                    }
                    Begun::Nothing => worker.state.set(WorkerState::Resting),
                    Begun::Leaving => continue,
                    Begun::Again => return Next::NotBefore(now),
                }
            }
            worker.ready_at.set(wakes_at);
            next = next.min(wakes_at);
        }
        Next::NotBefore(next)
    }

    /// What a population worker has in hand.
    pub(crate) fn populating(&self, number: WorkerNumber) -> (Fragment, Slot) {
        let worker = &self.control().planner.worker(number);
        (Fragment(worker.fragment.get()), Slot(worker.slot.get()))
    }

    pub(crate) fn fragment_read(&self, number: WorkerNumber, result: Result<(), DeviceError>) {
        let planner = self.lock_planner();
        let (fragment, slot) = self.populating(number);
        assert_eq!(planner.worker(number).state.get(), WorkerState::Reading);
        self.counters().population_bytes_read.count(self.bytes_of(fragment));
        if planner.goes_on(number, fragment, slot, result) {
            planner.worker(number).state.set(WorkerState::ToWrite);
        }
        self.control().work.add(1);
    }

    pub(crate) fn fragment_written(&self, number: WorkerNumber, result: Result<(), DeviceError>) {
        let planner = self.lock_planner();
        let (fragment, slot) = self.populating(number);
        assert_eq!(planner.worker(number).state.get(), WorkerState::Writing);
        self.counters().population_bytes_written.count(self.bytes_of(fragment));
        if planner.goes_on(number, fragment, slot, result) {
            planner.worker(number).state.set(WorkerState::Ended);
        }
        self.control().work.add(1);
    }
}

impl LockedPlanner<'_> {
    /// Whether somebody has a fragment to write, or is going to look for one to read.
    fn has_something(&self) -> bool {
        let now = self.planner.now.get();
        self.workers().map(|number| self.worker(number)).any(|worker| match worker.state.get() {
            WorkerState::ToWrite => true,
            WorkerState::Resting => worker.ready_at.get() <= now,
            WorkerState::Reading | WorkerState::Writing => false,
            WorkerState::Ended | WorkerState::Evicting => true,
        })
    }

    /// One cycle of the paper's Algorithm 1, from where the worker wakes.
    fn cycle(&self, number: WorkerNumber, stage: &Stage) -> Begun {
        if number.0 >= stage.workers.min(self.cache.population_workers()) {
            return Begun::Nothing;
        }
        let Some(fragment) = self.hottest(self.planner.now.get()) else {
            return Begun::Nothing;
        };
        let bytes = self.cache.bytes_of(fragment);
        if !self.cache.has_budget(bytes) {
            // Nothing leaves for it.
            self.cache.counters().bypass_population_budget.count(1);
            return Begun::Nothing;
        }
        if self.cache.control().pools.free_slots(self.cache.geometry.slots()) == 0 {
            match self.sweep() {
                Swept::Freed => {}
                Swept::Leaving(slot) => {
                    let worker = self.worker(number);
                    worker.slot.set(slot.0);
                    worker.state.set(WorkerState::Evicting);
                    return Begun::Leaving;
                }
                Swept::Further => return Begun::Again,
                Swept::Nothing => return Begun::Nothing,
            }
        }
        let locked = self.cache.lock(fragment);
        // It was looked at without the lock.
        match locked.place() {
            Place::Absent { writes: 0 } => {}
            Place::Absent { .. } if planted::is(Bug::PopulationBesideWrites) => {}
            _ => return Begun::Again,
        }
        let pools = self.cache.lock_pools();
        // What it is going to write is taken here, and given back if it comes to nothing before.
        if !pools.afford(bytes) {
            self.cache.counters().bypass_population_budget.count(1);
            return Begun::Nothing;
        }
        let Some(slot) = pools.take_slot() else {
            pools.refund(bytes);
            return Begun::Again;
        };
        drop(pools);
        locked.map(slot);
        let worker = self.worker(number);
        worker.fragment.set(fragment.0);
        worker.slot.set(slot.0);
        worker.version.set(self.cache.descriptor(slot).version.get());
        worker.state.set(WorkerState::Reading);
        drop(locked);
        worker.failures.set(self.take(fragment));
        self.cache.counters().populations_begun.count(1);
        Begun::Job(number)
    }

    /// A step of a population has ended. Whether the next one is due; after the last, the fragment is valid.
    fn goes_on(
        &self,
        number: WorkerNumber,
        fragment: Fragment,
        slot: Slot,
        result: Result<(), DeviceError>,
    ) -> bool {
        let (worker, counters) = (self.worker(number), self.cache.counters());
        let locked = self.cache.lock(fragment);
        let descriptor = self.cache.descriptor(slot);
        let is_mine = locked.place() == Place::At(slot);
        assert!(is_mine || planted::is(Bug::AbortedSlotReused), "invariant 6: a slot is its worker's");
        let (bitmap, blocks) = (self.cache.validity(slot), 0..self.cache.geometry.blocks_of(fragment));
        let same = descriptor.version.get() == worker.version.get();
        if is_mine && result.is_ok() && !bitmap.all(blocks.clone()) {
            if worker.state.get() == WorkerState::Writing {
                let any = bitmap.any(0..self.cache.geometry.fragment_blocks());
                assert_eq!(any, !same, "invariant 4: what is written during a population is noted");
                if planted::is(Bug::PopulationOverWrites) {
                    bitmap.set(blocks);
                } else {
                    bitmap.invert(blocks);
                }
                descriptor.set_state(SlotState::Cached);
                self.cache.stamp(descriptor);
                counters.populations_done.count(1);
                counters.populations_with_holes.count(u64::from(!same));
            }
            return true;
        }
        let ended =
            if result.is_err() { &counters.populations_failed } else { &counters.populations_aborted };
        ended.count(1);
        if worker.state.get() != WorkerState::Writing {
            self.cache.lock_pools().refund(self.cache.bytes_of(fragment));
        }
        let is_refused = result.is_err() && worker.state.get() == WorkerState::Writing;
        if !is_refused {
            // Where the cache device has refused the fragment that is held against the slot.
            self.put_off(fragment, worker.failures.get());
        }
        if is_mine && is_refused {
            locked.unmap_refused(slot);
        } else if is_mine {
            locked.unmap(slot);
        }
        worker.state.set(WorkerState::Ended);
        false
    }
}
