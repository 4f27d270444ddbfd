//! Paths of the files whose pages a tier holds, kept on flash between the superblocks and the metadata so
//! that messages and `drain` can name them, and an older copy of a file is told by its name where its number
//! says nothing (see `identity`). Damage is taken for absence, and then no more is told than the numbers say.
//! docs/format.md says what lies where.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use mezzanine_device::{AlignedBuf, Device, DeviceError};
use mezzanine_engine::planted::{self, Bug};
use mezzanine_engine::{RecoveryError, read_patiently};
use mezzanine_ground::fields::{Reader, Visitor, Writer, field_at, put_at};

use crate::open::Reader as FlashReader;

const PATH_TABLE_OFFSET: u64 = 16 * 1024;
const PATH_TABLE_BYTES: usize = 16 * 1024;
const MAGIC: [u8; 8] = *b"MEZZFILE";
const CHECKSUM_AT: usize = MAGIC.len();
/// The checksum covers all that follows it.
const COVERED_AT: usize = CHECKSUM_AT + size_of::<u32>();
const HEADER_BYTES: usize = 16;
/// Bytes of a file's entry before its path.
const ENTRY_HEADER_BYTES: usize = 8;

/// Paths, by number, of the files whose pages the tier on `flash` holds, as far as it remembers them: for
/// messages.
pub fn known_files(flash: &dyn Device) -> BTreeMap<u32, PathBuf> {
    PathTable::read(flash).paths
}

/// What comes before the files.
fn show_header(visitor: &mut impl Visitor, files: &mut u32) {
    visitor.always(0, MAGIC);
    visitor.field(COVERED_AT, files);
}

/// What comes before the path in the entry of a file.
fn show_entry(visitor: &mut impl Visitor, number: &mut u32, path_bytes: &mut u32) {
    visitor.field(0, number);
    visitor.field(4, path_bytes);
}

/// File numbers and paths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PathTable {
    pub(crate) paths: BTreeMap<u32, PathBuf>,
}

impl PathTable {
    pub(crate) fn read(flash: &dyn Device) -> Self {
        Self::read_to_keep(flash).unwrap_or_default()
    }

    /// The path table of a tier that is opened, over which the next one will be written.
    ///
    /// # Errors
    /// [`RecoveryError::Silent`]. What a device does not say in a moment in which it answers nothing, or what
    /// one read brings wrong, is not forgotten for good.
    pub(crate) fn read_to_keep(flash: &dyn Device) -> Result<Self, RecoveryError> {
        let mut bytes = AlignedBuf::zeroed(PATH_TABLE_BYTES);
        let whole = |bytes: &[u8]| Self::decode(bytes).is_some();
        match read_patiently(&mut FlashReader(flash), PATH_TABLE_OFFSET, &mut bytes, whole) {
            Ok(_) => Ok(Self::decode(&bytes).unwrap_or_default()),
            Err(error @ RecoveryError::Silent(_)) if !planted::is(Bug::SilentPathTableEmpty) => Err(error),
            Err(_) => Ok(Self::default()),
        }
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let header = bytes.get(..HEADER_BYTES)?;
        let checksum = crc32c::crc32c(&bytes[COVERED_AT..]);
        if !header.starts_with(&MAGIC) || field_at::<u32>(header, CHECKSUM_AT) != checksum {
            return None;
        }
        let mut files = 0;
        show_header(&mut Reader(header), &mut files);
        let mut paths = BTreeMap::new();
        let mut rest = &bytes[HEADER_BYTES..];
        for _ in 0..files {
            let (header, behind) = rest.split_at_checked(ENTRY_HEADER_BYTES)?;
            let (mut number, mut path_bytes) = (0, 0);
            show_entry(&mut Reader(header), &mut number, &mut path_bytes);
            let (path, behind) = behind.split_at_checked(path_bytes as usize)?;
            paths.insert(number, PathBuf::from(OsStr::from_bytes(path)));
            rest = behind;
        }
        Some(Self { paths })
    }

    /// Puts the paths into these bytes, which are zeros, as far as there is room.
    fn encode(&self, bytes: &mut [u8]) {
        let mut at = HEADER_BYTES;
        let mut files = 0;
        for (number, path) in &self.paths {
            let path = path.as_os_str().as_bytes();
            let path_at = at + ENTRY_HEADER_BYTES;
            let end = path_at + path.len();
            if end > bytes.len() {
                break;
            }
            let header = &mut Writer::new(&mut bytes[at..path_at]);
            show_entry(header, &mut { *number }, &mut (path.len() as u32));
            bytes[path_at..end].copy_from_slice(path);
            at = end;
            files += 1;
        }
        show_header(&mut Writer::new(&mut bytes[..HEADER_BYTES]), &mut files);
        let checksum = crc32c::crc32c(&bytes[COVERED_AT..]);
        put_at(bytes, CHECKSUM_AT, checksum);
    }

