//! Pages that are programmed.

use super::{Array, BlockState};

impl Array<'_> {
    /// Programs the next page of an open block with units of these owners, none of which is 0; if they are
    /// fewer than a page has, the last ones are padding. Returns the first unit, and whether the block is
    /// full and was closed.
    ///
    /// # Panics
    /// If the block is not open (N1), or there are more of them than a page has.
    #[inline]
    pub fn program(&mut self, block: u32, owners: &[u32]) -> (u32, bool) {
        let unit = self.begin_page(block);
        for (index, owner) in owners.iter().enumerate() {
            self.put(unit + index as u32, *owner);
        }
        (unit, self.end_page(block, unit, owners.len() as u32))
    }

    /// Begins the next page of an open block. Returns the first of its units. To be followed by
    /// [`Self::put`] for each that is used, and [`Self::end_page`].
    ///
    /// # Panics
    /// If the block is not open (N1).
    #[inline]
    pub(crate) fn begin_page(&mut self, block: u32) -> u32 {
        let per_block = self.geometry.units_per_block();
        let programmed = &mut self.blocks[block as usize];
        assert!(
            programmed.state == BlockState::Open as u32 && programmed.written < per_block,
            "N1: block {block} is programmed and not open"
        );
        let unit = block * per_block + programmed.written;
        programmed.written += self.geometry.units_per_page();
        unit
    }

    /// Writes the spare area of a unit of the page that was begun.
    #[inline]
    pub(crate) fn put(&mut self, unit: u32, owner: u32) {
        debug_assert!(owner != 0, "what is programmed is somebody's");
        self.spare[unit as usize] = owner;
    }

    /// Ends the page of a block that was begun with this unit, of which so many are used. Returns whether the
    /// block is full and was closed.
    ///
    /// # Panics
    /// If they are more than a page has.
    #[inline]
    pub(crate) fn end_page(&mut self, block: u32, unit: u32, used: u32) -> bool {
        let per_page = self.geometry.units_per_page();
        if used != per_page {
            self.spare[(unit + used) as usize..(unit + per_page) as usize].fill(0);
        }
        let bits = (1_u64 << used) - 1;
        let (word, within) = (unit as usize / 64, unit % 64);
        self.vouched[word] |= bits << within;
        if within + used > 64 {
            self.vouched[word + 1] |= bits >> (64 - within);
        }
        let programmed = &mut self.blocks[block as usize];
        programmed.valid += used;
        let full = programmed.written == self.geometry.units_per_block();
        if full {
            self.close(block);
        }
        full
    }
}
