//! The threads of a run.

/// Does the same on so many threads, this one among them; 0 counts as 1.
pub(crate) fn on_threads(threads: usize, work: impl Fn() + Sync) {
    std::thread::scope(|scope| {
        for _ in 1..threads.max(1) {
            scope.spawn(&work);
        }
        work();
    });
}
