//! A lock that works between processes, sleeps in the kernel and tells when its owner died.
//!
//! Critical sections are a few hundred instructions and never call the host, so who waits spins for as long
//! as they may take, on a read. If the lock is still taken, its holder does not run, and whoever waits sleeps
//! until the lock is given back: that costs no processor, and holds nobody back who needs another lock.
//! Sleeping is the kernel's, and the host brings it along ([`Sleeping`]); without it the processor is given
//! away and taken again.
//!
//! A panic inside a critical section poisons the lock: the region can no longer be trusted and is built anew.
//! So does whoever finds that a process has died inside one ([`RegionLock::poison`]). Whoever waits for a
//! poisoned lock panics; poison is never washed off.
//!
//! 1. While somebody sleeps, or is about to, the word has the mark `SLEEPERS`, or is free and a wake-up is
//!    under way, or is poisoned and all are being woken. Who has slept takes the lock with the mark, as he
//!    cannot know whether others sleep.
//! 2. A sleep has an end (`SLEEP`): a process may die between giving the lock back and the wake-up.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32 as FutexWord, Ordering};
use std::time::Duration;

use crate::interleave::{AtomicU32, rest, sleep_at, spin, wake_at};

const FREE: u32 = 0;
const POISONED: u32 = u32::MAX;
/// Beside the owner: somebody sleeps, or did.
const SLEEPERS: u32 = 1 << 31;
/// The largest number of an owner.
pub const OWNER_MAX: u32 = SLEEPERS - 2;
/// Looks before sleeping; they cover a page copy.
const SPINS: u32 = 200;
/// How long somebody sleeps before he looks by himself.
const SLEEP: Duration = Duration::from_millis(100);

/// How threads sleep in the kernel, for those of other processes too: ground makes no system calls.
#[derive(Debug, Clone, Copy)]
pub struct Sleeping {
    /// Sleeps as long as the word has this value, at most so long; or less.
    pub sleep: fn(&FutexWord, u32, Duration),
    /// Wakes so many of those who sleep at the word, if there are as many.
    pub wake: fn(&FutexWord, u32),
}

static SLEEPING: OnceLock<Sleeping> = OnceLock::new();

/// Has locks sleep from now on, in this process. The first one counts; all are the same.
pub fn sleep_by(sleeping: Sleeping) {
    SLEEPING.get_or_init(|| sleeping);
}

/// The lock word. All zeros is a free lock.
#[derive(Default)]
#[repr(transparent)]
pub struct RegionLock(AtomicU32);

/// Holds the lock until dropped.
pub struct Guard<'l> {
    word: &'l AtomicU32,
    owner: u32,
    /// The thread was unwinding already when it took the lock: what is dropped on the way may use the tier
    /// in good order.
    unwinding: bool,
}

impl RegionLock {
    /// Waits for the lock. `owner` is from 1 to [`OWNER_MAX`].
    ///
    /// # Panics
    /// If the lock is poisoned.
    #[inline]
    pub fn lock(&self, owner: u32) -> Guard<'_> {
        self.try_lock(owner).unwrap_or_else(|| self.wait(owner))
    }

    #[cold]
    fn wait(&self, owner: u32) -> Guard<'_> {
        let mut taken = owner;
        loop {
            for _ in 0..SPINS {
                if self.0.load(Ordering::Relaxed) == FREE {
                    break;
                }
                spin();
            }
            if let Some(guard) = self.take(owner, taken) {
                return guard;
            }
            let Some(sleeping) = SLEEPING.get() else {
                rest();
                continue;
            };
            let seen = self.0.load(Ordering::Relaxed);
            let marked = seen | SLEEPERS;
            if seen == FREE || seen == POISONED {
                continue;
            }
            if seen == marked
                || self.0.compare_exchange(seen, marked, Ordering::Relaxed, Ordering::Relaxed).is_ok()
            {
                taken = owner | SLEEPERS;
                sleep_at(&self.0, marked, |word| (sleeping.sleep)(word, marked, SLEEP));
            }
        }
    }

    /// Takes the lock if it is free.
    ///
    /// # Panics
    /// If the lock is poisoned.
    #[inline]
    pub fn try_lock(&self, owner: u32) -> Option<Guard<'_>> {
        self.take(owner, owner)
    }

    #[inline]
    fn take(&self, owner: u32, taken: u32) -> Option<Guard<'_>> {
        debug_assert!((1..=OWNER_MAX).contains(&owner));
        match self.0.compare_exchange(FREE, taken, Ordering::Acquire, Ordering::Relaxed) {
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
            owner => Some(owner & !SLEEPERS),
        }
    }

    /// Makes every later attempt to take the lock panic. If somebody alive holds it, he finishes.
    pub fn poison(&self) {
        self.0.store(POISONED, Ordering::Release);
        wake(&self.0, u32::MAX);
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
            wake(self.word, u32::MAX);
            return;
        }
        // Not a plain store: the lock may have been poisoned while it was held, and stays so.
        if self.word.compare_exchange(self.owner, FREE, Ordering::Release, Ordering::Relaxed).is_err() {
            self.give_back_to_sleepers();
        }
    }
}

