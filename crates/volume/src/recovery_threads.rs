//! The threads that replay a tier's metadata segments when it is opened.

use std::num::NonZero;

use mezzanine_engine::Workers;
use mezzanine_ground::interleave::thread;

/// Beyond so many, memory is what replay waits for.
const THREADS_MAX: usize = 8;
/// Records that are worth a thread: some milliseconds of work.
const RECORDS_PER_THREAD: usize = 16_384;

/// As many threads as there are processors that this process may run on, but at most eight. They are begun
/// when there is work for them, and end with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoveryThreads(usize);

impl RecoveryThreads {
    /// As many as the machine allows.
    pub fn of_machine() -> Self {
        Self(std::thread::available_parallelism().map_or(1, NonZero::get).min(THREADS_MAX))
    }

    /// So many, the calling one included.
    pub fn new(threads: NonZero<usize>) -> Self {
        Self(threads.get())
    }
}

impl Workers for RecoveryThreads {
    fn count(&self) -> usize {
        self.0
    }

    fn count_for(&self, records: usize) -> usize {
        self.0.min(1 + records / RECORDS_PER_THREAD)
    }

    fn run(&self, records: usize, work: &(dyn Fn() + Sync), meanwhile: &mut dyn FnMut()) {
        let others = self.count_for(records) - 1;
        thread::share("mezzanine-recovery", others, work, meanwhile);
    }
}
