//! What operations cost, and what a cache counts (section 4.1, Table 2).

use super::disk::Disk;
use super::flash::Flash;
use std::ops::AddAssign;

use serde::Serialize;

/// Times of single operations in ms. No two overlap: the time of a run is their sum.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Costs {
    /// Of reading a flash page (C_fr).
    pub read_ms: f64,
    /// Of programming a flash page (C_fp).
    pub program_ms: f64,
    /// Of erasing a block (C_fe).
    pub erase_ms: f64,
    /// Of a disk access (C_H).
    pub disk_ms: f64,
}

impl Costs {
    /// Table 2.
    pub const PUBLISHED: Self = Self { read_ms: 0.035, program_ms: 0.350, erase_ms: 1.5, disk_ms: 5.5 };

    fn of(&self, operations: &Operations) -> f64 {
        operations.reads as f64 * self.read_ms
            + operations.programs as f64 * self.program_ms
            + operations.erases as f64 * self.erase_ms
    }

    /// The time that what was counted took.
    pub fn times(&self, counts: &Counts) -> Times {
        Times {
            collection_ms: self.of(&counts.collection),
            caching_ms: self.of(&counts.caching),
            disk_ms: counts.disk_accesses() as f64 * self.disk_ms,
        }
    }
}

/// Operations of flash.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Operations {
    /// Pages read.
    pub reads: u64,
    /// Pages programmed.
    pub programs: u64,
    /// Blocks erased.
    pub erases: u64,
}

impl AddAssign for Operations {
    fn add_assign(&mut self, other: Self) {
        self.reads += other.reads;
        self.programs += other.programs;
        self.erases += other.erases;
    }
}

/// What a middle tier counts from its first request on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Pages that the top tier lacked.
    pub reads: u64,
    /// Dirty pages that left the top tier.
    pub writes: u64,
    /// Reads of pages that were here.
    pub read_hits: u64,
    /// Writes of pages that were here.
    pub write_hits: u64,
    /// Pages read from disk.
    pub fetches: u64,
    /// Pages written to disk.
    pub write_backs: u64,
    /// Pages dropped before there was need for their room: what the paper calls proactive.
    pub dropped: u64,
    /// Blocks collected.
    pub collections: u64,
    /// Operations of flash that collection made.
    pub collection: Operations,
    /// All others.
    pub caching: Operations,
}

impl Counts {
    /// These, with what disk and flash count themselves.
    pub(super) fn beside(self, disk: &Disk, flash: &Flash) -> Self {
        let (collection, caching) = flash.counted();
        Self {
            fetches: disk.fetches,
            write_backs: disk.write_backs,
            collections: collection.erases,
            collection,
            caching,
            ..self
        }
    }

    /// Requests of the top tier (N).
    pub fn requests(&self) -> u64 {
        self.reads + self.writes
    }

    /// Share of the requests whose page was here.
    pub fn hit_ratio(&self) -> f64 {
        (self.read_hits + self.write_hits) as f64 / self.requests().max(1) as f64
    }

    /// Accesses to the disk (n_H).
    pub fn disk_accesses(&self) -> u64 {
        self.fetches + self.write_backs
    }
}

/// The time of a run in its parts, in ms (Figure 6).
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Times {
    /// Of flash for collection (t_g).
    pub collection_ms: f64,
    /// Of flash for everything else (t_c).
    pub caching_ms: f64,
    /// Of the disk (t_b).
    pub disk_ms: f64,
}

impl Times {
    /// All of it (t_v).
    pub fn all_ms(&self) -> f64 {
        self.collection_ms + self.caching_ms + self.disk_ms
    }

    /// Requests in a second, if this is what so many took.
    pub fn per_second(&self, requests: u64) -> f64 {
        requests as f64 * 1e3 / self.all_ms()
    }
}
