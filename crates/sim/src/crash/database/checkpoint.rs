//! The database's checkpoint, a step at a time between everything else.
//!
//! ```text
//!   begin: redo pointer, mark
//!     -> WritingPages -> SyncingTier -> Draining (drained, or before a backup)
//!                                    -> SyncingDisk (through)                  -> Superblock -> ControlFile
//! ```
//!
//! The superblock names the redo pointer as pending before the control file has it, and as confirmed at
//! leisure: before the next checkpoint at the latest.

use mezzanine_engine::format::Superblock;
use mezzanine_engine::{
    DrainScope, DrainState, DrainTicket, IdRange, Mark, RedoPoint, Sequence, SyncMode, SyncState, SyncTicket,
};

use super::log::Lsn;
use super::machine::Control;
use super::places::Extent;
use super::relied::Relied;
use super::scenario::Tearing;
use super::server::Server;
use crate::crash::driver::{Invariant, Stop};

/// A checkpoint under way.
#[derive(Debug)]
pub(super) struct Checkpoint {
    redo: Lsn,
    mark: Mark,
    /// Whether the disk alone suffices from this checkpoint on.
    pub(super) drains: bool,
    /// Groups that were durable when the tier had been synced for it.
    synced: Sequence,
    phase: Phase,
}

#[derive(Debug, Clone, Copy)]
enum Phase {
    WritingPages,
    SyncingTier(SyncTicket),
    Draining(DrainTicket),
    SyncingDisk,
    Superblock,
    ControlFile,
}

/// A position in the log as the tier is told it; this database never leaves its timeline.
pub(super) fn redo_point(redo: Lsn) -> RedoPoint {
    RedoPoint { redo, timeline: 1 }
}

