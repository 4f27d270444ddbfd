//! What a file may contain: the page model. It shares no code with the tier.
//!
//! A file is a row of units of 512 bytes. Each unit remembers, oldest first, every content that it may have:
//! the last one known to be durable and all issued since. A sync, and a read after a recovery, leave one. A
//! unit whose present content is one of several is *in doubt*; a unit that was never touched by a crash is
//! not.

use mezzanine_device::memory::Image;

use super::pattern::{self, UNIT_BYTES, UnitBytes};

/// How complete the disks are on their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Drained {
    /// Something changed since the last drain.
    No,
    /// All pages are there.
    Pages,
    /// Nothing has been written since a drained close.
    Files,
}

/// Why the oldest remembered content of a unit is the oldest possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Floor {
    /// It was never anything else.
    New,
    /// A sync acknowledged it.
    Synced,
    /// It was read after a recovery.
    Observed,
    /// A discard or truncation was acknowledged.
    Zeroed,
}

/// One content that a unit may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    version: u32,
    slot: u32,
    /// Zeros of a discard, which change the disk before flash says so.
    discarded: bool,
}

#[derive(Debug, Clone)]
struct Unit {
    /// Oldest first, never empty.
    history: Vec<Entry>,
    floor: Floor,
    in_doubt: bool,
    /// A change of it failed in this session: its present content is one of several, and what is durable is
    /// not known from reading it.
    failed: bool,
    /// One of the contents may stand beside contents of its neighbours that never went with it, because a
    /// crash struck where pages are not promised whole.
    torn: bool,
}

impl Unit {
    /// Whether its present content is one of several.
    fn is_in_doubt(&self) -> bool {
        self.in_doubt || self.failed
    }

    /// Its present content is the last one.
    fn is_known(&mut self) {
        (self.in_doubt, self.failed) = (false, false);
    }
}

/// Contents by number; number 0 is all zeros and shared.
#[derive(Debug, Clone)]
struct Slots {
    contents: Vec<UnitBytes>,
    free: Vec<u32>,
}

impl Slots {
    fn put(&mut self, bytes: &UnitBytes) -> u32 {
        if let Some(slot) = self.free.pop() {
            self.contents[slot as usize] = *bytes;
            return slot;
        }
        self.contents.push(*bytes);
        (self.contents.len() - 1) as u32
    }

    fn free(&mut self, slot: u32) {
        if slot != 0 {
            self.free.push(slot);
        }
    }

    fn get(&self, slot: u32) -> &UnitBytes {
        &self.contents[slot as usize]
    }
}

/// Lengths that a file may have had after one change: one, or any of a range while a write extends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Length {
    low: u64,
    high: u64,
}

/// Why what was read cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mismatch {
    /// An older content than the oldest possible, which stands there for this reason.
    WentBack(Floor),
    /// A mixture of possible contents, or of several versions.
    Mixed,
    /// Something else: a content that is not the present one, or that was never written there.
    Other,
}

/// One file of the simulated database.
#[derive(Debug, Clone)]
pub struct FileModel {
    number: u8,
    page_bytes: u64,
    units: Vec<Unit>,
    slots: Slots,
    /// Units with more than one remembered content; may name a unit twice.
    open: Vec<u32>,
    /// Units that were read as zeros after a crash in a discard, and what they may have had before it.
    /// Nothing was acknowledged in this file since.
    broken_off: Vec<(u32, UnitBytes)>,
    /// Oldest first, never empty; the last one is the present one.
    lengths: Vec<Length>,
}

impl FileModel {
    /// An empty file that can grow to `bytes_max` bytes, a multiple of the page size.
    pub fn new(number: u8, page_bytes: u64, bytes_max: u64) -> Self {
        let unit = || Unit {
            history: vec![Entry { version: 0, slot: 0, discarded: false }],
            floor: Floor::New,
            in_doubt: false,
            failed: false,
            torn: false,
        };
        Self {
            number,
            page_bytes,
            units: (0..bytes_max / UNIT_BYTES as u64).map(|_| unit()).collect(),
            slots: Slots { contents: vec![[0; UNIT_BYTES]], free: Vec::new() },
            open: Vec::new(),
            broken_off: Vec::new(),
            lengths: vec![Length { low: 0, high: 0 }],
        }
    }

