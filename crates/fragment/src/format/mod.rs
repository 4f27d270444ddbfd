//! What the cache device of a cache that survives a restart looks like. docs/format.md draws it byte by byte.
//!
//! Everything is little-endian and covered by CRC-32C. A structure is written and read by one list of fields
//! ([`mezzanine_ground::fields`]), which a test compares with its table there. Bytes read back are input:
//! decoding checks them and returns an error that names the field, it never panics and never trusts a size.

mod layout;

mod record;

mod superblock;

mod volume;

pub(crate) use record::record_bytes;

pub use layout::{DeviceLayout, MAP_BLOCK_BYTES, MAP_OFFSET};
pub use record::{BITMAP_AT, Record, RecordState};
pub use superblock::{
    HOST_BYTES, SUPERBLOCK_BYTES_MAX, SUPERBLOCK_MAGIC, SUPERBLOCK_OFFSETS, Superblock, Superblocks,
};
pub use volume::{VOLUME_NAME_BYTES_MAX, VolumeEntry};

use std::fmt;

/// The version of the format that this build writes, and the only one that it reads.
pub const FORMAT_VERSION: u32 = 1;

/// Why bytes of a cache device cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FormatError {
    /// They are not of a fragment cache at all.
    Unrecognised,
    /// Written by a newer version of the software: its format version.
    NewerFormat(u32),
    /// They are of a fragment cache, and damaged.
    Damaged {
        /// The field, as docs/format.md calls it.
        field: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// Neither copy of the superblock could be read.
    Unreadable,
}

impl FormatError {
    pub(crate) fn damaged(field: &'static str, reason: impl Into<String>) -> Self {
        Self::Damaged { field, reason: reason.into() }
    }
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unrecognised => f.write_str("not a fragment cache"),
            Self::NewerFormat(version) => write!(
                f,
                "format version {version} is newer than version {FORMAT_VERSION} of this build; use the build that \
                 wrote it, or initialise the cache anew"
            ),
            Self::Damaged { field, reason } => {
                write!(f, "damaged: {field}: {reason}; initialise the cache anew, the backing devices have everything")
            }
            Self::Unreadable => f.write_str(
                "neither copy of the superblock can be read; initialise the cache anew, or replace the cache device",
            ),
        }
    }
}

impl std::error::Error for FormatError {}

#[cfg(test)]
mod tests {
    use mezzanine_ground::fields::Offsets;
    use mezzanine_ground::fields::table::assert_is_as_listed;

    use super::record::Record;
    use super::superblock::Superblock;
    use super::volume::VolumeEntry;

    #[test]
    fn the_document_says_where_each_field_lies() {
        let document = include_str!("../../../../docs/format.md");
        let shown = |show: &dyn Fn(&mut Offsets)| {
            let mut offsets = Offsets::default();
            show(&mut offsets);
            offsets.0
        };
        let lists = [
            ("`MEZZFRAG`", shown(&|offsets| Superblock::example().show(&mut 0, offsets))),
            ("offset in a volume's entry", shown(&|offsets| VolumeEntry::example(1).show(offsets))),
            ("offset in a record", shown(&|offsets| Record::default().show(offsets))),
        ];
        for (text, fields) in lists {
            assert_is_as_listed(document, text, &fields, &["checksum of", "bitmap"]);
        }
    }
}
