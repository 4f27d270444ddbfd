//! `mezz-compare`: Mezzanine's volume and foyer's hybrid cache on the same requests, file and memory.
//!
//! 1. Both serve the same list of requests for pages, in the same order but for the interleaving of threads,
//!    from an empty cache. The first part warms up and is not measured.
//! 2. Both have the same backing store, an array in memory ([`backing`]): what is compared is what the caches
//!    cost, and a miss costs both the same little.
//! 3. Both have a flash file of their own, one after the other in the same place, past the page cache or not.
//! 4. Both have the same memory for pages: a pool in front, and buffers on the way to flash.
//! 5. Every page that is read is checked: its number, its version and its last bytes. A write and a read of
//!    one page exclude each other.

#![forbid(unsafe_code)]

mod backing;
mod foyer_side;
mod mezzanine_side;
mod pool;
mod work;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use clap::{Parser, ValueEnum};
use serde_json::json;

use backing::Backing;
use work::{Progress, Work};

/// Bytes of a page.
pub const PAGE: usize = 8192;

/// Mezzanine's volume beside foyer's hybrid cache.
#[derive(Debug, Clone, Parser)]
pub struct Options {
    /// Where the flash file goes.
    #[arg(long, default_value = ".")]
    pub directory: PathBuf,

    /// Pages of the database.
    #[arg(long, default_value_t = 131_072)]
    pub pages: u32,

    /// Flash in MiB.
    #[arg(long, default_value_t = 256)]
    pub flash_mib: u64,

    /// Memory for pages in MiB: the pool, and the buffers on the way to flash.
    #[arg(long, default_value_t = 48)]
    pub memory_mib: u64,

    /// Of this memory, what the buffers have.
    #[arg(long, default_value_t = 12)]
    pub buffers_mib: u64,

    /// Threads; of foyer also its tasks.
    #[arg(long, default_value_t = 4)]
    pub threads: usize,

    /// Requests before it is measured.
    #[arg(long, default_value_t = 500_000)]
    pub warm_up: u64,

    /// Requests that are measured.
    #[arg(long, default_value_t = 500_000)]
    pub requests: u64,

    #[arg(long, default_value = "zipf")]
    pub workload: Workload,

    /// Share of writes of `tpcc`.
    #[arg(long, default_value_t = 0.3)]
    pub write_share: f64,

    /// Which of them runs; both, one after the other, if not given.
    #[arg(long, value_delimiter = ',', default_value = "mezzanine,foyer")]
    pub system: Vec<System>,

    /// Give foyer the flash with which it finds as many pages in memory and on flash as Mezzanine does. It is
    /// looked for in two runs, which are reported as well.
    #[arg(long)]
    pub equal_hits: bool,

    /// How long a page from the database takes, in ms, both: 0 is a database in memory.
    #[arg(long, default_value_t = 0)]
    pub miss_ms: u64,

    /// Through the page cache instead of past it, both.
    #[arg(long)]
    pub buffered: bool,

    /// How foyer reads and writes.
    #[arg(long, default_value = "psync")]
    pub foyer_io: FoyerIo,

    /// Bytes of foyer's blocks in MiB.
    #[arg(long, default_value_t = 4)]
    pub foyer_block_mib: u64,

    /// Mezzanine's sync mode: through, so that the tier may be lost at any time as foyer's file may, or
    /// durable.
    #[arg(long, default_value = "through")]
    pub sync_mode: String,

    /// Mezzanine's design.
    #[arg(long, default_value = "face-gsc")]
    pub design: String,

    /// Mezzanine's admission.
    #[arg(long, default_value = "both")]
    pub admission: String,

    /// Of the clean pages Mezzanine takes in only those that were offered before.
    #[arg(long)]
    pub returning_only: bool,

    /// Pages whose first offer it remembers (default: half as many as its frames).
    #[arg(long, requires = "returning_only")]
    pub remembered_pages: Option<u64>,

    /// foyer takes in only what was offered to its flash before, by its admission filter, once its flash has
    /// been filled: the same memory of so many pages as Mezzanine's.
    #[arg(long)]
    pub foyer_returning: Option<u64>,

