//! How threads wait for one another: workers for something to do, callers for progress.

use std::time::Duration;

use mezzanine_engine::planted::{self, Bug};
use mezzanine_ground::interleave::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
use mezzanine_ground::interleave::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use mezzanine_ground::interleave::turns;

#[derive(Default)]
struct State {
    /// Counts everything that may be work.
    work: u64,
    stop: bool,
}

/// Two condition variables over one pair of counters. A waiter notes the counter, looks for itself, and
/// sleeps only as long as the counter stays what it noted, so no wake-up is lost.
#[derive(Default)]
pub(crate) struct Signal {
    state: Mutex<State>,
    /// Counts everything that may let a waiting caller go on. Raised under the lock, read without it.
    made: AtomicU64,
    progress: Condvar,
    work: Condvar,
    idle_workers: AtomicUsize,
    waiting: AtomicUsize,
}

/// Somebody is about to wait for progress.
pub(crate) struct Waiting<'s>(&'s AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Signal {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The counter of progress, to be noted before looking.
    pub(crate) fn progress(&self) -> u64 {
        self.made.load(Ordering::SeqCst)
    }

    /// Announces that the caller will wait unless it finds something to do in one more look.
    pub(crate) fn announce(&self) -> Waiting<'_> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        Waiting(&self.waiting)
    }

    /// After a page was given to the tier: that may have completed a group which others wait for. One fence
    /// and one load if nobody does.
    pub(crate) fn page_given(&self) {
        fence(Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.made_progress();
        }
    }

    /// Sleeps until there has been progress since `seen` was noted.
    pub(crate) fn wait_for_progress(&self, seen: u64) {
        let mut state = self.state();
        let seen = if planted::is(Bug::ProgressUnnoted) { self.progress() } else { seen };
        if turns::are_taken() {
            drop(state);
            turns::wait_while(|| self.progress() == seen);
            return;
        }
        while self.progress() == seen {
            state = self.progress.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Tells everybody that a job ended or that the volume's health changed.
    pub(crate) fn made_progress(&self) {
        let mut state = self.state();
        self.made.fetch_add(1, Ordering::SeqCst);
        state.work += 1;
        drop(state);
        self.progress.notify_all();
        self.work.notify_all();
    }

    /// Tells idle workers that there may be work. Costs one load when all are busy.
    pub(crate) fn offer_work(&self) {
        // A worker raises this count before it looks for a job for the last time, and the caller made the job
        // visible before this load; both are sequentially consistent, so one of the two sees the
        // other.
        if self.idle_workers.load(Ordering::SeqCst) > 0 {
            self.state().work += 1;
            self.work.notify_one();
        }
    }

    /// A worker's loop: `run` carries out one job and says whether there was one. When there is none any more
    /// it looks again `later`, once, since some work is left for the time when nobody else wants the
    /// disk.
    pub(crate) fn work_until_stopped(&self, later: Duration, run: impl Fn() -> bool) {
        let mut looks_again = true;
        loop {
            if self.state().stop {
                return;
            }
            if run() {
                looks_again = true;
                continue;
            }
            let seen = self.state().work;
            self.idle_workers.fetch_add(1, Ordering::SeqCst);
            if !run() {
                let mut state = self.state();
                if looks_again && state.work == seen && !state.stop {
                    let waited = self.work.wait_timeout(state, later);
                    state = waited.unwrap_or_else(PoisonError::into_inner).0;
                    looks_again = state.work != seen;
                } else {
                    while state.work == seen && !state.stop {
                        state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
                    }
                    looks_again = true;
                }
            }
            self.idle_workers.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Ends the workers' loops.
    pub(crate) fn stop(&self) {
        self.state().stop = true;
        self.work.notify_all();
        self.progress.notify_all();
    }
}
