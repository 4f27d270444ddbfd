//! What a tier looks like on flash. docs/format.md draws it byte by byte.
//!
//! Everything is little-endian and covered by CRC-32C. A structure is written and read by one list of fields
//! ([`mezzanine_ground::fields`]), which a test compares with its table there. Bytes read back are input:
//! decoding checks them and returns an error, it never panics and never trusts a size.

mod aged;
mod cluster;
mod group;
mod nonces;
mod record;
mod segment;
mod slot;
mod superblock;

pub use aged::Age;
pub use cluster::ClusterName;
pub use group::{GroupSummary, SUMMARY_HEADER_BYTES, SUMMARY_MAGIC};
pub use nonces::{NONCES_MAX, Nonce, Nonces};
pub use record::{RECORD_BYTES, Record, RecordKind};
pub use segment::{SEGMENT_HEADER_BYTES, SegmentHeader};
pub use slot::{SLOT_BLOCK_BYTES, SLOT_BYTES, SLOT_HEADS, SlotEntry, SlotHead};
pub use superblock::{
    LogPosition, NAMED_BYTES, RedoPoint, SUPERBLOCK_BYTES, SUPERBLOCK_MAGIC, SUPERBLOCK_OFFSETS, Sessions,
    Superblock, SuperblockError, TierState, Writing, newer_superblock, put_superblock, read_superblock,
    read_superblock_to_drain, tier_named_in, write_superblock,
};

use std::fmt;

use mezzanine_ground::fields::field_at;

use crate::bounds::Bound;
use crate::planted::{self, Bug};

/// The version of the on-flash format that this build writes. Version 1 had fewer slots for metadata
/// segments, so that frames began elsewhere; version 2 had no nonces, and no marks in the table of a volume's
/// files; in version 3 metadata segments had more room, and reference bits of more frames the larger the
/// queue.
pub const FORMAT_VERSION: u32 = 4;
/// The oldest version that this build reads, to drain the tier.
pub const FORMAT_VERSION_DRAINED: u32 = 2;

/// The version of a structure that begins with these bytes, if it is one that this build knows of.
fn version_of(bytes: &[u8], magic: [u8; 8], length: usize) -> Result<u32, FormatError> {
    if bytes.len() < length || field_at::<[u8; 8]>(bytes, 0) != magic {
        return Err(FormatError::Unrecognised);
    }
    match field_at(bytes, 8) {
        version if version > FORMAT_VERSION => Err(FormatError::NewerFormat(version)),
        version => Ok(version),
    }
}

/// Whether these numbers exist (see `bounds`). Others are damage; so the arithmetic on them cannot overflow.
fn plausible(epoch: u32, numbers: &[(Bound, &[u64])]) -> bool {
    let exist =
        Bound::Epoch.holds(&[epoch.into()]) && numbers.iter().all(|(bound, numbers)| bound.holds(numbers));
    exist || planted::is(Bug::ImpossibleNumbersBelieved)
}

/// Why bytes from flash cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FormatError {
    /// The bytes are not this structure at all.
    Unrecognised,
    /// Written by a newer version of the software: its format version.
    NewerFormat(u32),
    /// Written by an older version of the software: its format version. This one does not use it; from
    /// [`FORMAT_VERSION_DRAINED`] on it can read it in order to drain it.
    OlderFormat(u32),
    /// The structure is recognised, but damaged: what does not fit.
    Damaged(String),
    /// The device could not be read: the reason.
    Unreadable(String),
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unrecognised => write!(f, "not a flash tier"),
            Self::NewerFormat(version) => write!(
                f,
                "format version {version} is newer than version {FORMAT_VERSION} of this build; \
                 use the build that wrote it"
            ),
            Self::OlderFormat(version) if *version >= FORMAT_VERSION_DRAINED => write!(
                f,
                "format version {version} is older than version {FORMAT_VERSION}, the only one that this build uses; \
                 drain it, then format it anew"
            ),
            Self::OlderFormat(version) => write!(
                f,
                "format version {version} is older than version {FORMAT_VERSION_DRAINED}, the oldest one that this build reads; \
                 drain it with the build that wrote it, then format it anew"
            ),
            Self::Damaged(what) => write!(f, "damaged: {what}"),
            Self::Unreadable(why) => write!(f, "no superblock can be read: {why}"),
        }
    }
}

impl std::error::Error for FormatError {}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use mezzanine_ground::fields::Offsets;
    use mezzanine_ground::fields::table::assert_is_as_listed;

    use super::{ClusterName, GroupSummary, SegmentHeader, SlotEntry, SlotHead, Superblock};
    use crate::config::TierConfig;
    use crate::ids::PageId;

    #[test]
    fn the_document_says_where_each_field_lies() {
        let document = include_str!("../../../../docs/format.md");
        let shown = |show: &dyn Fn(&mut Offsets)| {
            let mut offsets = Offsets::default();
            show(&mut offsets);
            offsets.0
        };
        let geometry = TierConfig::new(4096, 256).geometry().unwrap();
        let superblock = Superblock::new(&geometry, [1; 16], [2; 16]);
        let slot = SlotEntry {
            id: PageId::volume(1, 2),
            checksum: 0,
            epoch: 1,
            version: crate::ids::Version::ZERO,
            lsn: 0,
        };
        let cluster = ClusterName { system_identifier: 1, checksums: true };
        let head = SlotHead { epoch: 1, number: 1, host_metadata: [0; crate::layout::HOST_METADATA_BYTES] };
        let lists = [
            ("`MEZZTIER`", shown(&|offsets| superblock.clone().show(offsets).unwrap())),
            ("`MEZZGRP1`", shown(&|offsets| GroupSummary::default().show(offsets))),
            ("`MEZZSEG1`", shown(&|offsets| SegmentHeader::default().show(offsets))),
            ("`MEZZSLT1`", shown(&|offsets| head.clone().show(&[1; 16], offsets))),
            ("offset in a slot", shown(&|offsets| { slot }.show(offsets))),
            ("offset in a cluster's name", shown(&|offsets| { cluster }.show(offsets))),
        ];
        for (text, fields) in lists {
            assert_is_as_listed(document, text, &fields, &["checksum of", "1 in the copy"]);
        }
    }
}
