//! The database's checkpoint, a step at a time between everything else.
//!
//! ```text
//!   begin: redo pointer, mark
//!     -> WritingPages -> SyncingTier -> Draining | SyncingDisk -> Superblock -> ControlFile -> Confirming
//! ```

use mezzanine_engine::{SyncState, SyncTicket};

use super::log::Lsn;
use super::machine::Control;
use super::places::Extent;
use super::scenario::Tearing;
use super::server::Server;
use super::world::Stop;
use crate::crash::report::Invariant;

/// A checkpoint under way.
#[derive(Debug)]
pub(super) struct Checkpoint {
    redo: Lsn,
    /// Whether the disk alone suffices from this checkpoint on.
    pub(super) drains: bool,
    phase: Phase,
}

#[derive(Debug, Clone, Copy)]
enum Phase {
    WritingPages,
    SyncingTier(SyncTicket),
    SyncingDisk,
    ControlFile,
}

impl Server<'_> {
    /// Begins a checkpoint, or takes the one under way a step further.
    pub(super) fn step_checkpoint(&mut self) -> Result<(), Stop> {
        let Some(checkpoint) = &self.checkpoint else {
            self.begin_checkpoint();
            return Ok(());
        };
        let redo = checkpoint.redo;
        let phase = match checkpoint.phase {
            Phase::WritingPages => {
                let waiting = self.pool.before_mark(&mut self.world.random);
                if let Some(buffer) = waiting {
                    return self.write_out(buffer);
                }
                Phase::SyncingTier(self.request_sync()?)
            }
            Phase::SyncingTier(ticket) => {
                if !self.is_durable(&ticket)? {
                    return self.work_for("a sync for a checkpoint");
                }
                match self.tier_is_clean() {
                    true => Phase::SyncingDisk,
                    false => Phase::ControlFile,
                }
            }
            Phase::SyncingDisk => {
                self.sync_disk()?;
                Phase::ControlFile
            }
            Phase::ControlFile => {
                self.move_redo(redo)?;
                self.checkpoint = None;
                return Ok(());
            }
        };
        self.world.trace(|| format!("checkpoint {redo}: {phase:?}"));
        if let Some(checkpoint) = &mut self.checkpoint {
            checkpoint.phase = phase;
        }
        Ok(())
    }

    fn begin_checkpoint(&mut self) {
        let redo = self.world.machine.log.end();
        self.pool.mark();
        self.redo_begun = redo;
        self.world.trace(|| format!("checkpoint {redo} begins"));
        let drains = self.tier_is_clean();
        self.checkpoint = Some(Checkpoint { redo, drains, phase: Phase::WritingPages });
    }

    fn move_redo(&mut self, redo: Lsn) -> Result<(), Stop> {
        let world = &mut *self.world;
        let forced = world.machine.log.force(redo);
        world.done("force the log", forced)?;
        let disk_suffices = self.checkpoint.as_ref().is_some_and(|checkpoint| checkpoint.drains)
            && world.scenario.tearing != Tearing::TierAlone;
        let control = Control { redo, disk_suffices, ..world.machine.control.read() };
        let replaced = world.machine.control.replace(control);
        world.done("replace the control file", replaced)?;
        world.history.redo_moved(&world.machine.log, redo);
        world.coverage.checkpoints += 1;
        Ok(())
    }

    /// A whole checkpoint, from its beginning, at once.
    pub(super) fn checkpoint_at_once(&mut self) -> Result<(), Stop> {
        self.finish_checkpoint()?;
        self.begin_checkpoint();
        self.finish_checkpoint()
    }

    fn finish_checkpoint(&mut self) -> Result<(), Stop> {
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
            self.sync_disk()?;
        }
        Ok(())
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
        self.superblock = self.tier.closed(&self.superblock);
        let written = self.world.machine.write_superblock(&self.superblock);
        self.world.done("write the superblock", written)?;
        self.world.coverage.closes += 1;
        Ok(())
    }
}
