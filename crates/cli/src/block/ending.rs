//! The end of an attached cache: who wants it, how far it is, and what it has come to.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::control::Answer;

/// The end: who wants it, how far it is, and what it has come to.
#[derive(Default)]
pub(super) struct Ending {
    state: Mutex<EndState>,
    changed: Condvar,
}

#[derive(Default)]
struct EndState {
    /// Somebody wants it, and gives it until then.
    until: Option<Instant>,
    stage: Option<(String, u64, u64)>,
    result: Option<Answer>,
    /// Conversations that wait for the result.
    waiting: usize,
}

impl Ending {
    fn state(&self) -> MutexGuard<'_, EndState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether somebody wants the end.
    pub(super) fn is_wanted(&self) -> bool {
        self.state().until.is_some()
    }

    /// Somebody wants the end, and gives it so long: the least patient counts.
    pub(super) fn want(&self, within: Duration) {
        let mut state = self.state();
        let until = Instant::now() + within;
        state.until = Some(state.until.map_or(until, |before| before.min(until)));
    }

    /// How long the end may still take.
    pub(super) fn left(&self) -> Duration {
        let until = self.state().until;
        until.map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()))
    }

    pub(super) fn is_over(&self) -> bool {
        self.state().result.is_some()
    }

    /// Tells who waits how far it is.
    pub(super) fn stage(&self, what: &str, done: u64, total: u64) {
        self.state().stage = Some((what.to_owned(), done, total));
        self.changed.notify_all();
    }

    /// It is over; waits a moment until everybody has heard of it.
    pub(super) fn finish(&self, result: Answer) {
        let mut state = self.state();
        state.result = Some(result);
        self.changed.notify_all();
        let all = self.changed.wait_timeout_while(state, Duration::from_secs(2), |state| state.waiting > 0);
        drop(all);
    }

    /// Asks for the end, and waits for it.
    pub(super) fn wait(&self, within: Duration, mut progress: impl FnMut(&str, u64, u64)) -> Answer {
        self.want(within);
        let mut state = self.state();
        state.waiting += 1;
        loop {
            if let Some(result) = state.result.clone() {
                return result;
            }
            if let Some((what, done, total)) = state.stage.take() {
                drop(state);
                progress(&what, done, total);
                state = self.state();
                continue;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(super) fn has_heard(&self) {
        self.state().waiting -= 1;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_patient_counts() {
        let ending = Ending::default();
        assert!(!ending.is_wanted() && ending.left().is_zero());
        ending.want(Duration::from_secs(600));
        assert!(ending.is_wanted() && ending.left() > Duration::from_secs(500));
        ending.want(Duration::from_secs(5));
        ending.want(Duration::from_secs(900));
        assert!(ending.left() <= Duration::from_secs(5));
        ending.want(Duration::ZERO);
        assert!(ending.left().is_zero());
    }

    #[test]
    fn whoever_asks_while_it_ends_gets_the_result() {
        let ending = Ending::default();
        std::thread::scope(|scope| {
            let waiting = [1, 600].map(|seconds| {
                let ending = &ending;
                scope.spawn(move || {
                    let answer = ending.wait(Duration::from_secs(seconds), |_, _, _| ());
                    ending.has_heard();
                    answer
                })
            });
            while ending.state().waiting < 2 {
                std::thread::yield_now();
            }
            ending.finish(Answer::Done { result: serde_json::Value::from(7) });
            for one in waiting {
                let is_done = matches!(one.join(), Ok(Answer::Done { result }) if result == 7);
                assert!(is_done);
            }
        });
        assert!(ending.is_over());
    }
}
