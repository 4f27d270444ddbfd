//! A metadata segment: directory entries in the order of the queue.

use super::fields::{Reader, Writer};
use super::record::RECORD_BYTES;
use super::{FORMAT_VERSION, FormatError, plausible};
use crate::bounds::Bound;

/// First bytes of a segment.
const SEGMENT_MAGIC: [u8; 8] = *b"MEZZSEG1";
/// Bytes of a segment before its records; read on its own at recovery.
pub const SEGMENT_HEADER_BYTES: usize = 4096;
const HEADER_CHECKSUM_AT: usize = 124;

/// The header of a metadata segment.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    pub first_sequence: u64,
    /// Position of its first group.
    pub first_position: u64,
    /// Checksum of the summary before its first group.
    pub first_predecessor: u32,
    /// Checksum of the summary of its last group.
    pub last_checksum: u32,
    /// Sequence number after its last group.
    pub end_sequence: u64,
    /// Position after its last group.
    pub end_position: u64,
    /// Front of the queue when it was closed.
    pub front: u64,
    /// Largest version in it.
    pub version_max: u64,
    /// CRC-32C of the records.
    pub records_checksum: u32,
    /// Rear of the queue when the reference bits were collected.
    pub share_rear: u64,
    /// First frame that they are of.
    pub share_first: u32,
    /// Number of frames that they are of; their bytes follow the records at the next multiple of 4,096
    /// bytes.
    pub share_frames: u32,
    /// CRC-32C of the reference bits.
    pub share_checksum: u32,
}

impl SegmentHeader {
    /// The header's bytes.
    pub fn encode(&self) -> [u8; SEGMENT_HEADER_BYTES] {
        let mut out = [0; SEGMENT_HEADER_BYTES];
        let mut writer = Writer::new(&mut out);
        writer
            .bytes(&SEGMENT_MAGIC)
            .u32(FORMAT_VERSION)
            .u32(self.epoch)
            .bytes(&self.tier_uuid)
            .u64(self.number)
            .u64(self.first_sequence)
            .u64(self.first_position)
            .u64(self.end_sequence)
            .u64(self.end_position)
            .u64(self.front)
            .u64(self.version_max)
            .u32(self.first_predecessor)
            .u32(self.last_checksum)
            .u32(self.records)
            .u32(self.records_checksum)
            .u64(self.share_rear)
            .u32(self.share_first)
            .u32(self.share_frames)
            .u32(self.share_checksum);
        debug_assert!(writer.at() <= HEADER_CHECKSUM_AT);
        let checksum = crc32c::crc32c(&out[..HEADER_CHECKSUM_AT]);
        out[HEADER_CHECKSUM_AT..HEADER_CHECKSUM_AT + 4].copy_from_slice(&checksum.to_le_bytes());
        out
    }

    /// Reads a header.
    ///
    /// # Errors
    /// [`FormatError`] if the bytes are no segment, of a newer format, or damaged.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        if bytes.len() < HEADER_CHECKSUM_AT + 4 || bytes[..8] != SEGMENT_MAGIC {
            return Err(FormatError::Unrecognised);
        }
        let mut reader = Reader::new(&bytes[8..HEADER_CHECKSUM_AT + 4]);
        let version = reader.u32();
        if version > FORMAT_VERSION {
            return Err(FormatError::NewerFormat(version));
        }
        let mut stored = [0; 4];
        stored.copy_from_slice(&bytes[HEADER_CHECKSUM_AT..HEADER_CHECKSUM_AT + 4]);
        if u32::from_le_bytes(stored) != crc32c::crc32c(&bytes[..HEADER_CHECKSUM_AT]) {
            return Err(FormatError::Damaged("a segment header whose checksum does not match".into()));
        }
        let epoch = reader.u32();
        let tier_uuid = reader.bytes();
        let header = Self {
            tier_uuid,
            epoch,
            number: reader.u64(),
            first_sequence: reader.u64(),
            first_position: reader.u64(),
            end_sequence: reader.u64(),
            end_position: reader.u64(),
            front: reader.u64(),
            version_max: reader.u64(),
            first_predecessor: reader.u32(),
            last_checksum: reader.u32(),
            records: reader.u32(),
            records_checksum: reader.u32(),
            share_rear: reader.u64(),
            share_first: reader.u32(),
            share_frames: reader.u32(),
            share_checksum: reader.u32(),
        };
        let numbers: [(Bound, &[u64]); 4] = [
            (Bound::Segment, &[header.number]),
            (Bound::Sequence, &[header.first_sequence, header.end_sequence]),
            (Bound::Version, &[header.version_max]),
            (Bound::Position, &[header.first_position, header.end_position, header.front, header.share_rear]),
        ];
        if !plausible(epoch, &numbers) {
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
