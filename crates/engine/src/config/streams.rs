//! Which stream of a drive a write of the tier belongs to.
//!
//! Drives with write streams keep what comes in one of them in erase blocks of their own (NVMe: streams, or
//! placement handles of flexible data placement). A block of the queue is then emptied as a whole when the
//! front comes round, a block of metadata when the segments do, and neither holds a page of the other back.

use super::geometry::{Geometry, SEGMENTS_OFFSET};

/// What nobody has told apart: superblocks, and what others write to the drive.
const OTHER: u8 = 0;
const QUEUE: u8 = 1;
const METADATA: u8 = 2;

impl Geometry {
    /// The stream for what is written at this byte of flash: 0 of what changes rarely and for what others
    /// write to the drive, 1 of the queue, 2 of its metadata (segments; the journal and the slots of designs
    /// that write in place). A drive that has fewer keeps the last ones together.
    pub fn stream_at(&self, offset: u64) -> u8 {
        match offset {
            offset if offset >= self.frames_offset => QUEUE,
            offset if offset >= SEGMENTS_OFFSET => METADATA,
            _ => OTHER,
        }
    }
}
