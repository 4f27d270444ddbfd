//! What the tier and the modelled devices have done, as of one moment and between two.

use mezzanine_workload::Session;
use serde::Serialize;

use super::server::numbers;
use crate::failure::Failure;

const TIER: &str = "SELECT hits_memory, hits_flash, misses, pages_in_dirty, pages_in_clean, disk_writes, group_writes, \
    flash_bytes_written, second_chances, stalls, pages_refused, frames FROM pg_stat_mezzanine";

const DRIVE_OF: [(&str, &str); 2] = [
    (
        "data",
        "SELECT reads, writes, flushes, bytes_read, bytes_written, busy_ns, elapsed_ns, servers::bigint, \
         read_response_ns, write_response_ns FROM mezzanine_model_use() WHERE device = 'disk'",
    ),
    (
        "flash",
        "SELECT reads, writes, flushes, bytes_read, bytes_written, busy_ns, elapsed_ns, servers::bigint, \
         read_response_ns, write_response_ns FROM mezzanine_model_use() WHERE device = 'flash'",
    ),
];

/// Counters at one moment, in the order of the queries.
#[derive(Debug, Clone)]
pub(super) struct Counts {
    tier: Option<Vec<i64>>,
    drives: Vec<(&'static str, Vec<i64>)>,
}

/// What one modelled drive did while measuring, in its own time.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct DriveUse {
    /// `data` or `flash`.
    pub(crate) role: &'static str,
    pub(crate) utilisation: f64,
    pub(crate) reads: i64,
    pub(crate) writes: i64,
    pub(crate) flushes: i64,
    pub(crate) bytes_read: i64,
    pub(crate) bytes_written: i64,
    pub(crate) read_ms_mean: f64,
    pub(crate) write_ms_mean: f64,
}

/// What the tier did while measuring.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct TierUse {
    /// Pages that PostgreSQL read and that came from the tier, of all that it read.
    pub(crate) hit_ratio: Option<f64>,
    /// Dirty pages that left shared buffers and were never written to disk, of all that left.
    pub(crate) write_reduction: Option<f64>,
    pub(crate) pages_in_dirty: i64,
    pub(crate) pages_in_clean: i64,
    pub(crate) disk_writes: i64,
    pub(crate) group_writes: i64,
    pub(crate) flash_bytes_written: i64,
    /// Mean size of a write to the flash drive, metadata included.
    pub(crate) flash_write_bytes_mean: Option<f64>,
    pub(crate) second_chances: i64,
    /// Dirty pages that found staging full and made their backend wait or work.
    pub(crate) stalls: i64,
    pub(crate) pages_refused: i64,
}

fn ratio(part: i64, whole: i64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

impl Counts {
    pub(super) fn now(session: &mut dyn Session, with_tier: bool) -> Result<Counts, Failure> {
        let tier = if with_tier { Some(numbers(session, TIER)?) } else { None };
        let mut drives = Vec::new();
        for (role, sql) in DRIVE_OF {
            let found = numbers(session, sql)?;
            if !found.is_empty() {
                drives.push((role, found));
            }
        }
        Ok(Counts { tier, drives })
    }

    /// Bytes written to flash so far, over the bytes of all frames: how often the queue has gone round.
    pub(super) fn queue_wraps(&self, page_bytes: u64) -> Option<f64> {
        let tier = self.tier.as_ref()?;
        ratio(tier[7], tier[11] * page_bytes as i64)
    }

    fn drive_use(&self, earlier: &Counts) -> Vec<DriveUse> {
        let pairs = self.drives.iter().zip(&earlier.drives);
        pairs
            .map(|((role, now), (_, then))| {
                let d: Vec<i64> = now.iter().zip(then).map(|(now, then)| now - then).collect();
                DriveUse {
                    role,
                    utilisation: ratio(d[5], d[6] * now[7]).unwrap_or(0.0),
                    reads: d[0],
                    writes: d[1],
                    flushes: d[2],
                    bytes_read: d[3],
                    bytes_written: d[4],
                    read_ms_mean: ratio(d[8], d[0]).unwrap_or(0.0) / 1e6,
                    write_ms_mean: ratio(d[9], d[1]).unwrap_or(0.0) / 1e6,
                }
            })
            .collect()
    }

    fn tier_use(&self, earlier: &Counts, drives: &[DriveUse]) -> Option<TierUse> {
        let (now, then) = (self.tier.as_ref()?, earlier.tier.as_ref()?);
        let d: Vec<i64> = now.iter().zip(then).map(|(now, then)| now - then).collect();
        let hits = d[0] + d[1];
        let flash = drives.iter().find(|drive| drive.role == "flash");
        Some(TierUse {
            hit_ratio: ratio(hits, hits + d[2]),
            write_reduction: ratio(d[5], d[3]).map(|share| 1.0 - share),
            pages_in_dirty: d[3],
            pages_in_clean: d[4],
            disk_writes: d[5],
            group_writes: d[6],
            flash_bytes_written: d[7],
            flash_write_bytes_mean: flash.and_then(|flash| ratio(flash.bytes_written, flash.writes)),
            second_chances: d[8],
            stalls: d[9],
            pages_refused: d[10],
        })
    }

    /// What was done between `earlier` and this.
    pub(super) fn since(&self, earlier: &Counts) -> (Option<TierUse>, Vec<DriveUse>) {
        let drives = self.drive_use(earlier);
        (self.tier_use(earlier, &drives), drives)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn counts(factor: i64) -> Counts {
        let numbers = |list: &[i64]| list.iter().map(|n| n * factor).collect::<Vec<i64>>();
        let mut drive = numbers(&[100, 10, 1, 819_200, 2_621_440, 800, 1_000, 0, 200_000_000, 5_000_000]);
        drive[7] = 2;
        let mut tier = numbers(&[10, 60, 30, 50, 20, 10, 3, 819_200, 4, 1, 0, 0]);
        tier[11] = 50;
        Counts { tier: Some(tier), drives: vec![("data", drive.clone()), ("flash", drive)] }
    }

    #[test]
    fn ratios_are_those_of_the_interval() {
        let (tier, drives) = counts(3).since(&counts(1));
        let tier = tier.unwrap();
        assert_eq!(tier.hit_ratio, Some(0.7));
        assert_eq!(tier.write_reduction, Some(0.8));
        assert_eq!(tier.flash_write_bytes_mean, Some(262_144.0));
        assert_eq!((drives[0].utilisation, drives[0].reads), (0.4, 200));
        assert_eq!((drives[0].read_ms_mean, drives[0].write_ms_mean), (2.0, 0.5));
        assert_eq!(counts(1).queue_wraps(8192), Some(2.0));
    }
}
