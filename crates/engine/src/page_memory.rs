//! Page memory that is borrowed as slices: which state keeps everybody else away meanwhile. All `unsafe` of
//! the crate is here, but for what declares the types of the region.

use mezzanine_ground::region::Region;

use crate::core::Tier;

impl Tier {
    /// Bytes of a group in staging memory that is sealed and filled.
    pub(crate) fn staged_bytes(&self, memory: usize, bytes: usize) -> &[u8] {
        // SAFETY: nothing is copied into a group once it is filled, but a header before these bytes, until it
        // has been flushed and retired; and only the one job that writes it comes here.
        unsafe { self.region.lease(memory, bytes) }
    }

    /// Bytes of a segment buffer that is full.
    pub(crate) fn buffered_segment(&self, memory: usize, bytes: usize) -> &[u8] {
        // SAFETY: a full buffer is taken by no record until it has been written, and only the one job that
        // writes it completes its header, before it is handed out.
        unsafe { self.region.lease(memory, bytes) }
    }

    /// What was read into the batch's buffer, from this place on.
    pub(crate) fn batch_bytes(&self, place: u64, bytes: usize) -> &[u8] {
        // SAFETY: there is one batch at a time, and its state says who reads, looks at or writes it: the
        // buffer is filled by the one job that reads, and by nobody until the batch has ended.
        unsafe { self.region.lease(self.batch_memory(place), bytes) }
    }

    /// A part of the batch's buffer for the one job that reads the front to fill, which is neither copied nor
    /// cloned. No lookup goes there.
    #[allow(clippy::mut_from_ref)]
    pub(crate) fn batch_to_fill(&self, memory: usize, bytes: usize) -> &mut [u8] {
        // SAFETY: the batch's state makes the caller the only one who touches these bytes until the job is
        // completed, and the parts that one job fills do not overlap.
        unsafe { self.region.lease_mut(memory, bytes) }
    }
}

/// Bytes of slot blocks that the job has in hand.
pub(crate) fn slot_blocks(region: &Region, memory: usize, bytes: usize) -> &[u8] {
    // SAFETY: blocks are copied into the buffer before the job that writes them is handed out, and into the
    // same place not before that is completed.
    unsafe { region.lease(memory, bytes) }
}
