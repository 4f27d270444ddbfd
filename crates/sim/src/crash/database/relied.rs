//! What the last checkpoint relied on: groups that were durable when the tier had been synced for it. Redo
//! has nothing from before it, so a tier that is adopted without one of them, and without a word, has lost
//! pages for good, whatever harm was done to flash.

use mezzanine_engine::Sequence;
use mezzanine_engine::format::Superblock;

use super::log::Lsn;
use crate::crash::driver::{Invariant, Stop};

/// The groups of a tier that a checkpoint relies on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Relied {
    tier_uuid: [u8; 16],
    origin_epoch: u32,
    redo: Lsn,
    /// Those before this one.
    groups: Sequence,
}

impl Relied {
    /// Of a checkpoint with this redo pointer that had this many groups synced. Where slots say themselves
    /// what lies in them, groups are no more than what is written together.
    pub(crate) fn on(superblock: &Superblock, groups: Sequence, redo: Lsn) -> Self {
        let Superblock { tier_uuid, origin_epoch, .. } = *superblock;
        let groups = if superblock.config.design.has_slots() { Sequence::ZERO } else { groups };
        Self { tier_uuid, origin_epoch, redo, groups }
    }

    /// The tier was adopted, with this superblock, by a database whose redo begins there. One that was
    /// emptied, or made anew, has a later origin.
    pub(crate) fn judge(&self, adopted: &Superblock, redo: Lsn) -> Result<(), Stop> {
        let same = (adopted.tier_uuid, adopted.origin_epoch) == (self.tier_uuid, self.origin_epoch);
        if !same || redo != self.redo || adopted.epoch_sequence >= self.groups {
            return Ok(());
        }
        let (groups, found) = (self.groups, adopted.epoch_sequence);
        let text = format!("the checkpoint of {redo} relied on {groups} groups, and {found} were adopted");
        Err(Stop::violated(Invariant::DamageNoticed, text))
    }
}
