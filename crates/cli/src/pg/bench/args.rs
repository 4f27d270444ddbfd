//! The options of `mezz pg bench`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::super::user::WHO;
use crate::demo::time_scale;
use crate::size::Size;

pub(crate) const EXAMPLES: &str = "Examples:
  mezz pg bench
  mezz pg bench --warehouses 4 --seconds 10 --restart-after 5 --run disk --run drained
  mezz pg bench --disk-model cloud-volume --flash-model nvme-local --json
  mezz pg bench --directory /mnt/disks --disk-model none --flash /dev/nvme1n1 --flash-model none --warehouses 1000
  mezz pg bench --overhead

`mezz device list` names the models. The server is that of `mezz pg build`, built first if it is not there; if root runs this, the server runs as \
another user. What is needed in --directory and how long it takes is said at the start; everything is removed at the end.";

/// Loads TPC-C into PostgreSQL and measures it on modelled disks without flash (disk), with the tier in each
/// sync mode (through, drained, durable), and with everything on the flash drive (flash). Each run ends with
/// a checkpoint, more transactions, kill -9, a restart whose time is taken, and checks: TPC-C's consistency
/// conditions, and every commit that was acknowledged.
#[derive(Debug, Clone, Args)]
pub(crate) struct BenchArgs {
    /// TPC-C warehouses; one is about 100 MB.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) warehouses: u32,

    /// Connections, each running one transaction after the other without think time.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) clients: u32,

    /// Measured time of each run.
    #[arg(long, default_value_t = 30.0, value_parser = seconds)]
    pub(super) seconds: f64,

    /// How long transactions go on between the checkpoint and the kill, in time of the modelled devices.
    #[arg(long, value_name = "SECONDS", default_value_t = 20.0, value_parser = seconds)]
    pub(super) restart_after: f64,

    /// What to measure; may be repeated (default: all).
    #[arg(long = "run", value_enum, value_name = "RUN")]
    pub(super) runs: Vec<Run>,

    /// PostgreSQL's own page cache (default: 0.35 % of the loaded database).
    #[arg(long, value_name = "SIZE")]
    pub(super) shared_buffers: Option<Size>,

    /// Flash of the tier, as a share of the loaded database.
    #[arg(long, value_name = "SHARE", default_value_t = 0.2, value_parser = share)]
    pub(super) flash_share: f64,

    /// Model of the drives that hold the data: a name from `mezz device list`, or a TOML file; "none": what
    /// --directory lies on.
    #[arg(long, value_name = "MODEL", default_value = "cheetah-15k-x16")]
    pub(super) disk_model: String,

    /// Model of the flash drive; "none": what --flash lies on.
    #[arg(long, value_name = "MODEL", default_value = "samsung-840-pro")]
    pub(super) flash_model: String,

    /// The tier's file or block device (default: a file in --directory). What it holds is lost.
    #[arg(long, value_name = "PATH")]
    pub(super) flash: Option<PathBuf>,

    /// The arms of the disks move as far as in a database of this size (default: that of the FaCE paper).
    #[arg(long, value_name = "SIZE", default_value = "57GB")]
    pub(super) full_size: Size,

    /// Time that the log's device takes to make a write durable, in microseconds (default: a controller with
    /// a cache that survives power loss).
    #[arg(long, value_name = "US", default_value_t = 100, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    pub(super) log_flush_us: u32,

    /// A checkpoint is begun this often, in real time, and spread over nine tenths of it (default: none
    /// while it is measured).
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(30..=86_400))]
    pub(super) checkpoint_timeout: Option<u32>,

    /// Modelled drives take this many times as long as real ones (default: the smallest that keeps the
    /// processor below 70 % busy).
    #[arg(long, value_name = "FACTOR", value_parser = time_scale)]
    pub(super) time_scale: Option<f64>,

    /// Seed of the population and of the transactions.
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,

    /// Measure what the tier costs when everything is in shared buffers instead: pairs of runs with and
    /// without it.
    #[arg(long, conflicts_with_all = ["runs", "restart_after", "time_scale", "checkpoint_timeout", "full_size", "disk_model", "flash_model", "flash", "shared_buffers"])]
    pub(super) overhead: bool,

    /// Pairs of runs of --overhead.
    #[arg(long, default_value_t = 10, requires = "overhead", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) pairs: u32,

    /// Where the databases go (default: a new directory in /dev/shm if there is room, else in the system's
    /// temporary one).
    #[arg(long, value_name = "DIR")]
    pub(super) directory: Option<PathBuf>,

    /// Keep the data directories after the run.
    #[arg(long)]
    pub(super) keep: bool,

    /// Where the server with the extension is installed (default: what `mezz pg build` makes).
    #[arg(long, value_name = "DIR")]
    pub(super) postgres: Option<PathBuf>,

    #[arg(long, value_name = "NAME", help = WHO)]
    pub(super) user: Option<String>,

    /// A population that is far too small to mean anything, for trying out the command itself.
    #[arg(long, hide = true)]
    pub(super) tiny: bool,
}

/// What lies under the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Run {
    /// Disks without flash.
    Disk,
    /// The tier, sync mode through.
    Through,
    /// The tier, sync mode drained.
    Drained,
    /// The tier, sync mode durable: FaCE as published.
    Durable,
    /// Everything on flash.
    Flash,
}

/// The name that stands for no model.
pub(super) const NONE: &str = "none";

impl Run {
    pub(super) const ALL: [Run; 5] = [Run::Disk, Run::Through, Run::Drained, Run::Durable, Run::Flash];

    pub(super) fn name(self) -> &'static str {
        match self {
            Run::Disk => "disk",
            Run::Through => "through",
            Run::Drained => "drained",
            Run::Durable => "durable",
            Run::Flash => "flash",
        }
    }

    /// The tier's sync mode, if there is one.
    pub(super) fn sync_mode(self) -> Option<&'static str> {
        match self {
            Run::Disk | Run::Flash => None,
            Run::Through | Run::Drained | Run::Durable => Some(self.name()),
        }
    }
}

fn share(text: &str) -> Result<f64, String> {
    let advice = "give a share of the database above 0 and at most 1, such as 0.2";
    let value: f64 = text.parse().map_err(|_| advice.to_owned())?;
    if value > 0.0 && value <= 1.0 { Ok(value) } else { Err(advice.to_owned()) }
}

fn seconds(text: &str) -> Result<f64, String> {
    let advice = "give seconds from 1 to 3600";
    let value: f64 = text.parse().map_err(|_| advice.to_owned())?;
    if (1.0..=3600.0).contains(&value) { Ok(value) } else { Err(advice.to_owned()) }
}
