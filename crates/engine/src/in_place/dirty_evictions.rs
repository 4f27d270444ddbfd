//! Dirty pages on their way to disk: those that leave, and those that a cleaner wants there.
//!
//! They go through the batch like the pages of a drain: read at their homes, written in the order of their
//! ids. Then they are listed as *written*, and a sync of the disk that begins afterwards makes them clean.
//! Those that leave are let go then; those that were cleaned stay.

use std::sync::atomic::Ordering::Relaxed;

use super::evict::Leave;
use super::{HomeState, Homes, InPlace, NEVER_WRITTEN};
use crate::directory::{DIRTY, DRAINED, HOMED, VALID, WRITTEN, needs_disk};
use crate::ids::{EntryNumber, Frame, Position};
use crate::planted::{self, Bug};
use crate::stage_out::batch::BatchPage;
use crate::stage_out::batch::Load;

/// What there is to be done for a page.
enum Step {
    /// It is written to disk.
    Write(Position),
    /// It is on disk; the next sync covers it.
    Sync,
    /// It is clean, or another page.
    Clean,
    /// It is not durable on flash yet.
    Wait,
}

/// The number by which a home remembers an entry of the list of written pages.
fn number_of(entry: u64) -> u32 {
    (entry % u64::from(NEVER_WRITTEN)) as u32
}

impl Homes<'_> {
    /// Whether the cleaner has something to do.
    fn cleaner_wants(&self) -> bool {
        self.control.dirty.get() > self.geometry.dirty_max
    }

    /// Notes that the page of a home was written to disk, where the list has room.
    fn push_written(&self, home: Frame) {
        debug_assert!(
            self.unsynced() < self.written.len() as u64 || planted::is(Bug::WrittenListOverrun),
            "more pages are written to disk and unsynced than the list has places"
        );
        let end = self.control.written_end.bump(1);
        self.home(home).written.store(number_of(end), Relaxed);
        self.written[(end % self.written.len() as u64) as usize].set(home);
    }

    /// Whether the page of a home, as it is, waits in the list of written pages for a sync.
    fn is_unsynced(&self, home: Frame) -> bool {
        let number = self.home(home).written.load(Relaxed);
        let first = self.control.written_first.get();
        let modulus = u64::from(NEVER_WRITTEN);
        let behind = (u64::from(number) + modulus - u64::from(number_of(first))) % modulus;
        let listed = || self.written[((first + behind) % self.written.len() as u64) as usize].get();
        number != NEVER_WRITTEN && behind < self.unsynced() && listed() == home
    }

    /// The page of a home, which leaves or was to be cleaned, is on disk already: the next sync is to make it
    /// clean. One that waits for that is not listed again: the sync under way may cover it, and a drain
    /// counts on that.
    fn await_sync(&self, home: Frame) {
        if !self.is_unsynced(home) || planted::is(Bug::WrittenListedAgain) {
            self.push_written(home);
        }
    }

    /// Whether one more page fits into the list of written pages when those `in_batch` will have been
    /// written.
    fn has_place(&self, in_batch: usize) -> bool {
        let taken = self.unsynced() + in_batch as u64;
        taken < self.written.len() as u64 || planted::is(Bug::WrittenListOverrun)
    }

    /// Whether the list of written pages has room for all that the batch can carry.
    fn room_for(&self, pages: u64) -> bool {
        self.unsynced() + 2 * pages <= self.written.len() as u64
    }
}

