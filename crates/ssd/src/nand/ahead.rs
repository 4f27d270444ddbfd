//! What is fetched from memory before it is needed. Nothing but the time that the computation takes depends
//! on it.

use mezzanine_ground::region::prefetch;

use super::{Array, BlockState};

impl Array<'_> {
    /// Has what is known of a unit's block come into the processor's cache, soon to be needed.
    #[inline]
    pub(crate) fn prefetch_unit(&self, unit: u32) {
        prefetch(&self.vouched[unit as usize / 64]);
        prefetch(&self.blocks[self.block_of(unit) as usize]);
    }

    /// Has the lists that a unit's block is in come into the processor's cache, which is here already.
    #[inline]
    pub(crate) fn prefetch_lists(&self, unit: u32) {
        let number = self.block_of(unit);
        let block = &self.blocks[number as usize];
        if block.state == BlockState::Closed as u32 {
            prefetch(&self.heads[self.head(self.geometry.plane_of(number), block.valid)]);
            // Of a block that has no neighbour itself.
            prefetch(&self.blocks[block.previous.saturating_sub(1) as usize]);
            prefetch(&self.blocks[block.next.saturating_sub(1) as usize]);
        }
    }

    /// Has the owner of a unit, and of those beside it, come into the processor's cache.
    #[inline]
    pub(crate) fn prefetch_owner(&self, unit: u32) {
        prefetch(&self.spare[unit as usize]);
    }

    /// Has the owners of a block's units come into the processor's cache.
    pub(crate) fn prefetch_spare(&self, block: u32) {
        /// Words of a line of the processor's cache.
        const LINE: usize = 16;
        let first = (block * self.geometry.units_per_block()) as usize;
        let spare = &self.spare[first..first + self.geometry.units_per_block() as usize];
        spare.iter().step_by(LINE).for_each(prefetch);
    }
}
