//! What the recorder is told.

use std::rc::Rc;

use super::{Buffered, Change, Entry, Held, MapPage, PlantedFault, Recorder, Version};
use crate::config::SsdConfig;
use crate::ftl::{JOURNAL_ENTRY_BYTES, Location};

impl Recorder {
    /// Of a drive that was never used.
    pub fn new(config: &SsdConfig) -> Self {
        Self {
            units: vec![Held::Erased; config.geometry.units() as usize],
            changes: Vec::new(),
            buffered: Vec::new(),
            entries: Vec::new(),
            journalled: vec![0; config.logical_units() as usize],
            sequence: 0,
            entries_per_page: (config.geometry.page_bytes / JOURNAL_ENTRY_BYTES) as usize,
            words_per_page: (config.geometry.page_bytes / 4) as usize,
            map_pages: config.map_pages(),
            program_ns: (config.timings.program_us * 1e3).round() as u64,
            version: 0,
            fault: None,
        }
    }

    /// Breaks a rule from now on.
    pub fn plant(&mut self, fault: Option<PlantedFault>) {
        self.fault = fault;
    }

    pub(crate) fn is_planted(&self, fault: PlantedFault) -> bool {
        self.fault == Some(fault)
    }

    /// What the host writes from now on.
    pub fn writes(&mut self, version: Version) {
        self.version = version;
    }

    /// Forgets what no cut from `now` on can undo.
    pub(crate) fn settle(&mut self, now: u64) {
        self.changes.retain(|change| change.ends > now);
        // Frames are freed in their order.
        let free = self.buffered.iter().take_while(|frame| frame.is_free(now)).count();
        self.buffered.drain(..free);
        self.entries.retain(|entry| entry.journalled_at == 0 || entry.journalled_at > now);
    }

    /// A frame is filled with what the host writes.
    pub(crate) fn filled(&mut self, frame: u32, logical: u32, at: u64) {
        let versions = vec![(at, self.version)];
        self.buffered.push(Buffered { frame, logical, versions, done_at: 0, dropped_at: 0, released: false });
    }

    fn newest(&mut self, frame: u32) -> Option<&mut Buffered> {
        self.buffered.iter_mut().rev().find(|buffered| buffered.frame == frame)
    }

    /// A frame that waits has what the host writes now.
    pub(crate) fn rewritten(&mut self, frame: u32, at: u64) {
        let version = self.version;
        if let Some(buffered) = self.newest(frame) {
            buffered.versions.push((at, version));
        }
    }

    /// A frame is programmed into a unit.
    pub(crate) fn started(&mut self, frame: u32, unit: u32, begins: u64, ends: u64) {
        let Some(buffered) = self.newest(frame) else { return };
        buffered.done_at = ends;
        let (logical, version) =
            (buffered.logical, buffered.versions.last().map_or(0, |(_, version)| *version));
        self.change(unit, vec![Held::Data { logical, version }], begins, ends);
    }

    /// A frame is in flash later than was thought: its unit was moved meanwhile.
    pub(crate) fn delayed(&mut self, frame: u32, ends: u64) {
        if let Some(buffered) = self.newest(frame) {
            buffered.done_at = ends;
        }
    }

    /// A frame is free again.
    pub(crate) fn released(&mut self, frame: u32) {
        let oldest = self.buffered.iter_mut().find(|buffered| buffered.frame == frame && !buffered.released);
        if let Some(oldest) = oldest {
            oldest.released = true;
        }
    }

    /// The host gave up a unit, wherever it is: also in a frame that is free again at a time to come.
    pub(crate) fn discarded(&mut self, logical: u32, at: u64) {
        for buffered in &mut self.buffered {
            if buffered.logical == logical && buffered.dropped_at == 0 {
                buffered.dropped_at = at.max(1);
            }
        }
        self.named(logical, 0, at);
    }

    /// The map has a new word for a unit, whose place in flash is complete at `ready_at`.
    pub(crate) fn named(&mut self, logical: u32, word: u32, ready_at: u64) {
        if (logical as usize) < self.journalled.len() {
            debug_assert!(!matches!(Location::of(word), Location::Buffer(_)), "flash's map has flash alone");
            self.entries.push(Entry { logical, word, ready_at, journalled_at: 0 });
        }
    }

    /// Units are moved.
    pub(crate) fn moved(&mut self, from: u32, to: u32, begins: u64, ends: u64) {
        let held = self.units[from as usize].clone();
        self.change(to, vec![held], begins, ends);
    }

    /// Units are programmed with nothing.
    pub(crate) fn padded(&mut self, first: u32, units: u32, begins: u64, ends: u64) {
        self.change(first, vec![Held::Nothing; units as usize], begins, ends);
    }

    /// A block is erased.
    pub(crate) fn erased(&mut self, first: u32, units: u32, begins: u64, ends: u64) {
        self.change(first, vec![Held::Erased; units as usize], begins, ends);
    }

    /// A page of the journal, or of the map behind it, is programmed.
    pub(crate) fn map_page(&mut self, first: u32, number: u32, units: u32, begins: u64, ends: u64) {
        let entries = if number < self.map_pages {
            self.sequence += 1;
            self.take_entries(begins, ends)
        } else {
            let from = (number - self.map_pages) as usize * self.words_per_page;
            let words = self.journalled.iter().enumerate().skip(from).take(self.words_per_page);
            words.map(|(logical, word)| (logical as u32, *word)).collect()
        };
        let mut held = vec![Held::Nothing; units as usize];
        held[0] = Held::Map(Rc::new(MapPage { number, sequence: self.sequence, entries }));
        self.change(first, held, begins, ends);
    }

    /// The changed entries that a page of the journal has: of those whose units are in flash, the oldest.
    fn take_entries(&mut self, begins: u64, ends: u64) -> Vec<(u32, u32)> {
        let ahead = self.is_planted(PlantedFault::JournalAhead);
        let mut taken = Vec::new();
        let mut kept_back = std::collections::BTreeSet::new();
        for entry in &mut self.entries {
            if entry.journalled_at != 0 {
                continue;
            }
            let ready = ahead || entry.ready_at <= begins && !kept_back.contains(&entry.logical);
            if !ready || taken.len() == self.entries_per_page {
                // A newer entry of this unit must not come before it.
                kept_back.insert(entry.logical);
                continue;
            }
            entry.journalled_at = ends;
            self.journalled[entry.logical as usize] = entry.word;
            taken.push((entry.logical, entry.word));
        }
        taken
    }

    fn change(&mut self, first: u32, after: Vec<Held>, begins: u64, ends: u64) {
        let place = &mut self.units[first as usize..first as usize + after.len()];
        let before = place.to_vec();
        place.clone_from_slice(&after);
        self.changes.push(Change { begins, ends, first, before });
    }
}
