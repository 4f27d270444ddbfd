//! Pages that the host has written elsewhere, dropped, or found damaged are invalidated (invariant 6).

pub(crate) mod in_progress;

pub(crate) mod ranges;

use crate::answers::{FlashPage, NoRoom};
use crate::core::Tier;
use crate::ids::{IdRange, PageId, Position};
use crate::layout::HOST_METADATA_BYTES;
use crate::planted::{self, Bug};

impl Tier {
    /// Invalidates a page whose flash copy turned out to be damaged, if disk has it: a clean one, or see
    /// [`Self::on_disk`].
    pub fn invalidate_clean(&self, id: &PageId, page: &FlashPage) {
        let directory = self.directory();
        let shard = directory.lock(directory.hashed(id), self.owner);
        let entry = self.entry_of(page.position);
        if shard.find(id) == Some(entry)
            && self.position_of(entry) == page.position
            && (self.state_says_on_disk(directory.state(entry), page.position)
                || planted::is(Bug::DirtyForgotten))
        {
            self.invalidated_in_memory(page.position);
            shard.unlink(entry);
            self.placement().invalidated_in_memory(entry);
            planted::inside("invalidate clean: unlinked");
            shard.changed();
        }
    }

    /// A clean page at this position is being invalidated in memory alone: until the durable front has passed
    /// it, a crash finds it again. Under the lock of the page's shard.
    pub(crate) fn invalidated_in_memory(&self, position: Position) {
        let control = self.control();
        let _guard = control.lock.lock(self.owner);
        control.passed.invalidated_in_memory(position);
        planted::inside("invalidate clean: noted");
    }

    /// Invalidates the page, because the host has written it elsewhere or dropped it (invariant 6).
    ///
    /// If it was overwritten on disk and the tier's version was dirty, that write must be synced
    /// before the call: the tombstone becomes durable with any later group. A stage-out job may have had
    /// the dirty version in its hands meanwhile and write it over the newer one: if
    /// [`Self::stage_out_touches`] the page after the call, the host waits until it does not, and then
    /// writes and syncs the page again before it lets go of it.
    ///
    /// # Errors
    /// [`NoRoom`]: nothing was done.
    pub fn invalidate(&self, id: &PageId) -> Result<(), NoRoom> {
        let directory = self.directory();
        let shard = directory.lock(directory.hashed(id), self.owner);
        // Even without a valid version the page changed: offers of what was read before are stale.
        if !planted::is(Bug::InvalidationUncounted) {
            shard.changed();
        }
        let entry = shard.find(id);
        if (entry.is_some() || self.may_have(id) && self.may_return()) && !planted::is(Bug::NoTombstone) {
            self.append_tombstone(
                IdRange { start: *id, count: 1, shift: 0 },
                None,
                self.reserve_of_invalidations(),
            )?;
        }
        planted::inside("invalidate: tombstone appended");
        if let Some(entry) = entry {
            shard.unlink(entry);
            self.placement().left(entry);
            planted::inside("invalidate: unlinked");
        }
        self.placement().changed_on_disk(Some(id));
        Ok(())
    }

    /// Whether a crash may find pages again that are linked no more. A frame that has left the queue, or is
    /// just leaving it, is found until the front that passed it is durable; and so is a page that was
    /// invalidated without a tombstone.
    pub(crate) fn may_return(&self) -> bool {
        let control = self.control();
        let left = control.ends.front().max(control.release.end());
        let durable = control.passed.durable_front();
        durable < left && !planted::is(Bug::NoTombstoneAfterLeaving)
            || durable < control.passed.invalidated_in_memory_end()
                && !planted::is(Bug::NoTombstoneAfterForgetting)
    }

    /// Invalidates every page of a range. The host keeps all other operations on these pages away.
    ///
    /// # Errors
    /// [`NoRoom`]: nothing was done.
    pub fn invalidate_range(&self, range: &IdRange) -> Result<(), NoRoom> {
        self.invalidate_range_with(range, None)
    }

    /// [`Self::invalidate_range`] and [`Self::set_host_metadata`] in one group: after a crash both or neither
    /// have happened.
    ///
    /// # Errors
    /// [`NoRoom`]: nothing was done.
    pub fn truncate(&self, range: &IdRange, host_metadata: &[u8; HOST_METADATA_BYTES]) -> Result<(), NoRoom> {
        self.invalidate_range_with(range, Some(host_metadata))
    }
}
