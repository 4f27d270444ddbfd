//! The standard library's locks and condition variables, with a point before each is taken. In an explored
//! order who cannot have one sleeps as far as the scheduler is concerned, so that it sees a deadlock;
//! anywhere else the standard library's own wait.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::sync::{self, Arc, LockResult, PoisonError, TryLockError, TryLockResult};
use std::task::{Poll, Waker};
use std::time::Duration;

use super::explored::{exploring, point};

/// Threads of an order that sleep until something is given back.
struct Sleepers(sync::Mutex<Vec<Waker>>);

impl Sleepers {
    const fn new() -> Self {
        Self(sync::Mutex::new(Vec::new()))
    }

    fn all(&self) -> sync::MutexGuard<'_, Vec<Waker>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sleeps until `attempt` succeeds. No other thread of the order runs between an attempt and the sleep.
    fn until<T>(&self, mut attempt: impl FnMut() -> Option<T>) -> T {
        shuttle::future::block_on(std::future::poll_fn(|context| match attempt() {
            Some(found) => Poll::Ready(found),
            None => {
                self.all().push(context.waker().clone());
                Poll::Pending
            }
        }))
    }

    fn wake(&self) {
        // The threads of an order in which one has panicked never run again.
        if !std::thread::panicking() {
            let sleepers = std::mem::take(&mut *self.all());
            sleepers.into_iter().for_each(Waker::wake);
        }
    }
}

/// A thread of an order that sleeps at a word.
struct AtWord {
    word: usize,
    waker: Waker,
    is_woken: Arc<AtomicBool>,
}

static AT_WORDS: sync::Mutex<Vec<AtWord>> = sync::Mutex::new(Vec::new());

fn at_words() -> sync::MutexGuard<'static, Vec<AtWord>> {
    AT_WORDS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sleeps until somebody wakes the thread, if the word has this value.
pub(super) fn sleep_at(word: &AtomicU32, value: u32) {
    let is_woken = Arc::new(AtomicBool::new(false));
    let mut sleeps = false;
    // No other thread of the order runs between the look at the word and the sleep.
    shuttle::future::block_on(std::future::poll_fn(|context| {
        if is_woken.load(Relaxed) || !sleeps && word.load(Relaxed) != value {
            return Poll::Ready(());
        }
        sleeps = true;
        at_words().retain(|other| !Arc::ptr_eq(&other.is_woken, &is_woken));
        at_words().push(AtWord {
            word: std::ptr::from_ref(word).addr(),
            waker: context.waker().clone(),
            is_woken: Arc::clone(&is_woken),
        });
        Poll::Pending
    }));
}

/// Wakes so many who sleep at the word, the first ones.
pub(super) fn wake_at(word: &AtomicU32, most: u32) {
    if std::thread::panicking() {
        return;
    }
    for _ in 0..most {
        let mut all = at_words();
        let word = std::ptr::from_ref(word).addr();
        let Some(number) = all.iter().position(|at| at.word == word) else { return };
        let at = all.remove(number);
        drop(all);
        at.is_woken.store(true, Relaxed);
        at.waker.wake();
    }
}

/// Wakes who waits for a lock when it is given back: a guard's last field.
struct Back<'l>(&'l Sleepers);

impl Drop for Back<'_> {
    fn drop(&mut self) {
        self.0.wake();
    }
}

/// Has `wrap` make a guard of the standard library's guard, poisoned or not.
fn wrapped<G, W>(locked: LockResult<G>, wrap: impl Fn(G) -> W) -> LockResult<W> {
    match locked {
        Ok(guard) => Ok(wrap(guard)),
        Err(poisoned) => Err(PoisonError::new(wrap(poisoned.into_inner()))),
    }
}

/// `None` if the lock is somebody else's now.
fn now<G>(tried: TryLockResult<G>) -> Option<LockResult<G>> {
    match tried {
        Ok(guard) => Some(Ok(guard)),
        Err(TryLockError::Poisoned(poisoned)) => Some(Err(poisoned)),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// See [`sync::Mutex`].
pub struct Mutex<T: ?Sized> {
    sleepers: Sleepers,
    inner: sync::Mutex<T>,
}

/// See [`sync::MutexGuard`].
pub struct MutexGuard<'l, T: ?Sized> {
    // Given back before the others are woken.
    inner: sync::MutexGuard<'l, T>,
    back: Back<'l>,
    lock: &'l Mutex<T>,
}

impl<T> Mutex<T> {
    /// See [`sync::Mutex::new`].
    pub const fn new(value: T) -> Self {
        Self { sleepers: Sleepers::new(), inner: sync::Mutex::new(value) }
    }
}

impl<T: ?Sized> Mutex<T> {
    fn guard<'l>(&'l self, inner: sync::MutexGuard<'l, T>) -> MutexGuard<'l, T> {
        MutexGuard { inner, back: Back(&self.sleepers), lock: self }
    }

    /// See [`sync::Mutex::lock`].
    ///
    /// # Errors
    /// As there.
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        let locked = if exploring() {
            point();
            self.sleepers.until(|| now(self.inner.try_lock()))
        } else {
            self.inner.lock()
        };
        wrapped(locked, |inner| self.guard(inner))
    }

    /// See [`sync::Mutex::try_lock`].
    ///
    /// # Errors
    /// As there.
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        point();
        let locked = now(self.inner.try_lock()).ok_or(TryLockError::WouldBlock)?;
        Ok(wrapped(locked, |inner| self.guard(inner))?)
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

/// See [`sync::RwLock`]. As with that of most systems, readers that come while a writer waits let it pass:
/// who takes it shared twice is in a deadlock with a writer in between.
pub struct RwLock<T: ?Sized> {
    sleepers: Sleepers,
    writers_waiting: AtomicUsize,
    inner: sync::RwLock<T>,
}

/// See [`sync::RwLockReadGuard`].
pub struct RwLockReadGuard<'l, T: ?Sized> {
    inner: sync::RwLockReadGuard<'l, T>,
    _back: Back<'l>,
}