impl Guard<'_> {
    #[cold]
    fn give_back_to_sleepers(&self) {
        let marked = self.owner | SLEEPERS;
        if self.word.compare_exchange(marked, FREE, Ordering::Release, Ordering::Relaxed).is_ok() {
            wake(self.word, 1);
        }
    }
}

#[cold]
fn wake(word: &AtomicU32, most: u32) {
    if let Some(sleeping) = SLEEPING.get() {
        wake_at(word, most, |word| (sleeping.wake)(word, most));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_panic_inside_poisons() {
        let lock = RegionLock(AtomicU32::new(FREE));
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
        struct UsesTheLock<'l>(&'l RegionLock);
        impl Drop for UsesTheLock<'_> {
            fn drop(&mut self) {
                drop(self.0.lock(7));
            }
        }
        let lock = RegionLock(AtomicU32::new(FREE));
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
        let lock = RegionLock(AtomicU32::new(FREE));
        let guard = lock.lock(7);
        lock.poison();
        drop(guard);
        assert!(lock.is_poisoned());
    }

    /// Sleeping as the kernel has it, by what the standard library has.
    mod kernel {
        use std::sync::atomic::{AtomicU64, Ordering};
        use std::sync::{Condvar, Mutex};
        use std::time::Duration;

        use super::FutexWord;

        static ALL: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());
        pub(super) static SLEEPS: AtomicU64 = AtomicU64::new(0);

        pub(super) fn sleep(word: &FutexWord, value: u32, most: Duration) {
            let all = ALL.0.lock().unwrap();
            if word.load(Ordering::SeqCst) == value {
                SLEEPS.fetch_add(1, Ordering::SeqCst);
                drop(ALL.1.wait_timeout(all, most).unwrap());
            }
        }

        pub(super) fn wake(_: &FutexWord, _: u32) {
            let _all = ALL.0.lock().unwrap();
            ALL.1.notify_all();
        }
    }

    /// Each of many threads adds to a number that only the lock protects, and holds the lock so long that the
    /// others sleep.
    #[test]
    fn sleepers_are_woken_one_after_the_other() {
        sleep_by(Sleeping { sleep: kernel::sleep, wake: kernel::wake });
        let (lock, number) = (RegionLock(AtomicU32::new(FREE)), AtomicU32::new(0));
        let began = std::time::Instant::now();
        std::thread::scope(|scope| {
            for owner in 1..=8 {
                let (lock, number) = (&lock, &number);
                scope.spawn(move || {
                    for _ in 0..50 {
                        let _guard = lock.lock(owner);
                        let before = number.load(Ordering::Relaxed);
                        std::thread::sleep(Duration::from_micros(200));
                        number.store(before + 1, Ordering::Relaxed);
                        assert_eq!(lock.holder(), Some(owner));
                    }
                });
            }
        });
        assert_eq!(number.load(Ordering::Relaxed), 400);
        assert!(kernel::SLEEPS.load(Ordering::SeqCst) > 0, "{:?}", began.elapsed());
        assert_eq!(lock.0.load(Ordering::Relaxed), FREE);
    }

    /// Whoever sleeps at a lock whose holder dies is told.
    #[test]
    fn poison_wakes_all_who_sleep() {
        sleep_by(Sleeping { sleep: kernel::sleep, wake: kernel::wake });
        let lock = RegionLock(AtomicU32::new(FREE));
        let guard = lock.lock(7);
        std::thread::scope(|scope| {
            let all: Vec<_> = (8..12).map(|owner| (owner, &lock)).collect();
            let all: Vec<_> =
                all.into_iter().map(|(owner, lock)| scope.spawn(move || drop(lock.lock(owner)))).collect();
            while lock.0.load(Ordering::Relaxed) & SLEEPERS == 0 {
                std::thread::yield_now();
            }
            lock.poison();
            drop(guard);
            all.into_iter().for_each(|waiting| assert!(waiting.join().is_err()));
        });
    }

    #[test]
    fn the_holder_is_named() {
        let lock = RegionLock(AtomicU32::new(FREE));
        let guard = lock.lock(7);
        assert_eq!(lock.holder(), Some(7));
        assert!(lock.try_lock(8).is_none());
        drop(guard);
        assert_eq!(lock.holder(), None);
    }
}
