//! The recovery manager.
//!
//! 1. The capacitors are charged again: from here on a power cut dumps what there is.
//! 2. The map is read from its newest pages, and what the journal has behind them.
//! 3. Entries and frames of the dump, if there is one, take their places.
//! 4. The dump area is cleared. A power cut before leaves it as it was, and the next start begins again.

use std::fmt;

use super::cut::Dump;
use super::{Buffered, Entry, Held, PlantedFault, Recorder, Remains, Version};
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

/// A drive that does not start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RestartError {
    /// The map names a unit that is not whole, or another's: which unit of the host.
    MapBroken(u32),
}

impl fmt::Display for RestartError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MapBroken(logical) => {
                write!(
                    out,
                    "the map names a place for unit {logical} that does not hold it; the drive is dead"
                )
            }
        }
    }
}

impl std::error::Error for RestartError {}

impl Ssd {
    /// Starts a drive on what a power cut has left. The clock begins at 0.
    ///
    /// # Errors
    /// [`RestartError`]: the map cannot be trusted.
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
        let fault = recorder.fault;
        let dump = remains.dump.clone().unwrap_or_default();
        if fault == Some(PlantedFault::ClearedTooEarly) {
            remains.dump = None;
        }
        let (mut map, sequence, owes_page) = self.map_on_flash(&remains.units, fault);
        let on_flash = map.clone();
        // What is in the dumped buffer needs no version of before, and the one that there was may be gone.
        let superseded = dump.frames.iter().map(|(logical, _)| (*logical, 0));
        let entries: Vec<(u32, u32)> = dump.entries.iter().copied().chain(superseded).collect();
        for (logical, word) in &entries {
            map[*logical as usize] = *word;
        }
        *recorder =
            Recorder { sequence, units: remains.units.clone(), fault, ..Recorder::new(self.config()) };
        recorder.journalled = on_flash;
        // What the dump had is in no page of the journal yet.
        recorder.entries = entries
            .iter()
            .map(|(logical, word)| Entry { logical: *logical, word: *word, ready_at: 0, journalled_at: 0 })
            .collect();
        self.rebuild(state, &map, remains)?;
        self.parts(state).ftl.journal.goes_on(sequence, entries.len() as u64, owes_page);
        self.restore(state, recorder, &dump);
        Ok(Restarted {
            frames: dump.frames.len() as u64,
            entries: dump.entries.len() as u64,
            bytes_missing: dump.bytes_missing,
        })
    }

    /// The map as its pages and its journal have it, the last page of the journal, and whether the map's page
    /// of that turn is missing.
    fn map_on_flash(&self, units: &[Held], fault: Option<PlantedFault>) -> (Vec<u32>, u64, bool) {
        let mut map = vec![0; self.config().logical_units() as usize];
        let pages = self.config().map_pages();
        let mut newest = vec![None; 2 * pages as usize];
        for held in units {
            if let Held::Map(page) = held {
                let place: &mut Option<std::rc::Rc<super::MapPage>> = &mut newest[page.number as usize];
                if place.as_ref().is_none_or(|before| before.sequence < page.sequence) {
                    *place = Some(page.clone());
                }
            }
        }
        let mut has = vec![0; pages as usize];
        for page in newest[pages as usize..].iter().flatten() {
            has[(page.number - pages) as usize] = page.sequence;
            page.entries.iter().for_each(|(logical, word)| map[*logical as usize] = *word);
        }
        let mut journal: Vec<_> = newest[..pages as usize].iter().flatten().collect();
        journal.sort_by_key(|page| page.sequence);
        let last = journal.last().map_or(0, |page| page.sequence).max(has.iter().copied().max().unwrap_or(0));
        if fault == Some(PlantedFault::JournalUnread) {
            journal.clear();
        }
        // In the order in which they were written: what a page of the map has already is in the journal's
        // newest pages too, or in none.
        for (logical, word) in journal.iter().flat_map(|page| &page.entries) {
            map[*logical as usize] = *word;
        }
        let turn = last.saturating_sub(1) % u64::from(pages);
        (map, last, has[turn as usize] < last)
    }

    /// Makes the state of flash as it is, with this map of the host's units.
    fn rebuild(&self, state: &mut [u64], map: &[u32], remains: &Remains) -> Result<(), RestartError> {
        state.fill(0);
        self.prepare_restart(state, &remains.erases, |unit| remains.units[unit as usize] != Held::Erased);
        let mut parts = self.parts(state);
        for (logical, word) in map.iter().enumerate() {
            let logical = logical as u32;
            let Location::Flash(unit) = Location::of(*word) else { continue };
            let held = &remains.units[unit as usize];
            if !matches!(held, Held::Data { logical: owner, .. } if *owner == logical) {
                return Err(RestartError::MapBroken(logical));
            }
            parts.ftl.adopt(logical, unit);
        }
        // The newest page of each kind stays; older ones are garbage.
        let first = self.config().logical_units();
        let mut newest: std::collections::BTreeMap<u32, (u64, u32)> = std::collections::BTreeMap::new();
        for (unit, held) in remains.units.iter().enumerate() {
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

    /// Puts the frames of a dump into the buffer.
    fn restore(&self, state: &mut [u64], recorder: &mut Recorder, dump: &Dump) {
        let Parts { words, mut ftl, .. } = self.parts(state);
        let mut frames: Vec<(u32, Version)> = dump.frames.clone();
        if recorder.is_planted(PlantedFault::RestoredInReverse) {
            frames.reverse();
        }
        let mut at: std::collections::BTreeMap<u32, u32> = std::collections::BTreeMap::new();
        for (logical, version) in frames {
            recorder.writes(version);
            if let Some(frame) = at.get(&logical) {
                recorder.rewritten(*frame, 0);
                continue;
            }
            let number = words.filled;
            let frame = ftl.frames.number(number);
            self.fill_frame(words, &mut ftl, 0, logical, 0);
            let versions = vec![(0, version)];
            at.insert(logical, frame);
            recorder.buffered.push(Buffered {
                frame,
                logical,
                versions,
                done_at: 0,
                dropped_at: 0,
                released: false,
            });
        }
    }
}

impl Recorder {
    /// The version of a unit that a read gets at the end of all that was entered. 0 if there is none.
    pub fn read(&self, ssd: &Ssd, state: &mut [u64], logical: u32) -> Result<Version, String> {
        match ssd.parts(state).ftl.location(logical) {
            Location::Nowhere => Ok(0),
            Location::Buffer(frame) => {
                let newest = self.buffered.iter().rev().find(|buffered| buffered.frame == frame);
                let version = newest.and_then(|buffered| buffered.versions.last());
                version.map(|(_, version)| *version).ok_or_else(|| format!("frame {frame} has nothing"))
            }
            Location::Flash(unit) => match &self.units[unit as usize] {
                Held::Data { logical: owner, version } if *owner == logical => Ok(*version),
                other => Err(format!("unit {unit} of flash has {other:?}")),
            },
        }
    }
}
