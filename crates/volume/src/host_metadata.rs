//! The table of files that travels in the tier's host metadata: which files the tier knows, when each was
//! last attached, how often it was marked since, and how long each is.
//!
//! docs/format.md says what lies where. Eleven files fill the host metadata.
//!
//! The tag of a file that was attached in the newest epoch is its *mark* (see `marks`), below 2^39. That of
//! another is 2^39 and the epoch in which it was last attached; its mark is not kept. Only a tier that is
//! provably clean has such files in a table on flash, for another one appends nothing before all of its files
//! are attached, and there marks are of no use.
//!
//! Version 1 had zeros in the place of the newest epoch, and another entry for each file.

use mezzanine_engine::HOST_METADATA_BYTES;
use mezzanine_engine::planted::{self, Bug};
use mezzanine_ground::fields::{Reader, Visitor, Writer, field_at, put_at};

use crate::error::{VolumeError, VolumeErrorKind};
use crate::shared::plain::{Kept, Quiet};

const VERSION: u8 = 2;
/// Of tiers in version 2 of the flash format, which are read to be drained.
const VERSION_DRAINED: u8 = 1;
/// The checksum is the first field; it covers all that follows.
const CHECKSUM_AT: usize = 0;
const COVERED_AT: usize = CHECKSUM_AT + size_of::<u32>();
const HEADER_BYTES: usize = 16;
const ENTRY_BYTES: usize = 16;
/// Files that one volume can have.
pub(crate) const FILES_MAX: usize = (HOST_METADATA_BYTES - HEADER_BYTES) / ENTRY_BYTES;
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

/// Words of an entry: file, epoch, mark and length.
const ENTRY_WORDS: usize = 4;

/// Words of a table: the next number, how many files it has, and the entries.
const TABLE_WORDS: usize = 2 + FILES_MAX * ENTRY_WORDS;

impl Kept for Table {
    fn load(words: &[Quiet]) -> Self {
        let count = words[1].get() as usize;
        let entry = |words: &[Quiet]| Entry {
            file: words[0].get() as u32,
            epoch: words[1].get() as u32,
            mark: words[2].get(),
            length: words[3].get(),
        };
        let entries = words[2..].chunks_exact(ENTRY_WORDS).take(count).map(entry).collect();
        Self { next_file: words[0].get() as u32, entries }
    }

    fn store(&self, words: &[Quiet]) {
        assert!(self.entries.len() <= FILES_MAX, "a table has more files than a tier can know");
        words[0].set(u64::from(self.next_file));
        words[1].set(self.entries.len() as u64);
        for (entry, words) in self.entries.iter().zip(words[2..].chunks_exact(ENTRY_WORDS)) {
            words[0].set(u64::from(entry.file));
            words[1].set(u64::from(entry.epoch));
            words[2].set(entry.mark);
            words[3].set(entry.length);
        }
    }
}

/// The table and what of it the tier was told.
pub(crate) struct TableState {
    pub(crate) table: Table,
    pub(crate) told: Table,
}

/// Words that both are kept in.
pub(crate) const TABLE_STATE_WORDS: usize = 2 * TABLE_WORDS;

impl Kept for TableState {
    fn load(words: &[Quiet]) -> Self {
        let (table, told) = words.split_at(TABLE_WORDS);
        Self { table: Table::load(table), told: Table::load(told) }
    }

    fn store(&self, words: &[Quiet]) {
        let (table, told) = words.split_at(TABLE_WORDS);
        self.table.store(table);
        self.told.store(told);
    }
}

/// The head of the table as it lies in the host metadata.
#[derive(Clone, Copy, Default)]
struct Head {
    version: u8,
    files: u8,
    next_file: u32,
    newest_epoch: u32,
}

impl Head {
    fn show(&mut self, visitor: &mut impl Visitor) {
        visitor.field(4, &mut self.version);
        visitor.field(5, &mut self.files);
        visitor.field(8, &mut self.next_file);
        visitor.field(12, &mut self.newest_epoch);
    }
}

