//! The options of `mezz demo`.

use std::path::PathBuf;

use clap::Args;

use crate::size::Size;

const EXAMPLES: &str = "Examples:
  mezz demo
  mezz demo --database-size 1GB --flash-share 0.1 --report report.html
  mezz demo --disk-model cloud-volume --flash-model nvme-local --seconds 30 --json

`mezz device list` names the models. The run needs about four times the database's size in --directory and says how much before it \
starts. It measures for about three minutes and takes a few more to load and to warm up.";

/// Loads TPC-C into SQLite and measures it in three configurations: on modelled disks without flash (disk),
/// on the disks with the flash tier (face-gsc), and with everything on the flash drive (flash). Each run is
/// ended by kill -9, opened again and checked: TPC-C's consistency conditions, SQLite's integrity check, and
/// every acknowledged commit.
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DemoArgs {
    /// Seed of the population and of the transactions.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,

    /// TPC-C warehouses (default: as many as --database-size needs).
    #[arg(long, conflicts_with = "database_size", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) warehouses: Option<u32>,

    /// Least size of the loaded database.
    #[arg(long, value_name = "SIZE", default_value = "200MB")]
    pub(crate) database_size: Size,

    /// Flash of the tier, as a share of the loaded database.
    #[arg(long, value_name = "SHARE", default_value_t = 0.2, value_parser = share)]
    pub(crate) flash_share: f64,

    /// SQLite's page cache over all connections, as a share of the loaded database.
    #[arg(long, value_name = "SHARE", default_value_t = 0.01, value_parser = share)]
    pub(crate) cache_share: f64,

    /// Model of the drives that hold the data: a name from `mezz device list`, or a TOML file.
    #[arg(long, value_name = "MODEL", default_value = "cheetah-15k-x8")]
    pub(crate) disk_model: String,

    /// Model of the flash drive.
    #[arg(long, value_name = "MODEL", default_value = "samsung-840-pro")]
    pub(crate) flash_model: String,

    /// Model of the drive that holds SQLite's log in all configurations.
    #[arg(long, value_name = "MODEL", default_value = "samsung-840-pro")]
    pub(crate) log_model: String,

    /// Connections, each running one transaction after the other without think time.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) clients: u32,

    /// Measured time of each configuration.
    #[arg(long, default_value_t = 40.0, value_parser = seconds)]
    pub(crate) seconds: f64,

    /// Modelled drives take this many times as long as real ones (default: the smallest that keeps the
    /// processor below 70 % busy).
    #[arg(long, value_name = "FACTOR", value_parser = time_scale)]
    pub(crate) time_scale: Option<f64>,

    /// Where the databases go (default: a new directory under the system's temporary one).
    #[arg(long, value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,

    /// Keep the databases and flash files after the run.
    #[arg(long)]
    pub(crate) keep: bool,

    /// Where the report goes.
    #[arg(long, value_name = "FILE", default_value = "mezz-demo.html")]
    pub(crate) report: PathBuf,

    /// A population that is far too small to mean anything, for trying out the command itself.
    #[arg(long, hide = true, requires = "warehouses")]
    pub(crate) tiny: bool,
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

/// A time scale as it is given on the command line.
pub(crate) fn time_scale(text: &str) -> Result<f64, String> {
    let advice = "give a factor from 0.01 to 1000; 1 is real time";
    let value: f64 = text.parse().map_err(|_| advice.to_owned())?;
    if (0.01..=1000.0).contains(&value) { Ok(value) } else { Err(advice.to_owned()) }
}
