//! The table of files that travels in the tier's note: which files the tier knows, when each was last
//! attached, how often it was marked since, and how long each is.
//!
//! ```text
//! 0    CRC-32C of all that follows       u32
//! 4    version 2                         u8
//! 5    files                             u8
//! 6    zero                              u16
//! 8    number of the next new file       u32
//! 12   newest epoch among the files'     u32
//! 16   per file: number u32, tag 5 bytes, length 7 bytes
//! ```
//! All little-endian. Eleven files fill the note.
//!
//! The tag of a file that was attached in the newest epoch is its *mark* (see `marks`), below 2^39. That of
//! another is 2^39 and the epoch in which it was last attached; its mark is not kept. Only a tier that is
//! provably clean has such files in a table on flash, for another one appends nothing before all of its files
//! are attached, and there marks are of no use.
//!
//! Version 1 had a word of zeros in the place of the newest epoch, and of each file its number (u32), the
//! epoch (u32) and the length (u64).

use mezzanine_engine::NOTE_BYTES;
use mezzanine_engine::planted::{self, Bug};

use crate::error::{VolumeError, VolumeErrorKind};

const VERSION: u8 = 2;
/// Of tiers in version 2 of the flash format, which are read to be drained.
const VERSION_DRAINED: u8 = 1;
const HEADER_BYTES: usize = 16;
const ENTRY_BYTES: usize = 16;
/// Files that one volume can have.
pub(crate) const FILES_MAX: usize = (NOTE_BYTES - HEADER_BYTES) / ENTRY_BYTES;
const _: () = assert!(FILES_MAX == 11);
/// Numbers of files that an epoch has for itself, so that they do not return when a table is lost: enough for
/// 2^24 openings of a tier.
const NUMBERS_PER_EPOCH: u32 = 1 << 8;

/// All numbers of files have been given out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NumbersUsedUp;

impl NumbersUsedUp {
    /// The error of attaching a file to the tier.
    pub(crate) fn of(self, file: &str) -> VolumeError {
        let reason = "the tier has used up its numbers of files";
        VolumeError::new(VolumeErrorKind::TooManyFiles, "attach", file, reason)
            .advise("drain the tier and format it anew; files that it knows can still be attached")
    }
}
/// A file is shorter than this: 64 PiB. No file system has longer ones.
pub(crate) const LENGTH_END: u64 = 1 << 56;
/// The most often that a file is marked in one epoch: for 17 years at a thousand times a second.
pub(crate) const MARK_MAX: u64 = (1 << 39) - 1;
/// In a tag: it is an epoch.
const TAG_EPOCH: u64 = 1 << 39;

/// What the tier knows of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) file: u32,
    pub(crate) epoch: u32,
    /// How often it was marked in that epoch.
    pub(crate) mark: u64,
    pub(crate) length: u64,
}

/// The decoded table, in the order of file numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) next_file: u32,
    pub(crate) entries: Vec<Entry>,
}

impl Table {
    /// The table of a tier that has never held a page.
    pub(crate) fn empty() -> Self {
        Self { next_file: 1, entries: Vec::new() }
    }

