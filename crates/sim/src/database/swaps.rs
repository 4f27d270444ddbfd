//! Another flash device in the place of the right one: lost, empty, older, or another database's.
//!
//! Invariant checked: `known-tier`. Where disk and log suffice the database goes on without the tier; where
//! they do not, it refuses to start with anything but the right tier, or one that knows its redo pointer.

use mezzanine_engine::format::{SUPERBLOCK_BYTES, SUPERBLOCK_OFFSETS, Superblock};

use super::world::{Stop, World};
use crate::crash::report::Invariant;

impl World {
    /// After a power cut, now and then.
    pub(super) fn swap_flash(&mut self) {
        let expendable = self.machine.control.read().disk_suffices;
        let wanted = if self.scenario.swaps { 4 } else { 1 };
        if self.swapped.is_some() || !(expendable || self.scenario.swaps) || !self.random.chance(wanted, 16) {
            return;
        }
        let mut image = self.machine.flash.image();
        // Where the database starts without it, the right one is never put back.
        let right = if expendable { Vec::new() } else { image.clone() };
        match self.random.below(if self.scenario.swaps { 8 } else { 3 }) {
            0 => image.fill(0),
            1 => image
                .chunks_exact_mut(8)
                .for_each(|word| word.copy_from_slice(&self.random.next_u64().to_le_bytes())),
            2 => SUPERBLOCK_OFFSETS
                .iter()
                .for_each(|offset| image[*offset as usize..][..SUPERBLOCK_BYTES].fill(0)),
            3 => rename_tier(&mut image),
            _ => match self.older_flash.take() {
                Some(older) => image = older,
                None => {
                    self.older_flash = Some(image);
                    return;
                }
            },
        }
        self.machine.flash.load(&image);
        self.swapped = Some(right);
        self.coverage.flash_losses += 1;
        self.trace(|| "another flash device lies in the slot".to_owned());
    }

    /// The database did not start.
    pub(super) fn refused(&mut self, reason: String) -> Result<(), Stop> {
        let Some(right) = self.swapped.take() else {
            return Err(Stop::violated(
                Invariant::KnownTier,
                format!("the right tier was refused: {reason}"),
            ));
        };
        self.trace(|| format!("refused: {reason}"));
        self.machine.flash.load(&right);
        self.machine.power.restore();
        self.coverage.tiers_refused += 1;
        Ok(())
    }
}

/// Makes both superblocks those of another tier.
fn rename_tier(image: &mut [u8]) {
    for offset in SUPERBLOCK_OFFSETS {
        let bytes = &mut image[offset as usize..][..SUPERBLOCK_BYTES];
        if let Ok(superblock) = Superblock::decode(bytes) {
            let other = Superblock { tier_uuid: [0xAA; 16], ..superblock };
            bytes.copy_from_slice(&other.encode());
        }
    }
}
