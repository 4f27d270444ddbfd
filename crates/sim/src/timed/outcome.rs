//! What came out of a run.

use mezzanine_engine::Statistics;
use mezzanine_ssd::DriveWork;
use serde::Serialize;

use super::counts::Requests;
use super::drive::DriveLoad;
use super::latency::Latency;
use super::measure::Sums;
use super::setup::{Configuration, LogDevice};
use super::world::World;

/// What was measured. Follows from the setup alone: times are simulated ones.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    /// What lay between the pool and the disk: `disk`, `flash` or the tier's design.
    pub configuration: &'static str,
    /// What happened before measuring began.
    pub warm_up: WarmedUp,
    /// Seconds that were measured.
    pub seconds: f64,
    /// Transactions.
    pub throughput: Throughput,
    /// Requests for pages, by what answered them.
    pub hits: Hits,
    /// Dirty pages, and what became of them.
    pub writes: Writes,
    /// The flash device.
    pub flash: Flash,
    /// How long things took.
    pub latency: Latencies,
    /// Disk, flash, processor and log, as far as there are any.
    pub resources: Vec<Resource>,
    /// What clients had to wait for.
    pub waits: Waits,
    /// What the tier counted; without one nothing.
    pub tier: Vec<(&'static str, u64)>,
    /// Interval by interval.
    pub series: Vec<Interval>,
}

/// The warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct WarmedUp {
    /// Its seconds.
    pub seconds: f64,
    /// Its transactions.
    pub transactions: u64,
    /// Whether the tier's queue, or without a tier the pool, had been filled once when measuring began.
    pub filled: bool,
}

/// Transactions. Those that were rolled back, as one in a hundred New-Orders of TPC-C has to be, were carried
/// out and count.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Throughput {
    /// All of them.
    pub transactions: u64,
    /// In a second.
    pub transactions_per_second: f64,
    /// In a minute.
    pub transactions_per_minute: f64,
    /// New-Orders in a minute, which TPC-C calls tpmC; of other workloads nothing.
    pub new_orders_per_minute: Option<f64>,
    /// By kind.
    pub kinds: Vec<Kind>,
}

/// Transactions of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Kind {
    /// Its name.
    pub name: &'static str,
    /// Committed.
    pub committed: u64,
    /// Rolled back.
    pub rolled_back: u64,
}

/// Requests for pages.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Hits {
    /// Reads and writes.
    pub all: Requests,
    /// Reads.
    pub reads: Requests,
    /// Writes. They need their page as reads do.
    pub writes: Requests,
    /// Share of requests that the pool answered.
    pub pool_ratio: f64,
    /// Of requests that it did not, the share that the tier answered, from staging memory or flash: the hit
    /// ratio of the FaCE paper.
    pub tier_ratio: f64,
    /// The same for reads alone.
    pub tier_read_ratio: f64,
    /// The same for writes alone.
    pub tier_write_ratio: f64,
    /// Requests that waited for another client's read of the same page, among the pool's.
    pub joined: u64,
    /// Requests for pages in a transaction.
    pub requests_per_transaction: f64,
}

/// Dirty pages that left the pool or were made clean in it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Writes {
    /// Because their frames were needed.
    pub dirty_evicted: u64,
    /// By the background cleaner.
    pub dirty_cleaned: u64,
    /// Pulled by the tier.
    pub dirty_pulled: u64,
    /// By checkpoints.
    pub dirty_checkpointed: u64,
    /// Pages written to disk, or in the configuration `flash` to the database's flash.
    pub home_pages_written: u64,
    /// Of these, by the tier's stage-out.
    pub staged_out: u64,
    /// Pages read from there.
    pub home_pages_read: u64,
    /// 1 - pages written to disk / dirty pages that left the pool, for whatever reason; nothing without any.
    pub write_reduction: Option<f64>,
    /// In a transaction.
    pub disk_reads_per_transaction: f64,
    /// In a transaction.
    pub disk_writes_per_transaction: f64,
}

