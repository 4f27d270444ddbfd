//! What came out of a run.

use std::collections::BTreeMap;

use serde::Serialize;

use super::super::drive::DriveLoad;
use super::super::latency::Latency;
use super::between::Tally;
use super::setup::BlockSetup;
use super::world::World;

/// All sums at one moment; times are ns.
#[derive(Debug, Clone, Default)]
pub(super) struct Sums {
    pub(super) at: u64,
    pub(super) requests: u64,
    pub(super) request_ns: u64,
    pub(super) transactions: u64,
    pub(super) transaction_ns: u64,
    pub(super) tally: Tally,
    /// Load, busy time, and how many work at a time.
    pub(super) backing: (DriveLoad, (u64, u32)),
    pub(super) cache_device: (DriveLoad, (u64, u32)),
}

/// An interval, or all of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct BlockInterval {
    /// Since the beginning, in seconds.
    pub end: f64,
    /// Requests a second.
    pub iops: f64,
    /// Transactions a second.
    pub transactions_per_second: f64,
    /// Reads that the cache device answered whole, of all reads, in per cent.
    pub read_hit_percent: f64,
    /// Mean time of a request, in microseconds.
    pub request_us: f64,
    /// Mean time of a transaction, in milliseconds.
    pub transaction_ms: f64,
    /// Bytes that the cache device has read for whomever, in MiB.
    pub cache_read_mib: f64,
    /// Bytes written there, in MiB: all, and of them what was brought in, what followed writes, and what
    /// makes the map survive.
    pub cache_written_mib: f64,
    /// See above.
    pub populated_mib: f64,
    /// See above.
    pub followed_mib: f64,
    /// See above.
    pub index_mib: f64,
    /// Bytes read from the backing device, in MiB.
    pub backing_read_mib: f64,
    /// Bytes written there, in MiB.
    pub backing_written_mib: f64,
    /// How busy the devices are, in per cent of all that their places or spindles could do.
    pub backing_busy_percent: f64,
    /// See above.
    pub cache_busy_percent: f64,
}

/// What came out of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BlockOutcome {
    /// What stood between.
    pub cache: &'static str,
    /// All of the run.
    pub whole: BlockInterval,
    /// Interval by interval.
    pub series: Vec<BlockInterval>,
    /// Times of requests.
    pub requests: Latency,
    /// Times of transactions.
    pub transactions: Latency,
    /// Bytes of memory that the map takes, as whoever stands between reckons it.
    pub memory_bytes: u64,
    /// Why something went past the cache, was held back or not brought in, in all of the run: what was
    /// counted at all. Of the fragment cache alone.
    pub reasons: BTreeMap<&'static str, u64>,
    #[serde(skip)]
    sums: Vec<Sums>,
}

impl PartialEq for Sums {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.requests, self.tally) == (other.at, other.requests, other.tally)
    }
}

fn between(first: &Sums, last: &Sums) -> BlockInterval {
    let seconds = (last.at - first.at).max(1) as f64 / 1e9;
    let mean = |ns: u64, count: u64| if count == 0 { 0.0 } else { ns as f64 / count as f64 };
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let (tally, then) = (&last.tally, &first.tally);
    let reads = tally.reads - then.reads;
    let hits = tally.reads_hit - then.reads_hit;
    let busy = |now: (u64, u32), then: (u64, u32)| {
        100.0 * (now.0 - then.0) as f64 / 1e9 / seconds / f64::from(now.1.max(1))
    };
    let backing = last.backing.0.since(&first.backing.0);
    let cache = last.cache_device.0.since(&first.cache_device.0);
    let (requests, transactions) = (last.requests - first.requests, last.transactions - first.transactions);
    BlockInterval {
        end: last.at as f64 / 1e9,
        iops: requests as f64 / seconds,
        transactions_per_second: transactions as f64 / seconds,
        read_hit_percent: if reads == 0 { 0.0 } else { 100.0 * hits as f64 / reads as f64 },
        request_us: mean(last.request_ns - first.request_ns, requests) / 1e3,
        transaction_ms: mean(last.transaction_ns - first.transaction_ns, transactions) / 1e6,
        cache_read_mib: mib(cache.read_bytes),
        cache_written_mib: mib(cache.write_bytes),
        populated_mib: mib(tally.populated_bytes - then.populated_bytes),
        followed_mib: mib(tally.written_bytes - then.written_bytes),
        index_mib: mib(tally.index_bytes - then.index_bytes),
        backing_read_mib: mib(backing.read_bytes),
        backing_written_mib: mib(backing.write_bytes),
        backing_busy_percent: busy(last.backing.1, first.backing.1),
        cache_busy_percent: busy(last.cache_device.1, first.cache_device.1),
    }
}

impl BlockOutcome {
    pub(super) fn of(setup: &BlockSetup, world: World<'_>) -> Self {
        let (memory_bytes, reasons) = (world.memory_bytes(), world.reasons().into_iter().collect());
        let sums = world.series;
        let last = &sums[sums.len() - 1];
        Self {
            cache: setup.cache.name(),
            whole: between(&sums[0], last),
            series: sums.windows(2).map(|pair| between(&pair[0], &pair[1])).collect(),
            requests: Latency::of(&world.requests),
            transactions: Latency::of(&world.transactions),
            memory_bytes,
            reasons,
            sums,
        }
    }

    /// The last part of the run, as an interval: `share` of it, from 0 to 1, whole intervals.
    pub fn last(&self, share: f64) -> BlockInterval {
        let intervals = self.sums.len() - 1;
        let few = ((intervals as f64 * share).round() as usize).clamp(1, intervals);
        between(&self.sums[intervals - few], &self.sums[intervals])
    }
}