impl InPlace<'_> {
    /// Whether the batch has pages to look for. Under the control lock.
    pub(crate) fn take_dirty_evictions(&self) -> bool {
        let homes = self.homes();
        let control = self.control();
        if !control.batch.is_idle() || control.draining.get() != 0 || self.rests_for_disk() {
            return false;
        }
        let wanted = homes.has_leaving() || homes.cleaner_wants();
        if !wanted || !homes.room_for(self.geometry.batch_pages()) {
            return false;
        }
        control.batch.take(Load::Leaving);
        control.batch.owned_by(self.owner);
        planted::inside("dirty evictions: batch scanning");
        true
    }

    /// Lists pages that leave, and then those that are to be cleaned. The batch is scanning, for the caller
    /// alone; no lock is held. False if there was nothing that could be done.
    pub(crate) fn list_dirty_evictions(&self) -> bool {
        let mut list = Vec::new();
        let most = self.geometry.batch_pages() as usize;
        let mut moved = self.list_leaving(most, &mut list);
        moved |= self.list_dirty(most, &mut list);
        self.set_batch_list(&list);
        planted::outside("dirty evictions: listed");
        let control = self.control();
        let _guard = control.lock.lock(self.owner);
        control.batch.was_scanned();
        moved || !list.is_empty()
    }

    fn list_leaving(&self, most: usize, list: &mut Vec<BatchPage>) -> bool {
        let homes = self.homes();
        let mut moved = false;
        // Those for which there is no room go to the end of the list.
        let mut left = homes.control.leaving_end.get() - homes.control.leaving_first.get();
        while list.len() < most && left > 0 && homes.has_place(list.len()) {
            left -= 1;
            let guard = homes.lock(self.owner);
            let Some(home) = homes.pop_leaving() else { break };
            match self.step_for(home) {
                Step::Write(position) => list.push(BatchPage { position, place: list.len() as u64 }),
                Step::Sync => homes.await_sync(home),
                // Others behind it may be durable.
                Step::Wait => {
                    let listed = homes.push_leaving(home);
                    assert!(
                        listed,
                        "a page that has just left the list, under this lock, fits into it again"
                    );
                    continue;
                }
                Step::Clean => {
                    drop(guard);
                    moved |= self.let_go(home) == Leave::Gone;
                    continue;
                }
            }
            moved = true;
        }
        moved
    }

    fn list_dirty(&self, most: usize, list: &mut Vec<BatchPage>) -> bool {
        let homes = self.homes();
        let mut moved = false;
        while list.len() < most && homes.has_place(list.len()) {
            let _guard = homes.lock(self.owner);
            if !homes.cleaner_wants() {
                break;
            }
            homes.tell_of_all(self.owner);
            let Some(home) = homes.coldest_dirty() else { break };
            match self.step_for(home) {
                Step::Write(position) => list.push(BatchPage { position, place: list.len() as u64 }),
                Step::Sync => homes.await_sync(home),
                Step::Clean => {}
                Step::Wait => {
                    let id = self.directory().id(homes.home(home).entry());
                    homes.came_dirty(home, homes.key(&id));
                    break;
                }
            }
            moved = true;
        }
        moved
    }

    /// What is to be done for the page of a home that is USED or LEAVING. Under the lock of the homes.
    fn step_for(&self, home: Frame) -> Step {
        let homes = self.homes();
        let entry = homes.home(home).entry();
        let state = self.directory().state(entry);
        let position = self.position_of(entry);
        let durable = position < self.control().ends.staged_from() || state & HOMED != 0;
        match () {
            () if !durable => Step::Wait,
            () if needs_disk(state) => Step::Write(position),
            () if state & (VALID | DIRTY) == VALID | DIRTY => Step::Sync,
            () => Step::Clean,
        }
    }

    /// The batch's pages are on disk, unsynced, and marked so. Under the control lock.
    pub(crate) fn evictions_written(&self) {
        let homes = self.homes();
        let _guard = homes.lock(self.owner);
        let directory = self.directory();
        for page in self.batch_list() {
            let entry = self.entry_of(page.position);
            // The home of a page that was superseded meanwhile may be another one's already.
            if directory.state(entry) & (VALID | WRITTEN) == VALID | WRITTEN {
                homes.push_written(homes.of_entry(entry));
            }
        }
    }

    /// Disk has refused these pages of the batch: they stay, and others are to leave in the place of those
    /// that were to leave. They are not listed as LEAVING again, for these count as homes that come, and the
    /// list has places for all homes but not for what was superseded in it meanwhile as well.
    pub(crate) fn evictions_refused(&self, refused: &[EntryNumber]) {
        let homes = self.homes();
        let _control = self.control().lock.lock(self.owner);
        {
            let _guard = homes.lock(self.owner);
            self.keep_unwritten(refused);
        }
        let all = refused.len() as u64 == self.control().batch.pages();
        if self.too_many_stay(refused.len() as u64) || all && planted::is(Bug::RefusedLeavesStill) {
            self.rest();
        }
    }

    /// [`Self::evictions_refused`] under the lock of the homes.
    fn keep_unwritten(&self, refused: &[EntryNumber]) {
        let homes = self.homes();
        let directory = self.directory();
        for &entry in refused {
            // The home of a page that was superseded meanwhile may be another one's already.
            if !needs_disk(directory.state(entry)) {
                continue;
            }
            let home = homes.of_entry(entry);
            match homes.state(home) {
                HomeState::Leaving if planted::is(Bug::RefusedLeavesStill) => {
                    homes.push_leaving(home);
                }
                HomeState::Leaving => self.stays(home),
                HomeState::Used => homes.came_dirty(home, homes.key(&directory.id(entry))),
                _ => {}
            }
        }
    }

    /// Whether the disk is to be synced now for pages that were written. Under the control lock.
    pub(crate) fn evictions_want_sync(&self) -> bool {
        let homes = self.homes();
        let control = self.control();
        let unsynced = homes.unsynced();
        let full = !homes.room_for(self.geometry.batch_pages());
        // Short bands are worth a sync only when nothing else can leave: what can be written has been taken
        // by now.
        let nothing_else = control.batch.is_idle() && self.homes_short();
        unsynced >= self.geometry.config().band_frames || unsynced > 0 && (full || nothing_else)
    }

    /// A sync of the disk begins. Under the control lock.
    pub(crate) fn evictions_sync_begins(&self) {
        let homes = self.homes();
        homes.control.written_covered.set(homes.control.written_end.get());
    }

    /// The disk is synced: pages that were written before are clean, and those that leave are let go. No lock
    /// is held.
    pub(crate) fn evictions_synced(&self) {
        let homes = self.homes();
        let placed = homes.control;
        let covered = match planted::is(Bug::SyncCoversLaterWrites) {
            true => placed.written_end.get(),
            false => placed.written_covered.get(),
        };
        while placed.written_first.get() < covered {
            let first = placed.written_first.get();
            let home = homes.written[(first % homes.written.len() as u64) as usize].get();
            if matches!(homes.state(home), HomeState::Used | HomeState::Leaving) {
                self.mark_synced(home, number_of(first));
            }
            placed.written_first.set(first + 1);
            planted::outside("dirty evictions: one page synced");
        }
    }

    /// The page of `home` is clean if what was written last of it is the entry `number` of the list.
    fn mark_synced(&self, home: Frame, number: u32) {
        let homes = self.homes();
        let directory = self.directory();
        let id = directory.id(homes.home(home).entry());
        {
            let shard = directory.lock(directory.hashed(&id), self.owner);
            let Some(entry) = shard.find(&id).filter(|&entry| homes.of_entry(entry) == home) else { return };
            // Under the lock of the page that has the home now: another one's number was taken away when this
            // one came.
            if homes.home(home).written.load(Relaxed) != number {
                return;
            }
            let unwritten = directory.state(entry) & (DIRTY | WRITTEN) == DIRTY;
            if unwritten && planted::is(Bug::SyncCoversNextPage) {
                return;
            }
            assert!(!unwritten, "a page that was not written became clean");
            shard.clear_flags(entry, DIRTY | WRITTEN | DRAINED);
            planted::inside("dirty evictions: one page marked clean");
        }
        let leaves = {
            // Under the lock, under which somebody else who sees it still unsynced has taken it off the list
            // of those that leave.
            let _guard = homes.lock(self.owner);
            if homes.state(home) == HomeState::Used {
                homes.was_cleaned(home);
            }
            homes.state(home) == HomeState::Leaving
        };
        if leaves {
            self.let_go(home);
        }
    }
}
