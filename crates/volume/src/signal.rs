//! How threads wait for one another: workers for something to do, callers for progress.

use std::time::Duration;

use mezzanine_engine::planted::{self, Bug};
use mezzanine_ground::interleave::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use mezzanine_ground::interleave::turns;

use crate::shared::progress::Waiting;
use crate::shared::{Placed, Shared};

/// Two condition variables for the threads of this process that wait for one of the shared counters to move.
/// A waiter notes the counter, looks for itself, and sleeps only as long as the counter stays what it noted;
/// who moves a counter does so with the lock that is held from the last look on until the sleep begins. So no
/// wake-up is lost.
pub(crate) struct Signal {
    memory: Arc<Placed<Shared>>,
    parking: Mutex<Parking>,
    progress: Condvar,
    work: Condvar,
}

#[derive(Default)]
struct Parking {
    /// The workers are to end.
    stop: bool,
}

impl Signal {
    pub(crate) fn new(memory: Arc<Placed<Shared>>) -> Self {
        Self { memory, parking: Mutex::default(), progress: Condvar::new(), work: Condvar::new() }
    }

    fn parking(&self) -> MutexGuard<'_, Parking> {
        self.parking.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The counter of progress, to be noted before looking.
    pub(crate) fn progress(&self) -> u64 {
        self.memory.progress.made()
    }

    /// Announces that the caller will wait unless it finds something to do in one more look.
    pub(crate) fn announce(&self) -> Waiting<'_> {
        self.memory.progress.announce()
    }

    /// After a page was given to the tier: that may have completed a group which others wait for. One fence
    /// and one load if nobody does.
    pub(crate) fn page_given(&self) {
        if self.memory.progress.is_awaited() {
            self.made_progress();
        }
    }

    /// Sleeps until there has been progress since `seen` was noted.
    pub(crate) fn wait_for_progress(&self, seen: u64) {
        let mut parking = self.parking();
        let seen = if planted::is(Bug::ProgressUnnoted) { self.progress() } else { seen };
        if turns::are_taken() {
            drop(parking);
            turns::wait_while(|| self.progress() == seen);
            return;
        }
        while self.progress() == seen {
            parking = self.progress.wait(parking).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Tells everybody that a job ended or that the volume's health changed.
    pub(crate) fn made_progress(&self) {
        let parking = self.parking();
        self.memory.progress.make();
        drop(parking);
        self.progress.notify_all();
        self.work.notify_all();
    }

    /// Tells idle workers that there may be work. Costs one load when all are busy.
    pub(crate) fn offer_work(&self) {
        if self.memory.progress.has_idle_workers() {
            let parking = self.parking();
            self.memory.progress.offer();
            drop(parking);
            self.work.notify_one();
        }
    }

    /// A worker's loop: `run` carries out one job and says whether there was one. When there is none any more
    /// it looks again `later`, once, since some work is left for the time when nobody else wants the
    /// disk.
    pub(crate) fn work_until_stopped(&self, later: Duration, run: impl Fn() -> bool) {
        let mut looks_again = true;
        let words = &self.memory.progress;
        loop {
            if self.parking().stop {
                return;
            }
            if run() {
                looks_again = true;
                continue;
            }
            let seen = words.work();
            words.worker_idles();
            if !run() {
                let mut parking = self.parking();
                if looks_again && words.work() == seen && !parking.stop {
                    let waited = self.work.wait_timeout(parking, later);
                    parking = waited.unwrap_or_else(PoisonError::into_inner).0;
                    looks_again = words.work() != seen;
                } else {
                    while words.work() == seen && !parking.stop {
                        parking = self.work.wait(parking).unwrap_or_else(PoisonError::into_inner);
                    }
                    looks_again = true;
                }
            }
            words.worker_goes_on();
        }
    }

    /// Ends the workers' loops.
    pub(crate) fn stop(&self) {
        self.parking().stop = true;
        self.work.notify_all();
        self.progress.notify_all();
    }
}
