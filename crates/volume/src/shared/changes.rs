//! Changes under way, and changes that no sync has covered.

use mezzanine_engine::planted::{self, Bug};
use mezzanine_ground::interleave::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::shared::plain::plain;

plain! {
    /// Threads inside of a short operation that changes the tier. Who quiesces the volume waits for them.
    ///
    /// The count is raised before the mode is looked at, and who quiesces looks at the count after he has
    /// changed the mode, all sequentially consistent: one of the two sees the other.
    pub(crate) struct Entered {
        threads: AtomicU32,
    }
}

/// While it lives, nobody quiesces the volume: who wants to waits for its end.
pub(crate) struct Inside<'h>(&'h AtomicU32);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Entered {
    /// Goes inside. The caller looks at the mode afterwards, and leaves again if that is not as it must be.
    pub(crate) fn enter(&self) -> Inside<'_> {
        self.threads.fetch_add(1, Ordering::SeqCst);
        Inside(&self.threads)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.threads.load(Ordering::SeqCst) == 0
    }
}

plain! {
    /// What a sync has to make durable: of the tier, or of a file's disk.
    ///
    /// A write is counted as a change before it is over, and whether one is under way is looked at before the
    /// changes are: so a sync misses nothing that others may have read before it began.
    pub(crate) struct Unsynced {
        /// Writes that are under way: others may read them already.
        writing: AtomicU32,
        /// Changes that are complete.
        made: AtomicU64,
        /// How many of them a completed sync has covered. It only rises.
        synced: AtomicU64,
    }
}

impl Unsynced {
    /// Of something that was just attached: nothing is unsynced.
    pub(crate) fn begin(&self) {
        self.writing.store(0, Ordering::SeqCst);
        self.made.store(0, Ordering::SeqCst);
        self.synced.store(0, Ordering::SeqCst);
    }

    /// Something has changed that the next sync must make durable.
    pub(crate) fn changed(&self) {
        self.made.fetch_add(1, Ordering::SeqCst);
    }

    /// Carries out a write, which the next sync must make durable; and a sync that comes before its end, what
    /// of it others may have read by then.
    pub(crate) fn writing<T>(&self, write: impl FnOnce() -> T) -> T {
        self.writing.fetch_add(1, Ordering::SeqCst);
        let written = write();
        planted::outside("a write can be read");
        self.changed();
        self.writing.fetch_sub(1, Ordering::SeqCst);
        written
    }

    /// Whether there are changes that are complete and that no sync has covered.
    pub(crate) fn has_changes(&self) -> bool {
        self.synced.load(Ordering::SeqCst) < self.made()
    }

    /// Whether there may be something that was read and that no sync has covered: also of writes that have
    /// not returned. Their end is looked at first, since they are counted before it.
    pub(crate) fn may_have_been_read(&self) -> bool {
        let writing = self.writing.load(Ordering::SeqCst) > 0 && !planted::is(Bug::UnderWayUnsynced);
        writing || self.has_changes()
    }

    /// Changes so far: what a sync that begins now covers.
    pub(crate) fn made(&self) -> u64 {
        self.made.load(Ordering::SeqCst)
    }

    /// A sync that began when so many changes were made has covered them.
    pub(crate) fn covered(&self, made: u64) {
        self.synced.fetch_max(made, Ordering::SeqCst);
    }
}
