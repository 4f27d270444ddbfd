//! What is measured: the loads of Tables 1 and 2 of "Durable Write Cache in Flash Memory SSD for Relational
//! and NoSQL Databases" (SIGMOD 2014), sections 2.2 to 2.4, and those that logs of databases and a tier add
//! to them.

use std::time::Duration;

use mezzanine_ssd::load::Observer;
use mezzanine_workload::Histogram;
use serde::Serialize;

pub(super) use mezzanine_ssd::load::{Load, LoadKind};

/// Writes per fsync of Table 1; the last column has none at all.
pub(super) const WRITES_PER_FSYNC: [u64; 8] = [1, 4, 8, 16, 32, 64, 128, 256];
/// Page sizes of Table 2.
pub(super) const PAGE_BYTES: [u64; 3] = [4096, 8192, 16_384];
/// The page of PostgreSQL, of its log, and of a tier below it.
pub(super) const LOG_PAGE_BYTES: u64 = 8192;
/// Pages of a tier's groups.
pub(super) const GROUP_PAGES: [u64; 5] = [1, 4, 16, 64, 256];
/// The largest request.
pub(super) const REQUEST_BYTES_MAX: u64 = LOG_PAGE_BYTES * GROUP_PAGES[GROUP_PAGES.len() - 1];

/// All loads in the order in which they are measured; `clients` is how many there are where there are
/// several.
pub(super) fn loads(clients: usize) -> Vec<Load> {
    let load = |kind, request_bytes, writes_per_fsync, clients| Load {
        writes_per_fsync,
        ..Load::new(kind, request_bytes, clients)
    };
    let mut loads = Vec::new();
    for bytes in PAGE_BYTES {
        for per_fsync in WRITES_PER_FSYNC {
            loads.push(load(LoadKind::RandomWrite, bytes, Some(per_fsync), 1));
        }
        loads.push(load(LoadKind::RandomWrite, bytes, None, 1));
    }
    for bytes in PAGE_BYTES {
        loads.push(load(LoadKind::RandomWrite, bytes, None, clients));
        loads.push(load(LoadKind::RandomRead, bytes, None, clients));
    }
    loads.push(load(LoadKind::LogFdatasync, LOG_PAGE_BYTES, Some(1), 1));
    loads.push(load(LoadKind::LogDsync, LOG_PAGE_BYTES, None, 1));
    for pages in GROUP_PAGES {
        loads.push(load(LoadKind::GroupWrite, pages * LOG_PAGE_BYTES, Some(1), 1));
    }
    loads
}

/// What the clients of a load saw.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) requests: Histogram,
    /// Of these, the reads.
    pub(super) reads: Histogram,
    pub(super) fsyncs: Histogram,
    pub(super) time: Duration,
}

impl Seen {
    /// Adds what another client saw.
    pub(super) fn merge(&mut self, other: &Seen) {
        self.requests.merge(&other.requests);
        self.reads.merge(&other.reads);
        self.fsyncs.merge(&other.fsyncs);
        self.time = self.time.max(other.time);
    }
}

impl Observer for Seen {
    fn read(&mut self, took: Duration) {
        self.requests.record(took);
        self.reads.record(took);
    }

    fn write(&mut self, took: Duration) {
        self.requests.record(took);
    }

    fn fsync(&mut self, took: Duration) {
        self.fsyncs.record(took);
    }
}

/// What came out of a load.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Row {
    #[serde(flatten)]
    pub(super) load: Load,
    /// Requests completed; fsyncs are none.
    pub(super) requests: u64,
    pub(super) seconds: f64,
    pub(super) per_second: f64,
    /// Bytes per second in 10^6.
    pub(super) mb_per_s: f64,
    pub(super) latency_us_mean: f64,
    pub(super) latency_us_p50: f64,
    pub(super) latency_us_p99: f64,
    /// Of the reads of a mixed load; null for all others.
    pub(super) read_us_mean: Option<f64>,
    /// Fsyncs that were asked for.
    pub(super) fsyncs: u64,
    /// Null without fsyncs.
    pub(super) fsync_us_mean: Option<f64>,
    pub(super) fsync_us_p50: Option<f64>,
    pub(super) fsync_us_p99: Option<f64>,
    /// Flushes that the kernel counted at the disk meanwhile, everybody's; null where it does not count.
    pub(super) flushes_counted: Option<u64>,
}

impl Row {
    pub(super) fn new(load: Load, seen: &Seen, flushes_counted: Option<u64>) -> Row {
        let us = |latency: Duration| latency.as_nanos() as f64 / 1e3;
        let seconds = seen.time.as_secs_f64().max(1e-9);
        let per_second = seen.requests.count() as f64 / seconds;
        let fsync = |value: Duration| (seen.fsyncs.count() > 0).then_some(us(value));
        Row {
            load,
            requests: seen.requests.count(),
            seconds,
            per_second,
            mb_per_s: per_second * load.request_bytes as f64 / 1e6,
            latency_us_mean: us(seen.requests.mean()),
            latency_us_p50: us(seen.requests.quantile(0.5)),
            latency_us_p99: us(seen.requests.quantile(0.99)),
            read_us_mean: (load.kind == LoadKind::Mixed && seen.reads.count() > 0)
                .then_some(us(seen.reads.mean())),
            fsyncs: seen.fsyncs.count(),
            fsync_us_mean: fsync(seen.fsyncs.mean()),
            fsync_us_p50: fsync(seen.fsyncs.quantile(0.5)),
            fsync_us_p99: fsync(seen.fsyncs.quantile(0.99)),
            flushes_counted,
        }
    }
}

/// The rows of a probe, to be asked.
#[derive(Clone, Copy)]
pub(super) struct Rows<'r>(pub(super) &'r [Row]);

impl<'r> Rows<'r> {
    pub(super) fn find(self, kind: LoadKind, bytes: u64, per_fsync: Option<u64>) -> Option<&'r Row> {
        self.0.iter().find(|row| {
            let load = row.load;
            load.kind == kind && load.request_bytes == bytes && load.writes_per_fsync == per_fsync
        })
    }

    /// Random writes of one client.
    pub(super) fn writes(self, bytes: u64, per_fsync: Option<u64>) -> Option<&'r Row> {
        self.find(LoadKind::RandomWrite, bytes, per_fsync)
    }

    /// Random writes of many clients. They come after those of one, which they look like if there is but one.
    pub(super) fn many_writes(self, bytes: u64) -> Option<&'r Row> {
        self.0.iter().rev().find(|row| {
            let load = row.load;
            load.kind == LoadKind::RandomWrite
                && load.request_bytes == bytes
                && load.writes_per_fsync.is_none()
        })
    }

    pub(super) fn reads(self, bytes: u64) -> Option<&'r Row> {
        self.find(LoadKind::RandomRead, bytes, None)
    }

    pub(super) fn groups(self) -> impl Iterator<Item = &'r Row> {
        self.0.iter().filter(|row| row.load.kind == LoadKind::GroupWrite)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_are_covered() {
        let loads = loads(128);
        let table_1 = loads.iter().filter(|load| {
            load.kind == LoadKind::RandomWrite && load.request_bytes == 4096 && load.clients == 1
        });
        assert_eq!(table_1.count(), 9);
        assert!(loads.iter().all(|load| load.request_bytes <= REQUEST_BYTES_MAX));
        assert_eq!(loads.len(), 40);
    }
}
