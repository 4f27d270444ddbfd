//! When a slot says that its page is there: disk and home have it, and nobody is about to change it.

use std::sync::atomic::Ordering::Relaxed;

use super::Slots;
use crate::core::Tier;
use crate::directory::Directory;
use crate::failure::latch::Failure;
use crate::format::{RECORD_BYTES, Record, RecordKind, SUMMARY_HEADER_BYTES, SlotEntry};
use crate::groups::group::StagingGroup;
use crate::ids::{EntryNumber, Frame, PageId, Version};
use crate::in_place::{HomeState, Homes, InPlace};
use crate::planted::{self, Bug};

/// How many pages have gone to disk, when a sync of the disk began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskMark(u64);

impl Slots<'_> {
    /// Another version of a page may go to disk from now on.
    fn disk_write(&self, id: &PageId) {
        self.trace(id).disk_write.set(self.control.disk_writes.bump(1) + 1);
    }

    /// Whether disk durably has the version of a page that was staged in last.
    fn on_disk(&self, id: &PageId) -> bool {
        let last = self.trace(id).disk_write.get().max(self.control.range_write.get());
        last <= self.control.disk_synced.get() || planted::is(Bug::SlotBeforeDiskSync)
    }

    fn wait_for_disk(&self, home: Frame) {
        if self.slot(home).waits.swap(1, Relaxed) == 0 {
            let end = self.control.waiting_end.bump(1);
            self.waiting[(end % self.waiting.len() as u64) as usize].set(home);
        }
    }

    fn pop_waiting(&self) -> Frame {
        let first = self.control.waiting_first.bump(1);
        let home = self.waiting[(first % self.waiting.len() as u64) as usize].get();
        self.slot(home).waits.store(0, Relaxed);
        home
    }
}

impl Homes<'_> {
    /// Makes the slot of a page valid, if flash and disk have the page; a page that disk may not have waits.
    fn validate(&self, slots: &Slots<'_>, directory: &Directory<'_>, uuid: &[u8; 16], home: Frame) {
        let there = self.home(home);
        let (version, slot) = (there.version(), slots.slot(home));
        let durable = slot.durable() == version;
        let barred = slot.barred() == version && !planted::is(Bug::SlotValidWhileReplaced);
        if self.state(home) != HomeState::Used || !durable || barred || slots.is_valid(home) {
            return;
        }
        let entry = there.entry();
        let id = directory.id(entry);
        if !slots.on_disk(&id) {
            slots.wait_for_disk(home);
            return;
        }
        let (epoch, lsn) = (there.epoch.load(Relaxed), there.lsn.get());
        let bytes =
            SlotEntry { id, checksum: directory.checksum(entry), epoch, version, lsn }.encode(uuid, home);
        slot.valid.store(1, Relaxed);
        slots.store(home, &bytes);
    }
}

impl InPlace<'_> {
    /// Whether the host must not write another version of a page to disk yet, since flash may still say that
    /// the older one is what disk has: it carries out jobs and asks again. Otherwise it may from now on.
    /// Under the lock of the page's shard; `older` is its entry.
    pub(crate) fn slot_holds_back(&self, id: &PageId, older: Option<EntryNumber>) -> bool {
        let homes = self.homes();
        let Some(slots) = homes.slots else { return false };
        // Of a device that has failed nothing is believed any more: see `failure`.
        if self.failure().is_some_and(Failure::ends_writing) {
            return false;
        }
        let _guard = homes.lock(self.owner);
        if let Some(entry) = older {
            let home = homes.of_entry(entry);
            slots.slot(home).barred.set(homes.home(home).version.get());
            slots.invalidate(home, id);
        }
        let change = slots.trace(id).invalidated.get();
        if change > slots.control.durable.get() && !planted::is(Bug::SlotInvalidUnflushed) {
            slots.want(change);
            return true;
        }
        slots.disk_write(id);
        false
    }

    /// The host has changed a page, or a range of pages, on disk, or is about to, and the tier invalidates
    /// them.
    pub(crate) fn slot_changed_on_disk(&self, page: Option<&PageId>) {
        let homes = self.homes();
        let Some(slots) = homes.slots else { return };
        let _guard = homes.lock(self.owner);
        match page {
            Some(id) => slots.disk_write(id),
            None => slots.control.range_write.set(slots.control.disk_writes.bump(1) + 1),
        }
    }

    /// See [`Tier::disk_synced`].
    pub(crate) fn disk_synced_since(&self, mark: DiskMark) {
        let homes = self.homes();
        let Some(slots) = homes.slots else { return };
        let waiting = {
            let _guard = homes.lock(self.owner);
            let control = slots.control;
            control.disk_synced.set(control.disk_synced.get().max(mark.0));
            control.waiting_end.get() - control.waiting_first.get()
        };
        for _ in 0..waiting {
            let guard = homes.lock(self.owner);
            if slots.control.waiting_first.get() == slots.control.waiting_end.get() {
                return;
            }
            let home = slots.pop_waiting();
            homes.validate(&slots, &self.directory(), &self.uuid, home);
            drop(guard);
            planted::outside("slots: one page that waited for disk looked at");
        }
    }

    /// The pages that a group wrote to their homes are durable. Under the control lock.
    pub(crate) fn pages_durable(&self, group: &StagingGroup) {
        let memory = self.group_memory(group.sequence()) + SUMMARY_HEADER_BYTES;
        for index in 0..group.records() as usize {
            let mut bytes = [0; RECORD_BYTES];
            self.region.copy_out(memory + index * RECORD_BYTES, &mut bytes);
            match Record::decode(&bytes) {
                Some(Record {
                    kind: RecordKind::Page { home, second_chance: false, .. }, version, ..
                }) => {
                    self.version_durable(home, version);
                }
                _ => continue,
            }
        }
    }

    /// A version is durable in its home. Under the control lock.
    fn version_durable(&self, home: Frame, version: Version) {
        let homes = self.homes();
        let Some(slots) = homes.slots else { return };
        let _guard = homes.lock(self.owner);
        if homes.home(home).version() == version {
            slots.slot(home).durable.set(version.number());
            homes.validate(&slots, &self.directory(), &self.uuid, home);
        }
    }
}

impl Slots<'_> {
    /// See [`Tier::disk_mark`].
    pub(crate) fn disk_mark(&self) -> DiskMark {
        DiskMark(self.control.disk_writes.get())
    }
}

impl Tier {
    /// For designs with a slot directory ([`crate::Design::has_slots`]): to be asked before a sync of the
    /// disk begins, at a moment at which every page that was staged in with `also_disk`, or refused, has
    /// been written there, and every range that was dropped is gone there. Whoever is still at that is done
    /// before the sync begins.
    pub fn disk_mark(&self) -> DiskMark {
        self.in_place()
            .and_then(|in_place| in_place.homes().slots)
            .map_or(DiskMark(0), |slots| slots.disk_mark())
    }

    /// A sync of the disk, all of it, is complete that began after [`Self::disk_mark`]. Pages that were
    /// written before may be named on flash from now on, so that a crash does not lose them there. A host
    /// that never calls it loses, in a crash, what it has written since the tier was opened, and
    /// nothing else.
    pub fn disk_synced(&self, mark: DiskMark) {
        if let Some(in_place) = self.in_place() {
            in_place.disk_synced_since(mark);
        }
    }
}
