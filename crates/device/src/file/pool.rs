//! Concurrent transfers where the kernel offers no io_uring: a small pool of threads for the whole process.
//!
//! A batch is a list that several threads take from. The submitting thread takes from it too, so that a batch
//! makes progress whatever the pool does: no thread could be started, all are busy, or they are lost to a
//! `fork`.
//!
//! Rule: a worker touches a transfer only between claiming its index and counting it as finished, and the
//! submitter does not return before all claimed transfers are counted. So the caller's memory outlives every
//! access to it.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

use super::transfer::Transfer;
use crate::fork::generation;

/// Threads of the pool. They only wait for devices, so their number is the queue depth that a device sees at
/// most from one batch, not a share of the processor.
const THREADS: usize = 16;

/// Carries out all transfers concurrently; one result each, in order.
pub(super) fn run(transfers: &mut [Transfer<'_>]) -> Vec<io::Result<()>> {
    let batch = Arc::new(Batch::new(transfers));
    let helpers = transfers.len().saturating_sub(1).min(THREADS);
    let pool = Pool::global();
    // A forked child has none of the threads, and one of them may have held the lock of the queue.
    if pool.generation == generation() {
        pool.offer(&batch, helpers);
    }
    batch.work();
    batch.wait()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing that runs under these locks can panic halfway through a change.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Batch {
    /// First of `len` transfers, which the submitter borrows until `wait` returns.
    transfers: *mut Transfer<'static>,
    len: usize,
    claimed: AtomicUsize,
    progress: Mutex<Progress>,
    finished: Condvar,
}

struct Progress {
    results: Vec<Option<io::Result<()>>>,
    finished: usize,
}

// SAFETY: the pointer is dereferenced only under the rule of this module: by the one thread that claimed the
// index, while the submitter keeps the borrow alive. `Transfer` holds only references to bytes and files,
// which may move between threads.
unsafe impl Send for Batch {}
// SAFETY: as above; everything else in the batch is an atomic or behind a mutex.
unsafe impl Sync for Batch {}

impl Batch {
    fn new(transfers: &mut [Transfer<'_>]) -> Self {
        let results = transfers.iter().map(|_| None).collect();
        Self {
            transfers: transfers.as_mut_ptr().cast(),
            len: transfers.len(),
            claimed: AtomicUsize::new(0),
            progress: Mutex::new(Progress { results, finished: 0 }),
            finished: Condvar::new(),
        }
    }

    /// Claims and carries out transfers until none is left to claim.
    fn work(&self) {
        loop {
            let index = self.claimed.fetch_add(1, Ordering::Relaxed);
            if index >= self.len {
                return;
            }
            // SAFETY: `index` lies within the slice of `len` transfers.
            let transfer = unsafe { self.transfers.add(index) };
            // SAFETY: this thread alone has claimed the index, and the submitter, who borrows the transfers,
            // has not returned, because it waits for this index to be counted below.
            let transfer = unsafe { &mut *transfer };
            let result = transfer.carry_out();
            let mut progress = lock(&self.progress);
            progress.results[index] = Some(result);
            progress.finished += 1;
            if progress.finished == self.len {
                self.finished.notify_one();
            }
        }
    }

    /// Waits until every transfer is finished.
    fn wait(&self) -> Vec<io::Result<()>> {
        let mut progress = lock(&self.progress);
        while progress.finished < self.len {
            progress = self.finished.wait(progress).unwrap_or_else(PoisonError::into_inner);
        }
        std::mem::take(&mut progress.results).into_iter().flatten().collect()
    }
}

struct Pool {
    /// Of the process that has the threads.
    generation: u64,
    queue: Mutex<VecDeque<Arc<Batch>>>,
    offered: Condvar,
}

impl Pool {
    fn global() -> &'static Self {
        static POOL: OnceLock<Pool> = OnceLock::new();
        static THREADS_STARTED: OnceLock<()> = OnceLock::new();
        let pool = POOL.get_or_init(|| Self {
            generation: generation(),
            queue: Mutex::new(VecDeque::new()),
            offered: Condvar::new(),
        });
        THREADS_STARTED.get_or_init(|| {
            for number in 0..THREADS {
                let builder = thread::Builder::new().name(format!("mezz-io-{number}")).stack_size(128 << 10);
                // A thread that cannot be started costs concurrency, not correctness.
                if builder.spawn(move || pool.serve()).is_err() {
                    break;
                }
            }
        });
        pool
    }

    fn offer(&self, batch: &Arc<Batch>, helpers: usize) {
        let mut queue = lock(&self.queue);
        for _ in 0..helpers {
            queue.push_back(Arc::clone(batch));
            self.offered.notify_one();
        }
    }

    fn serve(&self) {
        loop {
            let mut queue = lock(&self.queue);
            let batch = loop {
                match queue.pop_front() {
                    Some(batch) => break batch,
                    None => queue = self.offered.wait(queue).unwrap_or_else(PoisonError::into_inner),
                }
            };
            drop(queue);
            batch.work();
        }
    }
}
