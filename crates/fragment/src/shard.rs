//! The fragment table: where each fragment of the volumes is (section 3.4 of the paper).
//!
//! One entry of 32 bits for each. Its highest bit says whether the fragment is in the cache. If it is, the
//! rest is the number of its slot. If not, the rest counts the parts of writes and discards to it that
//! the backing device has not answered: as long as there are any, it is not populated (invariant 4).
//!
//! A fragment's entry, its slot's descriptor and its flights change under the lock of its shard.

use mezzanine_ground::lock::{Guard, RegionLock};

use crate::cache::{Cache, OWNER};
use crate::descriptor::{Descriptor, Recorded, SlotState};
use crate::ids::{Fragment, Slot};
use crate::map::Because;
use crate::planted::{self, Bug};
use crate::small::Small;
use crate::validity::Validity;

const IN_CACHE: u32 = 1 << 31;

/// A lock in a cache line of its own.
#[repr(C, align(64))]
pub(crate) struct Shard {
    lock: RegionLock,
}
const _: () = assert!(size_of::<Shard>() == 64);

/// An entry of the table.
#[repr(transparent)]
pub(crate) struct Entry(Small);
const _: () = assert!(size_of::<Entry>() == 4, "the paper's table");

/// Where a fragment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// On its volume alone.
    Absent {
        /// Parts of writes and discards that have not ended.
        writes: u32,
    },
    /// In the cache, or on its way there.
    At(Slot),
}

impl Entry {
    pub(crate) fn place(&self) -> Place {
        let value = self.0.get();
        match value & IN_CACHE {
            0 => Place::Absent { writes: value },
            _ => Place::At(Slot(value & !IN_CACHE)),
        }
    }

    fn set(&self, place: Place) {
        let value = match place {
            Place::Absent { writes } => writes,
            Place::At(slot) => slot.0,
        };
        assert!(value < IN_CACHE, "a count of what is under way fits an entry");
        self.0.set(if matches!(place, Place::At(_)) { value | IN_CACHE } else { value });
    }
}

/// A fragment under the lock of its shard.
pub(crate) struct Locked<'c> {
    cache: &'c Cache,
    fragment: Fragment,
    entry: &'c Entry,
    _guard: Guard<'c>,
}

impl Cache {
    pub(crate) fn lock(&self, fragment: Fragment) -> Locked<'_> {
        let shard = fragment.0 & (self.geometry.config().shards - 1);
        let shard: &Shard = self.region.at(shard as usize).expect("laid out when the cache was made");
        let guard = shard.lock.lock(OWNER);
        Locked { cache: self, fragment, entry: self.entry(fragment), _guard: guard }
    }

    pub(crate) fn entry(&self, fragment: Fragment) -> &Entry {
        self.region.at(fragment.0 as usize).expect("a fragment of the volumes")
    }

    pub(crate) fn descriptor(&self, slot: Slot) -> &Descriptor {
        self.region.at(slot.0 as usize).expect("a slot of the cache")
    }

    pub(crate) fn validity(&self, slot: Slot) -> Validity<'_> {
        let words = self.geometry.validity_words();
        let at = self.geometry.layout.validity + slot.0 as usize * words * size_of::<u64>();
        Validity(self.region.slice(at, words))
    }
}

impl<'c> Locked<'c> {
    pub(crate) fn place(&self) -> Place {
        self.entry.place()
    }

    /// The slot and descriptor of a fragment that is in the cache.
    pub(crate) fn cached(&self) -> Option<(Slot, &'c Descriptor)> {
        match self.place() {
            Place::At(slot) => {
                let descriptor = self.cache.descriptor(slot);
                assert_eq!(
                    descriptor.fragment(),
                    Some(self.fragment),
                    "invariant 1: table and descriptors agree"
                );
                (descriptor.state() == SlotState::Cached).then_some((slot, descriptor))
            }
            Place::Absent { .. } => None,
        }
    }

    /// A part of a write to a fragment begins (`by` 1) or ends (-1) that is not in the cache.
    pub(crate) fn count_absent(&self, writes: u32, by: i32) {
        let writes = writes.checked_add_signed(by).expect("what ends has begun");
        self.entry.set(Place::Absent { writes });
    }

