//! What the threads of a volume share about a tier in use, beside the engine's own region.

use mezzanine_ground::interleave::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::host_metadata::{TABLE_STATE_WORDS, TableState};
use crate::shared::changes::{Entered, Unsynced};
use crate::shared::jobs::Jobs;
use crate::shared::plain::{Record, plain};

plain! {
    /// The shared side of a tier in use. It comes and goes with the tier: another flash device brings
    /// another.
    pub(crate) struct TierShared {
        pub(crate) jobs: Jobs,
        pub(crate) entered: Entered,
        pub(crate) unsynced: Unsynced,
        pub(crate) service: Service,
        /// The table of files, and what of it the tier was told.
        pub(crate) table: Record<TableState, TABLE_STATE_WORDS>,
    }
}

plain! {
    /// What may be done with a tier, from its opening until another one takes its place.
    pub(crate) struct Service {
        /// The new epoch is durable. Never taken back.
        begun: AtomicBool,
        /// No changes and no jobs yet: this opening has not started (see `crate::start`), or files that the
        /// tier knows are not attached, so that their pages could not be staged out.
        held: AtomicBool,
        /// The host was told to take no pages. Changes only while nobody writes.
        admission_off: AtomicBool,
        /// Another tier has taken its place: no jobs of it, and its failures concern nobody. Never taken
        /// back.
        retired: AtomicBool,
        /// Both copies of the superblock were written in this opening, without a failure. Changes under the
        /// superblock's lock.
        superblocks_known: AtomicBool,
        /// Pages that were read from disk and not taken because this opening has not started.
        untaken: AtomicU64,
    }
}

impl Service {
    /// Of a tier that was just opened.
    pub(crate) fn begin(&self) {
        self.hold(true);
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Acquire)
    }

    /// The new epoch is durable.
    pub(crate) fn has_durable_epoch(&self) {
        self.begun.store(true, Ordering::Release);
    }

    pub(crate) fn is_held(&self) -> bool {
        self.held.load(Ordering::Acquire)
    }

    pub(crate) fn hold(&self, held: bool) {
        self.held.store(held, Ordering::Release);
    }

    pub(crate) fn admits(&self) -> bool {
        !self.admission_off.load(Ordering::Acquire)
    }

    pub(crate) fn admit(&self, admits: bool) {
        self.admission_off.store(!admits, Ordering::Release);
    }

    pub(crate) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::SeqCst)
    }

    pub(crate) fn retire(&self) {
        self.retired.store(true, Ordering::SeqCst);
    }

    /// A superblock is about to be written: whether both copies were without a failure before. Until it
    /// [is](Self::superblock_written), nobody knows.
    pub(crate) fn superblock_begins(&self) -> bool {
        self.superblocks_known.swap(false, Ordering::AcqRel)
    }

    pub(crate) fn superblock_written(&self) {
        self.superblocks_known.store(true, Ordering::Release);
    }

    pub(crate) fn untaken(&self) -> u64 {
        self.untaken.load(Ordering::Relaxed)
    }

    pub(crate) fn count_untaken(&self) {
        self.untaken.fetch_add(1, Ordering::Relaxed);
    }

    /// From here on so many count as untaken.
    pub(crate) fn set_untaken(&self, pages: u64) {
        self.untaken.store(pages, Ordering::Relaxed);
    }
}
