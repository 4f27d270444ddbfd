//! Who replays metadata segments. The engine has no threads: a host that has some lends them.

use mezzanine_ground::interleave::AtomicU64;
use std::sync::atomic::Ordering;

/// Threads that a host lends to a recovery ([`Tier::recover_with`](crate::Tier::recover_with)).
pub trait Workers {
    /// How many there are, the calling one included. Into how many parts work is divided depends on it;
    /// what comes out does not.
    fn count(&self) -> usize;

    /// How many take part in work on so many records.
    fn count_for(&self, _records: usize) -> usize {
        self.count()
    }

    /// Calls `meanwhile` on the calling thread, once, and `work` on each thread, once; on the calling one
    /// behind `meanwhile`. It returns when all calls have. Each call of `work` goes on until nothing is left
    /// to be done, so a host that has no thread to spare just now may call it fewer times, but once at least.
    /// `records` is about how many are gone through: a few thousand are not worth beginning a thread.
    fn run(&self, records: usize, work: &(dyn Fn() + Sync), meanwhile: &mut dyn FnMut());
}

/// The calling thread alone, with work divided as if there were so many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InTurn(pub usize);

impl Workers for InTurn {
    fn count(&self) -> usize {
        self.0.max(1)
    }

    fn run(&self, _records: usize, work: &(dyn Fn() + Sync), meanwhile: &mut dyn FnMut()) {
        meanwhile();
        work();
    }
}

/// Has the workers carry out `task` once for each number below `tasks`, and does `meanwhile` beside it. All
/// together go through so many `records`.
///
/// # Panics
/// If the host's `run` returns before all are done.
pub(super) fn each_task(
    workers: &dyn Workers,
    records: usize,
    tasks: usize,
    task: &(dyn Fn(usize) + Sync),
    meanwhile: &mut dyn FnMut(),
) {
    let (next, done) = (AtomicU64::new(0), AtomicU64::new(0));
    let work = || {
        loop {
            let taken = next.fetch_add(1, Ordering::Relaxed) as usize;
            if taken >= tasks {
                return;
            }
            task(taken);
            done.fetch_add(1, Ordering::Relaxed);
        }
    };
    workers.run(records, &work, meanwhile);
    let done = done.load(Ordering::Relaxed) as usize;
    assert_eq!(done, tasks, "a host's workers return when the work is done");
}
