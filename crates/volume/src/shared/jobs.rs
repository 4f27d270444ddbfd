//! Who carries out the jobs of a tier, and who looks for one in vain.

use mezzanine_ground::interleave::sync::atomic::{AtomicU32, Ordering};

use crate::shared::plain::plain;

plain! {
    /// Counts of those that carry jobs out. Each is a word of its own.
    pub(crate) struct Jobs {
        /// Threads that are inside of a job or looking for one.
        running: AtomicU32,
        /// Looks for a job that found none since the last that did.
        fruitless: AtomicU32,
        /// Pages given to the tier, for waking a worker once per group.
        staged: AtomicU32,
    }
}

impl Jobs {
    /// Somebody looks for a job, and carries it out if there is one.
    pub(crate) fn begins(&self) {
        self.running.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn ends(&self) {
        self.running.fetch_sub(1, Ordering::SeqCst);
    }

    pub(crate) fn are_running(&self) -> bool {
        self.running.load(Ordering::SeqCst) > 0
    }

    /// Somebody who waits has found no job: how often that was so before.
    pub(crate) fn found_none(&self) -> u32 {
        self.fruitless.fetch_add(1, Ordering::AcqRel)
    }

    /// Somebody who waits has found one.
    pub(crate) fn found_one(&self) {
        self.fruitless.store(0, Ordering::Release);
    }

    /// Counts a page that was given to the tier; whether it is the last of as many as make a group.
    pub(crate) fn completes_group(&self, pages_per_group: u32) -> bool {
        (self.staged.fetch_add(1, Ordering::Relaxed) + 1) % pages_per_group == 0
    }
}
