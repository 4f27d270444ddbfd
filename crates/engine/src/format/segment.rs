//! A metadata segment: directory entries in the order of the queue.

use mezzanine_ground::fields::{Reader, Visitor, Writer, field_at, put_at};

use super::record::RECORD_BYTES;
use super::{FORMAT_VERSION, FormatError, plausible, version_of};
use crate::bounds::Bound;
use crate::ids::{Position, Sequence, Version};

/// First bytes of a segment.
const SEGMENT_MAGIC: [u8; 8] = *b"MEZZSEG1";
/// Bytes of a segment before its records; read on its own at recovery.
pub const SEGMENT_HEADER_BYTES: usize = 4096;
const HEADER_CHECKSUM_AT: usize = 124;

/// The header of a metadata segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentHeader {
    /// The tier it belongs to.
    pub tier_uuid: [u8; 16],
    /// Number of the segment: one more than its predecessor's.
    pub number: u64,
    /// Epoch of the last group in it.
    pub epoch: u32,
    /// Records in it.
    pub records: u32,
    /// Sequence number of its first group.
    pub first_sequence: Sequence,
    /// Position of its first group.
    pub first_position: Position,
    /// Checksum of the summary before its first group.
    pub first_predecessor: u32,
    /// Checksum of the summary of its last group.
    pub last_checksum: u32,
    /// Sequence number after its last group.
    pub end_sequence: Sequence,
    /// Position after its last group.
    pub end_position: Position,
    /// Front of the queue when it was closed.
    pub front: Position,
    /// Largest version in it.
    pub version_max: Version,
    /// CRC-32C of the records.
    pub records_checksum: u32,
    /// Rear of the queue when the reference bits were collected.
    pub share_rear: Position,
    /// First frame that they are of.
    pub share_first: u32,
    /// Number of frames that they are of; their bytes follow the records at the next multiple of 4,096
    /// bytes.
    pub share_frames: u32,
    /// CRC-32C of the reference bits.
    pub share_checksum: u32,
}

impl SegmentHeader {
    pub(super) fn show(&mut self, visitor: &mut impl Visitor) {
        visitor.always(0, SEGMENT_MAGIC);
        visitor.always(8, FORMAT_VERSION);
        visitor.field(12, &mut self.epoch);
        visitor.field(16, &mut self.tier_uuid);
        visitor.field(32, &mut self.number);
        visitor.field(40, &mut self.first_sequence);
        visitor.field(48, &mut self.first_position);
        visitor.field(56, &mut self.end_sequence);
        visitor.field(64, &mut self.end_position);
        visitor.field(72, &mut self.front);
        visitor.field(80, &mut self.version_max);
        visitor.field(88, &mut self.first_predecessor);
        visitor.field(92, &mut self.last_checksum);
        visitor.field(96, &mut self.records);
        visitor.field(100, &mut self.records_checksum);
        visitor.field(104, &mut self.share_rear);
        visitor.field(112, &mut self.share_first);
        visitor.field(116, &mut self.share_frames);
        visitor.field(120, &mut self.share_checksum);
    }

    /// The header's bytes.
    pub fn encode(&self) -> [u8; SEGMENT_HEADER_BYTES] {
        let mut out = [0; SEGMENT_HEADER_BYTES];
        self.clone().show(&mut Writer::new(&mut out));
        let checksum = crc32c::crc32c(&out[..HEADER_CHECKSUM_AT]);
        put_at(&mut out, HEADER_CHECKSUM_AT, checksum);
        out
    }

    /// Reads a header.
    ///
    /// # Errors
    /// [`FormatError`] if the bytes are no segment, of a newer format, or damaged.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        version_of(bytes, SEGMENT_MAGIC, HEADER_CHECKSUM_AT + 4)?;
        if field_at::<u32>(bytes, HEADER_CHECKSUM_AT) != crc32c::crc32c(&bytes[..HEADER_CHECKSUM_AT]) {
            return Err(FormatError::Damaged("a segment header whose checksum does not match".into()));
        }
        let mut header = Self::default();
        header.show(&mut Reader(bytes));
        let positions = [header.first_position, header.end_position, header.front, header.share_rear];
        let numbers: [(Bound, &[u64]); 4] = [
            (Bound::Segment, &[header.number]),
            (Bound::Sequence, &[header.first_sequence, header.end_sequence].map(Sequence::number)),
            (Bound::Version, &[header.version_max.number()]),
            (Bound::Position, &positions.map(Position::number)),
        ];
        if !plausible(header.epoch, &numbers) {
            return Err(FormatError::Damaged("a segment header with impossible numbers".into()));
        }
        Ok(header)
    }

    /// Bytes of the header and the records; the reference bits follow.
    pub fn records_end(&self) -> u64 {
        (SEGMENT_HEADER_BYTES as u64 + self.records_bytes()).next_multiple_of(4096)
    }

    /// Bytes of the reference bits.
    pub fn share_bytes(&self) -> usize {
        self.share_frames.div_ceil(8) as usize
    }

    /// Bytes of the records.
    pub fn records_bytes(&self) -> u64 {
        u64::from(self.records) * RECORD_BYTES as u64
    }
}
