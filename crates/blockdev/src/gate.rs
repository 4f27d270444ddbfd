//! Whether requests reach the device, and how many are in it.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[derive(Default)]
pub(crate) struct Gate {
    state: Mutex<State>,
    /// For who waits until nobody is inside.
    left: Condvar,
}

#[derive(Default)]
struct State {
    is_closed: bool,
    inside: usize,
}

/// A request that is in the device, until it is dropped.
pub(crate) struct Inside<'g>(&'g Gate);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.state().inside -= 1;
        self.0.left.notify_all();
    }
}

impl Gate {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a request in; none once the gate is closed.
    pub(crate) fn enter(&self) -> Option<Inside<'_>> {
        let mut state = self.state();
        if state.is_closed {
            return None;
        }
        state.inside += 1;
        Some(Inside(self))
    }

    /// Lets nobody in any more, and waits until nobody is inside, for so long at most: how many are.
    pub(crate) fn close(&self, within: Duration) -> usize {
        let mut state = self.state();
        state.is_closed = true;
        let waited = self.left.wait_timeout_while(state, within, |state| state.inside > 0);
        waited.unwrap_or_else(PoisonError::into_inner).0.inside
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_gets_in_any_more_and_who_is_inside_is_waited_for_no_longer_than_asked() {
        let gate = Gate::default();
        let inside = gate.enter();
        assert!(inside.is_some() && gate.close(Duration::from_millis(10)) == 1);
        assert!(gate.enter().is_none());
        std::thread::scope(|scope| {
            let closing = scope.spawn(|| gate.close(Duration::from_secs(600)));
            drop(inside);
            assert_eq!(closing.join().ok(), Some(0));
        });
    }
}