/// See [`sync::RwLockWriteGuard`].
pub struct RwLockWriteGuard<'l, T: ?Sized> {
    inner: sync::RwLockWriteGuard<'l, T>,
    _back: Back<'l>,
}

impl<T> RwLock<T> {
    /// See [`sync::RwLock::new`].
    pub const fn new(value: T) -> Self {
        Self {
            sleepers: Sleepers::new(),
            writers_waiting: AtomicUsize::new(0),
            inner: sync::RwLock::new(value),
        }
    }
}

impl<T: ?Sized> RwLock<T> {
    /// See [`sync::RwLock::read`].
    ///
    /// # Errors
    /// As there.
    pub fn read(&self) -> LockResult<RwLockReadGuard<'_, T>> {
        let locked = if exploring() {
            point();
            self.sleepers.until(|| {
                let passed = self.writers_waiting.load(Relaxed) > 0;
                if passed { None } else { now(self.inner.try_read()) }
            })
        } else {
            self.inner.read()
        };
        wrapped(locked, |inner| RwLockReadGuard { inner, _back: Back(&self.sleepers) })
    }

    /// See [`sync::RwLock::write`].
    ///
    /// # Errors
    /// As there.
    pub fn write(&self) -> LockResult<RwLockWriteGuard<'_, T>> {
        let locked = if exploring() {
            point();
            self.writers_waiting.fetch_add(1, Relaxed);
            let locked = self.sleepers.until(|| now(self.inner.try_write()));
            self.writers_waiting.fetch_sub(1, Relaxed);
            locked
        } else {
            self.inner.write()
        };
        wrapped(locked, |inner| RwLockWriteGuard { inner, _back: Back(&self.sleepers) })
    }
}

impl<T: Default> Default for RwLock<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T: ?Sized> Deref for RwLockReadGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T: ?Sized> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

/// See [`sync::Condvar`].
#[derive(Default)]
pub struct Condvar {
    real: sync::Condvar,
    explored: sync::Mutex<Waiters>,
}

/// Threads of an order that wait for a condition variable, by the number of their wait, those first that came
/// first.
#[derive(Default)]
struct Waiters {
    last: u64,
    waiting: Vec<(u64, Option<Waker>)>,
}

/// See [`sync::WaitTimeoutResult`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// See [`sync::WaitTimeoutResult::timed_out`].
    pub fn timed_out(&self) -> bool {
        self.0
    }
}

impl Condvar {
    /// See [`sync::Condvar::new`].
    pub const fn new() -> Self {
        Self {
            real: sync::Condvar::new(),
            explored: sync::Mutex::new(Waiters { last: 0, waiting: Vec::new() }),
        }
    }

    fn waiters(&self) -> sync::MutexGuard<'_, Waiters> {
        self.explored.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// See [`sync::Condvar::wait`].
    ///
    /// # Errors
    /// As there.
    pub fn wait<'l, T>(&self, guard: MutexGuard<'l, T>) -> LockResult<MutexGuard<'l, T>> {
        let lock = guard.lock;
        if !exploring() {
            let MutexGuard { inner, back, .. } = guard;
            drop(back);
            return wrapped(self.real.wait(inner), |inner| lock.guard(inner));
        }
        let me = {
            let mut waiters = self.waiters();
            waiters.last += 1;
            let me = waiters.last;
            waiters.waiting.push((me, None));
            me
        };
        drop(guard);
        shuttle::future::block_on(std::future::poll_fn(|context| {
            match self.waiters().waiting.iter_mut().find(|(number, _)| *number == me) {
                Some((_, waker)) => {
                    *waker = Some(context.waker().clone());
                    Poll::Pending
                }
                None => Poll::Ready(()),
            }
        }));
        lock.lock()
    }

    /// See [`sync::Condvar::wait_timeout`]. No time passes in an explored order: the others have one chance
    /// to run, and the time is over.
    ///
    /// # Errors
    /// As there.
    pub fn wait_timeout<'l, T>(
        &self,
        guard: MutexGuard<'l, T>,
        longest: Duration,
    ) -> LockResult<(MutexGuard<'l, T>, WaitTimeoutResult)> {
        let lock = guard.lock;
        if exploring() {
            drop(guard);
            super::rest();
            return wrapped(lock.lock(), |guard| (guard, WaitTimeoutResult(true)));
        }
        let MutexGuard { inner, back, .. } = guard;
        drop(back);
        wrapped(self.real.wait_timeout(inner, longest), |(inner, result)| {
            (lock.guard(inner), WaitTimeoutResult(result.timed_out()))
        })
    }

    /// See [`sync::Condvar::notify_one`].
    pub fn notify_one(&self) {
        self.notify(1);
        self.real.notify_one();
    }

    /// See [`sync::Condvar::notify_all`].
    pub fn notify_all(&self) {
        self.notify(usize::MAX);
        self.real.notify_all();
    }

    fn notify(&self, most: usize) {
        point();
        let woken: Vec<_> = {
            let mut waiters = self.waiters();
            let count = most.min(waiters.waiting.len());
            waiters.waiting.drain(..count).collect()
        };
        if !std::thread::panicking() {
            woken.into_iter().filter_map(|(_, waker)| waker).for_each(Waker::wake);
        }
    }
}
