//! Faults that can be switched on to prove that the tests would notice them.
//!
//! Each switch breaks one of the durability invariants. They exist only with the feature `planted`,
//! which no shipped build turns on; without it every switch is a constant `false`.

/// A rule of the engine that a test can take out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Bug {
    /// Invariant 2: a clean offer enters although the page was written since the miss.
    StaleOfferAdmitted = 1,
    /// Invariant 2: a read of a frame that was overwritten meanwhile is believed.
    ReadUnconfirmed,
    /// Invariant 3: a sync is acknowledged when its groups are written, not flushed.
    SyncWithoutFlush,
    /// Invariant 5: frames are released before the disk writes of their pages are synced.
    ReuseBeforeDiskSync,
    /// Invariant 5: frames of superseded versions are released and overwritten before the newer one is
    /// durable. (Either rule alone covers for the other: a durable front implies that everything before
    /// the group that carries it is durable.)
    ReuseBeforeSuperseder,
    /// Invariant 5: frames are overwritten before the front that passed them is durable.
    ReuseBeforeDurableFront,
    /// Invariant 5: a dirty page at the front is dropped instead of being written to disk.
    DirtyDroppedAtFront,
    /// Invariant 6: an invalidation leaves no tombstone.
    NoTombstone,
    /// Invariant 6: recovery ignores the tombstones of ranges.
    RangeTombstoneIgnored,
    /// Invariant 7: recovery takes the oldest version of a page for the newest.
    OlderVersionWins,
    /// Invariant 7: a second chance does not check that its version is still the newest.
    SecondChanceUnchecked,
    /// Invariant 8: a group past the durable mark is used without verifying its pages.
    TornGroupUsed,
    /// Invariants 7 and 8: the chain of groups is followed without comparing the predecessor's checksum
    /// and the epoch.
    ChainUnchecked,
    /// Invariant 9: recovery stops at the last metadata segment and does not scan the groups after it.
    TailNotScanned,
    /// Invariant 9: a metadata segment names other pages than the groups it stands for.
    SegmentMisnamed,
    /// Invariant 6: the durable front found in group summaries is ignored.
    FrontIgnored,
    /// Invariant 10: a tier is taken for a file's though it is older than the file. (The volume's part.)
    IdentityUnchecked,
    /// Invariant 11: a failed flash flush counts as done.
    FailedFlushIgnored,
    /// Invariant 12: the jobs of an owner that has died are not handed out again.
    DeadOwnersJobsLost,
    /// Invariant 4: a version does not inherit since when its page is dirty, so that a drain up to a mark misses it.
    SinceNotInherited,
}

impl Bug {
    /// Every switch.
    pub const ALL: [Self; 20] = [
        Self::StaleOfferAdmitted,
        Self::ReadUnconfirmed,
        Self::SyncWithoutFlush,
        Self::ReuseBeforeDiskSync,
        Self::ReuseBeforeSuperseder,
        Self::ReuseBeforeDurableFront,
        Self::DirtyDroppedAtFront,
        Self::NoTombstone,
        Self::RangeTombstoneIgnored,
        Self::OlderVersionWins,
        Self::SecondChanceUnchecked,
        Self::TornGroupUsed,
        Self::ChainUnchecked,
        Self::TailNotScanned,
        Self::SegmentMisnamed,
        Self::FrontIgnored,
        Self::IdentityUnchecked,
        Self::FailedFlushIgnored,
        Self::DeadOwnersJobsLost,
        Self::SinceNotInherited,
    ];

    /// The durability invariant that the switch breaks.
    pub const fn invariant(self) -> u32 {
        match self {
            Self::StaleOfferAdmitted | Self::ReadUnconfirmed => 2,
            Self::SyncWithoutFlush => 3,
            Self::SinceNotInherited => 4,
            Self::ReuseBeforeDiskSync
            | Self::ReuseBeforeSuperseder
            | Self::ReuseBeforeDurableFront
            | Self::DirtyDroppedAtFront => 5,
            Self::NoTombstone | Self::RangeTombstoneIgnored | Self::FrontIgnored => 6,
            Self::OlderVersionWins | Self::SecondChanceUnchecked => 7,
            Self::TornGroupUsed | Self::ChainUnchecked => 8,
            Self::TailNotScanned | Self::SegmentMisnamed => 9,
            Self::IdentityUnchecked => 10,
            Self::FailedFlushIgnored => 11,
            Self::DeadOwnersJobsLost => 12,
        }
    }
}

#[cfg(feature = "planted")]
mod switch {
    use std::cell::Cell;

    thread_local! {
        // Per thread, so that tests which plant different faults can run side by side.
        static CURRENT: Cell<u32> = const { Cell::new(0) };
    }

    /// Switches one fault on for this thread, or all off.
    pub fn set(bug: Option<super::Bug>) {
        CURRENT.with(|current| current.set(bug.map_or(0, |bug| bug as u32)));
    }

    /// Whether a fault is switched on for this thread.
    pub fn is(bug: super::Bug) -> bool {
        CURRENT.with(|current| current.get() == bug as u32)
    }
}

#[cfg(feature = "planted")]
pub use switch::{is, set};

/// Whether a fault is switched on: never, without the feature `planted`.
#[cfg(not(feature = "planted"))]
#[inline(always)]
pub const fn is(_bug: Bug) -> bool {
    false
}