    pub(crate) fn get(&self, file: u32) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.file == file)
    }

    pub(crate) fn get_mut(&mut self, file: u32) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|entry| entry.file == file)
    }

    /// Adds a file that the tier has not known before. A number is never given twice (invariant 6); `None` if
    /// the table is full.
    pub(crate) fn add(&mut self, epoch: u32, length: u64) -> Option<u32> {
        if self.entries.len() == FILES_MAX {
            return None;
        }
        let file = self.next().ok()?;
        self.next_file = file + 1;
        self.entries.push(Entry { file, epoch, mark: 0, length });
        Some(file)
    }

    /// Gives out a number for a file; an error if all have been given out.
    pub(crate) fn next(&self) -> Result<u32, NumbersUsedUp> {
        if self.next_file == u32::MAX { Err(NumbersUsedUp) } else { Ok(self.next_file) }
    }

    /// No file gets this number any more.
    pub(crate) fn give_up(&mut self, file: u32) {
        self.next_file = self.next_file.max(file.saturating_add(1));
    }

    /// No number below the first of an epoch is given out any more, whatever became of the table in which it
    /// was. The last number stands for none: an epoch that has no numbers begins there.
    pub(crate) fn skip_to(&mut self, epoch: u32) {
        let first = match epoch.checked_mul(NUMBERS_PER_EPOCH) {
            Some(first) => first | 1,
            None if planted::is(Bug::FileNumbersWrap) => epoch.wrapping_mul(NUMBERS_PER_EPOCH) | 1,
            None => u32::MAX,
        };
        self.next_file = self.next_file.max(first);
    }

    pub(crate) fn remove(&mut self, file: u32) {
        self.entries.retain(|entry| entry.file != file);
    }

    pub(crate) fn encode(&self) -> [u8; NOTE_BYTES] {
        let mut note = [0; NOTE_BYTES];
        note[4] = VERSION;
        note[5] = self.entries.len() as u8;
        note[8..12].copy_from_slice(&self.next_file.to_le_bytes());
        let newest = self.entries.iter().map(|entry| entry.epoch).max().unwrap_or(0);
        note[12..16].copy_from_slice(&newest.to_le_bytes());
        let slots = note[HEADER_BYTES..].chunks_exact_mut(ENTRY_BYTES);
        for (entry, slot) in self.entries.iter().zip(slots) {
            slot[..4].copy_from_slice(&entry.file.to_le_bytes());
            assert!(
                entry.mark <= MARK_MAX && entry.length < LENGTH_END,
                "a file's mark or length is out of bounds"
            );
            let tag = if entry.epoch == newest { entry.mark } else { TAG_EPOCH | u64::from(entry.epoch) };
            slot[4..9].copy_from_slice(&tag.to_le_bytes()[..5]);
            slot[9..].copy_from_slice(&entry.length.to_le_bytes()[..7]);
        }
        let checksum = crc32c::crc32c(&note[4..]);
        note[..4].copy_from_slice(&checksum.to_le_bytes());
        note
    }

    /// Reads a note; all zeros is what a tier carries before its first file. Numbers rise, from 1 on.
    pub(crate) fn decode(note: &[u8; NOTE_BYTES]) -> Result<Self, String> {
        if note.iter().all(|&byte| byte == 0) {
            return Ok(Self::empty());
        }
        let word = |at: usize| u32::from_le_bytes([note[at], note[at + 1], note[at + 2], note[at + 3]]);
        if word(0) != crc32c::crc32c(&note[4..]) {
            return Err("the table of files in the tier does not match its checksum".to_owned());
        }
        if ![VERSION, VERSION_DRAINED].contains(&note[4]) {
            return Err(format!("the table of files in the tier has the unknown version {}", note[4]));
        }
        let count = usize::from(note[5]);
        if count > FILES_MAX {
            return Err(format!("the table of files in the tier claims {count} files"));
        }
        let newest = word(12);
        let entry = |index: usize| {
            let at = HEADER_BYTES + index * ENTRY_BYTES;
            let high = u64::from(word(at + 8)) | u64::from(word(at + 12)) << 32;
            if note[4] == VERSION_DRAINED {
                return Entry { file: word(at), epoch: word(at + 4), mark: 0, length: high };
            }
            let (tag, length) = (u64::from(word(at + 4)) | u64::from(note[at + 8]) << 32, high >> 8);
            if tag & TAG_EPOCH == 0 {
                return Entry { file: word(at), epoch: newest, mark: tag, length };
            }
            Entry { file: word(at), epoch: tag as u32, mark: 0, length }
        };
        let table = Self { next_file: word(8), entries: (0..count).map(entry).collect() };
        let mut numbers = table.entries.iter().map(|entry| entry.file).chain([table.next_file]);
        let mut last = 0;
        if !numbers.all(|number| std::mem::replace(&mut last, number) < number) {
            return Err("the table of files in the tier numbers them wrongly".to_owned());
        }
        if table.entries.iter().any(|entry| entry.length >= LENGTH_END) {
            return Err("the table of files in the tier has a file of an impossible length".to_owned());
        }
        Ok(table)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_table_survives_its_encoding_and_is_full_at_eleven() {
        let mut table = Table::empty();
        assert_eq!(Table::decode(&[0; NOTE_BYTES]).unwrap(), table);
        for n in 0..11 {
            assert_eq!(table.add(n, u64::from(n) << 33), Some(n + 1));
        }
        assert_eq!(table.add(12, 0), None);
        table.remove(4);
        table.get_mut(5).unwrap().length = LENGTH_END - 1;
        table.get_mut(11).unwrap().mark = MARK_MAX;
        assert_eq!(Table::decode(&table.encode()).unwrap(), table);
        assert_eq!(table.add(13, 5), Some(12), "numbers are not given twice");
    }

    /// As a build before marks wrote it.
    #[test]
    fn a_table_of_version_1_is_read() {
        let mut note = [0; NOTE_BYTES];
        (note[4], note[5], note[8]) = (1, 2, 9);
        for (at, file, epoch, length) in [(16, 3u32, 7u32, 0x12_3456u64), (32, 8, 6, 1 << 40)] {
            note[at..at + 4].copy_from_slice(&file.to_le_bytes());
            note[at + 4..at + 8].copy_from_slice(&epoch.to_le_bytes());
            note[at + 8..at + 16].copy_from_slice(&length.to_le_bytes());
        }
        let checksum = crc32c::crc32c(&note[4..]);
        note[..4].copy_from_slice(&checksum.to_le_bytes());
        let entries = vec![
            Entry { file: 3, epoch: 7, mark: 0, length: 0x12_3456 },
            Entry { file: 8, epoch: 6, mark: 0, length: 1 << 40 },
        ];
        assert_eq!(Table::decode(&note).unwrap(), Table { next_file: 9, entries });
    }

    /// Its checksum right: then only sense can tell.
    #[test]
    fn files_that_are_numbered_wrongly_are_noticed() {
        let mut table = Table::empty();
        table.add(1, 8192);
        table.add(1, 8192);
        assert_eq!(Table::decode(&table.encode()).unwrap(), table);
        for (first, second, next) in [(1, 1, 3), (2, 1, 3), (1, 2, 2), (0, 2, 3)] {
            table.entries[0].file = first;
            table.entries[1].file = second;
            table.next_file = next;
            assert!(Table::decode(&table.encode()).is_err(), "{first} {second} {next}");
        }
    }

    #[test]
    fn damage_is_noticed() {
        let mut table = Table::empty();
        table.add(1, 8192);
        let note = table.encode();
        for at in 0..NOTE_BYTES {
            let mut damaged = note;
            damaged[at] ^= 1;
            assert!(Table::decode(&damaged).is_err(), "byte {at}");
        }
    }
}