/// Where the entry of a file begins.
const fn entry_at(index: usize) -> usize {
    HEADER_BYTES + index * ENTRY_BYTES
}

/// A file's entry as it lies in the host metadata.
#[derive(Clone, Copy, Default)]
struct EntryFields {
    file: u32,
    tag: u64,
    length: u64,
}

impl EntryFields {
    fn show(&mut self, at: usize, visitor: &mut impl Visitor) {
        visitor.field(at, &mut self.file);
        visitor.narrow::<5>(at + 4, &mut self.tag);
        visitor.narrow::<7>(at + 9, &mut self.length);
    }

    /// What is shown of an entry where `newest_epoch` is that of the table.
    fn of(entry: &Entry, newest_epoch: u32) -> Self {
        let &Entry { file, epoch, mark, length } = entry;
        assert!(mark <= MARK_MAX && length < LENGTH_END, "a file's mark or length is out of bounds");
        let tag = if epoch == newest_epoch { mark } else { TAG_EPOCH | u64::from(epoch) };
        Self { file, tag, length }
    }

    fn entry(self, newest_epoch: u32) -> Entry {
        let Self { file, tag, length } = self;
        if tag & TAG_EPOCH == 0 {
            return Entry { file, epoch: newest_epoch, mark: tag, length };
        }
        Entry { file, epoch: tag as u32, mark: 0, length }
    }
}

impl Entry {
    /// As it lies in host metadata of version 1, which has no marks and is only read.
    fn show_version_1(&mut self, at: usize, visitor: &mut impl Visitor) {
        visitor.field(at, &mut self.file);
        visitor.field(at + 4, &mut self.epoch);
        visitor.field(at + 8, &mut self.length);
    }
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

    fn show(&self, visitor: &mut impl Visitor) {
        let newest_epoch = self.entries.iter().map(|entry| entry.epoch).max().unwrap_or(0);
        let files = self.entries.len() as u8;
        Head { version: VERSION, files, next_file: self.next_file, newest_epoch }.show(visitor);
        for (index, entry) in self.entries.iter().enumerate() {
            EntryFields::of(entry, newest_epoch).show(entry_at(index), visitor);
        }
    }

    pub(crate) fn encode(&self) -> [u8; HOST_METADATA_BYTES] {
        let mut host_metadata = [0; HOST_METADATA_BYTES];
        self.show(&mut Writer::new(&mut host_metadata));
        let checksum = crc32c::crc32c(&host_metadata[COVERED_AT..]);
        put_at(&mut host_metadata, CHECKSUM_AT, checksum);
        host_metadata
    }

