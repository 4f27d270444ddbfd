//! What a cache and its host have done.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use mezzanine_fragment::Statistics;

use crate::health::{DeviceFailures, Health};
use crate::latency::{Latency, Served};

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        #[derive(Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: AtomicU64,)+
        }

        /// Requests that the host did not ask the engine about, or has sent elsewhere.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Bypassed {
            $($(#[doc = $doc])+ pub $name: u64,)+
        }

        impl Counters {
            pub(crate) fn snapshot(&self) -> Bypassed {
                Bypassed { $($name: self.$name.load(Relaxed),)+ }
            }
        }

        impl Bypassed {
            /// Every counter with its name, in order.
            pub fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)+]
            }
        }
    };
}

counters! {
    /// Reads past a cache device that has refused several in a row.
    bypass_read_suspended,
    /// Reads past a cache device that is not used again.
    bypass_read_lost,
    /// Writes and discards past a cache device that is not used again.
    bypass_write_lost,
    /// Pieces that the cache device gave back when it was not to be believed any more.
    bypass_read_disbelieved,
    /// Reads that a backing device has failed.
    backing_reads_failed,
    /// Flushes that a backing device has failed.
    flushes_failed,
    /// Flushes.
    flushes,
    /// Writes that were durable when they were answered.
    writes_durable,
}

pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

/// What a cache has done since it was started, and how it is.
#[derive(Clone, Debug)]
pub struct CachedStatistics {
    /// The engine's counters.
    pub engine: Statistics,
    /// The host's.
    pub host: Bypassed,
    /// How the cache device is.
    pub health: Health,
    /// What the cache device has refused.
    pub failures: Vec<DeviceFailures>,
    /// Latencies, in the order of [`Served::ALL`].
    pub latencies: Vec<(Served, Latency)>,
    /// Stage of the population throttle, from 0, the fastest, on (Algorithm 1 of the paper).
    pub stage: usize,
    /// Fragments that wait to be populated.
    pub candidates: u64,
}
