//! Whether everything that has to hold of an array does.

use super::{Array, BlockState};

impl Array<'_> {
    /// Looks at the whole array, and says what does not hold (N1 to N3). `vouched` says of a unit whether its
    /// owner vouches for it.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn check(&self, vouched: impl Fn(u32) -> bool) -> Result<(), String> {
        let mut listed = vec![0_u32; self.blocks.len()];
        for plane in 0..self.geometry.planes() {
            let (mut at, mut count) = (self.planes[plane as usize].erased_head, 0);
            while let Some(block) = at.checked_sub(1) {
                listed[block as usize] += 1;
                count += 1;
                at = self.blocks[block as usize].next;
                if count > self.geometry.blocks_per_plane || self.state(block) != BlockState::Erased {
                    return Err(format!("N2: the erased blocks of plane {plane} are no list"));
                }
            }
            if count != self.erased(plane) {
                return Err(format!("N2: plane {plane} has {count} erased blocks, and counts otherwise"));
            }
            for valid in 0..=self.geometry.units_per_block() {
                let mut at = self.heads[self.head(plane, valid)];
                while let Some(block) = at.checked_sub(1) {
                    listed[block as usize] += 1;
                    let found = &self.blocks[block as usize];
                    if found.valid != valid
                        || listed[block as usize] > 1
                        || self.state(block) != BlockState::Closed
                    {
                        return Err(format!("N2: block {block} is in a list where it does not belong"));
                    }
                    at = found.next;
                }
            }
        }
        for block in 0..self.blocks.len() as u32 {
            let found = &self.blocks[block as usize];
            let is_listed = matches!(self.state(block), BlockState::Erased | BlockState::Closed);
            if listed[block as usize] != u32::from(is_listed) {
                return Err(format!(
                    "N2: block {block} is {:?} and in no list or too many",
                    self.state(block)
                ));
            }
            let first = block * self.geometry.units_per_block();
            let bit = |unit: &u32| self.next_valid(*unit, unit + 1).is_some();
            if let Some(unit) =
                (first..first + self.geometry.units_per_block()).find(|unit| vouched(*unit) != bit(unit))
            {
                return Err(format!(
                    "N3: unit {unit} is vouched for: {}, and marked otherwise",
                    vouched(unit)
                ));
            }
            let valid = (first..first + found.written).filter(bit).count() as u32;
            if found.written > self.geometry.units_per_block() || valid != found.valid {
                return Err(format!("N3: block {block} has {valid} valid units and counts {}", found.valid));
            }
        }
        Ok(())
    }
}
