//! What is counted while a run goes on.

use serde::Serialize;

/// What answered a request for a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Served {
    /// The buffer pool.
    Pool,
    /// The tier's staging memory.
    Staging,
    /// The flash device.
    Flash,
    /// The disk.
    Disk,
}

/// Requests for pages, by what answered them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Requests {
    /// All of them.
    pub requests: u64,
    /// The page was in the buffer pool. Those that waited until another client's read of the same page was
    /// complete are among them.
    pub pool: u64,
    /// It was in the tier's staging memory.
    pub staging: u64,
    /// It was read from flash, from the tier or from the database that lies there.
    pub flash: u64,
    /// It was read from disk.
    pub disk: u64,
}

impl Requests {
    fn count(&mut self, served: Served) {
        self.requests += 1;
        *match served {
            Served::Pool => &mut self.pool,
            Served::Staging => &mut self.staging,
            Served::Flash => &mut self.flash,
            Served::Disk => &mut self.disk,
        } += 1;
    }

    pub(super) fn since(&self, earlier: &Self) -> Self {
        Self {
            requests: self.requests - earlier.requests,
            pool: self.pool - earlier.pool,
            staging: self.staging - earlier.staging,
            flash: self.flash - earlier.flash,
            disk: self.disk - earlier.disk,
        }
    }

    pub(super) fn plus(&self, other: &Self) -> Self {
        Self {
            requests: self.requests + other.requests,
            pool: self.pool + other.pool,
            staging: self.staging + other.staging,
            flash: self.flash + other.flash,
            disk: self.disk + other.disk,
        }
    }

    /// Requests that the pool did not answer.
    pub fn pool_misses(&self) -> u64 {
        self.requests - self.pool
    }
}

/// Why a dirty page left the pool, or was made clean in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    Eviction,
    Cleaner,
    Pull,
    Checkpoint,
}

macro_rules! counts {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// Sums since the beginning.
        #[derive(Debug, Clone, Default, PartialEq, Eq)]
        pub(super) struct Counts {
            pub(super) reads: Requests,
            pub(super) writes: Requests,
            /// By kind: transactions that were committed, and rolled back.
            pub(super) committed: Vec<u64>,
            pub(super) rolled_back: Vec<u64>,
            $($(#[doc = $doc])+ pub(super) $name: u64,)+
        }

        impl Counts {
            pub(super) fn since(&self, earlier: &Self) -> Self {
                let minus = |now: &[u64], then: &[u64]| {
                    now.iter().zip(then).map(|(now, then)| now - then).collect()
                };
                Self {
                    reads: self.reads.since(&earlier.reads),
                    writes: self.writes.since(&earlier.writes),
                    committed: minus(&self.committed, &earlier.committed),
                    rolled_back: minus(&self.rolled_back, &earlier.rolled_back),
                    $($name: self.$name - earlier.$name,)+
                }
            }
        }
    };
}

counts! {
    /// Requests that waited for another client's read of their page.
    joined,
    /// Pages read into the pool.
    loaded,
    /// Pages that were replaced in the pool.
    evicted,
    /// Dirty pages written out because their frames were needed.
    dirty_evicted,
    /// By the background cleaner.
    dirty_cleaned,
    /// Pulled by the tier.
    dirty_pulled,
    /// By checkpoints.
    dirty_checkpointed,
    /// Pages written to disk by whomever.
    disk_pages_written,
    /// Of these, by the tier's stage-out.
    disk_pages_staged_out,
    /// Pages read from disk.
    disk_pages_read,
    /// Times that a client carried out a job of the tier because staging memory was full.
    foreground_jobs,
    /// Times that somebody waited because it was full and there was no job.
    waits_for_room,
    /// Times that the log had to be written before a page.
    log_forced,
    /// Reads of flash that had to be made again because the page had left meanwhile.
    rereads,
    /// Checkpoints that were completed.
    checkpoints,
    /// Checkpoints that were not begun because one was under way.
    checkpoints_late,
    /// Time that clients waited for reads of the disk, in ns.
    disk_wait,
}

impl Counts {
    pub(super) fn new(kinds: usize) -> Self {
        Self { committed: vec![0; kinds], rolled_back: vec![0; kinds], ..Self::default() }
    }

    #[inline]
    pub(super) fn request(&mut self, served: Served, is_write: bool) {
        if is_write { self.writes.count(served) } else { self.reads.count(served) }
    }

    pub(super) fn dirty_out(&mut self, reason: Reason) {
        *match reason {
            Reason::Eviction => &mut self.dirty_evicted,
            Reason::Cleaner => &mut self.dirty_cleaned,
            Reason::Pull => &mut self.dirty_pulled,
            Reason::Checkpoint => &mut self.dirty_checkpointed,
        } += 1;
    }

    pub(super) fn transactions(&self) -> u64 {
        self.committed.iter().sum::<u64>() + self.rolled_back.iter().sum::<u64>()
    }

    /// Dirty pages that were written out of the pool, for whatever reason.
    pub(super) fn dirty_written(&self) -> u64 {
        self.dirty_evicted + self.dirty_cleaned + self.dirty_pulled + self.dirty_checkpointed
    }
}
