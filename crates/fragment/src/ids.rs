//! Numbers that are not to be mixed up.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A cache of this process: what tokens, pieces and jobs of one cache carry, so that no other takes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CacheId(u64);

impl CacheId {
    /// A number that no other cache of the process has had.
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Relaxed))
    }
}

/// A fragment of a volume: numbered through all volumes of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Fragment(pub(crate) u32);

/// A fragment-sized place on the cache device, and the descriptor of what lies there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(pub(crate) u32);

/// One of the flights: a part of a write whose copy is on its way to the cache device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlightNumber(pub(crate) u32);

/// One of the population workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WorkerNumber(pub(crate) u32);
