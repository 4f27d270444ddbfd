//! Words of half the size, for what there is one of in each descriptor or flight.

use std::sync::atomic::Ordering::Relaxed;

use mezzanine_ground::interleave::AtomicU32;
use mezzanine_ground::region::shared;

/// A 32-bit word. What it belongs to is changed under a lock, which orders its loads and stores.
#[repr(transparent)]
pub(crate) struct Small(AtomicU32);
shared!(Small);

impl Small {
    #[inline]
    pub(crate) fn get(&self) -> u32 {
        self.0.load(Relaxed)
    }

    #[inline]
    pub(crate) fn set(&self, value: u32) {
        self.0.store(value, Relaxed);
    }

    /// Adds to it, under its lock.
    ///
    /// # Panics
    /// If the sum does not fit.
    #[inline]
    pub(crate) fn raise(&self, by: u32) {
        self.set(self.get().checked_add(by).expect("a count of what is in memory fits its word"));
    }

    /// Takes from it, under its lock.
    ///
    /// # Panics
    /// If that is more than is there.
    #[inline]
    pub(crate) fn lower(&self, by: u32) {
        self.set(self.get().checked_sub(by).expect("what ends has begun"));
    }

    /// Changes it in one atomic step, without a lock; false if `change` says that it stays.
    #[inline]
    pub(crate) fn change(&self, change: impl FnMut(u32) -> Option<u32>) -> bool {
        self.0.fetch_update(Relaxed, Relaxed, change).is_ok()
    }
}

/// Names one of a table's elements, or none; zero is none.
#[repr(transparent)]
pub(crate) struct Link(Small);
shared!(Link);

impl Link {
    #[inline]
    pub(crate) fn get(&self) -> Option<u32> {
        self.0.get().checked_sub(1)
    }

    #[inline]
    pub(crate) fn set(&self, to: Option<u32>) {
        self.0.set(to.map_or(0, |number| number + 1));
    }
}
