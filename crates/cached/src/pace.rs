//! How fast populations may read: a limit in bytes a second that can change at any time.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

pub(crate) struct Pace {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// Bytes a second; 0: no limit.
    rate: u64,
    /// When what has been let through so far is paid for.
    free_at: Instant,
    stop: bool,
}

impl Pace {
    pub(crate) fn new(rate: u64) -> Self {
        let state = State { rate, free_at: Instant::now(), stop: false };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    pub(crate) fn rate(&self) -> u64 {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).rate
    }

    /// From now on; who waits goes by the new rate.
    pub(crate) fn set_rate(&self, rate: u64) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        (state.rate, state.free_at) = (rate, Instant::now());
        self.changed.notify_all();
    }

    /// Lets nobody through any more.
    pub(crate) fn stop(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).stop = true;
        self.changed.notify_all();
    }

    /// Waits until so many bytes may be read; false if the end comes first.
    pub(crate) fn wait(&self, bytes: u64) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let now = Instant::now();
            if state.stop {
                return false;
            }
            if state.rate == 0 {
                return true;
            }
            if state.free_at <= now {
                let ns = u128::from(bytes) * 1_000_000_000 / u128::from(state.rate);
                // No rate makes anybody wait for longer than a day for one fragment.
                let takes = Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX));
                state.free_at = now + takes.min(Duration::from_secs(86_400));
                return true;
            }
            let left = state.free_at - now;
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_let_through_is_paid_for_before_the_next() {
        let pace = Pace::new(0);
        assert!((0..1000).all(|_| pace.wait(1 << 30)), "without a limit nobody waits");
        pace.set_rate(1_000_000);
        let begun = Instant::now();
        assert!((0..4).all(|_| pace.wait(10_000)));
        let took = begun.elapsed();
        assert!(took >= Duration::from_millis(30), "three of them waited 10 ms each: {took:?}");
    }

    #[test]
    fn who_waits_hears_of_a_new_rate_and_of_the_end() {
        let pace = Pace::new(1);
        assert!(pace.wait(1 << 30));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| (pace.wait(1 << 30), pace.wait(1 << 30)));
            std::thread::sleep(Duration::from_millis(20));
            assert!(!waiting.is_finished());
            // A new rate begins without debts; the next one has to wait again.
            pace.set_rate(1);
            std::thread::sleep(Duration::from_millis(20));
            pace.stop();
            assert_eq!(waiting.join().ok(), Some((true, false)));
        });
    }
}
