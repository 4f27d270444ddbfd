//! What threads that wait for one another count. Those of one process are woken in [`crate::signal`].

use mezzanine_ground::interleave::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use crate::shared::plain::plain;

plain! {
    /// Counters of what may let somebody go on, and of those that wait. All accesses are sequentially
    /// consistent: who waits notes a counter or raises a count, and then looks for himself; who has something
    /// for him makes that visible, and then looks at the count. One of the two sees the other.
    pub(crate) struct Progress {
        /// Everything that may let a waiting caller go on.
        made: AtomicU64,
        /// Everything that may be work.
        work: AtomicU64,
        /// Workers that have found no job, or are about to look for the last time.
        idle_workers: AtomicU32,
        /// Callers that wait for progress, or are about to.
        waiting: AtomicU32,
    }
}

/// Somebody is about to wait for progress.
pub(crate) struct Waiting<'s>(&'s AtomicU32);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Progress {
    pub(crate) fn made(&self) -> u64 {
        self.made.load(Ordering::SeqCst)
    }

    pub(crate) fn work(&self) -> u64 {
        self.work.load(Ordering::SeqCst)
    }

    /// Something was done that may let others go on, and may be followed by work.
    pub(crate) fn make(&self) {
        self.made.fetch_add(1, Ordering::SeqCst);
        self.offer();
    }

    /// There may be work.
    pub(crate) fn offer(&self) {
        self.work.fetch_add(1, Ordering::SeqCst);
    }

    /// Announces that the caller will wait unless it finds something to do in one more look.
    pub(crate) fn announce(&self) -> Waiting<'_> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        Waiting(&self.waiting)
    }

    /// Whether anybody has announced that he will wait, to be asked when what he may wait for is visible.
    pub(crate) fn is_awaited(&self) -> bool {
        fence(Ordering::SeqCst);
        self.waiting.load(Ordering::SeqCst) > 0
    }

    pub(crate) fn worker_idles(&self) {
        self.idle_workers.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn worker_goes_on(&self) {
        self.idle_workers.fetch_sub(1, Ordering::SeqCst);
    }

    /// Whether a worker idles, to be asked when the job for it is visible.
    pub(crate) fn has_idle_workers(&self) -> bool {
        self.idle_workers.load(Ordering::SeqCst) > 0
    }
}
