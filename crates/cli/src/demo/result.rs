//! What a demo run found: the JSON that `--json` prints, and the input of the report.

use std::collections::BTreeMap;

use mezzanine_report::Machine;
use serde::{Deserialize, Serialize};

/// Everything that was measured, and what one needs to know to measure it again.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct DemoResult {
    pub(crate) rows: Vec<Row>,
    pub(crate) seed: u64,
    pub(crate) warehouses: u32,
    /// Modelled devices take this many times as long as the real ones would; throughput and restart are
    /// given in modelled time.
    pub(crate) time_scale: f64,
    /// Highest share of all cores that a measured run itself kept busy, 0 to 1.
    pub(crate) cpu_busy: f64,
    /// Highest share of all cores that everything on the machine kept busy during a measured run, 0 to 1.
    pub(crate) machine_busy: f64,
    pub(crate) date: String,
    pub(crate) version: String,
    pub(crate) settings: Settings,
    pub(crate) machine: Machine,
}

/// The configuration, as it was after the defaults were filled in.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Settings {
    pub(crate) database_bytes: u64,
    pub(crate) page_bytes: u32,
    /// SQLite's page cache, all connections together.
    pub(crate) sqlite_cache_bytes: u64,
    pub(crate) clients: u32,
    pub(crate) flash_bytes: u64,
    pub(crate) flash_share: f64,
    pub(crate) disk_model: String,
    pub(crate) disk_description: String,
    pub(crate) flash_model: String,
    pub(crate) flash_description: String,
    pub(crate) log_model: String,
    pub(crate) log_description: String,
    pub(crate) journal: String,
    pub(crate) synchronous: String,
    pub(crate) tier: String,
    pub(crate) seconds: f64,
    pub(crate) warm_up_seconds: f64,
}

/// One configuration's figures; null where a figure has no meaning for it.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Row {
    pub(crate) configuration: String,
    /// New-Order transactions committed per minute of modelled time.
    pub(crate) transactions_per_minute: f64,
    pub(crate) flash_hit_ratio: Option<f64>,
    pub(crate) write_reduction: Option<f64>,
    /// Mean size of the writes of whole groups; those that a sync cut short stand apart.
    pub(crate) flash_write_bytes_mean: Option<f64>,
    pub(crate) flash_write_bytes_mean_cut_short: Option<f64>,
    pub(crate) flash_groups_whole: Option<u64>,
    pub(crate) flash_groups_cut_short: Option<u64>,
    pub(crate) flash_bytes_written: Option<u64>,
    /// From the start of the process after kill -9 until the first transaction could run, in modelled time.
    pub(crate) restart_seconds: f64,
    /// Mean number of requests at the drive that holds the data, while it was busy.
    pub(crate) queue_depth: f64,
    pub(crate) consistent: bool,
    /// TPC-C conditions that do not hold, and acknowledged commits that are missing; empty when consistent.
    pub(crate) violations: Vec<String>,
    pub(crate) acknowledged_commits: u64,
    pub(crate) measured_seconds: f64,
    pub(crate) transactions: BTreeMap<String, u64>,
    /// Mean time of a transaction of any type, waiting for SQLite's one writer included, in modelled time.
    pub(crate) transaction_ms_mean: Option<f64>,
    pub(crate) cpu_busy: f64,
    pub(crate) machine_busy: f64,
    /// How often the flash queue went round before measuring.
    pub(crate) queue_wraps_before: Option<f64>,
    pub(crate) second_chances: Option<u64>,
    pub(crate) warm_up_transactions: u64,
    pub(crate) drives: Vec<DriveUse>,
    pub(crate) samples: Vec<Sample>,
}

/// What one modelled drive did while measuring.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct DriveUse {
    /// `data`, `flash` or `log`.
    pub(crate) role: String,
    pub(crate) model: String,
    pub(crate) utilisation: f64,
    pub(crate) queue_depth: f64,
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    pub(crate) flushes: u64,
    pub(crate) bytes_read: u64,
    pub(crate) bytes_written: u64,
}

/// One second or so of a run.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Sample {
    /// End of the interval, in seconds of real time since measuring began.
    pub(crate) seconds: f64,
    pub(crate) interval_seconds: f64,
    pub(crate) new_orders: u64,
    pub(crate) transactions: u64,
    pub(crate) flash_hit_ratio: Option<f64>,
}