    /// The file of `like`, found with these `contents`, which are all that it may have, by operation
    /// `version`.
    pub fn found(like: &Self, version: u32, contents: &[u8]) -> Self {
        let mut found = Self::new(like.number, like.page_bytes, like.bytes_max());
        let len = contents.len() as u64;
        found.lengths = vec![Length { low: len, high: len }];
        for (unit, bytes) in contents.chunks(UNIT_BYTES).enumerate() {
            let mut whole = [0; UNIT_BYTES];
            whole[..bytes.len()].copy_from_slice(bytes);
            let slot = if whole == [0; UNIT_BYTES] { 0 } else { found.slots.put(&whole) };
            found.units[unit].history = vec![Entry { version, slot, discarded: false }];
            found.units[unit].floor = Floor::Observed;
        }
        found
    }

    /// Whether the file may have this length after a crash.
    pub fn len_is_possible(&self, len: u64) -> bool {
        self.lengths.iter().any(|possible| (possible.low..=possible.high).contains(&len))
    }

    /// Whether a unit may begin with `bytes` after a crash.
    pub fn unit_is_possible(&self, unit: usize, bytes: &[u8]) -> bool {
        let like = |entry: &Entry| self.slots.get(entry.slot)[..bytes.len()] == *bytes;
        self.units.get(unit).is_some_and(|unit| unit.history.iter().any(like))
    }

    /// Whether a unit may begin with `bytes` when file and sidecar are from before a discard that nobody
    /// acknowledged: the zeros that were read there since are known to the newer ones alone.
    pub fn was_possible_before_a_discard(&self, unit: usize, bytes: &[u8]) -> bool {
        let mut before = self.broken_off.iter().filter(|(broken_off, _)| *broken_off as usize == unit);
        before.any(|(_, before)| before[..bytes.len()] == *bytes)
    }

    /// Whether no word of `bytes`, with which a unit begins, is of an older version than in the oldest
    /// content that the unit may have. Zeros are older than any version.
    pub fn unit_is_no_older(&self, unit: usize, bytes: &[u8]) -> bool {
        let Some(oldest) = self.units.get(unit).and_then(|unit| unit.history.first()) else { return false };
        let at = unit as u64 * UNIT_BYTES as u64;
        let oldest = &self.slots.get(oldest.slot)[..bytes.len()];
        let words = bytes.chunks_exact(8).zip(oldest.chunks_exact(8)).zip((at..).step_by(8));
        words.into_iter().all(|((found, oldest), at)| {
            let version = |word: &[u8]| pattern::versions(word, self.number, at).pop().flatten();
            found == oldest || version(found) > version(oldest)
        })
    }

    /// The file's number, as it stands in the contents.
    pub fn number(&self) -> u8 {
        self.number
    }

    /// The present length in bytes.
    pub fn len(&self) -> u64 {
        self.lengths.last().map_or(0, |length| length.high)
    }

    /// Whether the file has no bytes at present.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The greatest length in bytes.
    pub fn bytes_max(&self) -> u64 {
        self.units.len() as u64 * UNIT_BYTES as u64
    }

    /// Whether any unit that overlaps the range is in doubt.
    pub fn is_in_doubt(&self, offset: u64, len: u64) -> bool {
        self.units_of(offset, len).any(|unit| self.units[unit].is_in_doubt())
    }

    fn units_of(&self, offset: u64, len: u64) -> std::ops::Range<usize> {
        let end = (offset + len).min(self.bytes_max());
        (offset / UNIT_BYTES as u64) as usize..end.div_ceil(UNIT_BYTES as u64) as usize
    }

