//! The power fails.

use std::collections::{BTreeMap, BTreeSet};

use super::{Anomaly, Change, Changed, Contents, Entry, Held, PlantedFault, Recorder, Stamp, Version};
use crate::config::SsdConfig;
use crate::ftl::JOURNAL_ENTRY_BYTES;

/// Bytes of what a host may find shorn: the smallest that it can write.
pub(crate) const SECTOR_BYTES: u32 = 512;

/// What a power cut leaves.
#[derive(Debug, Clone)]
pub struct Remains {
    pub(super) units: Vec<Held>,
    pub(super) erases: Vec<u32>,
    pub(super) dump: Option<Dump>,
    /// The map, if it is kept by itself.
    pub(super) map: Option<Vec<Entry>>,
    /// The write or discard that came last.
    pub(super) stamp: Stamp,
    /// The last before the first that flash does not have: as far as a start goes that keeps the order.
    pub(super) in_order_to: Stamp,
}

/// What the capacitors brought to the dump area.
#[derive(Debug, Clone, Default)]
pub(super) struct Dump {
    /// Changed entries of the map, one of each unit at most, and none of those that frames are of.
    pub(super) entries: Vec<(u32, Entry)>,
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
        // The capacitors carry what has begun to its end.
        let is_carried = charge.is_some() && !self.is_planted(PlantedFault::ProgramsCutOff);
        let mut units = self.units.clone();
        let mut cut_off = Vec::new();
        for change in self.changes.iter().rev().filter(|change| change.ends > at) {
            let first = change.first as usize;
            let place = &mut units[first..first + change.before.len()];
            if change.begins >= at {
                place.clone_from_slice(&change.before);
            } else if !is_carried {
                place.iter_mut().for_each(|held| *held = change.cut_off(config, held, at));
                cut_off.extend((!change.is_erase).then_some(change.first));
            }
        }
        if config.ftl.backs_up_paired_pages {
            // What they share cells with is in another place, and is taken from there.
            cut_off.clear();
        }
        let per_page = config.geometry.units_per_page();
        for page in cut_off.iter().filter_map(|unit| config.geometry.shares_cells_with(unit / per_page)) {
            let first = (page * per_page) as usize;
            units[first..first + per_page as usize].iter_mut().for_each(|held| held.take_along(config));
        }
        let dump = charge.map(|charge| self.dump(config, at, charge));
        let in_order_to = if config.keeps_order() { self.in_order_to(&units, at) } else { Stamp::MAX };
        let map = self.keeps_map.then(|| self.map_at(at, is_carried));
        Remains { units, erases, dump, map, stamp: self.stamp, in_order_to }
    }

    /// The last write before the first that flash does not have.
    fn in_order_to(&self, units: &[Held], at: u64) -> Stamp {
        let is_data = |held: &&Held| matches!(held, Held::Data { .. });
        let in_flash: BTreeSet<Stamp> = units.iter().filter(is_data).map(Held::stamp).collect();
        let needed = self.buffered.iter().filter(|frame| !frame.is_free(at));
        let fillings = needed.filter_map(|frame| frame.fillings.first());
        let missing = fillings.map(|filling| filling.stamp).filter(|stamp| !in_flash.contains(stamp)).min();
        missing.map_or(Stamp::MAX, |missing| missing - 1)
    }

    fn dump(&self, config: &SsdConfig, at: u64, charge: f64) -> Dump {
        let planted = |fault| self.is_planted(fault);
        let is_carried = !planted(PlantedFault::ProgramsCutOff);
        let is_left = |changed: &&Changed| changed.journalled_at == 0 || changed.journalled_at > at;
        let changed = self.changed_at(at, is_carried).filter(is_left);
        let mut entries: BTreeMap<u32, Entry> =
            changed.map(|changed| (changed.logical, changed.entry)).collect();
        if self.keeps_map || planted(PlantedFault::DumpWithoutEntries) {
            entries.clear();
        }
        // Frames are freed in their order: one behind another that is not in flash is there.
        let (mut frames, mut freed) = (Vec::new(), true);
        for frame in &self.buffered {
            let mut there = frame.fillings.iter().filter(|filling| filling.at <= at);
            let older = planted(PlantedFault::DumpOfOlderVersion);
            let newest = if older { there.next() } else { there.next_back() };
            freed &= frame.is_free(at);
            let in_flash = freed || planted(PlantedFault::DumpWithoutFramesUnderWay) && frame.done_at != 0;
            let Some(filling) = newest.filter(|_| !in_flash && !frame.is_given_up(at)) else { continue };
            frames.push((frame.logical, filling.version));
        }
        let mut dump = Dump::default();
        let capacity = config.cache.dump_bytes_max().unwrap_or(0) as f64 * charge;
        let is_too_much = |entries: usize, frames: usize| bytes_of(config, entries, frames) as f64 > capacity;
        // A unit whose frame is there needs no place in flash, unless its frame may be missing.
        let of_frames: BTreeSet<u32> = frames.iter().map(|(logical, _)| *logical).collect();
        let is_alone = |logical: &u32| !of_frames.contains(logical);
        let alone = entries.keys().filter(|logical| is_alone(logical)).count();
        if !is_too_much(alone, frames.len()) {
            entries.retain(|logical, _| is_alone(logical));
        }
        for entry in entries {
            match is_too_much(dump.entries.len() + 1, 0) {
                true => dump.bytes_missing += u64::from(JOURNAL_ENTRY_BYTES),
                false => dump.entries.push(entry),
            }
        }
        for frame in frames {
            match is_too_much(dump.entries.len(), dump.frames.len() + 1) {
                true => dump.bytes_missing += u64::from(config.geometry.unit_bytes) + 4,
                false => dump.frames.push(frame),
            }
        }
        dump
    }

    /// The entries whose places are in flash when the power fails, also those that a journal has, in the
    /// order in which they changed. A program that has begun is carried to its end, or not.
    fn changed_at(&self, at: u64, is_carried: bool) -> impl Iterator<Item = &Changed> {
        self.changed.iter().filter(move |changed| {
            let began = changed.ready_at.saturating_sub(self.program_ns) < at;
            changed.ready_at <= at || began && is_carried
        })
    }

    /// The map of flash when the power fails, as memory has it that needs no journal.
    fn map_at(&self, at: u64, is_carried: bool) -> Vec<Entry> {
        let mut map = self.journalled.clone();
        for changed in self.changed_at(at, is_carried) {
            map[changed.logical as usize] = changed.entry;
        }
        map
    }
}