impl Server<'_> {
    /// Begins a checkpoint, or takes the one under way a step further.
    pub(super) fn step_checkpoint(&mut self) -> Result<(), Stop> {
        let Some(checkpoint) = &self.checkpoint else {
            self.begin_checkpoint();
            return Ok(());
        };
        let (redo, mark, drains) = (checkpoint.redo, checkpoint.mark, checkpoint.drains);
        let mut synced = checkpoint.synced;
        let phase = match checkpoint.phase {
            Phase::WritingPages => {
                let waiting = self.pool.before_mark(&mut self.world.life.random);
                if let Some(buffer) = waiting {
                    return self.write_out(buffer);
                }
                Phase::SyncingTier(self.request_sync()?)
            }
            Phase::SyncingTier(ticket) => {
                if !self.is_durable(&ticket)? {
                    return self.work_for("a sync for a checkpoint");
                }
                synced = self.tier.durable_groups();
                if self.tier_is_clean() {
                    Phase::SyncingDisk
                } else if drains {
                    // A drain of everything will do as well.
                    let all = self.world.life.random.chance(1, 8);
                    Phase::Draining(self.request_drain((!all).then_some(mark), None)?)
                } else {
                    Phase::Superblock
                }
            }
            Phase::Draining(ticket) => {
                if !self.is_drained(&ticket)? {
                    return self.work_for("a drain for a checkpoint");
                }
                self.world.check_backup(redo)?;
                Phase::Superblock
            }
            Phase::SyncingDisk => {
                self.sync_disk()?;
                Phase::Superblock
            }
            Phase::Superblock => {
                self.promise_redo(redo)?;
                Phase::ControlFile
            }
            Phase::ControlFile => {
                self.move_redo(redo)?;
                self.world.relied = Some(Relied::on(&self.superblock, synced, redo));
                self.checkpoint = None;
                return Ok(());
            }
        };
        self.world.life.tell(|| format!("checkpoint {redo}: {phase:?}"));
        if let Some(checkpoint) = &mut self.checkpoint {
            checkpoint.phase = phase;
            checkpoint.synced = synced;
        }
        Ok(())
    }

    fn begin_checkpoint(&mut self) {
        let redo = self.world.machine.log.end();
        self.pool.mark();
        self.redo_begun = redo;
        let mark = self.tier.begin_checkpoint();
        let drains = match self.tier.sync_mode() {
            SyncMode::Through | SyncMode::Drained => true,
            // To prepare for a backup, for example.
            SyncMode::Durable => self.tier_is_clean() || self.world.life.random.chance(1, 6),
        };
        self.checkpoint_begun(redo, mark, drains);
    }

    /// Begins a checkpoint that drains the tier if it is asked to, or if its sync mode does.
    pub(super) fn begin_checkpoint_that(&mut self, drains: bool) {
        let redo = self.world.machine.log.end();
        self.pool.mark();
        self.redo_begun = redo;
        let mark = self.tier.begin_checkpoint();
        let drains = drains || self.tier.sync_mode() != SyncMode::Durable || self.tier_is_clean();
        self.checkpoint_begun(redo, mark, drains);
    }

    fn checkpoint_begun(&mut self, redo: Lsn, mark: Mark, drains: bool) {
        self.world.life.tell(|| format!("checkpoint {redo} begins, {mark:?}, drains: {drains}"));
        if self.world.scenario.drains_early && self.tier.sync_mode() == SyncMode::Drained {
            // What is left is drained in its time, and everything if another drain is under way now.
            let begun = self.tier.request_drain(&DrainScope { before: Some(mark), range: None });
            self.world.life.tell(|| format!("a drain before {mark:?}: {begun:?}"));
        }
        self.checkpoint =
            Some(Checkpoint { redo, mark, drains, synced: Sequence::ZERO, phase: Phase::WritingPages });
    }

    /// Makes the tier know the redo pointer that the control file will have.
    fn promise_redo(&mut self, redo: Lsn) -> Result<(), Stop> {
        let world = &mut *self.world;
        // The record of the checkpoint itself: a redo pointer that the log may still lose would mean another
        // log one day.
        let forced = world.machine.log.force(redo);
        world.done("force the log", forced)?;
        self.confirm_redo()?;
        self.write_superblock(self.tier.promised(&self.superblock, redo_point(redo)))
    }

    /// The tier may take the control file's redo pointer for granted.
    pub(super) fn confirm_redo(&mut self) -> Result<(), Stop> {
        let redo = redo_point(self.world.machine.control.read().redo);
        match self.superblock.pending == redo && self.superblock.confirmed != redo {
            true => self.write_superblock(self.superblock.with_confirmed()),
            false => Ok(()),
        }
    }

    pub(super) fn write_superblock(&mut self, superblock: Superblock) -> Result<(), Stop> {
        let written = self.world.machine.write_superblock(&superblock);
        self.world.done("write the superblock", written)?;
        self.superblock = superblock;
        Ok(())
    }

    fn move_redo(&mut self, redo: Lsn) -> Result<(), Stop> {
        let world = &mut *self.world;
        let disk_suffices = self.checkpoint.as_ref().is_some_and(|checkpoint| checkpoint.drains)
            && world.scenario.tearing != Tearing::TierAlone;
        let control = Control { redo, disk_suffices, ..world.machine.control.read() };
        let replaced = world.machine.control.replace(control);
        world.done("replace the control file", replaced)?;
        world.history.redo_moved(&world.machine.log, redo);
        world.life.coverage.checkpoints += 1;
        Ok(())
    }

    /// A whole checkpoint, from its beginning, at once.
    pub(super) fn checkpoint_at_once(&mut self) -> Result<(), Stop> {
        self.finish_checkpoint()?;
        self.begin_checkpoint();
        self.finish_checkpoint()
    }

    /// Takes the checkpoint under way to its end, if there is one.
    pub(super) fn finish_checkpoint(&mut self) -> Result<(), Stop> {
        self.world.waits = 0;
        while self.checkpoint.is_some() {
            self.step_checkpoint()?;
        }
        Ok(())
    }

    fn request_sync(&mut self) -> Result<SyncTicket, Stop> {
        loop {
            match self.tier.request_sync() {
                Ok(ticket) => return Ok(ticket),
                Err(_) => self.work_for("a group for a sync")?,
            }
        }
    }

    fn is_durable(&self, ticket: &SyncTicket) -> Result<bool, Stop> {
        match self.tier.sync_state(ticket) {
            SyncState::Durable => Ok(true),
            SyncState::Pending => Ok(false),
            SyncState::Failed => {
                Err(Stop::violated(Invariant::NoUnprovokedError, "a sync of the tier failed"))
            }
        }
    }

    /// Whether the control file says that the disk suffices without the tier, or is about to.
    pub(super) fn disk_must_suffice(&self) -> bool {
        let about_to = self.checkpoint.as_ref().is_some_and(|checkpoint| checkpoint.drains);
        about_to || self.world.machine.control.read().disk_suffices
    }

    /// Everything staged in so far becomes durable.
    pub(super) fn sync_tier(&mut self) -> Result<(), Stop> {
        let ticket = self.request_sync()?;
        while !self.is_durable(&ticket)? {
            self.work_for("a sync")?;
        }
        Ok(())
    }

    /// Makes the pages of an extent as durable as a checkpoint would.
    pub(super) fn flush_range(&mut self, extent: &Extent) -> Result<(), Stop> {
        while let Some(buffer) = self.pool.dirty_in(extent) {
            self.write_out(buffer)?;
        }
        self.sync_tier()?;
        if self.tier_is_clean() {
            self.sync_disk()
        } else if self.disk_must_suffice() {
            let ids = self.world.scenario.space.ids(extent);
            self.drain(None, Some(ids))
        } else {
            Ok(())
        }
    }

    /// Has pages written to disk and waits for that.
    pub(super) fn drain(&mut self, before: Option<Mark>, range: Option<IdRange>) -> Result<(), Stop> {
        let ticket = self.request_drain(before, range)?;
        while !self.is_drained(&ticket)? {
            self.work_for("a drain")?;
        }
        Ok(())
    }

    fn request_drain(&mut self, before: Option<Mark>, range: Option<IdRange>) -> Result<DrainTicket, Stop> {
        loop {
            match self.tier.request_drain(&DrainScope { before, range }) {
                Ok(ticket) => return Ok(ticket),
                Err(_) => self.work_for("the end of another drain")?,
            }
        }
    }

    fn is_drained(&mut self, ticket: &DrainTicket) -> Result<bool, Stop> {
        match self.tier.drain_state(ticket) {
            DrainState::Done => {
                self.world.life.coverage.drains += 1;
                Ok(true)
            }
            DrainState::Pending => Ok(false),
            DrainState::Failed | DrainState::Lost | DrainState::Refused => {
                Err(Stop::violated(Invariant::NoUnprovokedError, "a drain of the tier failed"))
            }
        }
    }

    /// Leaves the database in order: a checkpoint, and then the tier's superblock.
    pub(super) fn shut_down(&mut self) -> Result<(), Stop> {
        self.checkpoint_at_once()?;
        self.world.waits = 0;
        self.tier.begin_drain();
        self.settle()?;
        while !self.tier.stage_out_idle() {
            self.work_for("the end of all stage-out")?;
        }
        self.sync_tier()?;
        self.settle()?;
        self.confirm_redo()?;
        self.write_superblock(self.tier.closed(&self.superblock))?;
        self.world.life.coverage.closes += 1;
        Ok(())
    }
}