/// The flash device.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Flash {
    /// Requests for reads.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Requests for writes.
    pub writes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Bytes of a write on average.
    pub write_bytes_mean: Option<f64>,
    /// Share of writes that begin where the write before, of whatever kind, ended.
    pub write_sequential_share: Option<f64>,
    /// Flushes.
    pub flushes: u64,
    /// Pages read and written in a second.
    pub pages_per_second: f64,
    /// Share of the queue's frames that hold a version that is not the newest, on average over up to ten
    /// looks.
    pub old_version_share: Option<f64>,
    /// What the drive did inside, if it is modelled from there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inside: Option<DriveWork>,
}

/// How long things took.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Latencies {
    /// From a request for a page that the pool does not have to its arrival there, making room included.
    pub fetch: Latency,
    /// Those that staging memory answered.
    pub staging: Latency,
    /// Those that flash answered.
    pub flash: Latency,
    /// Those that disk answered.
    pub disk: Latency,
    /// Those that waited for another client's read of the same page.
    pub joined: Latency,
    /// From the first request of a transaction to its end.
    pub transaction: Latency,
}

/// A station that work waits at.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Resource {
    /// `disk`, `flash`, `processor` or `log`.
    pub name: &'static str,
    /// The model.
    pub model: String,
    /// Spindles, channels or cores.
    pub servers: u32,
    /// Share of the time that they were busy.
    pub utilisation: f64,
    /// Operations that were there on average, waiting and being served.
    pub queue_mean: f64,
    /// Reads in a second; of the processor and the log: pieces of work.
    pub reads_per_second: f64,
    /// Writes in a second.
    pub writes_per_second: f64,
}

/// What clients had to wait for, as counts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Waits {
    /// Jobs of the tier that clients carried out because staging memory was full.
    pub foreground_jobs: u64,
    /// Waits because it was full and there was no job.
    pub for_room: u64,
    /// Writes of the log that had to come before a dirty page.
    pub log_forced: u64,
    /// Reads of flash that were made again because the page had left meanwhile.
    pub rereads: u64,
    /// Checkpoints that were completed.
    pub checkpoints: u64,
    /// Checkpoints that were left out because one was under way.
    pub checkpoints_late: u64,
}

/// An interval of the time series.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    /// Its end, in seconds since measuring began.
    pub end: f64,
    /// In a second.
    pub transactions_per_second: f64,
    /// Share of requests that the pool answered.
    pub pool_ratio: f64,
    /// Of requests that it did not, the share that the tier answered.
    pub tier_ratio: f64,
    /// Share of the time that the disk was busy.
    pub disk_utilisation: f64,
    /// Share of the time that flash was busy.
    pub flash_utilisation: f64,
    /// Share of the time that the processor was busy.
    pub processor_utilisation: f64,
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn tier_ratio(requests: &Requests) -> f64 {
    ratio(requests.staging + requests.flash, requests.pool_misses())
}

