//! What recovery will ask for is read together, as far as it can be told: the next groups lie where full ones
//! would, or, where syncs have ended them early, close by; the metadata segments each in its slot, headers
//! first, and then their records, some segments at a time. A device answers many reads at once nearly as fast
//! as one, and a long read nearly as fast as a short one.
//!
//! Reading ahead decides nothing. A read that is asked for finds the bytes here or goes to the device, once
//! each: what is read again, since it was wrong, does. Of what could not be read nothing is kept, so whoever
//! asks finds out with all patience (see `patient`).

use std::collections::HashMap;

use super::Scan;
use crate::format::{SUMMARY_MAGIC, SegmentHeader};
use crate::planted::{self, Bug};

/// Places that are read together at most.
pub(super) const TOGETHER_MAX: usize = 32;

/// Bytes of metadata segments that are read together at most: enough for every channel of a drive.
const SEGMENT_BYTES_TOGETHER: usize = 8 << 20;

/// Bytes that are kept at most. Of a longer chain of groups the rest is read once more.
const KEPT_BYTES_MAX: usize = 16 << 20;

/// What was read before it was asked for, by its byte offset on the device.
#[derive(Default)]
pub(super) struct Ahead {
    kept: HashMap<u64, Vec<u8>>,
    /// A long read has failed: each one more might cost what a device takes to give up.
    long_failed: bool,
}

impl Ahead {
    /// Fills `bytes` if exactly so many were read ahead from this offset on, and forgets them.
    pub(super) fn take(&mut self, offset: u64, bytes: &mut [u8]) -> bool {
        match self.kept.remove(&offset) {
            Some(kept) if kept.len() == bytes.len() => {
                bytes.copy_from_slice(&kept);
                true
            }
            _ => false,
        }
    }

    /// Keeps what was asked for once and will be again, as long as there is not too much of it.
    pub(super) fn keep(&mut self, offset: u64, bytes: &[u8]) {
        if self.kept.len() < KEPT_BYTES_MAX / bytes.len() {
            self.kept.insert(offset, bytes.to_vec());
        }
    }

    pub(super) fn has(&self, offset: u64) -> bool {
        self.kept.contains_key(&offset)
    }
}

impl Scan<'_, '_> {
    /// Reads so many bytes at each of these offsets together. A single one is read when it is asked for.
    pub(super) fn read_ahead(&mut self, offsets: &[u64], len: usize) {
        self.read_ahead_and_near(offsets, len, 1);
    }

    /// [`Self::read_ahead`], and from the first offset on so many pieces of that length, of which those are
    /// kept that begin as a group does.
    pub(super) fn read_ahead_and_near(&mut self, offsets: &[u64], len: usize, pieces: usize) {
        if offsets.len() < 2 {
            return;
        }
        let pieces = if self.ahead.long_failed { 1 } else { pieces.max(1) };
        let len_of = |index: usize| if index == 0 { pieces * len } else { len };
        let mut reads: Vec<(u64, Vec<u8>)> =
            offsets.iter().enumerate().map(|(index, offset)| (*offset, vec![0; len_of(index)])).collect();
        let results = self.flash.read_many(&mut reads);
        self.report.bytes_read += reads.iter().map(|(_, bytes)| bytes.len() as u64).sum::<u64>();
        for (index, ((offset, bytes), result)) in reads.into_iter().zip(results).enumerate() {
            match result {
                Ok(()) if bytes.len() == len => drop(self.ahead.kept.insert(offset, bytes)),
                Ok(()) => {
                    let places = bytes.chunks_exact(len).zip((offset..).step_by(len));
                    let groups =
                        places.filter(|(piece, at)| *at == offset || piece.starts_with(&SUMMARY_MAGIC));
                    self.ahead.kept.extend(groups.map(|(piece, at)| (at, piece.to_vec())));
                }
                Err(_) => self.ahead.long_failed |= index == 0 && pieces > 1,
            }
        }
    }

    /// Of these segments so many that are read together, each with one request: the first, and more as long
    /// as they are not too many bytes.
    pub(super) fn together<'h>(&self, segments: &'h [SegmentHeader]) -> &'h [SegmentHeader] {
        if planted::is(Bug::SegmentsReadAlone) {
            return &segments[..1];
        }
        let mut bytes = 0;
        let more = segments.iter().take(TOGETHER_MAX).take_while(|header| {
            bytes += padded(header.records_bytes());
            bytes <= SEGMENT_BYTES_TOGETHER
        });
        &segments[..more.count().max(1).min(segments.len())]
    }

    /// Reads the records of these segments together.
    pub(super) fn read_records_ahead(&mut self, segments: &[SegmentHeader]) {
        let reads = segments.iter().map(|header| (self.records_at(header), padded(header.records_bytes())));
        let reads = reads.filter(|(offset, _)| !self.ahead.has(*offset)).collect();
        self.read_each_ahead(reads);
    }

    /// Reads the reference bits of these segments together.
    pub(super) fn read_references_ahead(&mut self, segments: &[SegmentHeader]) {
        let reads =
            segments.iter().map(|header| (self.references_at(header), padded(header.share_bytes() as u64)));
        let reads = reads.collect();
        self.read_each_ahead(reads);
    }

    fn read_each_ahead(&mut self, reads: Vec<(u64, usize)>) {
        if reads.len() < 2 {
            return;
        }
        let mut reads: Vec<(u64, Vec<u8>)> =
            reads.into_iter().map(|(offset, len)| (offset, vec![0; len])).collect();
        let results = self.flash.read_many(&mut reads);
        self.report.bytes_read += reads.iter().map(|(_, bytes)| bytes.len() as u64).sum::<u64>();
        let read = reads.into_iter().zip(results).filter(|(_, result)| result.is_ok());
        self.ahead.kept.extend(read.map(|(read, _)| read));
    }
}

/// Bytes are read in whole blocks.
pub(super) fn padded(bytes: u64) -> usize {
    (bytes as usize).next_multiple_of(4096)
}