    /// Gives the fragment, which nobody writes to, a free slot.
    pub(crate) fn map(&self, slot: Slot) {
        let descriptor = self.cache.descriptor(slot);
        assert_eq!(descriptor.state(), SlotState::Free, "invariant 6: a slot is one fragment's");
        assert!(
            slot.0 < self.cache.slots_limit() || planted::is(Bug::SlotBehindLimit),
            "invariant 17: nothing comes in behind the limit"
        );
        let Place::Absent { writes } = self.place() else {
            panic!("invariant 1: a fragment has one slot");
        };
        assert!(
            writes == 0 || planted::is(Bug::PopulationBesideWrites),
            "invariant 4: nobody writes to a fragment whose population begins"
        );
        assert_eq!(descriptor.recorded(), Recorded::Unstable, "invariant 10: a slot's record goes first");
        descriptor.writes.set(writes);
        descriptor.untracked.set(writes);
        assert!(!self.cache.validity(slot).any(0..self.cache.geometry.fragment_blocks()));
        descriptor.set_state(SlotState::Populating);
        descriptor.set_fragment(Some(self.fragment));
        descriptor.incarnation.bump(1);
        descriptor.begin_references();
        descriptor.set_pace(0);
        self.cache.count_unstable(slot, 1);
        self.entry.set(Place::At(slot));
    }

    /// Gives the fragment the slot in which a record says that it is, stable and with these blocks.
    pub(crate) fn restore(&self, slot: Slot) {
        let descriptor = self.cache.descriptor(slot);
        descriptor.set_state(SlotState::Cached);
        descriptor.set_recorded(Recorded::Stable);
        descriptor.set_named(true);
        descriptor.set_fragment(Some(self.fragment));
        descriptor.begin_references();
        self.entry.set(Place::At(slot));
    }

    /// Takes back [`Self::restore`]: another record says the same of another slot.
    pub(crate) fn unrestore(&self, slot: Slot) {
        let descriptor = self.cache.descriptor(slot);
        self.cache.validity(slot).clear(0..self.cache.geometry.fragment_blocks());
        descriptor.set_state(SlotState::Free);
        descriptor.set_fragment(None);
        self.entry.set(Place::Absent { writes: 0 });
    }

    /// Has the fragment leave that nobody uses: now, or, if its record counts, as soon as that does not any
    /// more (invariant 10). Whether it is gone.
    pub(crate) fn leave(&self, slot: Slot) -> bool {
        let descriptor = self.cache.descriptor(slot);
        if descriptor.recorded() != Recorded::Unstable {
            if !planted::is(Bug::LeavesBeforeRecord) {
                descriptor.set_leaving(true);
                self.cache.want_unstable(slot, descriptor, Because::Leaves);
                return false;
            }
            if descriptor.recorded() == Recorded::Stable {
                self.cache.count_unstable(slot, 1);
            }
            descriptor.set_recorded(Recorded::Unstable);
        }
        self.unmap(slot);
        true
    }

    /// Takes the slot from the fragment. Nothing may be on its way into the slot.
    pub(crate) fn unmap(&self, slot: Slot) {
        self.separate(slot);
        self.cache.lock_pools().give_slot(slot);
    }

    /// The same, where the cache device has refused the fragment.
    pub(crate) fn unmap_refused(&self, slot: Slot) {
        self.separate(slot);
        let pools = self.cache.lock_pools();
        if planted::is(Bug::RefusedSlotFree) { pools.give_slot(slot) } else { pools.retire_slot(slot) }
    }

    fn separate(&self, slot: Slot) {
        let descriptor = self.cache.descriptor(slot);
        assert_eq!(self.place(), Place::At(slot), "invariant 1: table and descriptors agree");
        assert_eq!(descriptor.recorded(), Recorded::Unstable, "invariant 10: its record goes first");
        self.cache.count_unstable(slot, -1);
        self.cache.validity(slot).clear(0..self.cache.geometry.fragment_blocks());
        // Those who write to the fragment now end when it is elsewhere.
        self.entry.set(Place::Absent { writes: descriptor.writes.get() });
        descriptor.writes.set(0);
        descriptor.untracked.set(0);
        descriptor.incarnation.bump(1);
        descriptor.set_fragment(None);
        descriptor.set_state(SlotState::Free);
        self.cache.vacated(slot, descriptor);
    }

    /// A fragment without a valid block, to which nobody writes, leaves: its slot is of use to others, and on
    /// the next miss it is a candidate again.
    pub(crate) fn leave_if_empty(&self) {
        let Some((slot, descriptor)) = self.cached() else {
            return;
        };
        let blocks = 0..self.cache.geometry.fragment_blocks();
        let is_empty = !descriptor.is_used() && !self.cache.validity(slot).any(blocks);
        if is_empty && !descriptor.is_leaving() {
            self.cache.counters().fragments_emptied.count(1);
            self.leave(slot);
        }
    }
}
