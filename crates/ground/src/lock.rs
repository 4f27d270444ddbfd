//! A spin lock that works between processes and tells when its owner died.
//!
//! Critical sections are a few hundred instructions and never call the host, so spinning is cheaper than
//! sleeping. A panic inside a critical section poisons the lock: the region can no longer be trusted and is
//! built anew. So does whoever finds that a process has died inside one ([`SpinLock::poison`]). Whoever waits
//! for a poisoned lock panics; poison is never washed off.

use std::sync::atomic::Ordering;

use crate::interleave::{AtomicU32, rest, spin};

const FREE: u32 = 0;
const POISONED: u32 = u32::MAX;
/// Rounds of spinning before the processor is given away; covers a page copy.
const SPINS: u32 = 200;

/// The lock word. All zeros is a free lock.
#[derive(Default)]
#[repr(transparent)]
pub struct SpinLock(AtomicU32);

/// Holds the lock until dropped.
pub struct Guard<'l> {
    word: &'l AtomicU32,
    owner: u32,
    /// The thread was unwinding already when it took the lock: what is dropped on the way may use the tier
    /// in good order.
    unwinding: bool,
}

impl SpinLock {
    /// Waits for the lock. `owner` must not be 0 nor `u32::MAX`.
    ///
    /// # Panics
    /// If the lock is poisoned.
    #[inline]
    pub fn lock(&self, owner: u32) -> Guard<'_> {
        self.try_lock(owner).unwrap_or_else(|| self.wait(owner))
    }

    #[cold]
    fn wait(&self, owner: u32) -> Guard<'_> {
        let mut rounds = 0;
        loop {
            if let Some(guard) = self.try_lock(owner) {
                return guard;
            }
            rounds += 1;
            if rounds % SPINS == 0 { rest() } else { spin() }
        }
    }

    /// Takes the lock if it is free.
    ///
    /// # Panics
    /// If the lock is poisoned.
    #[inline]
    pub fn try_lock(&self, owner: u32) -> Option<Guard<'_>> {
        debug_assert!(owner != FREE && owner != POISONED);
        match self.0.compare_exchange(FREE, owner, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => Some(Guard { word: &self.0, owner, unwinding: std::thread::panicking() }),
            Err(POISONED) => panic!(
                "the region is poisoned, since somebody died while he changed it: it has to be built anew"
            ),
            Err(_) => None,
        }
    }

    /// The owner that holds the lock now.
    #[inline]
    pub fn holder(&self) -> Option<u32> {
        match self.0.load(Ordering::Acquire) {
            FREE | POISONED => None,
            owner => Some(owner),
        }
    }

    /// Makes every later attempt to take the lock panic. If somebody alive holds it, he finishes.
    pub fn poison(&self) {
        self.0.store(POISONED, Ordering::Release);
    }

    /// Whether nobody can take it any more.
    #[inline]
    pub fn is_poisoned(&self) -> bool {
        self.0.load(Ordering::Acquire) == POISONED
    }
}

impl Guard<'_> {
    /// Whether a panic has come up since the lock was taken, so that dropping it poisons the lock.
    #[inline]
    pub fn poisons(&self) -> bool {
        !self.unwinding && std::thread::panicking()
    }
}

impl Drop for Guard<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.poisons() {
            self.word.store(POISONED, Ordering::Release);
        } else {
            // Not a plain store: the lock may have been poisoned while it was held, and stays so.
            let _ = self.word.compare_exchange(self.owner, FREE, Ordering::Release, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_inside_poisons() {
        let lock = SpinLock(AtomicU32::new(FREE));
        let died = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _guard = lock.lock(7);
            panic!("inside");
        }));
        assert!(died.is_err());
        let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(lock.try_lock(7))));
        assert!(refused.is_err());
    }

    /// A database connection that is dropped by a panic elsewhere closes its files through the tier.
    #[test]
    fn a_lock_taken_while_unwinding_is_not_poisoned_by_that_panic() {
        struct UsesTheLock<'l>(&'l SpinLock);
        impl Drop for UsesTheLock<'_> {
            fn drop(&mut self) {
                drop(self.0.lock(7));
            }
        }
        let lock = SpinLock(AtomicU32::new(FREE));
        let died = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _user = UsesTheLock(&lock);
            panic!("outside");
        }));
        assert!(died.is_err());
        assert!(lock.try_lock(8).is_some());
    }

    /// A process has died elsewhere while this one is inside a critical section of its own.
    #[test]
    fn a_lock_that_is_poisoned_while_it_is_held_stays_poisoned() {
        let lock = SpinLock(AtomicU32::new(FREE));
        let guard = lock.lock(7);
        lock.poison();
        drop(guard);
        assert!(lock.is_poisoned());
    }

    #[test]
    fn the_holder_is_named() {
        let lock = SpinLock(AtomicU32::new(FREE));
        let guard = lock.lock(7);
        assert_eq!(lock.holder(), Some(7));
        assert!(lock.try_lock(8).is_none());
        drop(guard);
        assert_eq!(lock.holder(), None);
    }
}