impl World<'_> {
    /// What was measured.
    pub(super) fn outcome(&self) -> Outcome {
        let (first, last) = match self.measure.sums.as_slice() {
            [first, .., last] => (first, last),
            _ => unreachable!("an interval was measured"),
        };
        let span = Span { first, last };
        let counts = last.counts.since(&first.counts);
        let transactions = counts.transactions();
        let all = counts.reads.plus(&counts.writes);
        let per_transaction = |count: u64| ratio(count, transactions);
        let has_tier = self.tier.is_some();
        // In the configuration `flash` requests that flash answers are the database's own.
        let ratio_of = |requests: &Requests| if has_tier { tier_ratio(requests) } else { 0.0 };
        let dirty = counts.dirty_written();
        Outcome {
            configuration: self.setup.configuration.name(),
            warm_up: WarmedUp {
                seconds: first.at as f64 / 1e9,
                transactions: first.counts.transactions(),
                filled: self.measure.filled,
            },
            seconds: span.seconds(),
            throughput: self.throughput(&span, &counts),
            hits: Hits {
                all,
                reads: counts.reads,
                writes: counts.writes,
                pool_ratio: ratio(all.pool, all.requests),
                tier_ratio: ratio_of(&all),
                tier_read_ratio: ratio_of(&counts.reads),
                tier_write_ratio: ratio_of(&counts.writes),
                joined: counts.joined,
                requests_per_transaction: per_transaction(all.requests),
            },
            writes: Writes {
                dirty_evicted: counts.dirty_evicted,
                dirty_cleaned: counts.dirty_cleaned,
                dirty_pulled: counts.dirty_pulled,
                dirty_checkpointed: counts.dirty_checkpointed,
                home_pages_written: counts.disk_pages_written,
                staged_out: counts.disk_pages_staged_out,
                home_pages_read: counts.disk_pages_read,
                write_reduction: (dirty > 0).then(|| 1.0 - ratio(counts.disk_pages_written, dirty)),
                disk_reads_per_transaction: per_transaction(counts.disk_pages_read),
                disk_writes_per_transaction: per_transaction(counts.disk_pages_written),
            },
            flash: self.flash_outcome(&span),
            latency: self.latencies(),
            resources: self.resources(&span),
            waits: Waits {
                foreground_jobs: counts.foreground_jobs,
                for_room: counts.waits_for_room,
                log_forced: counts.log_forced,
                rereads: counts.rereads,
                checkpoints: counts.checkpoints,
                checkpoints_late: counts.checkpoints_late,
            },
            tier: if has_tier { span.tier().named() } else { Vec::new() },
            series: self.series(),
        }
    }

    fn throughput(&self, span: &Span<'_>, counts: &super::counts::Counts) -> Throughput {
        let kinds: Vec<Kind> = self
            .source
            .kinds()
            .iter()
            .zip(counts.committed.iter().zip(&counts.rolled_back))
            .map(|(name, (&committed, &rolled_back))| Kind { name, committed, rolled_back })
            .collect();
        let transactions = counts.transactions();
        let per_second = transactions as f64 / span.seconds();
        let new_orders = kinds.iter().find(|kind| kind.name == "new_order");
        Throughput {
            transactions,
            transactions_per_second: per_second,
            transactions_per_minute: per_second * 60.0,
            new_orders_per_minute: new_orders
                .map(|kind| (kind.committed + kind.rolled_back) as f64 * 60.0 / span.seconds()),
            kinds,
        }
    }

    fn flash_outcome(&self, span: &Span<'_>) -> Flash {
        let load = span.load(|sums| sums.flash.0);
        let mean = |part: u64| (load.writes > 0).then(|| part as f64 / load.writes as f64);
        let samples = &self.measure.old_versions;
        let old = (!samples.is_empty()).then(|| samples.iter().sum::<f64>() / samples.len() as f64);
        let bytes = load.read_bytes + load.write_bytes;
        Flash {
            reads: load.reads,
            read_bytes: load.read_bytes,
            writes: load.writes,
            write_bytes: load.write_bytes,
            write_bytes_mean: mean(load.write_bytes),
            write_sequential_share: mean(load.writes_sequential),
            flushes: load.flushes,
            pages_per_second: bytes as f64 / f64::from(self.setup.page_bytes) / span.seconds(),
            old_version_share: old,
            inside: self.flash.work(
                span.first.flash_inside.as_ref(),
                span.last.flash_inside.as_ref(),
                span.seconds(),
            ),
        }
    }

    fn latencies(&self) -> Latencies {
        let of = &self.measure.latencies;
        Latencies {
            fetch: Latency::of(&of.fetch),
            staging: Latency::of(&of.staging),
            flash: Latency::of(&of.flash),
            disk: Latency::of(&of.disk),
            joined: Latency::of(&of.joined),
            transaction: Latency::of(&of.transaction),
        }
    }

    fn resources(&self, span: &Span<'_>) -> Vec<Resource> {
        let configuration = self.setup.configuration;
        let drive = |name, model: &str, servers, load: DriveLoad, busy: u64| Resource {
            name,
            model: model.to_owned(),
            servers,
            utilisation: span.share(busy, servers),
            queue_mean: load.residence as f64 / span.ns(),
            reads_per_second: load.reads as f64 / span.seconds(),
            writes_per_second: load.writes as f64 / span.seconds(),
        };
        let mut resources = Vec::new();
        if configuration != Configuration::Flash {
            let load = span.load(|sums| sums.disk.0);
            let busy = span.last.disk.1 - span.first.disk.1;
            resources.push(drive("disk", &self.setup.disk_model.name, self.disk.servers(), load, busy));
        }
        if configuration != Configuration::Disk {
            let load = span.load(|sums| sums.flash.0);
            let busy = span.last.flash.1 - span.first.flash.1;
            resources.push(drive("flash", &self.setup.flash_model.name, self.flash.servers(), load, busy));
        }
        let (before, after) = (span.first.processor, span.last.processor);
        resources.push(Resource {
            name: "processor",
            model: String::new(),
            servers: self.processor.servers(),
            utilisation: span.share(after.busy - before.busy, self.processor.servers()),
            queue_mean: (after.residence - before.residence) as f64 / span.ns(),
            reads_per_second: (after.served - before.served) as f64 / span.seconds(),
            writes_per_second: 0.0,
        });
        let (before, after) = (span.first.log, span.last.log);
        let model = match &self.setup.log {
            LogDevice::Fixed { us } => format!("{us} microseconds"),
            LogDevice::Device { model, .. } => model.name.clone(),
        };
        resources.push(Resource {
            name: "log",
            model,
            servers: 1,
            utilisation: span.share(after.busy - before.busy, 1),
            queue_mean: 0.0,
            reads_per_second: (after.requests - before.requests) as f64 / span.seconds(),
            writes_per_second: (after.writes - before.writes) as f64 / span.seconds(),
        });
        resources
    }

    fn series(&self) -> Vec<Interval> {
        let sums = &self.measure.sums;
        let interval = |pair: &[Sums]| {
            let span = Span { first: &pair[0], last: &pair[1] };
            let counts = span.last.counts.since(&span.first.counts);
            let all = counts.reads.plus(&counts.writes);
            Interval {
                end: (span.last.at - sums[0].at) as f64 / 1e9,
                transactions_per_second: counts.transactions() as f64 / span.seconds(),
                pool_ratio: ratio(all.pool, all.requests),
                tier_ratio: if self.tier.is_some() { tier_ratio(&all) } else { 0.0 },
                disk_utilisation: span.share(span.last.disk.1 - span.first.disk.1, self.disk.servers()),
                flash_utilisation: span.share(span.last.flash.1 - span.first.flash.1, self.flash.servers()),
                processor_utilisation: span
                    .share(span.last.processor.busy - span.first.processor.busy, self.processor.servers()),
            }
        };
        sums.windows(2).filter(|pair| pair[1].at > pair[0].at).map(interval).collect()
    }
}

/// Two moments.
struct Span<'a> {
    first: &'a Sums,
    last: &'a Sums,
}

impl Span<'_> {
    fn ns(&self) -> f64 {
        (self.last.at - self.first.at).max(1) as f64
    }

    fn seconds(&self) -> f64 {
        self.ns() / 1e9
    }

    fn share(&self, busy: u64, servers: u32) -> f64 {
        busy as f64 / self.ns() / f64::from(servers)
    }

    fn load(&self, of: impl Fn(&Sums) -> DriveLoad) -> DriveLoad {
        of(self.last).since(&of(self.first))
    }

    fn tier(&self) -> Statistics {
        self.last.tier.since(&self.first.tier)
    }
}