    fn push(&mut self, unit: usize, version: u32, bytes: &UnitBytes) {
        let slot = if bytes == &[0; UNIT_BYTES] { 0 } else { self.slots.put(bytes) };
        self.push_slot(unit, version, slot);
    }

    fn push_slot(&mut self, unit: usize, version: u32, slot: u32) {
        self.units[unit].history.push(Entry { version, slot, discarded: false });
        self.open.push(unit as u32);
    }

    /// A write of `version` over the range is issued. Units that it covers in part must not be in doubt.
    pub fn write_issued(&mut self, version: u32, offset: u64, len: u64) {
        let before = self.len();
        if offset + len > before {
            self.lengths.push(Length { low: before, high: offset + len });
        }
        for unit in self.units_of(offset, len) {
            let start = unit as u64 * UNIT_BYTES as u64;
            let (from, to) = (offset.max(start), (offset + len).min(start + UNIT_BYTES as u64));
            let whole = to - from == UNIT_BYTES as u64;
            assert!(whole || !self.units[unit].is_in_doubt(), "a unit in doubt is written in part");
            let mut bytes = *self.slots.get(self.present(unit));
            let (from, to) = ((from - start) as usize, (to - start) as usize);
            pattern::fill(&mut bytes[from..to], self.number, version, start + from as u64);
            self.push(unit, version, &bytes);
            self.units[unit].is_known();
        }
    }

    fn present(&self, unit: usize) -> u32 {
        self.units[unit].history.last().map_or(0, |entry| entry.slot)
    }

    /// A range is about to become zeros, by a discard or because the file ends before it. Units that it
    /// covers in part must not be in doubt.
    pub fn zero_issued(&mut self, version: u32, offset: u64, len: u64) {
        for unit in self.units_of(offset, len) {
            let start = unit as u64 * UNIT_BYTES as u64;
            let from = (offset.max(start) - start) as usize;
            let to = ((offset + len).min(start + UNIT_BYTES as u64) - start) as usize;
            if to - from == UNIT_BYTES {
                self.push_slot(unit, version, 0);
                self.units[unit].is_known();
                continue;
            }
            assert!(!self.units[unit].is_in_doubt(), "a unit in doubt is zeroed in part");
            self.push_zeroed(unit, version, from, to);
        }
    }

    /// As [`Self::zero_issued`], for a discard.
    pub fn discard_issued(&mut self, version: u32, offset: u64, len: u64) {
        self.zero_issued(version, offset, len);
        for unit in self.units_of(offset, len) {
            for entry in &mut self.units[unit].history {
                entry.discarded |= entry.version == version;
            }
        }
    }

    /// What zeros in a part of a unit make of each of its contents. Those that become equal count once, as
    /// the newest of them: changes that fail one after the other call this each time, and a history that
    /// doubled with each would end as large as the machine.
    fn push_zeroed(&mut self, unit: usize, version: u32, from: usize, to: usize) {
        let mut zeroed: Vec<UnitBytes> = Vec::new();
        for entry in self.units[unit].history.iter().rev() {
            let mut bytes = *self.slots.get(entry.slot);
            bytes[from..to].fill(0);
            if !zeroed.contains(&bytes) {
                zeroed.push(bytes);
            }
        }
        for bytes in zeroed.iter().rev() {
            self.push(unit, version, bytes);
        }
    }

    /// All changes after `before`, of which `version` is the last, have failed, and the file now has `len`
    /// bytes: each unit of them was changed or not.
    ///
    /// # Errors
    /// When the file cannot have that length: the lengths that it may have, in words.
    pub fn change_failed(&mut self, before: u32, version: u32, len: u64) -> Result<(), String> {
        for number in 0..self.open.len() {
            let unit = &mut self.units[self.open[number] as usize];
            unit.failed |= unit.history.last().is_some_and(|entry| entry.version > before);
            unit.torn |= unit.failed;
        }
        if self.lengths.len() == 1 && self.len() == len {
            return Ok(());
        }
        let possible = self.lengths.iter().rposition(|length| (length.low..=length.high).contains(&len));
        let Some(possible) = possible else { return Err(self.lengths_text()) };
        // What it has now is the last of those that a crash may leave.
        self.lengths.truncate(possible + 1);
        self.lengths.push(Length { low: len, high: len });
        for unit in self.units_of(len, self.bytes_max() - len) {
            match len.saturating_sub(unit as u64 * UNIT_BYTES as u64) as usize {
                0 => {
                    self.push_slot(unit, version, 0);
                    self.units[unit].is_known();
                }
                kept => self.push_zeroed(unit, version, kept, UNIT_BYTES),
            }
        }
        Ok(())
    }

