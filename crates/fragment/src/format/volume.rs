//! A volume, as the superblock lists it.

use mezzanine_ground::fields::{Reader, Visitor, Writer};

use super::FormatError;
use super::superblock::HOST_BYTES;
use crate::config::{BLOCK_BYTES, ConfigError};

/// Bytes of an entry.
pub(crate) const ENTRY_BYTES: usize = 192;
/// Longest name of a volume in bytes.
pub const VOLUME_NAME_BYTES_MAX: usize = 64;

/// A volume of a cache. Its place in the list is the number that requests call it by
/// ([`Config::volumes`](crate::Config::volumes)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeEntry {
    /// Names the volume.
    pub id: [u8; 16],
    /// Its size in bytes.
    pub bytes: u64,
    /// Names this attachment in the records of the map: given once in the life of a cache, from 1 on, so
    /// that no record of a volume that was detached is ever another one's.
    pub number: u32,
    /// A name for people: 1 to [`VOLUME_NAME_BYTES_MAX`] bytes without control characters.
    pub name: String,
    /// The host's: such as a fingerprint of the backing device.
    pub host: [u8; HOST_BYTES],
}

impl VolumeEntry {
    const NONE: Self = Self { id: [0; 16], bytes: 0, number: 0, name: String::new(), host: [0; HOST_BYTES] };

    /// A name that is no text is read as an empty one.
    pub(super) fn show(&mut self, visitor: &mut impl Visitor) {
        let mut name = [0; VOLUME_NAME_BYTES_MAX];
        name[..self.name.len()].copy_from_slice(self.name.as_bytes());
        visitor.field(0, &mut self.id);
        visitor.field(16, &mut self.bytes);
        visitor.field(24, &mut self.number);
        visitor.field(32, &mut name);
        visitor.field(96, &mut self.host);
        let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
        self.name = std::str::from_utf8(&name[..end]).unwrap_or_default().to_owned();
    }

    pub(super) fn encode(&self, place: &mut [u8]) {
        self.clone().show(&mut Writer::new(place));
    }

    /// Reads one from [`ENTRY_BYTES`] bytes.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let mut entry = Self::NONE;
        entry.show(&mut Reader(bytes));
        entry.check().map_err(|error| FormatError::damaged(error.parameter, error.reason))?;
        if entry.number == 0 {
            return Err(FormatError::damaged("volume number", "it is 0"));
        }
        Ok(entry)
    }

    /// Checks what can be checked of one alone.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        if self.name.is_empty()
            || self.name.len() > VOLUME_NAME_BYTES_MAX
            || self.name.chars().any(char::is_control)
        {
            let reason =
                format!("'{}' is not 1 to 64 bytes without control characters", self.name.escape_debug());
            return Err(ConfigError::new("volume name", reason, "use another name".into()));
        }
        if self.bytes < BLOCK_BYTES {
            let reason = format!("volume {} has {} bytes", self.name, self.bytes);
            return Err(ConfigError::new("volume size", reason, "use volumes of at least 4096 bytes".into()));
        }
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn example(number: u32) -> Self {
        Self {
            id: u128::from(number).to_be_bytes(),
            bytes: u64::from(number) << 30,
            number,
            name: format!("volume-{number}"),
            host: [7; HOST_BYTES],
        }
    }
}
