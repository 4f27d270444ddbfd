//! The power that several simulated devices share, and the moment at which it goes off.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// One supply of power. Clones share it: devices on the same supply lose power at the same operation.
///
/// Every device operation spends one unit. [`Power::crash_after`] says which one is cut; it and every later
/// one fail. The counters are atomics for the sake of `Sync`; a run that is to be repeatable has one thread
/// per supply.
#[derive(Debug, Clone, Default)]
pub struct Power(Arc<Supply>);

#[derive(Debug)]
struct Supply {
    operations: AtomicU64,
    /// The number of the operation that is cut, counted as `operations` is. `u64::MAX`: none.
    cut_at: AtomicU64,
}

impl Default for Supply {
    fn default() -> Self {
        Self { operations: AtomicU64::new(0), cut_at: AtomicU64::new(u64::MAX) }
    }
}

/// What power an operation has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spent {
    /// The operation is carried out.
    On,
    /// Power fails in the middle of this operation: it may take effect whole, in part or not at all, and
    /// reports failure.
    Cut,
    /// There has been no power since an earlier operation; this one does nothing and reports failure.
    Off,
}

impl Power {
    /// A supply that is on and stays on.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets power fail in the `n`-th operation from now: 1 is the very next one.
    ///
    /// # Panics
    /// When `n` is 0, which would lie in the past.
    pub fn crash_after(&self, n: u64) {
        assert!(n > 0, "power can fail in the next operation at the earliest");
        self.0.cut_at.store(self.operations().saturating_add(n - 1), Ordering::Relaxed);
    }

    /// Turns power on, or leaves it on and forgets a planned failure.
    pub fn restore(&self) {
        self.0.cut_at.store(u64::MAX, Ordering::Relaxed);
    }

    /// Whether an operation would be carried out now, or at least begun.
    pub fn is_on(&self) -> bool {
        self.operations() <= self.0.cut_at.load(Ordering::Relaxed)
    }

    /// The number of the operation that power failed in, counted as [`Self::operations`] is; `None` while it
    /// is on.
    pub fn failed_at(&self) -> Option<u64> {
        (!self.is_on()).then(|| self.0.cut_at.load(Ordering::Relaxed))
    }

    /// How many operations from now still have power.
    pub fn left(&self) -> u64 {
        self.0.cut_at.load(Ordering::Relaxed).saturating_sub(self.operations())
    }

    /// How many operations have been spent since the beginning, those without power among them.
    pub fn operations(&self) -> u64 {
        self.0.operations.load(Ordering::Relaxed)
    }

    /// Spends one operation. For simulated stores that are no [`crate::Device`] and yet hang on the same
    /// supply.
    pub fn spend(&self) -> Spent {
        let number = self.0.operations.fetch_add(1, Ordering::Relaxed);
        match number.cmp(&self.0.cut_at.load(Ordering::Relaxed)) {
            std::cmp::Ordering::Less => Spent::On,
            std::cmp::Ordering::Equal => Spent::Cut,
            std::cmp::Ordering::Greater => Spent::Off,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_the_planned_operation_is_cut_and_none_follows() {
        let power = Power::new();
        assert_eq!(power.spend(), Spent::On);
        power.crash_after(2);
        let shared = power.clone();
        assert_eq!(shared.left(), 1);
        assert_eq!([power.spend(), shared.spend(), power.spend()], [Spent::On, Spent::Cut, Spent::Off]);
        assert!(!power.is_on());
        shared.restore();
        assert!(power.is_on());
        assert_eq!(power.spend(), Spent::On);
    }
}
