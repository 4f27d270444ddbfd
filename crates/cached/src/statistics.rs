//! What a cache and its host have done.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use mezzanine_fragment::Statistics;

use crate::health::{DeviceFailures, Health};
use crate::latency::{Latency, Served};
use crate::marks::Survival;

macro_rules! counters {
    (
        $(#[doc = $about:literal])+ $all:ident of $counters:ident:
        $($(#[doc = $doc:literal])+ $name:ident,)+
    ) => {
        #[derive(Default)]
        pub(crate) struct $counters {
            $(pub(crate) $name: AtomicU64,)+
        }

        $(#[doc = $about])+
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $all {
            $($(#[doc = $doc])+ pub $name: u64,)+
        }

        impl $counters {
            pub(crate) fn snapshot(&self) -> $all {
                $all { $($name: self.$name.load(Relaxed),)+ }
            }
        }

        impl $all {
            /// Every counter with its name, in order.
            pub fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)+]
            }
        }
    };
}

counters! {
    /// Requests that the host did not ask the engine about, or has sent elsewhere.
    Bypassed of Counters:
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
    /// Writes and discards that still waited for a mark when the cache was closed: they failed, and were not
    /// sent.
    writes_unmarked,
}

counters! {
    /// The requests of one volume that were not refused by a device.
    VolumeStatistics of VolumeCounters:
    /// Reads that the cache device served all of.
    reads_cache,
    /// Reads that the volume's own device served all of.
    reads_backing,
    /// Reads that each of the two served a part of.
    reads_both,
    /// Bytes that were read.
    bytes_read,
    /// Writes.
    writes,
    /// Bytes that were written.
    bytes_written,
    /// Writes and discards that waited for a mark.
    writes_waited,
    /// Discards.
    discards,
    /// Flushes.
    flushes,
    /// Requests that failed.
    failed,
}

pub(crate) fn count(counter: &AtomicU64) {
    add(counter, 1);
}

pub(crate) fn add(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Relaxed);
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
    /// What of the cache is there again after a crash.
    pub survival: Survival,
    /// Writes and discards that wait for a mark now.
    pub writes_waiting: u64,
    /// By volume, in the order of the geometry.
    pub volumes: Vec<VolumeStatistics>,
    /// Latencies, in the order of [`Served::ALL`].
    pub latencies: Vec<(Served, Latency)>,
    /// Stage of the population throttle, from 0, the fastest, on (Algorithm 1 of the paper).
    pub stage: usize,
    /// Fragments that wait to be populated.
    pub candidates: u64,
}
