//! What the recorder is told.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{
    Buffered, Change, Changed, Contents, Entry, Filling, Held, MapPage, PlantedFault, Recorder, Stamp,
    Version,
};
use crate::config::SsdConfig;
use crate::ftl::{JOURNAL_ENTRY_BYTES, Location};

impl Recorder {
    /// Of a drive that was never used.
    pub fn new(config: &SsdConfig) -> Self {
        Self {
            units: vec![Held::Erased; config.geometry.units() as usize],
            changes: Vec::new(),
            buffered: Vec::new(),
            changed: Vec::new(),
            journalled: vec![Entry::default(); config.logical_units() as usize],
            misplaced: BTreeMap::new(),
            sequence: 0,
            stamp: 0,
            entries_per_page: (config.geometry.page_bytes / JOURNAL_ENTRY_BYTES) as usize,
            words_per_page: (config.geometry.page_bytes / 4) as usize,
            map_pages: config.map_pages(),
            program_ns: (config.timings.program_us * 1e3).round() as u64,
            version: 0,
            #[cfg(feature = "planted")]
            fault: None,
        }
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
        self.changed.retain(|changed| changed.journalled_at == 0 || changed.journalled_at > now);
    }

    /// A frame is filled with what the host writes.
    pub(crate) fn filled(&mut self, frame: u32, logical: u32, at: u64) {
        let filling = self.filling(at);
        self.misplaced.remove(&logical);
        self.buffered.push(Buffered::new(frame, logical, filling));
    }

    /// What the host writes now, as the last of all writes.
    fn filling(&mut self, at: u64) -> Filling {
        self.stamp += 1;
        Filling { at, stamp: self.stamp, version: self.version }
    }

    fn newest(&mut self, frame: u32) -> Option<&mut Buffered> {
        self.buffered.iter_mut().rev().find(|buffered| buffered.frame == frame)
    }

    /// A frame that waits has what the host writes now.
    pub(crate) fn rewritten(&mut self, frame: u32, at: u64) {
        let filling = self.filling(at);
        if let Some(buffered) = self.newest(frame) {
            buffered.fillings.push(filling);
        }
    }

    /// A frame is programmed into a unit.
    pub(crate) fn started(&mut self, frame: u32, unit: u32, begins: u64, ends: u64) {
        let Some(buffered) = self.newest(frame) else { return };
        buffered.done_at = ends;
        let logical = buffered.logical;
        let Some(Filling { stamp, version, .. }) = buffered.fillings.last().copied() else { return };
        let data = Held::Data { logical, stamp, contents: Contents::Whole(version) };
        self.program(unit, vec![data], begins, ends);
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
        self.misplaced.remove(&logical);
        self.stamp += 1;
        self.named(logical, 0, at);
    }

    /// The map has a new word for a unit, whose place in flash is complete at `ready_at`.
    pub(crate) fn named(&mut self, logical: u32, word: u32, ready_at: u64) {
        if logical as usize >= self.journalled.len() {
            return;
        }
        let stamp = match Location::of(word) {
            Location::Nowhere => self.stamp,
            Location::Flash(unit) => self.units[unit as usize].stamp(),
            Location::Buffer(_) => unreachable!("flash's map has flash alone"),
        };
        let entry = Entry { word, stamp };
        self.changed.push(Changed { logical, entry, ready_at, journalled_at: 0 });
    }

    /// Units are moved.
    pub(crate) fn moved(&mut self, from: u32, to: u32, begins: u64, ends: u64) {
        let held = self.units[from as usize].clone();
        self.program(to, vec![held], begins, ends);
    }

    /// Units are programmed with nothing.
    pub(crate) fn padded(&mut self, first: u32, units: u32, begins: u64, ends: u64) {
        if units > 0 {
            self.program(first, vec![Held::Nothing; units as usize], begins, ends);
        }
    }

    /// A block is erased.
    pub(crate) fn erased(&mut self, first: u32, units: u32, begins: u64, ends: u64) {
        self.change(first, vec![Held::Erased; units as usize], begins, ends, true);
    }

    /// A page of the journal, or of the map behind it, is programmed.
    pub(crate) fn map_page(&mut self, first: u32, number: u32, units: u32, begins: u64, ends: u64) {
        let entries = if number < self.map_pages {
            self.sequence += 1;
            self.take_entries(begins, ends)
        } else {
            let from = (number - self.map_pages) as usize * self.words_per_page;
            let words = self.journalled.iter().enumerate().skip(from).take(self.words_per_page);
            words.map(|(logical, entry)| (logical as u32, *entry)).collect()
        };
        let mut held = vec![Held::Nothing; units as usize];
        held[0] = Held::Map(Arc::new(MapPage { number, sequence: self.sequence, entries }));
        self.program(first, held, begins, ends);
    }

    /// The changed entries that a page of the journal has: of those whose units are in flash, the oldest.
    fn take_entries(&mut self, begins: u64, ends: u64) -> Vec<(u32, Entry)> {
        let ahead = self.is_planted(PlantedFault::JournalAhead);
        let mut taken = Vec::new();
        let mut kept_back = std::collections::BTreeSet::new();
        for changed in &mut self.changed {
            if changed.journalled_at != 0 {
                continue;
            }
            let ready = ahead || changed.ready_at <= begins && !kept_back.contains(&changed.logical);
            if !ready || taken.len() == self.entries_per_page {
                // A newer entry of this unit must not come before it.
                kept_back.insert(changed.logical);
                continue;
            }
            changed.journalled_at = ends;
            self.journalled[changed.logical as usize] = changed.entry;
            taken.push((changed.logical, changed.entry));
        }
        taken
    }

    fn program(&mut self, first: u32, after: Vec<Held>, begins: u64, ends: u64) {
        self.change(first, after, begins, ends, false);
    }

    fn change(&mut self, first: u32, after: Vec<Held>, begins: u64, ends: u64, is_erase: bool) {
        let place = &mut self.units[first as usize..first as usize + after.len()];
        let before = place.to_vec();
        place.clone_from_slice(&after);
        self.changes.push(Change { begins, ends, first, is_erase, before });
    }
}

impl Held {
    /// Of the write that it has; 0 = of none.
    pub(super) fn stamp(&self) -> Stamp {
        match self {
            Self::Data { stamp, .. } | Self::Taken { stamp, .. } => *stamp,
            Self::Erased | Self::Map(_) | Self::Nothing | Self::Torn => 0,
        }
    }
}
