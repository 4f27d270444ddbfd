//! Memory that is borrowed as slices: which state keeps everybody else away meanwhile. All `unsafe` of the
//! crate is here, but for what declares the types of the region.

use crate::cache::Cache;
use crate::config::BLOCK_BYTES;
use crate::ids::WorkerNumber;

impl Cache {
    /// Bytes of the copy of a flight that is being written, from this place of the memory for copies on.
    pub(crate) fn copied_bytes(&self, at: usize, bytes: usize) -> &[u8] {
        // SAFETY: the memory is the flight's until its job is done (invariant 8), nothing is copied there
        // once it is queued, and only the one job that writes it comes here, which lives as long as the
        // slice and is taken back by this cache alone.
        unsafe { self.region.lease(self.geometry.layout.copies + at, bytes) }
    }

    /// A worker's buffer, for the one job that fills it, which is neither copied nor cloned.
    #[allow(clippy::mut_from_ref)]
    pub(crate) fn buffer_to_fill(&self, number: WorkerNumber) -> &mut [u8] {
        let (at, bytes) = self.buffer(number);
        // SAFETY: the worker's state makes the caller's job the only one that touches its buffer until it is
        // done, and the job is borrowed for as long as the slice lives.
        unsafe { self.region.lease_mut(at, bytes) }
    }

    /// A worker's buffer, for the one job that writes it.
    pub(crate) fn buffer_read(&self, number: WorkerNumber) -> &[u8] {
        let (at, bytes) = self.buffer(number);
        // SAFETY: the worker's state keeps jobs that fill the buffer away until this one is done.
        unsafe { self.region.lease(at, bytes) }
    }

    /// Where in the region a worker's buffer lies, and what of it its fragment takes.
    fn buffer(&self, number: WorkerNumber) -> (usize, usize) {
        let whole = self.geometry.config().fragment_bytes as usize;
        let blocks = self.geometry.blocks_of(self.populating(number).0);
        (self.geometry.layout.population + number.0 as usize * whole, blocks as usize * BLOCK_BYTES as usize)
    }
}
