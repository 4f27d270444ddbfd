//! What the recorder is told.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{
    Buffered, Change, Changed, Contents, Entry, Filling, Held, MapPage, PlantedFault, Recorder, Stamp,
    Version,
};
use crate::config::SsdConfig;
use crate::ftl::{JOURNAL_ENTRY_BYTES, Location, Programmed};

impl Recorder {
    /// Of a drive that was never used.
    pub fn new(config: &SsdConfig) -> Self {
        Self {
            units: vec![Held::Erased; config.geometry.units() as usize],
            changes: Vec::new(),
            buffered: Vec::new(),
            changed: Vec::new(),
            journalled: vec![Entry::default(); config.logical_units() as usize],
            keeps_map: !config.ftl.journal,
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

    /// Whether there is no journal, and the map is kept by itself.
    pub(crate) fn keeps_map(&self) -> bool {
        self.keeps_map
    }

    /// Forgets what no cut from `now` on can undo.
    pub(crate) fn settle(&mut self, now: u64) {
        self.changes.retain(|change| change.ends > now);
        // Frames are freed in their order.
        let free = self.buffered.iter().take_while(|frame| frame.is_free(now)).count();
        self.buffered.drain(..free);
        if self.keeps_map {
            self.take_entries(now, now.max(1), usize::MAX);
        }
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

    /// A page of the journal, or of the map behind it, is programmed; of the journal, for a flush or not.
    pub(crate) fn map_page(&mut self, programmed: &Programmed, number: u32, units: u32, of_flush: bool) {
        let Programmed { unit: first, begins_at: begins, done_at: ends, .. } = *programmed;
        let entries = if number < self.map_pages {
            self.sequence += 1;
            // Changes are counted when programs begin, and are here when they are done. What a page for so
            // many could not have yet is for the next; after a flush none that is in flash may be left.
            self.take_entries(begins, ends, if of_flush { usize::MAX } else { self.entries_per_page })
        } else {
            let from = (number - self.map_pages) as usize * self.words_per_page;
            let words = self.journalled.iter().enumerate().skip(from).take(self.words_per_page);
            words.map(|(logical, entry)| (logical as u32, *entry)).collect()
        };
        let mut held = vec![Held::Nothing; units as usize];
        held[0] = Held::Map(Arc::new(MapPage { number, sequence: self.sequence, entries }));
        self.program(first, held, begins, ends);
    }

    /// The changed entries that a page of the journal has, so many at most: of each unit the newest whose
    /// place is in flash, the oldest first. An older one of a copy that collection is still making is
    /// superseded, and does not keep the newer one back.
    fn take_entries(&mut self, begins: u64, ends: u64, most: usize) -> Vec<(u32, Entry)> {
        let ahead = self.is_planted(PlantedFault::JournalAhead);
        let is_ready =
            |changed: &Changed| changed.journalled_at == 0 && (ahead || changed.ready_at <= begins);
        let ready = self.changed.iter().enumerate().filter(|(_, changed)| is_ready(changed));
        let mut newest: BTreeMap<u32, usize> =
            ready.map(|(index, changed)| (changed.logical, index)).collect();
        let mut indices: Vec<usize> = newest.values().copied().collect();
        indices.sort_unstable();
        if let Some(first_left) = indices.get(most).copied() {
            newest.retain(|_, index| *index < first_left);
        }
        let mut taken = Vec::new();
        for (index, changed) in self.changed.iter_mut().enumerate().filter(|(_, c)| c.journalled_at == 0) {
            let Some(newest) = newest.get(&changed.logical).filter(|newest| index <= **newest) else {
                continue;
            };
            changed.journalled_at = ends;
            if index == *newest {
                self.journalled[changed.logical as usize] = changed.entry;
                taken.push((changed.logical, changed.entry));
            }
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