impl Change {
    /// What there is of a unit that this change was to leave as it is, cut off at `at`. Pages of the map have
    /// a checksum of their own: of them nothing is believed.
    fn cut_off(&self, config: &SsdConfig, held: &Held, at: u64) -> Held {
        let Held::Data { logical, stamp, contents: Contents::Whole(version) } = *held else {
            return Held::Torn;
        };
        let contents = if config.shows(Anomaly::Shorn) {
            // Sector by sector, as the program goes on.
            let sectors = u64::from(config.geometry.unit_bytes / SECTOR_BYTES);
            let there = (sectors * (at - self.begins) / (self.ends - self.begins)) as u32;
            (there > 0).then_some(Contents::Shorn { version, sectors: there, before: 0 })
        } else {
            config.shows(Anomaly::BitCorruption).then_some(Contents::Corrupt(version))
        };
        contents.map_or(Held::Torn, |contents| Held::Data { logical, stamp, contents })
    }
}

impl Held {
    /// A program into the same cells was cut off.
    fn take_along(&mut self, config: &SsdConfig) {
        *self = match *self {
            Self::Data { logical, stamp, contents } if config.shows(Anomaly::BitCorruption) => {
                let contents = contents.intended().map_or(contents, Contents::Corrupt);
                Self::Data { logical, stamp, contents }
            }
            Self::Data { logical, stamp, .. } | Self::Taken { logical, stamp } => {
                Self::Taken { logical, stamp }
            }
            Self::Map(_) | Self::Nothing | Self::Torn | Self::Erased => Self::Torn,
        };
    }
}

impl Contents {
    /// The version that is there, as it was written or not.
    fn intended(self) -> Option<Version> {
        match self {
            Self::Whole(version) | Self::Shorn { version, .. } | Self::Corrupt(version) => Some(version),
            Self::Nothing | Self::OfAnother { .. } | Self::Unreadable => None,
        }
    }
}
