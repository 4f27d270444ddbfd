//! Whether an opening has started (see `crate::start`).

use mezzanine_ground::interleave::sync::atomic::{AtomicBool, Ordering};

use crate::shared::plain::plain;

plain! {
    /// Changes once at most, with the registry's lock held, and is read without.
    pub(crate) struct Start {
        /// The opening has not started, or not all of its files know.
        awaited: AtomicBool,
    }
}

impl Start {
    /// Of a volume that nobody else has yet: whether there is anything to start.
    pub(crate) fn begin(&self, awaited: bool) {
        self.awaited.store(awaited, Ordering::Release);
    }

    pub(crate) fn is_over(&self) -> bool {
        !self.awaited.load(Ordering::Acquire)
    }

    /// It is over, for good.
    pub(crate) fn ends(&self) {
        self.awaited.store(false, Ordering::Release);
    }
}
