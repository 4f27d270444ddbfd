//! What the inside of a drive did over a while.

use serde::Serialize;

use crate::config::SsdConfig;
use crate::counters::Counters;

const SECONDS_PER_YEAR: f64 = 365.25 * 86_400.0;

/// What the inside of a drive did over a while.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct DriveWork {
    /// Units programmed for one unit of the host that went to flash. `None` if none did.
    pub write_amplification: Option<f64>,
    /// Of it, what collection moved.
    pub of_collection: Option<f64>,
    /// Of it, the map and its journal.
    pub of_map: Option<f64>,
    /// Of it, parts of pages for which there was nothing to write.
    pub of_padding: Option<f64>,
    /// Units of the host that are written, as a share of what flash holds without its reserve.
    pub effective_utilisation: f64,
    /// Erases.
    pub erases: u64,
    /// Share of the time of all planes that was spent on collection.
    pub collection_share: f64,
    /// Erases of a block so far, on average.
    pub wear_mean: f64,
    /// Erases of the block that was erased most.
    pub wear_max: u32,
    /// How long the drive lives at this rate: until each block has been erased as often as it can be. `None`
    /// without an erase.
    pub life_years: Option<f64>,
    /// Units written over a version that was still in the buffer.
    pub units_coalesced: u64,
    /// Writes that waited for the buffer, and for how long in all.
    pub write_stalls: u64,
    /// Seconds of it.
    pub write_stall_seconds: f64,
}

impl DriveWork {
    /// Between two looks at the counters of a drive, so many seconds apart. `erases` are those of each block
    /// so far.
    pub fn between(
        config: &SsdConfig,
        first: &Counters,
        last: &Counters,
        erases: &[u32],
        seconds: f64,
    ) -> Self {
        let of = |count: fn(&Counters) -> u64| count(last) - count(first);
        let host = of(|counters| counters.units_programmed);
        let share = |units: u64| (host > 0).then(|| units as f64 / host as f64);
        let (moved, map) = (of(|counters| counters.units_moved), of(|counters| counters.units_of_map));
        let padded = of(|counters| counters.units_padded);
        let erased = of(|counters| counters.erases);
        let planes_ns = seconds * 1e9 * f64::from(config.geometry.planes());
        let all_erases: u64 = erases.iter().map(|erases| u64::from(*erases)).sum();
        let lives = f64::from(config.geometry.blocks()) * f64::from(config.ftl.endurance_erases);
        Self {
            write_amplification: share(host + moved + map + padded),
            of_collection: share(moved),
            of_map: share(map),
            of_padding: share(padded),
            effective_utilisation: config.effective_utilisation(),
            erases: erased,
            collection_share: of(|counters| counters.collection_ns) as f64 / planes_ns.max(1.0),
            wear_mean: all_erases as f64 / erases.len().max(1) as f64,
            wear_max: erases.iter().copied().max().unwrap_or(0),
            life_years: (erased > 0).then(|| lives / (erased as f64 / seconds) / SECONDS_PER_YEAR),
            units_coalesced: of(|counters| counters.units_coalesced),
            write_stalls: of(|counters| counters.write_stalls),
            write_stall_seconds: of(|counters| counters.write_stall_ns) as f64 / 1e9,
        }
    }
}
