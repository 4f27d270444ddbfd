//! What is shipped: the standard library's types, and no points.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};
use std::time::Instant;

use super::turns;

pub use std::sync::atomic::{AtomicU32, AtomicU64};

/// What threads of a host share.
pub use std::sync;

/// Nothing.
#[inline(always)]
pub fn word_point() {}

/// Passes a moment in a loop that waits for another thread.
#[inline(always)]
pub fn spin() {
    std::hint::spin_loop();
}

/// Gives the processor away in a loop that waits for another thread.
#[inline(always)]
pub fn rest() {
    if !turns::wait() {
        std::thread::yield_now();
    }
}

/// Sleeps by `sleep` as long as the word has this value, or less.
#[inline(always)]
pub fn sleep_at(word: &AtomicU32, _value: u32, sleep: impl FnOnce(&AtomicU32)) {
    if !turns::wait() {
        sleep(word);
    }
}

/// Wakes so many of those who sleep at the word, by `wake`.
#[inline(always)]
pub fn wake_at(word: &AtomicU32, _most: u32, wake: impl FnOnce(&AtomicU32)) {
    wake(word);
}

/// Takes a lock whose holders may have to be let go on first. `attempt` tries, `block` waits in earnest.
macro_rules! taken {
    ($attempt:expr, $block:expr) => {
        loop {
            match $attempt {
                Ok(guard) => return guard,
                Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
                Err(TryLockError::WouldBlock) if turns::wait() => {}
                Err(TryLockError::WouldBlock) => return $block.unwrap_or_else(PoisonError::into_inner),
            }
        }
    };
}

/// Takes a lock, whether a thread has panicked with it or not.
#[inline]
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    taken!(mutex.try_lock(), mutex.lock())
}

/// The same, together with others that do so.
#[inline]
pub fn shared<T: ?Sized>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    taken!(lock.try_read(), lock.read())
}

/// The same, alone.
#[inline]
pub fn exclusive<T: ?Sized>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    taken!(lock.try_write(), lock.write())
}

/// The time.
#[inline(always)]
pub fn now() -> Instant {
    Instant::now()
}

/// Threads of a host.
pub mod thread {
    use super::io;

    pub use std::thread::JoinHandle;

    /// Begins a thread of this name.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn spawn(name: String, work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
        std::thread::Builder::new().name(name).spawn(work)
    }

    /// Has so many threads of this name do `work`, fewer if the system gives no more, and this one `here` and
    /// then `work`. Returns when all have.
    pub fn share(name: &str, others: usize, work: &(dyn Fn() + Sync), here: &mut dyn FnMut()) {
        std::thread::scope(|scope| {
            let begun = |_| std::thread::Builder::new().name(name.to_owned()).spawn_scoped(scope, work);
            // Those that begin run on by themselves; the scope waits for them.
            (0..others).map(begun).take_while(Result::is_ok).for_each(drop);
            here();
            work();
        });
    }
}