    /// Threads that do the tier's work.
    #[arg(long, default_value_t = 1)]
    pub workers: usize,

    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Workload {
    /// Reads, the k-th most popular page in proportion to 1 / k^0.9.
    Zipf,
    /// The pages that TPC-C's transactions refer to, a share of the requests being writes.
    Tpcc,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum System {
    Mezzanine,
    Foyer,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FoyerIo {
    Psync,
    Uring,
}

/// What a system did in the measured part.
#[derive(Debug, Clone, Default)]
pub struct Measured {
    pub seconds: f64,
    pub progress: Progress,
    pub flash_bytes_written: u64,
    /// What only one of the systems counts.
    pub own: serde_json::Value,
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let options = Options::parse();
    let work = Arc::new(Work::generate(&options)?);
    println!(
        "{:?}, {} pages, flash {} MiB, memory {} MiB, {} threads, {} + {} requests, {}",
        options.workload,
        options.pages,
        options.flash_mib,
        options.memory_mib,
        options.threads,
        options.warm_up,
        options.requests,
        if options.buffered { "through the page cache" } else { "O_DIRECT" }
    );
    let mut hits = None;
    for system in &options.system {
        match (system, hits) {
            (System::Foyer, Some(wanted)) if options.equal_hits => {
                let flash_mib = with_equal_hits(&options, &work, wanted)?;
                run(System::Foyer, &Options { flash_mib, ..options.clone() }, &work)?;
            }
            _ => hits = Some(run(*system, &options, &work)?),
        }
    }
    Ok(())
}

/// The flash with which foyer has about so many hits: by its hits with as much flash as Mezzanine, and with
/// half more.
fn with_equal_hits(options: &Options, work: &Arc<Work>, wanted: f64) -> Result<u64, Failure> {
    let of = |flash_mib| run(System::Foyer, &Options { flash_mib, ..options.clone() }, work);
    let (small, large) = (options.flash_mib, options.flash_mib * 3 / 2);
    let (least, most) = (of(small)?, of(large)?);
    // Hits go with the logarithm of the size, nearly.
    let share = ((wanted - least) / (most - least).max(1e-6)).clamp(-1.0, 2.0);
    Ok((small as f64 * (large as f64 / small as f64).powf(share)).round() as u64)
}

/// Runs a system from an empty cache, reports what it did and returns its hit ratio.
fn run(system: System, options: &Options, work: &Arc<Work>) -> Result<f64, Failure> {
    let flash = options.directory.join(format!("mezz-compare-{}.flash", std::process::id()));
    let backing = Arc::new(Backing::new(options.pages, options.miss_ms));
    let before = cpu_seconds();
    let started = Instant::now();
    let measured = match system {
        System::Mezzanine => mezzanine_side::run(options, &flash, work, &backing),
        System::Foyer => foyer_side::run(options, &flash, work, &backing),
    };
    let _ = fresh(&flash);
    let measured = measured?;
    report(system, options, &measured, started.elapsed().as_secs_f64(), cpu_seconds() - before);
    if measured.progress.stale > 0 {
        return Err(format!("{} pages were older than the newest write", measured.progress.stale).into());
    }
    Ok(measured.progress.hit_ratio())
}

fn report(system: System, options: &Options, measured: &Measured, whole_seconds: f64, cpu_seconds: f64) {
    let p = &measured.progress;
    let requests = p.requests as f64;
    let hits = p.memory_hits + p.flash_hits;
    let result = json!({
        "system": format!("{system:?}").to_lowercase(),
        "flash_mib": options.flash_mib,
        "requests_per_second": (requests / measured.seconds).round(),
        "seconds": measured.seconds,
        "hit_ratio": p.hit_ratio(),
        "memory_hit_ratio": p.memory_hits as f64 / requests,
        "flash_hit_ratio": p.flash_hits as f64 / requests,
        "flash_bytes_written": measured.flash_bytes_written,
        "flash_bytes_per_hit": measured.flash_bytes_written as f64 / hits.max(1) as f64,
        "flash_bytes_per_flash_hit": measured.flash_bytes_written as f64 / p.flash_hits.max(1) as f64,
        "stale": p.stale,
        "own": measured.own,
        "whole_run_seconds": whole_seconds,
        "whole_run_processor_seconds": cpu_seconds,
    });
    println!("{result}");
}

/// Processor time of this process so far.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks: u64 =
        fields.get(11..13).map_or(0, |both| both.iter().filter_map(|n| n.parse::<u64>().ok()).sum());
    ticks as f64 / 100.0
}

/// A fresh flash file's path, for either side.
fn fresh(path: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(path).or_else(|_| std::fs::remove_dir_all(path)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
