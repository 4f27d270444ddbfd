//! Paths of the files whose pages a tier holds, kept on flash between the superblocks and the metadata so
//! that messages and `drain` can name them, and an older copy of a file is told by its name where its number
//! says nothing (see `identity`). Damage is taken for absence, and then no more is told than the numbers say.
//!
//! ```text
//! 16384   one copy: magic "MEZZFILE", CRC-32C of what follows u32, files u32,
//!         per file: number u32, length of the path u32, the path
//! ```

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use mezzanine_device::{AlignedBuf, Device, DeviceError};
use mezzanine_engine::planted::{self, Bug};
use mezzanine_engine::{RecoveryError, read_patiently};

use crate::open::Reader;

const PATH_TABLE_OFFSET: u64 = 16 * 1024;
const PATH_TABLE_BYTES: usize = 16 * 1024;
const MAGIC: &[u8; 8] = b"MEZZFILE";
const HEADER_BYTES: usize = 16;

/// Paths, by number, of the files whose pages the tier on `flash` holds, as far as it remembers them: for
/// messages.
pub fn known_files(flash: &dyn Device) -> BTreeMap<u32, PathBuf> {
    PathTable::read(flash).paths
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
        match read_patiently(&mut Reader(flash), PATH_TABLE_OFFSET, &mut bytes, whole) {
            Ok(_) => Ok(Self::decode(&bytes).unwrap_or_default()),
            Err(error @ RecoveryError::Silent(_)) if !planted::is(Bug::SilentPathTableEmpty) => Err(error),
            Err(_) => Ok(Self::default()),
        }
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let word = |at: usize| {
            let bytes = bytes.get(at..at + 4)?;
            Some(u32::from_le_bytes(bytes.try_into().ok()?))
        };
        if !bytes.starts_with(MAGIC) || word(8)? != crc32c::crc32c(&bytes[12..]) {
            return None;
        }
        let mut paths = BTreeMap::new();
        let mut at = HEADER_BYTES;
        for _ in 0..word(12)? {
            let (number, len) = (word(at)?, word(at + 4)? as usize);
            let path = bytes.get(at + 8..(at + 8).checked_add(len)?)?;
            paths.insert(number, PathBuf::from(OsStr::from_bytes(path)));
            at += 8 + len;
        }
        Some(Self { paths })
    }

    /// Writes the path table; the next flush makes it durable.
    pub(crate) fn write(&self, flash: &dyn Device) -> Result<(), DeviceError> {
        let mut bytes = AlignedBuf::zeroed(PATH_TABLE_BYTES);
        let mut at = HEADER_BYTES;
        let mut files = 0u32;
        for (number, path) in &self.paths {
            let path = path.as_os_str().as_bytes();
            if at + 8 + path.len() > PATH_TABLE_BYTES {
                break;
            }
            bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
            bytes[at + 4..at + 8].copy_from_slice(&(path.len() as u32).to_le_bytes());
            bytes[at + 8..at + 8 + path.len()].copy_from_slice(path);
            at += 8 + path.len();
            files += 1;
        }
        bytes[..8].copy_from_slice(MAGIC);
        bytes[12..16].copy_from_slice(&files.to_le_bytes());
        let checksum = crc32c::crc32c(&bytes[12..]);
        bytes[8..12].copy_from_slice(&checksum.to_le_bytes());
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
    use super::*;

    #[test]
    fn garbage_is_absence() {
        assert_eq!(PathTable::decode(&[0; PATH_TABLE_BYTES]), None);
        let mut bytes = vec![0xFF; PATH_TABLE_BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        let checksum = crc32c::crc32c(&bytes[12..]);
        bytes[8..12].copy_from_slice(&checksum.to_le_bytes());
        assert_eq!(PathTable::decode(&bytes), None);
    }
}
