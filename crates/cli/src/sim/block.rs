//! `mezz sim block`: block caches in virtual time.

use std::fmt::Write;

use clap::Args;
use mezzanine_device::model;
use mezzanine_sim::timed::Refusal;
use mezzanine_sim::timed::block::{
    Admission, BlockCache, BlockDevice, BlockInterval, BlockLoad, BlockOutcome, BlockSetup, SceSetup,
    SizingOutcome, Stalls, run_blocks, run_sizing,
};
use serde::Serialize;

use crate::failure::Failure;
use crate::output;
use crate::size::Size;

pub(super) const EXAMPLES: &str = "Examples:
  mezz sim block                                                       all caches in turn: 8 KiB reads, Zipf 0.9 over 128 MiB, behind a slow volume
  mezz sim block --cache sce,dm-cache --write-share 0.3 --json
  mezz sim block --cache sce --fragment 128KiB --writes around
  mezz sim block --cache sce --stages 8:35:10:100,4:15:0:100,1:0:0:500   the throttle of population as published
  mezz sim block --cache sce --write-share 0.3 --write-budget 100GiB --yield-above 500 --admit-writes 4
  mezz sim block --sizing --volume 16GiB --cache-size 2GiB --backing 500:32 --load regions --seconds 300   what the cache says of other sizes
  mezz sim block --cache none,sce,bcache --backing cheetah-15k-x3 --cache-device intel-p3700 --clients 32 \\
    --load regions --exponent 0.9 --turnover 1000000 --volume 2GiB --cache-size 400MiB --request 4KiB --seconds 300

A device is a model of `mezz device list`, or LATENCY:DEPTH or LATENCY:DEPTH:RATE: microseconds of an operation, operations at a time, and MB/s of \
its bytes. Caches: none (all on the backing device), all-flash (all on the cache device), sce (the fragment cache that ships), and models of its \
rivals, write-through: flashcache-fifo, flashcache-lru, enhanceio, bcache, dm-cache; written back: flashcache-fifo-back, flashcache-lru-back, \
enhanceio-back, bcache-back. Data have no contents, maps are real; \
docs/simulator.md says what is modelled and what not.";

#[derive(Debug, Args)]
pub(crate) struct BlockArgs {
    /// What stands between clients and devices, with commas in between.
    #[arg(long, value_delimiter = ',', default_value = "none,sce,flashcache-fifo,flashcache-lru,enhanceio,bcache,dm-cache", value_parser = cache)]
    cache: Vec<BlockCache>,

    /// Size of the volume.
    #[arg(long, value_name = "SIZE", default_value = "128MiB")]
    volume: Size,

    /// Size of the cache device.
    #[arg(long, value_name = "SIZE", default_value = "256MiB")]
    cache_size: Size,

    /// The backing device: a model, or LATENCY:DEPTH or LATENCY:DEPTH:RATE.
    #[arg(long, value_name = "DEVICE", default_value = "2500:1:150", value_parser = device)]
    backing: BlockDevice,

    /// The cache device, likewise.
    #[arg(long, value_name = "DEVICE", default_value = "80:32", value_parser = device)]
    cache_device: BlockDevice,

    /// What is asked for: zipf, uniform, regions (areas of 1 MiB by Zipf's law, all of an area alike) or hot
    /// (some areas of 1 MiB are hot, and all alike).
    #[arg(long, default_value = "zipf", value_parser = ["zipf", "uniform", "regions", "hot"])]
    load: String,

    /// Share of the areas that are hot, above 0 and below 1.
    #[arg(long, value_name = "SHARE", default_value_t = 0.2)]
    hot_areas: f64,

    /// Share of the requests that are for hot areas, from 0 to 1.
    #[arg(long, value_name = "SHARE", default_value_t = 0.9)]
    hot_requests: f64,

    /// Exponent of Zipf's law, from 0 to 10.
    #[arg(long, default_value_t = 0.9)]
    exponent: f64,

    /// Requests after which every region has changed its rank once, on average; 0: they never do.
    #[arg(long, value_name = "N", default_value_t = 0)]
    turnover: u64,

    /// Size of a request: a multiple of 4 KiB.
    #[arg(long, value_name = "SIZE", default_value = "8KiB")]
    request: Size,

    /// Share of writes, from 0 to 1.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    write_share: f64,

    /// Clients, each with one request under way.
    #[arg(long, value_name = "N", default_value_t = 8)]
    clients: u32,

