//! Draining: everything dirty goes to disk, so that the tier holds no only copies.
//!
//! The host stops admission or keeps writers away, calls [`Tier::begin_drain`], completes jobs until
//! [`Tier::stage_out_idle`], and then repeats: [`Tier::drain_batch`], read each page, write it to its
//! place, sync the disk, [`Tier::mark_clean`]. Stage-out rests meanwhile, so that no two writes of one
//! page to disk are under way.
//!
//! To leave a tier in order without draining it, the host calls [`Tier::begin_drain`], completes all jobs,
//! syncs, and writes the superblock that [`Tier::closed`] returns.

use crate::answers::FlashPage;
use crate::core::Tier;
use crate::directory::{DIRTY, DRAINED, LOST, VALID, WRITTEN, is_lost};
use crate::format::{Superblock, TierState};
use crate::ids::{IdRange, PageId, Position, Sequence};
use crate::planted::{self, Bug};
use crate::stage_out::batch::Stage;

/// A page that is newer than its disk copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirtyPage {
    /// The page.
    pub id: PageId,
    /// Where it lies on flash, unless staging memory still holds it.
    pub flash: FlashPage,
}

/// How far a drain has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DrainCursor(Position);

impl Tier {
    /// Stops stage-out from taking more groups, until this process calls [`Self::end_drain`] or is abandoned.
    pub fn begin_drain(&self) {
        let control = self.control();
        let _guard = control.lock.lock(self.owner);
        control.draining.set(self.owner.into());
        planted::inside("begin drain: paused");
    }

    /// Lets stage-out go on.
    pub fn end_drain(&self) {
        self.control().draining.set(0);
    }

    /// Whether no stage-out job is under way.
    pub fn stage_out_idle(&self) -> bool {
        let control = self.control();
        let _guard = control.lock.lock(self.owner);
        let failed = self.failure().is_some();
        let batch = control.batch.stage();
        // After a failure no job follows, so a batch that waits for one rests as well.
        (batch == Stage::Idle || batch == Stage::Stuck || failed) && !control.disk_sync.is_running()
    }

    /// Collects up to `max` dirty pages in the order of the queue, from `cursor` on, and moves it. An
    /// empty result means that the pass is complete.
    pub fn drain_batch(&self, cursor: &mut DrainCursor, max: usize) -> Vec<DirtyPage> {
        let control = self.control();
        let directory = self.directory();
        let mut pages = Vec::new();
        let mut position = cursor.0.max(control.ends.front());
        while position < control.ends.rear() && pages.len() < max {
            let entry = self.entry_of(position);
            if directory.state(entry) & (VALID | DIRTY) == VALID | DIRTY {
                let flash = FlashPage {
                    offset: self.offset_of(position),
                    position,
                    checksum: directory.checksum(entry),
                    dirty: true,
                };
                pages.push(DirtyPage { id: directory.id(entry), flash });
            }
            position += 1;
        }
        cursor.0 = position;
        pages
    }

    /// Copies a page that is still in staging memory; false if it must be read from flash.
    ///
    /// # Panics
    /// If `out` does not have the tier's page size.
    pub fn read_staged(&self, page: &FlashPage, out: &mut [u8]) -> bool {
        assert_eq!(out.len(), self.geometry.page_size(), "a page of the wrong size");
        if planted::is(Bug::FailedGroupForgotten) && self.failure().is_some() {
            return false;
        }
        let state = self.state_at(page.position);
        self.placement().tells_of_memory(state) && self.copy_staged(page.position, state, out)
    }

    /// Notes that these versions are on disk, synced. Pages that changed meanwhile stay dirty.
    pub fn mark_clean(&self, pages: &[DirtyPage]) {
        let directory = self.directory();
        for page in pages {
            let entry = self.entry_of(page.flash.position);
            let shard = directory.lock(directory.hashed(&page.id), self.owner);
            let newest = shard.find(&page.id);
            if newest == Some(entry) && self.position_of(entry) == page.flash.position {
                // The host may have had a page that is lost: an error has passed after all, or disk has it.
                let found = is_lost(directory.state(entry)) && !planted::is(Bug::FoundStaysLost);
                shard.clear_flags(entry, DIRTY | WRITTEN | DRAINED | if found { LOST } else { 0 });
                if found {
                    self.placement().found(entry);
                }
                planted::inside("mark clean: one page marked");
            } else if let Some(newer) = newest.filter(|_| planted::is(Bug::CleanedAlthoughChanged)) {
                shard.clear_flags(newer, DIRTY | WRITTEN | DRAINED);
            }
        }
    }

    /// Groups below this sequence number are durable.
    pub fn durable_groups(&self) -> Sequence {
        self.control().groups.flushed()
    }

    /// Every page that the tier holds by now lies before this position of the queue.
    pub fn rear(&self) -> Position {
        self.control().ends.rear()
    }

    /// Invalidates the clean pages of `range` that were appended before `end`, because their disk copies may
    /// differ after all. For a tier that was just recovered; the next recovery finds them again.
    pub fn distrust_clean(&self, range: &IdRange, end: Position) {
        let control = self.control();
        let directory = self.directory();
        for position in Position::each(control.ends.front()..control.ends.rear().min(end)) {
            let entry = self.entry_of(position);
            if directory.state(entry) & (VALID | DIRTY) != VALID || !range.contains(&directory.id(entry)) {
                continue;
            }
            let id = directory.id(entry);
            let shard = directory.lock(directory.hashed(&id), self.owner);
            if shard.find(&id) == Some(entry) {
                self.invalidated_in_memory(position);
                shard.unlink(entry);
                self.placement().invalidated_in_memory(entry);
                shard.changed();
            }
        }
    }

    /// The superblock of a tier that is being left in order. Everything staged in must be durable and no
    /// job may be under way; the host writes it as it writes every superblock.
    ///
    /// # Panics
    /// If something is not durable.
    pub fn closed(&self, superblock: &Superblock) -> Superblock {
        let control = self.control();
        // No job is under way and nothing comes in, so what is counted now stays so.
        let dirty = if planted::is(Bug::ClosedAsDrained) { 0 } else { self.valid_and_dirty().1 };
        let _guard = control.lock.lock(self.owner);
        let empty_awaited = planted::is(Bug::EmptyGroupAwaited);
        let end = if empty_awaited { control.groups.next() } else { self.groups_end() };
        assert_eq!(control.groups.flushed(), end, "invariant 3: a tier is closed only after a sync");
        Superblock {
            generation: superblock.generation + 1,
            state: if dirty == 0 { TierState::Drained } else { TierState::Closed },
            end_sequence: end,
            front: self.front_to_state(),
            redone_from: if dirty == 0 { 0 } else { superblock.redone_from },
            ..superblock.clone()
        }
    }
}
