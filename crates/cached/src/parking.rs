//! How threads wait for jobs.
//!
//! One of those that wait, the *lead*, wakes when the engine has said that there may be a job; the others
//! sleep until they are told. A thread that has found a job tells one more, which is the next lead if it
//! finds nothing. Nothing is lost between the last look and the sleep: who is about to sleep counts as idle
//! first and then looks whether the engine's number of work has changed; who may have made work lets that
//! number rise first and then looks whether somebody is idle.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst, fence};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

#[derive(Default)]
pub(crate) struct Parking {
    parked: Mutex<Parked>,
    /// For those that wait for jobs.
    wake: Condvar,
    /// For who waits until threads have ended.
    ended: Condvar,
    idle: AtomicUsize,
    /// The engine's number of work that somebody was last told of.
    told: AtomicU64,
}

#[derive(Default)]
struct Parked {
    stop: bool,
    /// When the lead wakes, on the host's clock.
    lead: Option<u64>,
    ended: usize,
}

impl Parking {
    fn parked(&self) -> MutexGuard<'_, Parked> {
        self.parked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.parked().stop
    }

    /// Has every thread end that looks for a job.
    pub(crate) fn stop(&self) {
        self.parked().stop = true;
        self.wake.notify_all();
    }

    /// There may be something to do: `work` is the engine's number, which has risen if so. Costs a fence and
    /// a load while all threads are busy.
    pub(crate) fn offer(&self, work: impl Fn() -> u64) {
        fence(SeqCst);
        if self.idle.load(SeqCst) == 0 {
            return;
        }
        let work = work();
        if self.told.swap(work, SeqCst) != work {
            self.wake_one();
        }
    }

    /// Threads that sleep, and the engine's number of work that one of them was last told of.
    #[cfg(test)]
    pub(crate) fn idle_and_told(&self) -> (usize, u64) {
        (self.idle.load(SeqCst), self.told.load(SeqCst))
    }

    /// A thread has found a job: there may be more.
    pub(crate) fn found_one(&self) {
        if self.idle.load(SeqCst) > 0 {
            self.wake_one();
        }
    }

    fn wake_one(&self) {
        drop(self.parked());
        self.wake.notify_one();
    }

    /// Sleeps until `until` on the clock `now` (`u64::MAX`: without an end), until told, or not at all if the
    /// engine's number of work is not what it was when the caller looked for a job.
    pub(crate) fn sleep(&self, until: u64, now: impl Fn() -> u64, is_same: impl Fn() -> bool) {
        self.idle.fetch_add(1, SeqCst);
        fence(SeqCst);
        let mut parked = self.parked();
        if !parked.stop && is_same() {
            let leads = until != u64::MAX && parked.lead.is_none_or(|lead| until < lead);
            if leads {
                parked.lead = Some(until);
                let left = Duration::from_nanos(until.saturating_sub(now()));
                parked = self.wake.wait_timeout(parked, left).unwrap_or_else(PoisonError::into_inner).0;
                // Unless somebody who wakes earlier has taken its place.
                if parked.lead == Some(until) {
                    parked.lead = None;
                }
            } else {
                parked = self.wake.wait(parked).unwrap_or_else(PoisonError::into_inner);
            }
        }
        drop(parked);
        self.idle.fetch_sub(1, SeqCst);
    }

    /// A thread ends.
    pub(crate) fn has_ended(&self) {
        self.parked().ended += 1;
        self.ended.notify_all();
    }

    /// Waits until so many threads have ended; returns whether they have.
    pub(crate) fn wait_for_ends(&self, threads: usize, within: Duration) -> bool {
        let deadline = Instant::now() + within;
        let mut parked = self.parked();
        while parked.ended < threads {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            parked = self.ended.wait_timeout(parked, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}
