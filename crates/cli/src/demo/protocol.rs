//! What the demo and the process that runs one configuration say to each other.
//!
//! The demo writes a [`ChildSpec`] into a file. The child writes acknowledged commits to its standard output,
//! each before the next transaction of that client begins, and [`Event`]s, one JSON object a line, to its
//! standard error. Both are pipes, so what the child wrote before a kill -9 is not lost. A line on standard
//! error that is no event (a panic) is shown to the user.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::result::{DriveUse, Sample};

/// What the child is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Role {
    /// Populate the database, without modelled drives.
    Load,
    /// Find out how busy the processor is at time scale 1.
    Calibrate,
    /// Warm up, measure, and go on until killed.
    Run,
    /// Open what a kill left behind, and check it.
    Reopen,
}

/// The configurations that are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Configuration {
    /// The data on the modelled disks.
    Disk,
    /// The same with the flash tier.
    FaceGsc,
    /// The data on the modelled flash drive.
    Flash,
}

impl Configuration {
    pub(crate) const ALL: [Configuration; 3] =
        [Configuration::Disk, Configuration::FaceGsc, Configuration::Flash];

    /// As it is called in results.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Configuration::Disk => "disk",
            Configuration::FaceGsc => "face-gsc",
            Configuration::Flash => "flash",
        }
    }
}

/// All that one child needs to know.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ChildSpec {
    pub(crate) role: Role,
    pub(crate) configuration: Configuration,
    pub(crate) database: PathBuf,
    /// The tier's flash file.
    pub(crate) flash: PathBuf,
    /// Bytes of flash that a tier is formatted with.
    pub(crate) flash_bytes: u64,
    /// Acknowledged commits, for the check.
    pub(crate) acknowledged: PathBuf,
    pub(crate) warehouses: u32,
    pub(crate) tiny: bool,
    pub(crate) seed: u64,
    pub(crate) clients: u32,
    /// SQLite's page cache of each connection.
    pub(crate) cache_bytes_per_client: u64,
    pub(crate) page_bytes: u32,
    pub(crate) disk_model: String,
    pub(crate) flash_model: String,
    pub(crate) log_model: String,
    pub(crate) time_scale: f64,
    /// Warm up with this many transactions; `None`: until the flash queue has gone round.
    pub(crate) warm_up_transactions: Option<u64>,
    pub(crate) warm_up_seconds: f64,
    pub(crate) seconds: f64,
}

/// What a child tells on the way.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Event {
    /// Part of a long piece of work, 0 to 1.
    Progress(f64),
    Loaded {
        database_bytes: u64,
    },
    /// How busy this process kept the processor at time scale 1, and how many transactions it ran.
    Calibrated {
        cpu_busy: f64,
        transactions: u64,
    },
    Warmed {
        transactions: u64,
        queue_wraps: Option<f64>,
    },
    /// Modelled delays are on.
    WarmingSlowly,
    Measuring,
    Sample(Sample),
    Measured(Box<Measured>),
    /// After a kill: the first transaction can run.
    Ready,
    Checked {
        acknowledged_commits: u64,
        violations: Vec<String>,
    },
    /// The child cannot go on.
    Failed {
        thing: String,
        reason: String,
        next: Option<String>,
    },
}

/// Figures of the measured time of one run.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Measured {
    pub(crate) seconds: f64,
    pub(crate) transactions: std::collections::BTreeMap<String, u64>,
    pub(crate) new_orders: u64,
    pub(crate) cpu_busy: f64,
    pub(crate) machine_busy: f64,
    pub(crate) drives: Vec<DriveUse>,
    pub(crate) tier: Option<TierFigures>,
}

/// What the tier did while measuring.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct TierFigures {
    pub(crate) hits: u64,
    pub(crate) lookups: u64,
    /// Pages that the database wrote, and how many of them went to the disks.
    pub(crate) pages_written: u64,
    pub(crate) pages_to_disk: u64,
    pub(crate) groups_whole: u64,
    pub(crate) bytes_whole: u64,
    pub(crate) groups_cut_short: u64,
    pub(crate) bytes_cut_short: u64,
    pub(crate) flash_bytes_written: u64,
    pub(crate) second_chances: u64,
}