    /// Reads host metadata; all zeros is what a tier carries before its first file. Numbers rise, from 1 on.
    pub(crate) fn decode(host_metadata: &[u8; HOST_METADATA_BYTES]) -> Result<Self, String> {
        if host_metadata.iter().all(|&byte| byte == 0) {
            return Ok(Self::empty());
        }
        if field_at::<u32>(host_metadata, CHECKSUM_AT) != crc32c::crc32c(&host_metadata[COVERED_AT..]) {
            return Err("the table of files in the tier does not match its checksum".to_owned());
        }
        let mut head = Head::default();
        head.show(&mut Reader(host_metadata));
        if ![VERSION, VERSION_DRAINED].contains(&head.version) {
            return Err(format!("the table of files in the tier has the unknown version {}", head.version));
        }
        let count = usize::from(head.files);
        if count > FILES_MAX {
            return Err(format!("the table of files in the tier claims {count} files"));
        }
        let entry = |index| {
            if head.version == VERSION_DRAINED {
                let mut entry = Entry { file: 0, epoch: 0, mark: 0, length: 0 };
                entry.show_version_1(entry_at(index), &mut Reader(host_metadata));
                return entry;
            }
            let mut fields = EntryFields::default();
            fields.show(entry_at(index), &mut Reader(host_metadata));
            fields.entry(head.newest_epoch)
        };
        let table = Self { next_file: head.next_file, entries: (0..count).map(entry).collect() };
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
    use mezzanine_ground::fields::Offsets;
    use mezzanine_ground::fields::table::assert_is_as_listed;

    use super::*;

    #[test]
    fn the_table_survives_its_encoding_and_is_full_at_eleven() {
        let mut table = Table::empty();
        assert_eq!(Table::decode(&[0; HOST_METADATA_BYTES]).unwrap(), table);
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

    #[test]
    fn every_field_lies_where_the_format_says() {
        let newest = Entry {
            file: 0x2122_2324,
            epoch: 0x3132_3334,
            mark: 0x41_4243_4445,
            length: 0x51_5253_5455_5657,
        };
        let older = Entry { file: 0x6162_6364, epoch: 0x1172_7374, mark: 0, length: 0x81_8283_8485_8687 };
        let table = Table { next_file: 0x7172_7374, entries: vec![newest, older] };
        #[rustfmt::skip]
        let mut expected = vec![
            // The checksum, version and number of files, the next number, the newest epoch.
            0, 0, 0, 0, 2, 2, 0, 0,
            0x74, 0x73, 0x72, 0x71, 0x34, 0x33, 0x32, 0x31,
            // Number, mark, length.
            0x24, 0x23, 0x22, 0x21, 0x45, 0x44, 0x43, 0x42, 0x41,
            0x57, 0x56, 0x55, 0x54, 0x53, 0x52, 0x51,
            // Number, 2^39 and the epoch, length.
            0x64, 0x63, 0x62, 0x61, 0x74, 0x73, 0x72, 0x11, 0x80,
            0x87, 0x86, 0x85, 0x84, 0x83, 0x82, 0x81,
        ];
        expected.resize(HOST_METADATA_BYTES, 0);
        let checksum = crc32c::crc32c(&expected[4..]);
        expected[..4].copy_from_slice(&checksum.to_le_bytes());
        assert_eq!(table.encode().to_vec(), expected);
        assert_eq!(Table::decode(&table.encode()), Ok(table));
    }

    #[test]
    fn the_document_says_where_each_field_lies() {
        let document = include_str!("../../../docs/format.md");
        let entries = vec![Entry { file: 1, epoch: 1, mark: 0, length: 0 }; FILES_MAX];
        let (mut all, mut one, mut of_version_1) = <(Offsets, Offsets, Offsets)>::default();
        Table { next_file: 2, entries: entries.clone() }.show(&mut all);
        EntryFields::default().show(0, &mut one);
        { entries[0] }.show_version_1(0, &mut of_version_1);
        assert_is_as_listed(document, "number of the next new file", &all.0, &["checksum of"]);
        assert_is_as_listed(document, "offset in a file's entry", &one.0, &[]);
        assert_is_as_listed(document, "offset in an entry of version 1", &of_version_1.0, &[]);
    }

    /// As a build before marks wrote it.
    #[test]
    fn a_table_of_version_1_is_read() {
        let mut host_metadata = [0; HOST_METADATA_BYTES];
        (host_metadata[4], host_metadata[5], host_metadata[8]) = (1, 2, 9);
        for (at, file, epoch, length) in [(16, 3u32, 7u32, 0x12_3456u64), (32, 8, 6, 1 << 40)] {
            host_metadata[at..at + 4].copy_from_slice(&file.to_le_bytes());
            host_metadata[at + 4..at + 8].copy_from_slice(&epoch.to_le_bytes());
            host_metadata[at + 8..at + 16].copy_from_slice(&length.to_le_bytes());
        }
        let checksum = crc32c::crc32c(&host_metadata[4..]);
        host_metadata[..4].copy_from_slice(&checksum.to_le_bytes());
        let entries = vec![
            Entry { file: 3, epoch: 7, mark: 0, length: 0x12_3456 },
            Entry { file: 8, epoch: 6, mark: 0, length: 1 << 40 },
        ];
        assert_eq!(Table::decode(&host_metadata).unwrap(), Table { next_file: 9, entries });
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
        let host_metadata = table.encode();
        for at in 0..HOST_METADATA_BYTES {
            let mut damaged = host_metadata;
            damaged[at] ^= 1;
            assert!(Table::decode(&damaged).is_err(), "byte {at}");
        }
    }
}
