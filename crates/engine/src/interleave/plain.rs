//! What is shipped: the standard library's types, and no points.

use std::io;
use std::time::Instant;

pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64};

/// What threads of a host share.
pub use std::sync;

/// Nothing.
#[inline(always)]
pub(crate) fn word_point() {}

/// Passes a moment in a loop that waits for another thread.
#[inline(always)]
pub(crate) fn spin() {
    std::hint::spin_loop();
}

/// Gives the processor away in a loop that waits for another thread.
#[inline(always)]
pub fn rest() {
    std::thread::yield_now();
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
}
