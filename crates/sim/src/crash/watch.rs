//! Worlds that do not come to their end.
//!
//! Whoever waits in a world works, and a world counts how often; but a loop inside of the tier ends in no
//! count. Such a world was not a finding: the run went on in it and said nothing.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Is told the command that replays a world that does not come to its end.
pub type Endless<'a> = &'a (dyn Fn(&str) + Sync);

/// Some thousand times what a world takes on a busy machine.
pub(super) const ENDLESS_AFTER: Duration = Duration::from_secs(300);

#[derive(Default)]
struct State {
    /// The worlds under way by their seeds, and since when.
    worlds: BTreeMap<u64, Instant>,
    over: bool,
}

pub(super) struct Watch {
    after: Duration,
    state: Mutex<State>,
    changed: Condvar,
}

impl Watch {
    pub(super) fn new(after: Duration) -> Self {
        Self { after, state: Mutex::default(), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lives through a world under this watch.
    pub(super) fn over<T>(&self, seed: u64, world: impl FnOnce() -> T) -> T {
        self.state().worlds.insert(seed, Instant::now());
        let outcome = world();
        self.state().worlds.remove(&seed);
        outcome
    }

    /// Returns when the run is over, or `endless` was told the seed of a world.
    pub(super) fn watch(&self, endless: impl Fn(u64)) {
        let mut state = self.state();
        while !state.over {
            let late = state.worlds.iter().find(|(_, since)| since.elapsed() >= self.after);
            if let Some(seed) = late.map(|(seed, _)| *seed) {
                drop(state);
                return endless(seed);
            }
            let waited = self.changed.wait_timeout(state, self.after / 10);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The run is over when what this returns is dropped.
    pub(super) fn until_over(&self) -> UntilOver<'_> {
        UntilOver(self)
    }
}

/// See [`Watch::until_over`].
pub(super) struct UntilOver<'a>(&'a Watch);

impl Drop for UntilOver<'_> {
    fn drop(&mut self) {
        self.0.state().over = true;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_world_without_end_is_named_and_no_other() {
        let watch = Watch::new(Duration::from_millis(20));
        let (found, finds) = mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| watch.watch(|seed| found.send(seed).unwrap()));
            watch.over(3, || ());
            assert_eq!(watch.over(4, || finds.recv().unwrap()), 4);
        });
    }

    #[test]
    fn the_watch_ends_with_the_run() {
        let watch = Watch::new(Duration::from_secs(3600));
        std::thread::scope(|scope| {
            scope.spawn(|| watch.watch(|seed| panic!("the world of seed {seed} has ended")));
            let _until_over = watch.until_over();
            watch.over(3, || ());
        });
    }
}
