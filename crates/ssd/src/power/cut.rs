//! The power fails.

use super::{Held, PlantedFault, Recorder, Version};
use crate::config::SsdConfig;
use crate::ftl::JOURNAL_ENTRY_BYTES;

/// What a power cut leaves.
#[derive(Debug, Clone)]
pub struct Remains {
    pub(super) units: Vec<Held>,
    pub(super) erases: Vec<u32>,
    pub(super) dump: Option<Dump>,
}

/// What the capacitors brought to the dump area.
#[derive(Debug, Clone, Default)]
pub(super) struct Dump {
    /// Changed entries of the map, in the order in which they changed.
    pub(super) entries: Vec<(u32, u32)>,
    /// Units and their versions, in the order in which they were written.
    pub(super) frames: Vec<(u32, Version)>,
    /// Bytes that the capacitors had no charge for.
    pub(super) bytes_missing: u64,
}

impl Remains {
    /// Bytes that are in the dump area; none if nothing was dumped.
    pub fn dump_bytes(&self, config: &SsdConfig) -> Option<u64> {
        let dump = self.dump.as_ref()?;
        Some(bytes_of(config, dump.entries.len(), dump.frames.len()))
    }
}

/// Bytes of a dump: a frame takes a unit and its number.
pub(crate) fn bytes_of(config: &SsdConfig, entries: usize, frames: usize) -> u64 {
    entries as u64 * u64::from(JOURNAL_ENTRY_BYTES)
        + frames as u64 * (u64::from(config.geometry.unit_bytes) + 4)
}

impl Recorder {
    /// The power fails at `at`, not before the last operation was entered. `erases` are those of each block;
    /// `charge` is the share of a full charge that the capacitors have, for a durable cache; without one
    /// nothing is dumped, and what is under way is torn.
    pub fn cut(&self, config: &SsdConfig, erases: Vec<u32>, at: u64, charge: Option<f64>) -> Remains {
        let mut units = self.units.clone();
        for change in self.changes.iter().rev().filter(|change| change.ends > at) {
            let first = change.first as usize;
            for (unit, before) in units[first..].iter_mut().zip(&change.before) {
                let under_way = change.begins < at;
                match (under_way, charge.is_some()) {
                    // The capacitors carry what has begun to its end.
                    (true, true) => {}
                    (true, false) => *unit = Held::Torn,
                    (false, _) => *unit = before.clone(),
                }
            }
        }
        let dump = charge.map(|charge| self.dump(config, at, charge));
        Remains { units, erases, dump }
    }

    fn dump(&self, config: &SsdConfig, at: u64, charge: f64) -> Dump {
        let planted = |fault| self.is_planted(fault);
        let mut dump = Dump::default();
        let capacity = config.cache.dump_bytes_max().unwrap_or(0) as f64 * charge;
        let fits = |dump: &Dump, entries, frames| {
            bytes_of(config, dump.entries.len() + entries, dump.frames.len() + frames) as f64 <= capacity
        };
        let changed = |entry: &&super::Entry| {
            // A program that has begun is carried to its end.
            let ready = entry.ready_at <= at || entry.ready_at.saturating_sub(self.program_ns) < at;
            ready && (entry.journalled_at == 0 || entry.journalled_at > at)
        };
        for entry in self.entries.iter().filter(changed) {
            if planted(PlantedFault::DumpWithoutEntries) {
                break;
            }
            match fits(&dump, 1, 0) {
                true => dump.entries.push((entry.logical, entry.word)),
                false => dump.bytes_missing += u64::from(JOURNAL_ENTRY_BYTES),
            }
        }
        // Frames are freed in their order: one behind another that is not in flash is there.
        let mut freed = true;
        for frame in &self.buffered {
            let mut there = frame.versions.iter().filter(|(filled_at, _)| *filled_at <= at);
            let older = planted(PlantedFault::DumpOfOlderVersion);
            let newest = if older { there.next() } else { there.next_back() };
            freed &= frame.is_free(at);
            let in_flash = freed || planted(PlantedFault::DumpWithoutFramesUnderWay) && frame.done_at != 0;
            let Some((_, version)) = newest.filter(|_| !in_flash && !frame.is_given_up(at)) else { continue };
            match fits(&dump, 0, 1) {
                true => dump.frames.push((frame.logical, *version)),
                false => dump.bytes_missing += u64::from(config.geometry.unit_bytes) + 4,
            }
        }
        dump
    }
}
