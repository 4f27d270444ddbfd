//! Ranges that are being invalidated.
//!
//! A range is invalidated in two steps: its tombstone is appended, then its pages are unlinked one by one,
//! each under its shard's lock. In between, the tier and what would be found after a crash differ. So each
//! such range is noted with its owner:
//! - if the owner dies, whoever abandons it unlinks the rest (invariant 12): the range is invalidated as a
//!   whole or not at all;
//! - a page of the range gets no second chance meanwhile: its record would follow the tombstone in the queue
//!   and bring the page back (invariant 6).

use crate::answers::NoRoom;
use crate::core::Tier;
use crate::format::RecordKind;
use crate::ids::{IdRange, PageId};
use crate::invalidation::in_progress::{RANGE_LOOKUPS_MAX, RangeInvalidation, RangeInvalidations};
use crate::layout::HOST_METADATA_BYTES;
use crate::planted;

impl Tier {
    fn range_invalidations(&self) -> &RangeInvalidations {
        self.region.value(self.geometry.layout.range_invalidations)
    }

    /// Invalidates every page of a range, with host metadata in the same group if there is one.
    pub(crate) fn invalidate_range_with(
        &self,
        range: &IdRange,
        host_metadata: Option<&[u8; HOST_METADATA_BYTES]>,
    ) -> Result<(), NoRoom> {
        let invalidations = self.range_invalidations();
        // What was read from disk before is stale, whatever the tier has.
        self.range_changed(range);
        // Offers of such pages have been appended by now, or find that they are stale: either happens under
        // this lock. So no record of a page of the range is appended from here on but for pages that have one
        // already.
        drop(self.control().lock.lock(self.owner));
        if host_metadata.is_none() && !self.may_have_any_of(range) {
            return Ok(());
        }
        let invalidation = {
            let _guard = self.control().lock.lock(self.owner);
            if host_metadata.is_none() && self.has_nothing_of(range) {
                return Ok(());
            }
            let invalidation =
                invalidations.ranges.iter().find(|range| range.owner.get() == 0).ok_or(NoRoom)?;
            // The record first: if it found no room after the pages were gone, a crash would bring them back.
            self.append_tombstone_locked(*range, host_metadata, self.reserve_of_invalidations())?;
            planted::inside("range invalidation: tombstone appended, range not noted");
            invalidation.set(self.owner, range);
            invalidations.active.add(1);
            invalidation
        };
        planted::outside("range invalidation: noted");
        self.placement().changed_on_disk(None);
        self.finish_invalidation(invalidation, range);
        Ok(())
    }

    fn finish_invalidation(&self, invalidation: &RangeInvalidation, range: &IdRange) {
        let unlinked = self.unlink_range(range);
        planted::outside("range invalidation: pages unlinked");
        let _guard = self.control().lock.lock(self.owner);
        invalidation.owner.set(0);
        self.range_invalidations().active.set(self.range_invalidations().active.get() - 1);
        // It may have been what disk refuses.
        if self.rests_for_disk() {
            self.invalidated_at_rest(unlinked);
        }
    }

    /// How many pages of the range there were.
    fn unlink_range(&self, range: &IdRange) -> u64 {
        let mut unlinked = 0;
        self.each_that_may_be_linked(range, |id| {
            unlinked += u64::from(self.unlink_page(range, id));
            planted::outside("range invalidation: one page unlinked");
        });
        unlinked
    }

    /// Calls `visit` with every page of the range that was appended by now, linked or not, some more than
    /// once: for callers that take the lock of each page's shard. Who has appended the page and not linked it
    /// yet has that lock, so they find it linked.
    pub(crate) fn each_that_may_be_linked(&self, range: &IdRange, mut visit: impl FnMut(&PageId)) {
        // A few are looked up whether or not they were appended.
        if let Some(ids) = range.few_ids(RANGE_LOOKUPS_MAX) {
            ids.iter().for_each(visit);
            return;
        }
        self.any_appended_of(range, |id, _| {
            visit(&id);
            false
        });
    }

    /// Whether there was such a page.
    fn unlink_page(&self, range: &IdRange, id: &PageId) -> bool {
        debug_assert!(range.contains(id));
        let directory = self.directory();
        let shard = directory.lock(directory.hashed(id), self.owner);
        shard.changed();
        let Some(entry) = shard.find(id) else { return false };
        shard.unlink(entry);
        self.placement().left(entry);
        true
    }

    /// Whether a record must not be appended now: a second chance of a page that is being invalidated. Under
    /// the control lock.
    #[inline]
    pub(crate) fn is_being_invalidated(&self, kind: &RecordKind) -> bool {
        let RecordKind::Page { id, second_chance: true, .. } = kind else { return false };
        self.is_in_a_range(id)
    }

    fn is_in_a_range(&self, id: &PageId) -> bool {
        let invalidations = self.range_invalidations();
        let covers = |one: &RangeInvalidation| one.owner.get() != 0 && one.range().contains(id);
        invalidations.active.get() > 0 && invalidations.ranges.iter().any(covers)
    }

    /// Whether a page lies in one of the ranges that were invalidated last, whatever became of it since: what
    /// a planted fault goes by.
    pub(crate) fn was_invalidated(&self, id: &PageId) -> bool {
        let invalidations = self.range_invalidations();
        invalidations
            .ranges
            .iter()
            .map(RangeInvalidation::range)
            .any(|range| range.count > 0 && range.contains(id))
    }

    /// Invalidates what is left of the ranges that an owner that has died was at.
    pub(crate) fn abandon_invalidations(&self, dead: u64) {
        let taken: Vec<&RangeInvalidation> = {
            let _guard = self.control().lock.lock(self.owner);
            let ranges = self.range_invalidations().ranges.iter();
            let of_the_dead = ranges.filter(|range| range.owner.get() == dead);
            // If this process dies over it, the next one takes over from it.
            of_the_dead.inspect(|range| range.owner.set(self.owner.into())).collect()
        };
        for invalidation in taken {
            self.finish_invalidation(invalidation, &invalidation.range());
        }
    }
}