    /// Bytes of a fragment of sce: a power of two from 128KiB to 8MiB.
    #[arg(long, value_name = "SIZE", default_value = "1MiB")]
    fragment: Size,

    /// What writes do with sce: through (they follow to the cache device) or around (they make holes).
    #[arg(long, value_name = "MODE", default_value = "through", value_parser = ["through", "around"])]
    writes: String,

    /// The three stages of sce's throttle, each WORKERS:MISS:FREE:PERIOD: so many workers, until so many per
    /// cent of the reads miss or so many per cent of the fragments are free, a period of so many ms each. The
    /// last must not end (0 and 0).
    #[arg(long, value_name = "STAGES", value_parser = stages, default_value = "8:35:10:100,4:15:0:100,1:0:0:500")]
    stages: Stages,

    /// Bytes that sce may write to the cache device in a day: what it brings in, and copies of writes; a
    /// quarter of it at once (default: no limit).
    #[arg(long, value_name = "SIZE")]
    write_budget: Option<Size>,

    /// Reads of the cache device that take longer than this, in microseconds and smoothed, have population
    /// and copies of sce wait; 0: nothing waits.
    #[arg(long, value_name = "US", default_value_t = 0)]
    yield_above: u64,

    /// Reads that miss a fragment until sce brings it in; 0: reads do not count.
    #[arg(long, value_name = "N", default_value_t = 1)]
    admit_reads: u32,

    /// Writes that miss a fragment until sce brings it in; 0: writes do not count.
    #[arg(long, value_name = "N", default_value_t = 0)]
    admit_writes: u32,

    /// Every so many seconds the cache device stands still for so many milliseconds: SECONDS:MS.
    #[arg(long, value_name = "SECONDS:MS", value_parser = stalls)]
    cache_stalls: Option<Stalls>,

    /// After so many seconds sce has so many bytes for fragments, at most those that it begins with:
    /// SECONDS:SIZE.
    #[arg(long, value_name = "SECONDS:SIZE", value_parser = resize)]
    resize: Option<Resize>,

    /// What sce says of caches of other sizes and with other fragments while it runs, beside runs of those;
    /// no other cache is run.
    #[arg(long, conflicts_with = "cache")]
    sizing: bool,

    /// Work of the processor for a request, in microseconds.
    #[arg(long, value_name = "US", default_value_t = 0.0)]
    cpu_us: f64,

    /// Cores that do it.
    #[arg(long, value_name = "N", default_value_t = 1)]
    cores: u32,

    /// Jobs in the background at a time.
    #[arg(long, value_name = "N", default_value_t = 32)]
    workers: u32,

    /// Simulated seconds.
    #[arg(long, value_name = "S", default_value_t = 60.0)]
    seconds: f64,

    /// Simulated seconds of an interval.
    #[arg(long, value_name = "S", default_value_t = 10.0)]
    interval: f64,

