//! What an attached cache says of itself: the answer to `status`, and the JSON of the command.

use std::collections::BTreeMap;
use std::time::Duration;

use mezzanine_cached::{
    BlockCache, CachedStatistics, DeviceFailures, Latency, Served, Survival, VolumeStatistics,
};
use mezzanine_fragment::SizingTable;
use serde::{Deserialize, Serialize};

use super::page::PageReport;
use super::served::CacheFacts;

/// An attached cache, or volumes without one.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Report {
    pub(super) process: u32,
    pub(super) seconds: f64,
    /// The fragment engine; null with any other, and without a cache.
    pub(super) cache: Option<CacheReport>,
    /// The page engine; null with any other.
    #[serde(default)]
    pub(super) page: Option<PageReport>,
    pub(super) volumes: Vec<VolumeReport>,
    /// Connected now, and all there have been.
    pub(super) clients: u64,
    pub(super) clients_seen: u64,
    pub(super) failed_requests: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct CacheReport {
    pub(super) path: String,
    pub(super) cache_id: String,
    /// Openings since it last began empty.
    pub(super) epoch: u64,
    /// What of its device it uses, and what it can be resized to at most.
    pub(super) cache_bytes: u64,
    pub(super) cache_bytes_max: u64,
    pub(super) fragment_bytes: u64,
    pub(super) memory_bytes: u64,
    /// working, suspended or lost.
    pub(super) health: String,
    /// With what the cache began when it was attached.
    pub(super) begins: String,
    /// What it goes on after: crash, orderly_end or nothing.
    pub(super) survives: String,
    /// Why that is not a crash.
    pub(super) survives_no_crash: Option<String>,
    /// Writes and discards that wait for a mark now.
    pub(super) writes_waiting: u64,
    /// Share of the writes and discards so far that waited for one; null before the first.
    pub(super) writes_waited_ratio: Option<f64>,
    pub(super) write_mode: String,
    /// Bytes that may be written to the cache device in a day, 0 for no limit; and how many of them now, null
    /// without a limit.
    pub(super) write_budget: u64,
    pub(super) write_budget_left: Option<u64>,
    /// Above what time of reads of the cache device work in the background yields, in microseconds; 0: never.
    pub(super) yield_us: u64,
    /// How many reads, and how many writes, have to miss a fragment until it is brought in; 0: they do not
    /// count.
    pub(super) admit_reads: u32,
    pub(super) admit_writes: u32,
    pub(super) population_workers: u32,
    /// 0: no limit.
    pub(super) population_bytes_per_second: u64,
    /// Stage of the throttle, from 1, the fastest, on.
    pub(super) population_stage: usize,
    /// Fragments that wait to be populated.
    pub(super) populations_queued: u64,
    /// Share of the reads that needed no backing device; null before the first read.
    pub(super) hit_ratio: Option<f64>,
    /// To the cache device: populations and copies of writes.
    pub(super) cache_bytes_written: u64,
    /// Everything that is counted, by name.
    pub(super) counters: BTreeMap<String, u64>,
    pub(super) latencies: Vec<LatencyReport>,
    /// What the cache device has refused.
    pub(super) cache_failures: Vec<FailureReport>,
    /// How it does, and would do at other sizes, of the last one to two hours or since it was attached; null
    /// where it populates nothing, and while it has another size than it was attached with.
    pub(super) sizing: Option<SizingTable>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct VolumeReport {
    /// Its place in the cache, from 0 on.
    pub(super) number: usize,
    pub(super) name: String,
    pub(super) backing: String,
    /// As which the kernel has it; null without ublk.
    pub(super) block_device: Option<String>,
    pub(super) bytes: u64,
    /// Its requests, by name; none without a cache.
    pub(super) counters: BTreeMap<String, u64>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct LatencyReport {
    pub(super) request: String,
    pub(super) count: u64,
    pub(super) mean_us: f64,
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
    pub(super) p999_us: f64,
    pub(super) max_us: f64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct FailureReport {
    pub(super) operation: String,
    pub(super) reason: String,
    pub(super) count: u64,
    pub(super) last: String,
}

/// The name of what a cache survives, and why that is not a crash.
fn survives(survival: &Survival, unvouched: Option<&String>) -> (String, Option<String>) {
    match survival {
        Survival::Crash => ("crash".to_owned(), None),
        Survival::OrderlyEnd => ("orderly_end".to_owned(), unvouched.cloned()),
        Survival::Nothing(why) => ("nothing".to_owned(), Some(why.clone())),
    }
}

/// The requests of a volume, by name.
pub(super) fn of_volume(statistics: &VolumeStatistics) -> BTreeMap<String, u64> {
    statistics.named().into_iter().map(|(name, count)| (name.to_owned(), count)).collect()
}

fn us(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1000.0
}

impl LatencyReport {
    fn of(served: Served, latency: &Latency) -> Self {
        Self {
            request: served.name().to_owned(),
            count: latency.count(),
            mean_us: us(latency.mean()),
            p50_us: us(latency.quantile(0.5)),
            p99_us: us(latency.quantile(0.99)),
            p999_us: us(latency.quantile(0.999)),
            max_us: us(latency.max()),
        }
    }
}

impl VolumeReport {
    pub(super) fn counter(&self, name: &str) -> u64 {
        self.counters.get(name).copied().unwrap_or_default()
    }
}

impl From<&DeviceFailures> for FailureReport {
    fn from(failures: &DeviceFailures) -> Self {
        let DeviceFailures { operation, reason, count, last } = failures;
        Self { operation: (*operation).to_owned(), reason: reason.clone(), count: *count, last: last.clone() }
    }
}

/// The latencies of requests, in the order of [`Served::ALL`].
fn latencies(statistics: &CachedStatistics) -> Vec<LatencyReport> {
    statistics.latencies.iter().map(|(served, latency)| LatencyReport::of(*served, latency)).collect()
}

/// Everything that is counted, by name.
fn counters(statistics: &CachedStatistics) -> BTreeMap<String, u64> {
    let all = statistics.engine.named().into_iter().chain(statistics.host.named());
    all.map(|(name, count)| (name.to_owned(), count)).collect()
}

impl CacheReport {
    /// What is so now.
    pub(super) fn of(cache: &BlockCache, facts: &CacheFacts, statistics: &CachedStatistics) -> Self {
        let (geometry, slots) = (cache.engine().geometry(), cache.engine().slots_limit());
        let config = geometry.config();
        let (survives, why) = survives(&statistics.survival, facts.unvouched.as_ref());
        let changes = statistics.engine.writes + statistics.engine.discards;
        let waited = statistics.volumes.iter().map(|volume| volume.writes_waited).sum::<u64>();
        Self {
            path: facts.path.clone(),
            cache_id: facts.cache_id.clone(),
            epoch: facts.epoch,
            cache_bytes: match geometry.slots() == slots {
                true => config.cache_bytes,
                false => geometry.end_of(slots),
            },
            cache_bytes_max: config.cache_bytes,
            fragment_bytes: config.fragment_bytes,
            memory_bytes: geometry.region_bytes() as u64,
            health: statistics.health.name().to_owned(),
            begins: facts.begins.clone(),
            survives,
            survives_no_crash: why,
            writes_waiting: statistics.writes_waiting,
            writes_waited_ratio: (changes > 0).then(|| waited as f64 / changes as f64),
            write_mode: cache.write_mode().name().to_owned(),
            write_budget: cache.engine().write_budget(),
            write_budget_left: cache.engine().write_budget_left(),
            yield_us: cache.engine().yield_us(),
            admit_reads: cache.engine().admission().reads,
            admit_writes: cache.engine().admission().writes,
            population_workers: cache.population_workers(),
            population_bytes_per_second: cache.population_rate(),
            population_stage: statistics.stage + 1,
            populations_queued: statistics.candidates,
            hit_ratio: statistics.engine.hit_ratio(),
            cache_bytes_written: statistics.engine.cache_bytes_written(),
            counters: counters(statistics),
            latencies: latencies(statistics),
            cache_failures: statistics.failures.iter().map(Into::into).collect(),
            sizing: cache.sizing_table(),
        }
    }

    pub(super) fn counter(&self, name: &str) -> u64 {
        self.counters.get(name).copied().unwrap_or_default()
    }
}
