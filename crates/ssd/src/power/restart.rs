//! The recovery manager.
//!
//! 1. The capacitors are charged again: from here on a power cut dumps what there is.
//! 2. The map is read from its newest pages, and what the journal has behind them.
//! 3. Entries and frames of the dump, if there is one, take their places; a drive without a durable cache
//!    brings its map up to date from flash instead, and writes that to the journal.
//! 4. The dump area is cleared. A power cut before leaves it as it was, and the next start begins again.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::cut::Dump;
use super::{Anomaly, Changed, Entry, Held, MapPage, PlantedFault, Recorder, Remains, Version};
use crate::config::{CacheKind, SsdConfig};
use crate::drive::Ssd;
use crate::ftl::Location;
use crate::state::Parts;

/// What a start found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Restarted {
    /// Frames of the dump that are in the buffer again.
    pub frames: u64,
    /// Changed entries of the dump.
    pub entries: u64,
    /// Bytes that the capacitors could not bring to the dump area: what was acknowledged is lost. Never
    /// silent.
    pub bytes_missing: u64,
}

/// The map as its pages and its journal on flash have it.
struct MapOnFlash {
    map: Vec<Entry>,
    /// The last page of the journal.
    sequence: u64,
    /// Whether the map's page of that turn is missing.
    owes_page: bool,
}

/// A drive that does not start: nothing of it can be read any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestartError {
    device: String,
    logical: u32,
}

impl RestartError {
    /// The drive, as [`Ssd::named`] has it.
    pub fn device(&self) -> &str {
        &self.device
    }
}

impl fmt::Display for RestartError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { device, logical } = self;
        write!(
            out,
            "{device} is dead: its map names a place for unit {logical} that does not hold it, and nothing can be \
             read; replace it, and take what it held from a copy"
        )
    }
}

impl std::error::Error for RestartError {}

impl Ssd {
    /// Starts a drive on what a power cut has left. The clock begins at 0.
    ///
    /// # Errors
    /// [`RestartError`]: the map cannot be trusted, and the drive notices.
    pub fn restart(
        &self,
        state: &mut [u64],
        recorder: &mut Recorder,
        remains: &mut Remains,
    ) -> Result<Restarted, RestartError> {
        let restarted = self.restart_cut_off(state, recorder, remains)?;
        remains.dump = None;
        Ok(restarted)
    }

    /// The start as far as the power may fail again without a loss: all but the end, at which the dump area
    /// is cleared. Whoever stops here starts again on the same remains.
    ///
    /// # Errors
    /// As of [`Self::restart`].
    pub fn restart_cut_off(
        &self,
        state: &mut [u64],
        recorder: &mut Recorder,
        remains: &mut Remains,
    ) -> Result<Restarted, RestartError> {
        let dump = remains.dump.clone().unwrap_or_default();
        if recorder.is_planted(PlantedFault::ClearedTooEarly) {
            remains.dump = None;
        }
        recorder.begin(self.config(), remains);
        let on_flash = match &remains.map {
            Some(map) => MapOnFlash { map: map.clone(), sequence: 0, owes_page: false },
            None => self.map_on_flash(&recorder.units, recorder.is_planted(PlantedFault::JournalUnread)),
        };
        (recorder.sequence, recorder.journalled) = (on_flash.sequence, on_flash.map);
        let changed: BTreeMap<u32, Entry> = if self.config().cache.kind == CacheKind::Durable {
            // What is in the dumped buffer needs no version of before, and the one that there was may be
            // gone.
            let superseded = dump.frames.iter().map(|(logical, _)| (*logical, Entry::default()));
            dump.entries.iter().copied().chain(superseded).collect()
        } else {
            self.roll_forward(recorder, remains).into_iter().collect()
        };
        let mut map: Vec<u32> = recorder.journalled.iter().map(|entry| entry.word).collect();
        changed.iter().for_each(|(logical, entry)| map[*logical as usize] = entry.word);
        // What has changed is in no page of the journal yet.
        let of_start = |(logical, entry)| Changed { logical, entry, ready_at: 0, journalled_at: 0 };
        let dirty = changed.len() as u64;
        recorder.changed = changed.into_iter().map(of_start).collect();
        self.rebuild(state, &map, recorder, &remains.erases)?;
        self.parts(state).ftl.journal.goes_on(recorder.sequence, dirty, on_flash.owes_page);
        self.restore(state, recorder, &dump);
        let is_alone = self.config().cache.kind != CacheKind::Durable;
        if is_alone && !recorder.is_planted(PlantedFault::StartUnjournalled) {
            self.keep_start(state, recorder);
        }
        Ok(Restarted {
            frames: dump.frames.len() as u64,
            entries: dump.entries.len() as u64,
            bytes_missing: dump.bytes_missing,
        })
    }

