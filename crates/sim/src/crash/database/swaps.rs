//! Another flash device in the place of the right one: lost, empty, older, or another database's.
//!
//! Invariant checked: `known-tier`. Where disk and log suffice the database goes on without the tier; where
//! they do not, it refuses to start with anything but the right tier, or one that knows its redo pointer.

use mezzanine_device::memory::Image;

use super::checkpoint::redo_point;
use super::scenario::Tearing;
use super::world::World;
use crate::crash::driver::harm::{each_superblock, newest_superblock, rename_tier};
use crate::crash::driver::{Invariant, Stop};

impl World {
    /// After a power cut, now and then.
    pub(super) fn swap_flash(&mut self) {
        let expendable = self.machine.control.read().disk_suffices;
        let wanted = if self.scenario.swaps { 4 } else { 1 };
        if self.swapped.is_some()
            || !(expendable || self.scenario.swaps)
            || !self.life.random.chance(wanted, 16)
        {
            return;
        }
        let mut image = self.machine.flash.snapshot();
        // Where the database starts without it, the right one is never put back.
        let right = if expendable { Image::default() } else { image.clone() };
        match self.life.random.below(if self.scenario.swaps { 8 } else { 3 }) {
            0 => image = Image::zeroed(image.len()),
            1 => {
                let mut rubbish = image.to_vec();
                let words = rubbish.chunks_exact_mut(8);
                words.for_each(|word| word.copy_from_slice(&self.life.random.next_u64().to_le_bytes()));
                image = Image::from(&rubbish[..]);
            }
            2 => each_superblock(&mut image, |bytes| bytes.fill(0)),
            3 => each_superblock(&mut image, rename_tier),
            _ => match self.older_flash.take() {
                // The redo pointer does not tell it from the right one, and redo does not mend what the power
                // has torn on disk since. A server tells such devices apart by its sessions, which this one
                // does not draw (`crate::crash::server`).
                Some(older) if self.scenario.tearing == Tearing::TierAlone && self.knows_redo(&older) => {
                    return;
                }
                Some(older) => image = older,
                None => {
                    self.older_flash = Some(image);
                    return;
                }
            },
        }
        self.machine.flash.put_back(&image);
        self.swapped = Some(right);
        self.life.coverage.flash_losses += 1;
        self.life.tell(|| "another flash device lies in the slot".to_owned());
    }

    /// Whether the tier on this device is one that the control file fits.
    fn knows_redo(&self, flash: &Image) -> bool {
        let redo = redo_point(self.machine.control.read().redo);
        newest_superblock(flash).is_some_and(|superblock| superblock.knows(redo))
    }

    /// The database did not start.
    pub(super) fn refused(&mut self, reason: String) -> Result<(), Stop> {
        let Some(right) = self.swapped.take() else {
            return Err(Stop::violated(
                Invariant::KnownTier,
                format!("the right tier was refused: {reason}"),
            ));
        };
        self.life.tell(|| format!("refused: {reason}"));
        self.machine.flash.put_back(&right);
        self.machine.power.restore();
        self.life.coverage.tiers_refused += 1;
        Ok(())
    }
}
