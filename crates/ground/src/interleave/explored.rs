//! What tests explore: a point before every access.

use std::cell::Cell;
use std::time::{Duration, Instant};

thread_local! {
    // Of the thread that shuttle runs on: its own threads are coroutines there.
    static EXPLORING: Cell<bool> = const { Cell::new(false) };
    static OVER_THE_ENGINE: Cell<bool> = const { Cell::new(false) };
    // When a test on this thread first asked for orders; from then on no time passes there.
    static BEGAN: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Whether other threads may run at every point from now on. Off at first, so that a test can set things up
/// quickly and spend its schedules on what comes then.
///
/// Returns whether they might before.
pub fn explore(on: bool) -> bool {
    BEGAN.set(BEGAN.get().or_else(|| Some(Instant::now())));
    EXPLORING.with(|exploring| exploring.replace(on))
}

/// Whether the points inside the engine are passed over, for tests that spend their orders on its host: what
/// the host calls happens at once then, but where the engine waits for another thread.
pub fn over_the_engine(pass: bool) {
    OVER_THE_ENGINE.set(pass);
}

/// Whether this is a thread of an order. Not while one panics: it runs to its end then, and no other ever
/// does.
pub(super) fn exploring() -> bool {
    EXPLORING.with(Cell::get) && !std::thread::panicking()
}

/// The number of this thread in the order that is explored, from 1 on; none outside of one.
pub(crate) fn explored_thread() -> Option<u32> {
    exploring().then(|| usize::from(shuttle::current::me()) as u32 + 1)
}

/// Lets the scheduler choose who goes on.
pub fn point() {
    if exploring() {
        // A sleep of shuttle's is a switch and nothing else, without the hint that a yield gives.
        shuttle::thread::sleep(Duration::ZERO);
    }
}

/// Tells the scheduler that this thread can only wait for another.
pub fn spin() {
    if exploring() { shuttle::thread::yield_now() } else { std::hint::spin_loop() }
}

/// Gives the processor away in a loop that waits for another thread.
pub fn rest() {
    if exploring() { shuttle::thread::yield_now() } else { std::thread::yield_now() }
}

/// Takes a lock, whether a thread has panicked with it or not.
pub fn lock<T: ?Sized>(mutex: &sync::Mutex<T>) -> sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(sync::PoisonError::into_inner)
}

/// The same, together with others that do so.
pub fn shared<T: ?Sized>(lock: &sync::RwLock<T>) -> sync::RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(sync::PoisonError::into_inner)
}

/// The same, alone.
pub fn exclusive<T: ?Sized>(lock: &sync::RwLock<T>) -> sync::RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(sync::PoisonError::into_inner)
}

/// The time. It stands still where orders are explored, so that an order is the same whenever it is replayed.
pub fn now() -> Instant {
    BEGAN.get().unwrap_or_else(Instant::now)
}

/// The standard library's, with a point before every access: all of them go through `deref`.
macro_rules! atomics {
    ($visible:vis, $($name:ident($value:ty)),+) => {$(
        /// See the module.
        #[derive(Default)]
        #[repr(transparent)]
        $visible struct $name(std::sync::atomic::$name);

        impl $name {
            /// One with this value.
            #[allow(dead_code, reason = "the words of a region come to life as zeros")]
            $visible const fn new(value: $value) -> Self {
                Self(std::sync::atomic::$name::new(value))
            }
        }

        impl std::ops::Deref for $name {
            type Target = std::sync::atomic::$name;

            fn deref(&self) -> &Self::Target {
                point();
                &self.0
            }
        }
    )+};
}

/// What the engine's region is made of.
pub(crate) mod words {
    /// A point inside the engine.
    pub fn point() {
        if !super::OVER_THE_ENGINE.get() {
            super::point();
        }
    }

    atomics!(pub, AtomicU32(u32), AtomicU64(u64));

    /// Sleeps by `sleep` as long as the word has this value, or less. In an order as long as nobody wakes the
    /// thread: that a sleep has an end would hide that nobody does.
    pub fn sleep_at(word: &AtomicU32, value: u32, sleep: impl FnOnce(&std::sync::atomic::AtomicU32)) {
        match super::exploring() {
            true => crate::interleave::locks::sleep_at(&word.0, value),
            false => sleep(&word.0),
        }
    }

    /// Wakes so many of those who sleep at the word, by `wake`; in an order those who slept first.
    pub fn wake_at(word: &AtomicU32, most: u32, wake: impl FnOnce(&std::sync::atomic::AtomicU32)) {
        match super::exploring() {
            true => crate::interleave::locks::wake_at(&word.0, most),
            false => wake(&word.0),
        }
    }
}

/// What threads of a host share.
pub mod sync {
    pub use std::sync::{Arc, LockResult, PoisonError, TryLockError, TryLockResult, Weak};

    pub use crate::interleave::locks::{
        Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, WaitTimeoutResult,
    };

    /// Words.
    pub mod atomic {
        pub use std::sync::atomic::{Ordering, fence};

        use crate::interleave::point;

        atomics!(pub, AtomicBool(bool), AtomicU8(u8), AtomicU32(u32), AtomicU64(u64), AtomicUsize(usize));
    }
}

/// Threads of a host.
pub mod thread {
    use std::io;

    /// To wait for a thread's end.
    pub enum JoinHandle<T> {
        /// A thread of the system's.
        Real(std::thread::JoinHandle<T>),
        /// A thread of an order.
        Explored(shuttle::thread::JoinHandle<T>),
    }

    impl<T> JoinHandle<T> {
        /// Waits for it.
        ///
        /// # Errors
        /// What the thread panicked with.
        pub fn join(self) -> std::thread::Result<T> {
            match self {
                Self::Real(thread) => thread.join(),
                Self::Explored(thread) => thread.join(),
            }
        }
    }

    /// Begins a thread of this name: one of the order while an order is explored.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn spawn(name: String, work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
        if super::exploring() {
            let thread = shuttle::thread::Builder::new().name(name).spawn(work)?;
            return Ok(JoinHandle::Explored(thread));
        }
        std::thread::Builder::new().name(name).spawn(work).map(JoinHandle::Real)
    }

    /// Has so many threads of this name do `work`, fewer if the system gives no more, and this one `here` and
    /// then `work`. Returns when all have. In an order this one alone
    /// does it.
    pub fn share(name: &str, others: usize, work: &(dyn Fn() + Sync), here: &mut dyn FnMut()) {
        let others = if super::exploring() { 0 } else { others };
        std::thread::scope(|scope| {
            let begun = |_| std::thread::Builder::new().name(name.to_owned()).spawn_scoped(scope, work);
            // Those that begin run on by themselves; the scope waits for them.
            (0..others).map(begun).take_while(Result::is_ok).for_each(drop);
            here();
            work();
        });
    }
}
