//! A limit of time that does not run while the process does not.
//!
//! What a device has not done within the limit counts as its failure. A process that was stopped, or whose
//! machine was suspended, has not looked meanwhile, and neither has it carried the device's answer any
//! further. So the limit is counted by who waits, in short steps, and a step counts for [`STEP_MAX`] at most
//! however late its end is noticed.

use std::time::{Duration, Instant};

/// The most that one step counts. Who waits looks more often than that.
pub(crate) const STEP_MAX: Duration = Duration::from_millis(100);

/// What is left of a limit, for one who waits.
pub(crate) struct Patience {
    left: Duration,
    looked: Instant,
}

impl Patience {
    pub(crate) fn new(limit: Duration) -> Self {
        Self { left: limit, looked: Instant::now() }
    }

    /// Whether the limit is reached. To be asked at least once in [`STEP_MAX`].
    pub(crate) fn is_over(&mut self) -> bool {
        self.is_over_at(Instant::now())
    }

    fn is_over_at(&mut self, now: Instant) -> bool {
        let step = now.saturating_duration_since(self.looked).min(STEP_MAX);
        (self.looked, self.left) = (now, self.left.saturating_sub(step));
        self.left.is_zero()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_counts_for_a_step_and_steps_add_up() {
        let mut patience = Patience::new(Duration::from_secs(5));
        let mut now = patience.looked;
        let mut after = |pause: Duration| {
            now += pause;
            patience.is_over_at(now)
        };
        // Stopped for a day, three times.
        assert!((0..3).all(|_| !after(Duration::from_secs(86_400))));
        // 4.7 s are left, in steps of 50 ms.
        assert!((0..93).all(|_| !after(Duration::from_millis(50))));
        assert!(after(Duration::from_millis(50)));
        assert!(after(Duration::ZERO), "over is over");
        assert!(Patience::new(Duration::ZERO).is_over());
    }
}
