//! Ranges that are being forgotten.
//!
//! A range is forgotten in two steps: its tombstone is appended, then its pages are unlinked one by one, each
//! under its shard's lock. In between, the tier and what would be found after a crash differ. So each such
//! range is noted with its owner:
//! - if the owner dies, whoever abandons it unlinks the rest (invariant 12): the range is forgotten as a
//!   whole or not at all;
//! - a page of the range gets no second chance meanwhile: its record would follow the tombstone in the queue
//!   and bring the page back (invariant 6).

use crate::answers::NoRoom;
use crate::core::Tier;
use crate::directory::VALID;
use crate::forget::dropping::RANGE_LOOKUPS_MAX;
use crate::forget::dropping::{DroppedRange, Drops};
use crate::format::RecordKind;
use crate::ids::{IdRange, PageId, Position};
use crate::layout::HOST_METADATA_BYTES;
use crate::planted;

impl Tier {
    fn drops(&self) -> &Drops {
        self.region.value(self.geometry.layout.drops)
    }

    /// Forgets every page of a range, with host metadata in the same group if there is one.
    pub(crate) fn drop_range(
        &self,
        range: &IdRange,
        host_metadata: Option<&[u8; HOST_METADATA_BYTES]>,
    ) -> Result<(), NoRoom> {
        let drops = self.drops();
        let dropped = {
            let guard = self.control().lock.lock(self.owner);
            if host_metadata.is_none() && self.has_nothing_of(range) {
                drop(guard);
                // What was read from disk before is stale all the same.
                self.unlink_range(range);
                return Ok(());
            }
            let dropped = drops.ranges.iter().find(|dropped| dropped.owner.get() == 0).ok_or(NoRoom)?;
            // The record first: if it found no room after the pages were gone, a crash would bring them back.
            self.append_tombstone_locked(*range, host_metadata, self.reserve_of_drops())?;
            planted::inside("range drop: tombstone appended, range not noted");
            dropped.set(self.owner, range);
            drops.active.add(1);
            dropped
        };
        planted::outside("range drop: noted");
        self.placement().changed_on_disk(None);
        self.finish_drop(dropped, range);
        Ok(())
    }

    fn finish_drop(&self, dropped: &DroppedRange, range: &IdRange) {
        let unlinked = self.unlink_range(range);
        planted::outside("range drop: pages unlinked");
        let _guard = self.control().lock.lock(self.owner);
        dropped.owner.set(0);
        self.drops().active.set(self.drops().active.get() - 1);
        // It may have been what disk refuses.
        if self.rests_for_disk() {
            self.dropped_at_rest(unlinked);
        }
    }

    /// How many pages of the range there were.
    fn unlink_range(&self, range: &IdRange) -> u64 {
        let mut unlinked = 0;
        // A few pages are looked up one by one; a pass over the directory is for many.
        if let Some(ids) = range.few_ids(RANGE_LOOKUPS_MAX) {
            for id in &ids {
                unlinked += u64::from(self.drop_matching(range, id));
                planted::outside("range drop: one page of a few unlinked");
            }
            return unlinked;
        }
        let directory = self.directory();
        // A second chance that was appended before the tombstone may not be linked yet. It holds its shard's
        // lock until it is; later ones are refused.
        directory.pass_locks(self.owner);
        let control = self.control();
        for position in Position::each(control.ends.front()..control.ends.rear()) {
            let entry = self.entry_of(position);
            if directory.state(entry) & VALID != 0 {
                let id = directory.id(entry);
                if range.contains(&id) {
                    unlinked += u64::from(self.drop_matching(range, &id));
                    planted::outside("range drop: one page unlinked");
                }
            }
        }
        unlinked
    }

    /// Whether there was such a page.
    fn drop_matching(&self, range: &IdRange, id: &PageId) -> bool {
        debug_assert!(range.contains(id));
        let directory = self.directory();
        let shard = directory.lock(directory.hashed(id), self.owner);
        shard.changed();
        let Some(entry) = shard.find(id) else { return false };
        shard.unlink(entry);
        self.placement().left(entry);
        true
    }

    /// Whether a record must not be appended now: a second chance of a page that is being forgotten. Under
    /// the control lock.
    #[inline]
    pub(crate) fn is_being_dropped(&self, kind: &RecordKind) -> bool {
        let RecordKind::Page { id, second_chance: true, .. } = kind else { return false };
        self.drops_cover(id)
    }

    fn drops_cover(&self, id: &PageId) -> bool {
        let drops = self.drops();
        let among =
            || drops.ranges.iter().any(|dropped| dropped.owner.get() != 0 && dropped.range().contains(id));
        drops.active.get() > 0 && among()
    }

    /// Whether a page lies in one of the ranges that were forgotten last, whatever became of it since: what a
    /// planted fault goes by.
    pub(crate) fn was_dropped(&self, id: &PageId) -> bool {
        let drops = self.drops();
        drops.ranges.iter().map(DroppedRange::range).any(|range| range.count > 0 && range.contains(id))
    }

    /// Forgets what is left of the ranges that an owner that has died was forgetting.
    pub(crate) fn abandon_drops(&self, dead: u64) {
        let taken: Vec<&DroppedRange> = {
            let _guard = self.control().lock.lock(self.owner);
            let of_the_dead = self.drops().ranges.iter().filter(|dropped| dropped.owner.get() == dead);
            // If this process dies over it, the next one takes over from it.
            of_the_dead.inspect(|dropped| dropped.owner.set(self.owner.into())).collect()
        };
        for dropped in taken {
            self.finish_drop(dropped, &dropped.range());
        }
    }
}
