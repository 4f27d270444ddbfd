//! Worlds that do not come to their end.
//!
//! Whoever waits in a world works, and a world counts how often; but a loop inside of the tier ends in no
//! count. Such a world was not a finding: the run went on in it and said nothing.
//!
//! A loop takes the processor, so that is what is measured: a run that others have left hardly any of it, or
//! that was stopped for a while, has no such world. One that stands still takes none: of it the turns of the
//! watch are counted, far more of them, and none while all of the process stands still.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Is told the command that replays a world that does not come to its end.
pub type Endless<'a> = &'a (dyn Fn(&str) + Sync);

/// Some thousand times what a world takes, of the processor.
pub(crate) const ENDLESS_AFTER: Duration = Duration::from_secs(300);
/// Turns of the watch in that time, if nobody keeps it waiting.
const TURNS: u32 = 10;
/// Turns after which a world stands still.
const TURNS_MAX: u64 = 12 * TURNS as u64;

#[derive(Default)]
struct State {
    /// The worlds under way by their seeds, and since when: what the process had taken of the processor, and
    /// the turn of the watch.
    worlds: BTreeMap<u64, (Duration, u64)>,
    turn: u64,
    over: bool,
}

pub(crate) struct Watch {
    /// Of the processor, by all threads that live through worlds.
    after: Duration,
    wait: Duration,
    state: Mutex<State>,
    changed: Condvar,
}

/// What all threads of this process have taken of the processor.
fn taken() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec.try_into().unwrap_or(0), now.tv_nsec.try_into().unwrap_or(0))
}

impl Watch {
    /// Over worlds in so many threads, each of which ends after that time.
    pub(crate) fn new(after: Duration, threads: usize) -> Self {
        let threads = u32::try_from(threads.max(1)).unwrap_or(u32::MAX);
        let (all, wait) = (after.saturating_mul(threads), after / TURNS);
        Self { after: all, wait, state: Mutex::default(), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lives through a world under this watch.
    pub(crate) fn over<T>(&self, seed: u64, world: impl FnOnce() -> T) -> T {
        {
            let mut state = self.state();
            let since = (taken(), state.turn);
            state.worlds.insert(seed, since);
        }
        let outcome = world();
        self.state().worlds.remove(&seed);
        outcome
    }

    /// Returns when the run is over, or `endless` was told the seed of a world.
    pub(crate) fn watch(&self, endless: impl Fn(u64)) {
        let mut state = self.state();
        while !state.over {
            let (taken, turn) = (taken(), state.turn);
            let is_late = |(since, from): (Duration, u64)| {
                taken.saturating_sub(since) >= self.after || turn - from >= TURNS_MAX
            };
            let late = state.worlds.iter().find(|(_, since)| is_late(**since));
            if let Some(seed) = late.map(|(seed, _)| *seed) {
                drop(state);
                return endless(seed);
            }
            let waited = self.changed.wait_timeout(state, self.wait);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            state.turn += 1;
        }
    }

    /// The run is over when what this returns is dropped.
    pub(crate) fn until_over(&self) -> UntilOver<'_> {
        UntilOver(self)
    }
}

/// See [`Watch::until_over`].
pub(crate) struct UntilOver<'a>(&'a Watch);

impl Drop for UntilOver<'_> {
    fn drop(&mut self) {
        self.0.state().over = true;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_world_in_a_loop_is_named() {
        let wait = Duration::from_millis(100);
        let watch = Watch { wait, ..Watch::new(Duration::from_millis(20), 1) };
        let found = AtomicU64::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| watch.watch(|seed| found.store(seed, Ordering::Relaxed)));
            watch.over(4, || while found.load(Ordering::Relaxed) == 0 {});
        });
        assert_eq!(found.into_inner(), 4);
        assert!(watch.state().turn < TURNS_MAX);
    }

    #[test]
    fn a_world_that_stands_still_is_named_and_no_other() {
        let watch = Watch::new(Duration::from_millis(20), 2);
        let (found, finds) = mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| watch.watch(|seed| found.send(seed).unwrap()));
            watch.over(3, || ());
            assert_eq!(watch.over(4, || finds.recv().unwrap()), 4);
        });
    }

    #[test]
    fn the_watch_ends_with_the_run() {
        let watch = Watch::new(Duration::from_secs(3600), 1);
        std::thread::scope(|scope| {
            scope.spawn(|| watch.watch(|seed| panic!("the world of seed {seed} has ended")));
            let _until_over = watch.until_over();
            watch.over(3, || ());
        });
    }
}