    /// Writes the path table; the next flush makes it durable.
    pub(crate) fn write(&self, flash: &dyn Device) -> Result<(), DeviceError> {
        let mut bytes = AlignedBuf::zeroed(PATH_TABLE_BYTES);
        self.encode(&mut bytes);
        flash.write_at(&bytes, PATH_TABLE_OFFSET)
    }

    /// "file 3 (/srv/a.db)", as far as the path is known.
    pub(crate) fn name(&self, number: u32) -> String {
        match self.paths.get(&number) {
            Some(path) => path.display().to_string(),
            None => format!("file number {number}"),
        }
    }

    /// The path of a file, absolute, as far as it is known.
    pub(crate) fn path(&self, number: u32) -> Option<&PathBuf> {
        self.paths.get(&number)
    }

    /// Notes the path of a file. Returns whether that changed anything.
    pub(crate) fn set(&mut self, number: u32, path: &Path) -> bool {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        self.paths.insert(number, path.clone()) != Some(path)
    }
}

#[cfg(test)]
mod tests {
    use mezzanine_ground::fields::Offsets;
    use mezzanine_ground::fields::table::assert_is_as_listed;

    use super::*;

    #[test]
    fn every_field_lies_where_the_format_says() {
        let paths = BTreeMap::from([(0x2122_2324, "/a.db".into()), (0x3132_3334, "/srv/b".into())]);
        let table = PathTable { paths };
        #[rustfmt::skip]
        let mut expected = vec![
            b'M', b'E', b'Z', b'Z', b'F', b'I', b'L', b'E',
            // The checksum and how many files there are.
            0, 0, 0, 0, 2, 0, 0, 0,
            0x24, 0x23, 0x22, 0x21, 5, 0, 0, 0, b'/', b'a', b'.', b'd', b'b',
            0x34, 0x33, 0x32, 0x31, 6, 0, 0, 0, b'/', b's', b'r', b'v', b'/', b'b',
        ];
        expected.resize(PATH_TABLE_BYTES, 0);
        let checksum = crc32c::crc32c(&expected[12..]);
        expected[8..12].copy_from_slice(&checksum.to_le_bytes());
        let mut bytes = vec![0; PATH_TABLE_BYTES];
        table.encode(&mut bytes);
        assert_eq!(bytes, expected);
        assert_eq!(PathTable::decode(&bytes), Some(table));
    }

    #[test]
    fn the_document_says_where_each_field_lies() {
        let document = include_str!("../../../docs/format.md");
        let (mut header, mut entry) = <(Offsets, Offsets)>::default();
        show_header(&mut header, &mut 0);
        show_entry(&mut entry, &mut 0, &mut 0);
        let apart = ["checksum of", "an entry for each file"];
        assert_is_as_listed(document, "`MEZZFILE`", &header.0, &apart);
        assert_is_as_listed(document, "offset in the entry of a path", &entry.0, &[]);
    }

    #[test]
    fn paths_that_find_no_room_are_left_out() {
        let long = PathBuf::from("x".repeat(PATH_TABLE_BYTES - HEADER_BYTES - ENTRY_HEADER_BYTES));
        let longer = PathBuf::from(format!("{}x", long.display()));
        for (path, kept) in [(long, 1), (longer, 0)] {
            let table = PathTable { paths: BTreeMap::from([(1, path), (2, "/b".into())]) };
            let mut bytes = vec![0; PATH_TABLE_BYTES];
            table.encode(&mut bytes);
            let paths = table.paths.into_iter().take(kept).collect();
            assert_eq!(PathTable::decode(&bytes), Some(PathTable { paths }));
        }
    }

    /// Its checksum right: lengths that no file can have, and files that are not there.
    #[test]
    fn lengths_that_reach_beyond_the_end_are_damage() {
        let table = PathTable { paths: BTreeMap::from([(1, "/a.db".into())]) };
        let mut whole = vec![0; PATH_TABLE_BYTES];
        table.encode(&mut whole);
        let room = (PATH_TABLE_BYTES - HEADER_BYTES - ENTRY_HEADER_BYTES) as u32;
        for (at, number) in [(20, room + 1), (20, u32::MAX), (12, u32::MAX)] {
            let mut bytes = whole.clone();
            put_at(&mut bytes, at, number);
            let checksum = crc32c::crc32c(&bytes[COVERED_AT..]);
            put_at(&mut bytes, CHECKSUM_AT, checksum);
            assert_eq!(PathTable::decode(&bytes), None, "{number} at {at}");
        }
        for bytes in 0..HEADER_BYTES {
            assert_eq!(PathTable::decode(&whole[..bytes]), None, "{bytes} bytes");
        }
    }

    #[test]
    fn garbage_is_absence() {
        assert_eq!(PathTable::decode(&[0; PATH_TABLE_BYTES]), None);
        let mut bytes = vec![0xFF; PATH_TABLE_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        let checksum = crc32c::crc32c(&bytes[12..]);
        bytes[8..12].copy_from_slice(&checksum.to_le_bytes());
        assert_eq!(PathTable::decode(&bytes), None);
    }
}