    fn lengths_text(&self) -> String {
        let text = |length: &Length| match length.low == length.high {
            true => length.low.to_string(),
            false => format!("{} to {}", length.low, length.high),
        };
        self.lengths.iter().map(text).collect::<Vec<_>>().join(", ")
    }

    /// The zeroing of `version` is acknowledged and with it durable: only what it made of older contents is
    /// possible.
    pub fn zero_acknowledged(&mut self, version: u32, offset: u64, len: u64) {
        for unit in self.units_of(offset, len) {
            let first = self.units[unit].history.iter().position(|entry| entry.version == version);
            self.forget_before(unit, first.unwrap_or(0), Floor::Zeroed);
            if self.units[unit].history.iter().all(|entry| entry.slot == 0) {
                self.units[unit].history.truncate(1);
                self.units[unit].torn = false;
            }
        }
    }

    /// A change of the length is issued. When it shortens the file, [`Self::zero_issued`] goes with it.
    pub fn len_issued(&mut self, len: u64) {
        self.lengths.push(Length { low: len, high: len });
    }

    /// The present length is durable.
    pub fn len_acknowledged(&mut self) {
        let len = self.len();
        self.lengths.clear();
        self.lengths.push(Length { low: len, high: len });
    }

    /// A sync of this file is acknowledged: what is known to be the present content is the only one.
    pub fn sync_acknowledged(&mut self) {
        self.len_acknowledged();
        let open = std::mem::take(&mut self.open);
        if open.iter().any(|unit| self.units[*unit as usize].history.len() > 1) {
            self.broken_off.clear();
        }
        for unit in &open {
            let unit = *unit as usize;
            if self.units[unit].is_in_doubt() {
                self.open.push(unit as u32);
            } else {
                let last = self.units[unit].history.len() - 1;
                self.forget_before(unit, last, Floor::Synced);
            }
        }
    }

    fn forget_before(&mut self, unit: usize, first: usize, floor: Floor) {
        if first == 0 {
            return;
        }
        self.broken_off.retain(|(broken_off, _)| *broken_off as usize != unit);
        let unit = &mut self.units[unit];
        for entry in unit.history.drain(..first) {
            self.slots.free(entry.slot);
        }
        unit.floor = floor;
        unit.torn &= unit.history.len() > 1;
    }

    /// The machine or the process crashed: whatever is not known to be durable is in doubt, and unless pages
    /// are promised `whole`, each unit for itself.
    pub fn crashed(&mut self, whole: bool) {
        for unit in &self.open {
            let unit = &mut self.units[*unit as usize];
            unit.in_doubt = unit.history.len() > 1;
            unit.failed = false;
            unit.torn |= unit.in_doubt && !whole;
        }
        self.open.retain(|unit| self.units[*unit as usize].in_doubt);
        self.open.sort_unstable();
        self.open.dedup();
    }

    /// After a recovery the file has `len` bytes.
    ///
    /// # Errors
    /// When it cannot have: the lengths that it may have, in words.
    pub fn len_observed(&mut self, len: u64) -> Result<(), String> {
        if !self.lengths.iter().any(|possible| (possible.low..=possible.high).contains(&len)) {
            return Err(self.lengths_text());
        }
        self.lengths.clear();
        self.lengths.push(Length { low: len, high: len });
        // Whatever stood past the end is gone for good, also when the file grows again.
        for unit in self.units_of(len, self.bytes_max() - len) {
            let kept = len.saturating_sub(unit as u64 * UNIT_BYTES as u64) as usize;
            for number in 0..self.units[unit].history.len() {
                let slot = self.units[unit].history[number].slot;
                if slot != 0 {
                    self.slots.contents[slot as usize][kept..].fill(0);
                }
            }
            if kept == 0 {
                let last = self.units[unit].history.len() - 1;
                self.forget_before(unit, last, Floor::Zeroed);
                self.units[unit].is_known();
            }
        }
        Ok(())
    }

