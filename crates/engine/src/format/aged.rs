//! What lies on flash when a tier has lived long and is empty: for tests, whose lives are short, of numbers
//! that are not.

use super::segment::SegmentHeader;
use super::superblock::{Superblock, TierState};
use crate::config::Geometry;
use crate::ids::{Position, Sequence, Version};

/// How far a tier's numbers have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Age {
    /// Epochs that there were.
    pub epoch: u32,
    /// Superblocks that were written.
    pub generation: u64,
    /// Groups that were written.
    pub sequence: Sequence,
    /// Frames that they filled.
    pub position: Position,
    /// Versions of pages that came in.
    pub version: Version,
    /// Metadata segments that were written.
    pub segment: u64,
}

impl Age {
    /// The superblock of a new tier as it would be at this age if everything had left it, and the metadata
    /// segment behind which its queue goes on: byte offset on flash, and bytes. A design with a slot
    /// directory has no segments, and ages in its superblock alone.
    ///
    /// # Panics
    /// If no group was written, or no frame filled.
    pub fn of(&self, new: &Superblock, geometry: &Geometry) -> (Superblock, Option<(u64, Vec<u8>)>) {
        let grown = Superblock {
            generation: self.generation,
            epoch: self.epoch,
            origin_epoch: self.epoch,
            state: TierState::Drained,
            ..new.clone()
        };
        if geometry.slot_directory().is_some() {
            return (grown, None);
        }
        let header = SegmentHeader {
            tier_uuid: new.tier_uuid,
            number: self.segment,
            epoch: self.epoch,
            records: 0,
            // One group, which has left: nobody asks for it.
            first_sequence: self.sequence - 1,
            first_position: self.position - 1,
            first_predecessor: 0,
            last_checksum: 0,
            end_sequence: self.sequence,
            end_position: self.position,
            front: self.position,
            version_max: self.version,
            records_checksum: crc32c::crc32c(&[]),
            share_rear: self.position,
            share_first: 0,
            share_frames: 0,
            share_checksum: crc32c::crc32c(&[]),
        };
        let segment = (geometry.segment_offset(self.segment), header.encode().to_vec());
        let superblock = Superblock {
            epoch_sequence: self.sequence,
            end_sequence: self.sequence,
            front: self.position,
            ..grown
        };
        (superblock, Some(segment))
    }
}
