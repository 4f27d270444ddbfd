//! What is in the cache is not used any more: of a volume, of all, or of the cache device itself.

use std::ops::Range;

use crate::cache::Cache;
use crate::descriptor::SlotState;
use crate::geometry::RequestError;
use crate::ids::{Fragment, Slot};
use crate::map::{Because, Health};
use crate::planted::{self, Bug};
use crate::shard::Place;

impl Cache {
    /// Has all of a volume leave: its backing device was changed by somebody else, or may have lost what it
    /// had acknowledged. Nothing that is in the cache now is read any more; writes that are under way are not
    /// touched. No crash brings anything back when [`Cache::marks_durable`] has reached the number that is
    /// returned.
    ///
    /// # Errors
    /// If there is no such volume.
    pub fn forget(&self, volume: usize) -> Result<u64, RequestError> {
        self.geometry.check_request(volume, 0, 0)?;
        Ok(self.leave(self.geometry.fragments_of(volume)))
    }

    /// The same, of all volumes.
    pub fn invalidate_all(&self) -> u64 {
        self.leave(0..self.geometry.fragments())
    }

    fn leave(&self, fragments: Range<u32>) -> u64 {
        let all = (0..self.geometry.slots()).map(Slot);
        all.map(|slot| match self.descriptor(slot).fragment() {
            Some(fragment) if fragments.contains(&fragment.0) => self.leave_slot(slot, fragment),
            _ => 0,
        })
        .fold(0, u64::max)
    }

    fn leave_slot(&self, slot: Slot, fragment: Fragment) -> u64 {
        let locked = self.lock(fragment);
        if locked.place() != Place::At(slot) {
            // What comes in from now on is read after the call has begun.
            return 0;
        }
        let (descriptor, validity) = (self.descriptor(slot), self.validity(slot));
        if descriptor.state() == SlotState::Populating {
            // As if all of it had been written to: nothing is left to populate.
            descriptor.version.bump(1);
            validity.set(0..self.geometry.blocks_of(fragment));
            return 0;
        }
        let blocks = 0..self.geometry.fragment_blocks();
        descriptor.incarnation.bump(1);
        self.supersede(descriptor, &blocks);
        validity.clear(blocks);
        let number = self.want_unstable(slot, descriptor, Because::Leaves);
        locked.leave_if_empty();
        number
    }

    /// The cache device has failed, or does not answer: from now on everything goes to the backing devices,
    /// and nothing that the cache has is used. Whoever waits for a mark waits no longer. There is no way
    /// back but a new cache, over a superblock with another id
    /// ([`Superblock::reinitialised`](crate::format::Superblock::reinitialised)).
    ///
    /// The map on the device still says what it said, and what is written now makes that wrong. So the host
    /// has noted before, durably and not on the cache device, that the cache with this id is void, and never
    /// opens it again. One that has no place for such a note does not call this, and has those writes wait
    /// that wait for marks.
    pub fn go_offline(&self) {
        self.set_health(Health::Offline);
        self.control().work.add(1);
    }

    /// Whether what is asked for goes past the cache since that is offline.
    pub(crate) fn goes_past(&self) -> bool {
        self.is_offline() && !planted::is(Bug::OfflineRead)
    }
}
