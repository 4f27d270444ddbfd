//! The summary at the head of every group.

use mezzanine_ground::fields::{Reader, Visitor, Writer, field_at, put_at};

use super::record::{RECORD_BYTES, Record};
use super::{FORMAT_VERSION, FormatError, LogPosition, plausible, version_of};
use crate::bounds::Bound;
use crate::ids::{Position, Sequence};
use crate::layout::HOST_METADATA_BYTES;
use crate::planted::{self, Bug};

/// First bytes of a group.
pub const SUMMARY_MAGIC: [u8; 8] = *b"MEZZGRP1";
/// Bytes of a summary before its records.
pub const SUMMARY_HEADER_BYTES: usize = 320;
/// The checksum is the last field of the header; it covers the header before it and the records.
const CHECKSUM_AT: usize = SUMMARY_HEADER_BYTES - 4;
const FLAG_CUT_SHORT: u32 = 1;

/// The header of a group summary. Its records follow it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSummary {
    /// The tier it belongs to.
    pub tier_uuid: [u8; 16],
    /// Epoch in which the group was written.
    pub epoch: u32,
    /// Sequence number: one more than its predecessor's.
    pub sequence: Sequence,
    /// Position of its first frame.
    pub position: Position,
    /// Checksum of the predecessor's summary.
    pub predecessor: u32,
    /// Pages in the group.
    pub pages: u32,
    /// Records after the header: one per page, in their order, and tombstones between them.
    pub records: u32,
    /// The group was closed by a sync before it was full.
    pub cut_short: bool,
    /// Groups below this sequence number were durable when this one was composed.
    pub durable: Sequence,
    /// Frames before this position had left the queue.
    pub front: Position,
    /// The host's bytes.
    pub host_metadata: [u8; HOST_METADATA_BYTES],
    /// The host's log reached so far at least when anything in the tier was written: the largest position of
    /// a page that came in, or that the host named, since the tier was last empty.
    pub log: LogPosition,
}

impl Default for GroupSummary {
    /// An empty group that names no tier.
    fn default() -> Self {
        Self {
            tier_uuid: [0; 16],
            epoch: 0,
            sequence: Sequence::ZERO,
            position: Position::ZERO,
            predecessor: 0,
            pages: 0,
            records: 0,
            cut_short: false,
            durable: Sequence::ZERO,
            front: Position::ZERO,
            host_metadata: [0; HOST_METADATA_BYTES],
            log: LogPosition::default(),
        }
    }
}

impl GroupSummary {
    pub(super) fn show(&mut self, visitor: &mut impl Visitor) {
        let mut flags = if self.cut_short { FLAG_CUT_SHORT } else { 0 };
        visitor.always(0, SUMMARY_MAGIC);
        visitor.always(8, FORMAT_VERSION);
        visitor.field(12, &mut flags);
        visitor.field(16, &mut self.tier_uuid);
        visitor.field(32, &mut self.epoch);
        visitor.field(36, &mut self.pages);
        visitor.field(40, &mut self.records);
        visitor.field(44, &mut self.predecessor);
        visitor.field(48, &mut self.sequence);
        visitor.field(56, &mut self.position);
        visitor.field(64, &mut self.durable);
        visitor.field(72, &mut self.front);
        visitor.field(80, &mut self.host_metadata);
        visitor.field(272, &mut self.log.lsn);
        visitor.field(280, &mut self.log.timeline);
        self.cut_short = flags & FLAG_CUT_SHORT != 0;
    }

    /// The header for `records` (encoded one after the other) and the checksum of the summary.
    pub(crate) fn encode(&self, records: &[u8]) -> ([u8; SUMMARY_HEADER_BYTES], u32) {
        assert_eq!(records.len(), self.records as usize * RECORD_BYTES);
        assert!(
            Bound::Position.holds(&[self.position.number()])
                && Bound::Sequence.holds(&[self.sequence.number()])
        );
        let narrow = planted::is(Bug::SequencesNarrow);
        let sequence = self.sequence.number();
        let sequence = if narrow { sequence & u64::from(u32::MAX) } else { sequence };
        let sequence = Sequence::from_number(sequence);
        let mut out = [0; SUMMARY_HEADER_BYTES];
        Self { sequence, ..self.clone() }.show(&mut Writer::new(&mut out));
        let checksum = crc32c::crc32c_append(crc32c::crc32c(&out[..CHECKSUM_AT]), records);
        put_at(&mut out, CHECKSUM_AT, checksum);
        (out, checksum)
    }

    /// Reads a summary from the first frames of a group and returns it with its checksum.
    ///
    /// # Errors
    /// [`FormatError`] if the bytes are no summary, of a newer format, or damaged.
    pub fn decode(bytes: &[u8]) -> Result<(Self, u32), FormatError> {
        version_of(bytes, SUMMARY_MAGIC, SUMMARY_HEADER_BYTES)?;
        let mut summary = Self::default();
        summary.show(&mut Reader(bytes));
        let Self { epoch, pages, records, sequence, position, durable, front, .. } = summary;
        let room = (bytes.len() - SUMMARY_HEADER_BYTES) / RECORD_BYTES;
        if records as usize > room || pages > records {
            return Err(FormatError::Damaged("a group summary with impossible counts".into()));
        }
        let end = SUMMARY_HEADER_BYTES + records as usize * RECORD_BYTES;
        let computed =
            crc32c::crc32c_append(crc32c::crc32c(&bytes[..CHECKSUM_AT]), &bytes[SUMMARY_HEADER_BYTES..end]);
        if field_at::<u32>(bytes, CHECKSUM_AT) != computed {
            return Err(FormatError::Damaged("a group summary whose checksum does not match".into()));
        }
        let (sequences, positions) =
            (&[sequence.number(), durable.number()], &[position.number(), front.number()]);
        if !plausible(epoch, &[(Bound::Sequence, sequences), (Bound::Position, positions)]) {
            return Err(FormatError::Damaged("a group summary with impossible numbers".into()));
        }
        Ok((summary, computed))
    }

    /// The `index`th record of a summary that [`Self::decode`] accepted.
    pub fn record(bytes: &[u8], index: usize) -> Option<Record> {
        let at = SUMMARY_HEADER_BYTES + index * RECORD_BYTES;
        let mut record = [0; RECORD_BYTES];
        record.copy_from_slice(bytes.get(at..at + RECORD_BYTES)?);
        Record::decode(&record)
    }
}