    fn map_on_flash(&self, units: &[Held], is_journal_unread: bool) -> MapOnFlash {
        let mut map = vec![Entry::default(); self.config().logical_units() as usize];
        let pages = self.config().map_pages();
        let mut newest = vec![None; 2 * pages as usize];
        for held in units {
            if let Held::Map(page) = held {
                let place: &mut Option<Arc<MapPage>> = &mut newest[page.number as usize];
                if place.as_ref().is_none_or(|before| before.sequence < page.sequence) {
                    *place = Some(page.clone());
                }
            }
        }
        let mut has = vec![0; pages as usize];
        for page in newest[pages as usize..].iter().flatten() {
            has[(page.number - pages) as usize] = page.sequence;
            page.entries.iter().for_each(|(logical, entry)| map[*logical as usize] = *entry);
        }
        let mut journal: Vec<_> = newest[..pages as usize].iter().flatten().collect();
        journal.sort_by_key(|page| page.sequence);
        let last = journal.last().map_or(0, |page| page.sequence).max(has.iter().copied().max().unwrap_or(0));
        if is_journal_unread {
            journal.clear();
        }
        // In the order in which they were written: what a page of the map has already is in the journal's
        // newest pages too, or in none.
        for (logical, entry) in journal.iter().flat_map(|page| &page.entries) {
            map[*logical as usize] = *entry;
        }
        let turn = last.saturating_sub(1) % u64::from(pages);
        MapOnFlash { map, sequence: last, owes_page: has[turn as usize] < last }
    }

    /// Makes the state of flash as it is, with this map of the host's units.
    fn rebuild(
        &self,
        state: &mut [u64],
        map: &[u32],
        recorder: &mut Recorder,
        erases: &[u32],
    ) -> Result<(), RestartError> {
        state.fill(0);
        let units = &recorder.units;
        self.prepare_restart(state, erases, |unit| units[unit as usize] != Held::Erased);
        let mut parts = self.parts(state);
        let is_believed = self.config().shows(Anomaly::CorruptMap) && !self.config().shows(Anomaly::Dead);
        for (logical, word) in map.iter().enumerate() {
            let logical = logical as u32;
            let Location::Flash(unit) = Location::of(*word) else { continue };
            if units[unit as usize].is_of(logical) {
                parts.ftl.adopt(logical, unit);
            } else if is_believed {
                recorder.misplaced.insert(logical, unit);
            } else {
                return Err(RestartError { device: self.name().to_owned(), logical });
            }
        }
        // The newest page of each kind stays; older ones are garbage.
        let first = self.config().logical_units();
        let mut newest: BTreeMap<u32, (u64, u32)> = BTreeMap::new();
        for (unit, held) in units.iter().enumerate() {
            if let Held::Map(page) = held {
                let place = newest.entry(page.number).or_insert((page.sequence, unit as u32));
                *place = (*place).max((page.sequence, unit as u32));
            }
        }
        let per_page = self.config().geometry.units_per_page();
        for (number, (_, unit)) in newest {
            parts.ftl.adopt(first + number * per_page, unit);
        }
        parts.ftl.adopted();
        Ok(())
    }

    /// Writes to the journal what the map was brought up to date by; commands wait for that. The host has
    /// read it: given up and erased, it must not be followed by what was there before it.
    fn keep_start(&self, state: &mut [u64], recorder: &mut Recorder) {
        let Parts { words, mut ftl, .. } = self.parts(state);
        ftl.record = Some(recorder);
        words.flushed_at = ftl.flush_journal(self.config().map_pages(), self.config().logical_units(), 0);
    }

    /// Puts the frames of a dump into the buffer.
    fn restore(&self, state: &mut [u64], recorder: &mut Recorder, dump: &Dump) {
        let Parts { words, mut ftl, .. } = self.parts(state);
        let mut frames: Vec<(u32, Version)> = dump.frames.clone();
        if recorder.is_planted(PlantedFault::RestoredInReverse) {
            frames.reverse();
        }
        let mut at: BTreeMap<u32, u32> = BTreeMap::new();
        for (logical, version) in frames {
            recorder.writes(version);
            if let Some(frame) = at.get(&logical) {
                recorder.rewritten(*frame, 0);
                continue;
            }
            let number = words.filled;
            let frame = ftl.frames.number(number);
            self.fill_frame(words, &mut ftl, 0, logical, 0);
            at.insert(logical, frame);
            recorder.filled(frame, logical, 0);
        }
    }
}

impl Recorder {
    /// Begins anew with flash as it is.
    fn begin(&mut self, config: &SsdConfig, remains: &Remains) {
        let mut fresh = Self::new(config);
        (fresh.units, fresh.stamp) = (remains.units.clone(), remains.stamp);
        #[cfg(feature = "planted")]
        fresh.plant(self.fault);
        *self = fresh;
    }
}

impl Held {
    /// Whether it is, or was before it was taken along, of this unit of the host.
    fn is_of(&self, unit: u32) -> bool {
        matches!(self, Self::Data { logical, .. } | Self::Taken { logical, .. } if *logical == unit)
    }
}