    /// Checks what a read at `offset` (at the start of a unit) returned after a recovery, and settles the
    /// units in it: what was read once may not go back.
    ///
    /// # Errors
    /// The first unit that cannot read so, by number, and why.
    pub fn observed(&mut self, offset: u64, bytes: &[u8]) -> Result<u64, (u64, Mismatch)> {
        let mut settled = 0;
        for (unit, bytes) in self.units_of(offset, bytes.len() as u64).zip(bytes.chunks(UNIT_BYTES)) {
            let entry = self.find(unit, bytes).ok_or_else(|| (unit as u64, self.mismatch(unit, bytes)))?;
            if self.units[unit].failed {
                self.settle_failed(unit, entry);
                settled += 1;
            } else if self.units[unit].in_doubt {
                self.settle(unit, entry);
                settled += 1;
            }
        }
        Ok(settled)
    }

    /// The newest remembered content that begins with `bytes`, of which there may be less than a unit at the
    /// file's end. A unit that is not in doubt has only its present one.
    fn find(&self, unit: usize, bytes: &[u8]) -> Option<usize> {
        let unit = &self.units[unit];
        let like = |entry: &Entry| self.slots.get(entry.slot)[..bytes.len()] == *bytes;
        match unit.is_in_doubt() {
            true => unit.history.iter().rposition(like),
            false => unit.history.last().filter(|entry| like(entry)).map(|_| unit.history.len() - 1),
        }
    }

    /// After a failed change a unit reads as this content, and goes on doing so. A crash may still bring an
    /// older one or what failed: a discard that failed is completed by the next recovery, because a disk
    /// may have torn it.
    fn settle_failed(&mut self, unit: usize, entry: usize) {
        let unit = &mut self.units[unit];
        unit.history[entry..].rotate_left(1);
        unit.is_known();
    }

    fn settle(&mut self, number: usize, entry: usize) {
        let unit = &mut self.units[number];
        if unit.history[entry].discarded {
            let before = unit.history[..entry].iter().filter(|before| !before.discarded);
            let before = before.map(|before| (number as u32, *self.slots.get(before.slot)));
            self.broken_off.extend(before);
        }
        unit.history.swap(0, entry);
        for entry in unit.history.drain(1..) {
            self.slots.free(entry.slot);
        }
        unit.floor = Floor::Observed;
        unit.in_doubt = false;
        unit.torn = false;
    }

    /// Whether the whole file could be `image` after a crash at this moment; nothing is settled by asking.
    ///
    /// # Errors
    /// What cannot be, in words.
    pub fn is_possible(&self, image: &Image) -> Result<(), String> {
        self.is_possible_from(0, image)
    }

    /// As [`Self::is_possible`], but for the units before `first`, which may be anything.
    ///
    /// # Errors
    /// What cannot be, in words.
    pub fn is_possible_from(&self, first: u64, image: &Image) -> Result<(), String> {
        let len = image.len() as u64;
        if !self.lengths.iter().any(|possible| (possible.low..=possible.high).contains(&len)) {
            return Err(format!("a length of {len} bytes instead of {:?}", self.lengths));
        }
        for (number, (unit, bytes)) in
            self.units.iter().zip(image.pieces::<UNIT_BYTES>()).enumerate().skip(first as usize)
        {
            let like = |entry: &Entry| self.slots.get(entry.slot)[..bytes.len()] == *bytes;
            if !unit.history.iter().any(like) {
                let offset = (number * UNIT_BYTES) as u64;
                let found = pattern::describe(bytes, self.number, offset);
                let possible = self.texts(&unit.history, offset);
                return Err(format!("{found} at byte {offset} instead of {possible}"));
            }
        }
        Ok(())
    }

