//! Records of slots that nothing lies in any more: they do not count, and name what has left. After a crash
//! that would be taken for what the crash has cost ([`Recovered::unstable`](crate::Recovered)). So the sweep
//! has them written over, without haste: a slot that another fragment has come into by then needs that not.

use std::ops::Range;

use super::VACATED;
use crate::cache::Cache;
use crate::descriptor::{Descriptor, SlotState};
use crate::ids::Slot;

impl Cache {
    /// A slot is free.
    pub(crate) fn vacated(&self, slot: Slot, descriptor: &Descriptor) {
        if !descriptor.is_named() {
            return;
        }
        let map = self.lock_map();
        let flags = &self.map_block(slot.0 / self.geometry.records_per_block()).flags;
        if flags.get() & VACATED == 0 {
            flags.set(flags.get() | VACATED);
            map.map.vacated.raise(1);
        }
        if map.map.quiescing.get() == 1 {
            map.map.sweep.set(0);
        }
        drop(map);
        self.control().work.add(1);
    }

    /// Has a block of the map be written if it names what has left these slots, which are its own.
    pub(super) fn sweep_vacant(&self, number: u32, mut slots: Range<u32>) {
        let flags = &self.map_block(number).flags;
        if flags.get() & VACATED == 0 {
            return;
        }
        let map = self.lock_map();
        // Somebody else may have been faster.
        if flags.get() & VACATED != 0 {
            flags.set(flags.get() & !VACATED);
            map.map.vacated.lower(1);
        }
        drop(map);
        let names_what_has_left = |slot: u32| {
            let descriptor = self.descriptor(Slot(slot));
            let is_vacant = matches!(descriptor.state(), SlotState::Free | SlotState::Retired);
            is_vacant && descriptor.is_named()
        };
        // Who writes it takes all of its records as they are then.
        if let Some(slot) = slots.find(|&slot| names_what_has_left(slot)) {
            self.request_record(Slot(slot), false);
        }
    }
}