    /// Seed of the requests.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// The stages of a throttle, as clap takes them in one.
#[derive(Debug, Clone, Copy)]
struct Stages([mezzanine_sim::timed::block::Stage; 3]);

fn cache(text: &str) -> Result<BlockCache, String> {
    let found = BlockCache::ALL.into_iter().find(|cache| cache.name() == text);
    found.ok_or_else(|| {
        let names: Vec<_> = BlockCache::ALL.iter().map(BlockCache::name).collect();
        format!("no cache is called that; there are {}", names.join(", "))
    })
}

fn device(text: &str) -> Result<BlockDevice, String> {
    let parts: Vec<_> = text.split(':').collect();
    let number = |part: &str| {
        part.parse::<f64>()
            .map_err(|_| format!("'{part}' is not a number; write 2500:1:150, or the name of a model"))
    };
    match parts[..] {
        [name] => model::find(name)
            .map(|model| BlockDevice::Model(Box::new(model)))
            .map_err(|error| error.to_string()),
        [latency, depth] | [latency, depth, _] => {
            let depth =
                depth.parse().map_err(|_| format!("a depth of '{depth}' is not a number of operations"))?;
            let mb_per_s = parts.get(2).map(|rate| number(rate)).transpose()?;
            Ok(BlockDevice::Flat { latency_us: number(latency)?, depth, mb_per_s })
        }
        _ => {
            Err("write LATENCY:DEPTH or LATENCY:DEPTH:RATE, as 2500:1:150, or the name of a model".to_owned())
        }
    }
}

/// When sce gets which size.
#[derive(Debug, Clone, Copy)]
struct Resize(u32, u64);

fn resize(text: &str) -> Result<Resize, String> {
    let wrong = || "write SECONDS:SIZE, as 30:64MiB".to_owned();
    let (seconds, size) = text.split_once(':').ok_or_else(wrong)?;
    let seconds = seconds.parse().map_err(|_| wrong())?;
    size.parse::<Size>().map(|size| Resize(seconds, size.0)).map_err(|_| wrong())
}

fn stalls(text: &str) -> Result<Stalls, String> {
    let wrong = || "write SECONDS:MS, as 5:1000".to_owned();
    let (every, lasts) = text.split_once(':').ok_or_else(wrong)?;
    let [every_seconds, lasts_ms] = [every, lasts].map(|number| number.parse().map_err(|_| wrong()));
    Ok(Stalls { every_seconds: every_seconds?, lasts_ms: lasts_ms? })
}

fn stages(text: &str) -> Result<Stages, String> {
    let wrong = || "write three of WORKERS:MISS:FREE:PERIOD, as 8:35:10:100,4:15:0:100,1:0:0:500".to_owned();
    let stage = |text: &str| {
        let numbers: Vec<u32> =
            text.split(':').map(str::parse).collect::<Result<_, _>>().map_err(|_| wrong())?;
        match numbers[..] {
            [workers, miss_percent, free_percent, period_ms] => {
                Ok(mezzanine_sim::timed::block::Stage { workers, miss_percent, free_percent, period_ms })
            }
            _ => Err(wrong()),
        }
    };
    let all: Vec<_> = text.split(',').map(stage).collect::<Result<_, _>>()?;
    all.try_into().map(Stages).map_err(|_| wrong())
}

impl BlockArgs {
    fn setup(&self, cache: BlockCache) -> BlockSetup {
        let cache = match cache {
            BlockCache::Sce(_) => BlockCache::Sce(SceSetup {
                fragment_bytes: self.fragment.0,
                writes_through: self.writes == "through",
                throttle: self.stages.0,
                write_budget: self.write_budget.map_or(0, |bytes| bytes.0),
                yield_us: self.yield_above,
                admission: Admission { reads: self.admit_reads, writes: self.admit_writes },
                resize: self.resize.map(|Resize(seconds, bytes)| (seconds, bytes)),
            }),
            other => other,
        };
        let load = match self.load.as_str() {
            "uniform" => BlockLoad::Uniform,
            "hot" => BlockLoad::Hot { bytes: 1 << 20, regions: self.hot_areas, requests: self.hot_requests },
            "regions" => {
                BlockLoad::Regions { bytes: 1 << 20, exponent: self.exponent, turnover: self.turnover }
            }
            _ => BlockLoad::Zipf { exponent: self.exponent },
        };
        BlockSetup {
            cache,
            volume_bytes: self.volume.0,
            cache_bytes: self.cache_size.0,
            backing: self.backing.clone(),
            cache_device: self.cache_device.clone(),
            cache_stalls: self.cache_stalls,
            load,
            request_bytes: self.request.0,
            write_share: self.write_share,
            clients: self.clients,
            workers: self.workers,
            cpu_us: self.cpu_us,
            cores: self.cores,
            seconds: self.seconds,
            interval_seconds: self.interval,
            seed: self.seed,
            ..BlockSetup::default()
        }
    }
}

/// The option of a parameter that was refused.
fn refused(refusal: Refusal) -> Failure {
    let option = match refusal.parameter {
        "volume_bytes" | "volumes" => "--volume",
        "cache_bytes" => "--cache-size",
        "backing" => "--backing",
        "cache_device" => "--cache-device",
        "cache_stalls" => "--cache-stalls",
        "request_bytes" => "--request",
        "write_share" => "--write-share",
        "clients" => "--clients",
        "workers" => "--workers",
        "cpu_us" => "--cpu-us",
        "cores" => "--cores",
        "seconds" => "--seconds",
        "interval_seconds" => "--interval",
        "fragment_bytes" => "--fragment",
        "write_budget" => "--write-budget",
        "resize" => "--resize",
        "workload" | "region_bytes" => "--load",
        _ => "--stages",
    };
    let reason = format!("{}: {}", refusal.parameter, refusal.reason);
    let failure = Failure::usage(option, reason);
    if refusal.advice.is_empty() { failure } else { failure.next(refusal.advice) }
}

#[derive(Serialize)]
struct Told {
    setup: String,
    caches: Vec<BlockOutcome>,
}

pub(super) fn run(args: &BlockArgs, json: bool) -> Result<(), Failure> {
    if args.sizing {
        let outcome = run_sizing(&args.setup(BlockCache::Sce(SceSetup::PUBLISHED))).map_err(refused)?;
        return if json { output::json(&outcome) } else { output::print(&sizing_text(&outcome)) };
    }
    let bar = output::progress(args.cache.len() as u64, "block");
    let mut caches = Vec::new();
    for cache in &args.cache {
        caches.push(run_blocks(&args.setup(*cache)).map_err(refused)?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    let setup = format!(
        "{} requests of {}, {} in flight, {} % writes, a volume of {}, a cache of {}",
        args.load,
        args.request,
        args.clients,
        100.0 * args.write_share,
        args.volume,
        args.cache_size
    );
    if json { output::json(&Told { setup, caches }) } else { output::print(&text(&setup, &caches)) }
}

/// Requests a second, interval by interval, and what all of the run was.
fn text(setup: &str, caches: &[BlockOutcome]) -> String {
    let mut text =
        format!("{setup}\n\nrequests a second in each interval, which ends after so many seconds\n");
    let _ = write!(text, "{:16}", "");
    let series = |outcome: &BlockOutcome| outcome.series.clone();
    for interval in caches.first().map(series).unwrap_or_default() {
        let _ = write!(text, "{:>9.0}", interval.end);
    }
    for outcome in caches {
        let _ = write!(text, "\n{:16}", outcome.cache);
        for interval in &outcome.series {
            let _ = write!(text, "{:>9.0}", interval.iops);
        }
    }
    let columns = ["hits %", "mean us", "p99 us", "cache read", "written", "backing read", "written", "map"];
    let _ = write!(text, "\n\nall of the run; MiB\n{:16}", "");
    for column in columns {
        let _ = write!(text, "{column:>14}");
    }
    for outcome in caches {
        let BlockInterval {
            read_hit_percent,
            request_us,
            cache_read_mib,
            cache_written_mib,
            backing_read_mib,
            backing_written_mib,
            ..
        } = outcome.whole;
        let map = outcome.memory_bytes as f64 / f64::from(1 << 20);
        let _ = write!(text, "\n{:16}{read_hit_percent:>14.2}{request_us:>14.0}", outcome.cache);
        let _ = write!(text, "{:>14.0}{cache_read_mib:>14.0}", outcome.requests.p99_us);
        let _ = write!(
            text,
            "{cache_written_mib:>14.0}{backing_read_mib:>14.0}{backing_written_mib:>14.0}{map:>14.1}"
        );
    }
    text.push('\n');
    for outcome in caches.iter().filter(|outcome| !outcome.reasons.is_empty()) {
        let _ = writeln!(text, "\nwhat {} did not cache or put off, and why", outcome.cache);
        for (reason, count) in &outcome.reasons {
            let _ = writeln!(text, "{reason:32}{count:>14}");
        }
    }
    text
}

/// What the cache says, and what is so.
fn sizing_text(outcome: &SizingOutcome) -> String {
    let table = &outcome.table;
    let mut text = format!(
        "the last {:.0} s of the run: {:.1} % of {} reads were hits; {} B of memory\n\n",
        table.seconds,
        100.0 * table.hit_ratio.unwrap_or_default(),
        table.reads,
        table.memory_bytes
    );
    let columns =
        ["cache MiB", "fragment KiB", "sampled %", "hits %", "run", "off by", "written GB/day", "run"];
    for column in columns {
        let _ = write!(text, "{column:>15}");
    }
    for row in &outcome.rows {
        let (said, hits) = (&row.estimate, 100.0 * row.estimate.hit_ratio.unwrap_or_default());
        let _ = write!(text, "\n{:>15}{:>15}", said.cache_bytes >> 20, said.fragment_bytes >> 10);
        let _ = write!(text, "{:>15.2}{hits:>15.2}", 100.0 * said.sample_share);
        let run = row.run.read_hit_percent;
        let written = said.written_per_day.unwrap_or_default();
        let _ = write!(text, "{run:>15.2}{:>+15.2}", hits - run);
        let _ = write!(text, "{:>15.1}{:>15.1}", written / 1e9, row.written_per_day / 1e9);
    }
    text.push('\n');
    text
}