    /// Whether the page that `bytes` were read from, at its start, can have been whole: one version of the
    /// page at which each of its units read so. To be asked before [`Self::observed`] settles it.
    pub fn is_whole(&self, offset: u64, bytes: &[u8]) -> bool {
        let units = self.units_of(offset, bytes.len() as u64);
        let known = |unit: usize| self.units[unit].history.len() == 1;
        if units.clone().all(known) || units.clone().any(|unit| self.units[unit].torn) {
            return true;
        }
        let candidates =
            units.clone().flat_map(|unit| self.units[unit].history.iter().map(|entry| entry.version));
        let mut candidates: Vec<_> = candidates.collect();
        candidates.sort_unstable();
        candidates.dedup();
        let possible_at = |version: u32, unit: usize, bytes: &[u8]| {
            let history = &self.units[unit].history;
            let newest = history.iter().map(|entry| entry.version).filter(|v| *v <= version).max();
            // A unit whose oldest remembered content is newer than this version of the page was settled
            // since.
            let newest = newest.unwrap_or(history[0].version);
            let like = |entry: &&Entry| self.slots.get(entry.slot)[..bytes.len()] == *bytes;
            history.iter().filter(|entry| entry.version == newest).any(|entry| like(&entry))
        };
        candidates.iter().any(|version| {
            units
                .clone()
                .zip(bytes.chunks(UNIT_BYTES))
                .all(|(unit, bytes)| possible_at(*version, unit, bytes))
        })
    }

    /// The present content of a range without units in doubt, into `out`.
    pub fn present_bytes(&self, offset: u64, out: &mut [u8]) {
        let mut done = 0;
        while done < out.len() {
            let at = offset + done as u64;
            let (unit, from) = ((at / UNIT_BYTES as u64) as usize, (at % UNIT_BYTES as u64) as usize);
            let len = (UNIT_BYTES - from).min(out.len() - done);
            assert!(!self.units[unit].is_in_doubt(), "the content of a unit in doubt was asked for");
            out[done..done + len].copy_from_slice(&self.slots.get(self.present(unit))[from..from + len]);
            done += len;
        }
    }

    fn mismatch(&self, unit: usize, bytes: &[u8]) -> Mismatch {
        let Unit { history, floor, .. } = &self.units[unit];
        let offset = unit as u64 * UNIT_BYTES as u64;
        let expected_oldest = history[0];
        let zeros = bytes.iter().all(|&byte| byte == 0);
        let found = pattern::versions(bytes, self.number, offset);
        match found.as_slice() {
            [Some(version)] if *version < expected_oldest.version || expected_oldest.slot == 0 => {
                Mismatch::WentBack(*floor)
            }
            _ if zeros => Mismatch::WentBack(*floor),
            found if found.len() > 1 => Mismatch::Mixed,
            _ => Mismatch::Other,
        }
    }

    /// The contents that a unit may have, in words.
    pub fn expectation(&self, unit: u64) -> String {
        let Unit { history, floor, .. } = &self.units[unit as usize];
        let possible = if self.units[unit as usize].is_in_doubt() {
            &history[..]
        } else {
            &history[history.len() - 1..]
        };
        format!("{} [{floor:?}]", self.texts(possible, unit * UNIT_BYTES as u64))
    }

    fn texts(&self, entries: &[Entry], offset: u64) -> String {
        let text = |entry: &Entry| {
            let content = pattern::describe(self.slots.get(entry.slot), self.number, offset);
            format!("{content} (operation {})", entry.version)
        };
        entries.iter().map(text).collect::<Vec<_>>().join(" or ")
    }

    /// Bytes per page.
    pub fn page_bytes(&self) -> u64 {
        self.page_bytes
    }
}

#[cfg(test)]
mod tests;
