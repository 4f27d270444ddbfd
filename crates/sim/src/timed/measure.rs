//! What is measured.

use std::time::Duration;

use mezzanine_engine::{Statistics, Tier};
use mezzanine_workload::Histogram;

use super::counts::{Counts, Served};
use super::drive::DriveLoad;
use super::log::LogLoad;
use super::processor::Load;
use super::setup::Setup;

/// Latencies by what they are of.
#[derive(Default)]
pub(super) struct Latencies {
    pub(super) fetch: Histogram,
    pub(super) staging: Histogram,
    pub(super) flash: Histogram,
    pub(super) disk: Histogram,
    /// Those that waited for another client's read.
    pub(super) joined: Histogram,
    pub(super) transaction: Histogram,
}

impl Latencies {
    pub(super) fn fetched(&mut self, served: Served, ns: u64) {
        let latency = Duration::from_nanos(ns);
        self.fetch.record(latency);
        match served {
            Served::Pool => {}
            Served::Staging => self.staging.record(latency),
            Served::Flash => self.flash.record(latency),
            Served::Disk => self.disk.record(latency),
        }
    }
}

/// All sums at one moment.
#[derive(Debug, Clone)]
pub(super) struct Sums {
    pub(super) at: u64,
    pub(super) counts: Counts,
    pub(super) tier: Statistics,
    /// Load, and busy time of all spindles or channels.
    pub(super) disk: (DriveLoad, u64),
    pub(super) flash: (DriveLoad, u64),
    /// What the inside of the flash drive counted, if it is modelled from there.
    pub(super) flash_inside: Option<mezzanine_ssd::Counters>,
    pub(super) processor: Load,
    pub(super) log: LogLoad,
}

/// Looks at how full a tier is that writes in place, which take a pass over its directory each.
#[derive(Default)]
pub(super) struct Looks {
    /// Pages that were staged in by the time of the next look, and pages that were there at the last.
    next: u64,
    valid: u64,
    is_filled: bool,
}

impl Looks {
    /// Whether as many pages were staged in as so many rounds of the frames, and the frames have been filled.
    pub(super) fn is_filled(&mut self, tier: &Tier, rounds: u64) -> bool {
        let statistics = tier.statistics();
        let (staged, frames) = (statistics.staged_dirty + statistics.staged_clean, tier.geometry().frames());
        if staged < rounds * frames {
            return false;
        }
        if self.is_filled || staged < self.next {
            return self.is_filled;
        }
        let valid = tier.valid_and_dirty().0;
        let grows = valid > self.valid + frames / 200;
        self.is_filled = valid * 20 >= frames * 19 || !grows;
        (self.next, self.valid) = (staged + frames / 8, valid);
        self.is_filled
    }
}

/// What was measured.
pub(super) struct Measure {
    pub(super) latencies: Latencies,
    /// At the beginning, and at the end of each interval since.
    pub(super) sums: Vec<Sums>,
    pub(super) filled: bool,
    /// Shares of the queue's frames that hold superseded versions, as often as they were counted.
    pub(super) old_versions: Vec<f64>,
    pub(super) intervals: u64,
    pub(super) looks: Looks,
}

impl Measure {
    pub(super) fn new(setup: &Setup) -> Self {
        Self {
            latencies: Latencies::default(),
            sums: Vec::new(),
            filled: false,
            old_versions: Vec::new(),
            looks: Looks::default(),
            intervals: (setup.seconds / setup.interval_seconds).ceil().max(1.0) as u64,
        }
    }

    pub(super) fn has_begun(&self) -> bool {
        !self.sums.is_empty()
    }
}
