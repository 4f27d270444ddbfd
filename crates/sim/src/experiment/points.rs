//! Points: what is run in virtual time, in the words of the papers' test beds.

use std::fmt;

use mezzanine_engine::{Admission, Design, SyncMode};
use serde::{Deserialize, Serialize};

/// One run of a test bed at its published size.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Point {
    pub(super) system: System,
    /// TPC-C warehouses; 500 are the papers' database of 50 GB, 57 GB with its indexes.
    pub(super) warehouses: u32,
    /// The buffer pool in MB.
    pub(super) memory_mb: u32,
    /// Disks in the RAID-0 under the database.
    pub(super) disks: u32,
    /// Model of the flash drive.
    pub(super) drive: &'static str,
    /// For a flash drive that is modelled from the inside: what the cache has of it.
    pub(super) inside: Option<Inside>,
}

/// What a cache has of a drive that is modelled from the inside. All of the drive was written once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Inside {
    /// What it takes; nobody writes the rest of the drive.
    Part,
    /// The drive is no larger than the cache.
    All,
}

impl Inside {
    pub(super) const ALL: [Self; 2] = [Self::Part, Self::All];
}

/// Where the database is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum System {
    /// On disks alone.
    Disks,
    /// On flash alone.
    Flash,
    /// On disks, with a tier of so many MB.
    Tier { design: Design, admission: Admission, sync_mode: SyncMode, flash_mb: u32 },
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.system {
            System::Disks => write!(f, "disks alone")?,
            System::Flash => write!(f, "all on flash")?,
            System::Tier { design, admission, sync_mode, flash_mb } => {
                write!(f, "{design} of {flash_mb} MB, {admission}, {sync_mode}")?;
            }
        }
        write!(f, "; {} warehouses, {} MB of memory", self.warehouses, self.memory_mb)?;
        write!(f, ", {} disks, {}", self.disks, self.drive)?;
        match self.inside {
            None => Ok(()),
            Some(Inside::Part) => f.write_str(" from the inside, full"),
            Some(Inside::All) => f.write_str(" from the inside, filled by the cache"),
        }
    }
}

/// The papers' sizes of the flash cache, in GB.
pub(super) const SIZES_GB: [u32; 5] = [4, 8, 12, 16, 20];

impl Point {
    /// The test bed of the journal paper (section 6.2) with the drive of most of its figures.
    pub(super) const PAPER: Self = Self {
        system: System::Disks,
        warehouses: 500,
        memory_mb: 200,
        disks: 16,
        drive: "samsung-840-pro",
        inside: None,
    };

    /// The test bed of the talk.
    pub(super) const TALK: Self = Self { disks: 8, drive: "ssd-mid-a", ..Self::PAPER };

    /// With a tier that takes clean and dirty pages and writes back.
    pub(super) fn with(&self, design: Design, flash_gb: u32) -> Self {
        let system = System::Tier {
            design,
            admission: Admission::Both,
            sync_mode: SyncMode::Durable,
            flash_mb: 1000 * flash_gb,
        };
        Self { system, ..self.clone() }
    }

    /// With another admission.
    pub(super) fn admitting(mut self, only: Admission) -> Self {
        if let System::Tier { admission, .. } = &mut self.system {
            *admission = only;
        }
        self
    }

    /// Write-through.
    pub(super) fn through(mut self) -> Self {
        if let System::Tier { sync_mode, .. } = &mut self.system {
            *sync_mode = SyncMode::Through;
        }
        self
    }

    /// On another drive.
    pub(super) fn on(self, drive: &'static str) -> Self {
        Self { drive, ..self }
    }

    /// With another number of disks.
    pub(super) fn over(self, disks: u32) -> Self {
        Self { disks, ..self }
    }

    /// The whole database on flash.
    pub(super) fn all_flash(&self) -> Self {
        Self { system: System::Flash, ..self.clone() }
    }
}

/// What is taken from a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// New-Order transactions per minute.
    pub transactions: f64,
    /// Pool misses that were served by the flash cache, in per cent.
    pub hits: f64,
    /// Disk writes saved, in per cent of the dirty pages that left the pool.
    pub writes_saved: f64,
    /// Frames that hold superseded versions, in per cent.
    pub old_versions: f64,
    /// How busy the flash drive is, in per cent.
    pub flash_busy: f64,
    /// Pages read from and written to flash per second.
    pub flash_pages_per_second: f64,
    /// Mean write to flash in KiB; the kB of the papers are that.
    pub flash_write_kib: f64,
    /// Writes to flash that begin where the one before ended, in per cent.
    pub flash_sequential: f64,
    /// Units programmed for one of the host, of a flash drive that is modelled from the inside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_amplification: Option<f64>,
}
