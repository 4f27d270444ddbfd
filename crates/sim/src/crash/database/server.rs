//! The running database: pages come in through the pool and leave it for the tier.

use mezzanine_device::Device;
use mezzanine_engine::format::Superblock;
use mezzanine_engine::{Admission, StageIn, StageKind, SyncMode, Tier};

use super::checkpoint::Checkpoint;
use super::jobs::UnderWay;
use super::log::Lsn;
use super::logging::Logging;
use super::places::Place;
use super::pool::{Buffer, Pool};
use super::world::World;
use crate::crash::driver::{Invariant, Stop};

/// From the opening of the tier to the end of the process.
pub(super) struct Server<'t> {
    pub(super) world: &'t mut World,
    pub(super) tier: &'t Tier,
    /// The last superblock that was written.
    pub(super) superblock: Superblock,
    pub(super) pool: Pool,
    /// Jobs that were handed out and not handed back.
    pub(super) jobs: Vec<UnderWay<'t>>,
    pub(super) checkpoint: Option<Checkpoint>,
    /// The redo pointer of the last checkpoint that began: pages not changed since are logged as images.
    pub(super) redo_begun: Lsn,
}

impl<'t> Server<'t> {
    pub(super) fn new(world: &'t mut World, tier: &'t Tier, superblock: Superblock) -> Self {
        let redo_begun = world.machine.control.read().redo;
        tier.set_pulling(world.scenario.pulling);
        Self {
            world,
            tier,
            superblock,
            pool: Pool::default(),
            jobs: Vec::new(),
            checkpoint: None,
            redo_begun,
        }
    }

    /// Repeats the log, is looked at and operates; true if it ends in order.
    pub(super) fn live(&mut self) -> Result<bool, Stop> {
        self.redo()?;
        if self.world.life.random.chance(1, 2) {
            self.checkpoint_at_once()?;
        }
        // A job may have met the cut that was planned for the start, and nobody has asked it.
        self.world.life.power_is_on()?;
        self.world.waits = 0;
        self.world.life.opening = false;
        self.world.life.plan_cut(self.world.scenario.cut_after_max);
        self.check_after_redo()?;
        for _ in 0..self.world.life.random.magnitude(400) {
            if !self.world.life.operates() {
                continue;
            }
            self.operate()?;
            self.world.life.power_is_on()?;
        }
        self.world.life.ends();
        let ends_in_order = self.world.life.random.chance(1, 2);
        if ends_in_order {
            self.shut_down()?;
        }
        self.world.life.power_is_on()?;
        Ok(ends_in_order)
    }

    pub(super) fn offset(&self, place: Place) -> u64 {
        u64::from(place) * self.world.scenario.page_bytes() as u64
    }

    /// Whether the tier holds no page that is newer than its disk copy.
    pub(super) fn tier_is_clean(&self) -> bool {
        let config = self.tier.geometry().config();
        self.tier.sync_mode() == SyncMode::Through || config.admission == Admission::Clean
    }

    /// Makes room for a page.
    pub(super) fn make_room(&mut self) -> Result<(), Stop> {
        while self.pool.len() >= self.world.scenario.buffers {
            let Some(victim) = self.victim() else {
                return Err(Stop::violated(Invariant::Assertion, "every page of the pool is on its way out"));
            };
            self.evict(victim)?;
        }
        Ok(())
    }

    pub(super) fn victim(&mut self) -> Option<Buffer> {
        self.pool.victim(self.world.scenario.lru_share, &mut self.world.life.random)
    }

    /// Lets a page leave the pool.
    pub(super) fn evict(&mut self, buffer: Buffer) -> Result<(), Stop> {
        self.world.life.tell(|| format!("evict {buffer:?}"));
        match buffer.dirty {
            true => self.write_out(buffer)?,
            false => self.offer(buffer)?,
        }
        self.pool.remove(buffer.place);
        Ok(())
    }

    pub(super) fn offer(&mut self, buffer: Buffer) -> Result<(), Stop> {
        let id = self.world.scenario.space.id(buffer.place);
        let page = self.world.page_of(buffer.place, buffer.version);
        let staged = self.tier.stage_in(&id, &page, StageKind::Clean(None), buffer.lsn);
        self.world.leaving = page;
        match staged {
            StageIn::Staged { also_disk: false } | StageIn::Dropped | StageIn::FirstTouch => Ok(()),
            other => Err(Stop::violated(Invariant::Assertion, format!("a clean page was {other:?}"))),
        }
    }

    /// Writes a dirty page to where it belongs; it stays in the pool, clean.
    pub(super) fn write_out(&mut self, buffer: Buffer) -> Result<(), Stop> {
        let place = buffer.place;
        self.pool.set_busy(place, true);
        // Invariant 1: its log is durable before it leaves.
        let forced = self.world.machine.log.force(buffer.lsn);
        self.world.done("force the log", forced)?;
        let id = self.world.scenario.space.id(place);
        let kind = if buffer.before_mark { StageKind::DirtyBeforeMark } else { StageKind::Dirty };
        let page = self.world.page_of(place, buffer.version);
        let written = loop {
            match self.tier.stage_in(&id, &page, kind, buffer.lsn) {
                StageIn::Staged { also_disk: false } => break Ok(()),
                StageIn::Staged { also_disk: true } => break self.write_disk(place, &page),
                StageIn::Refused => break self.write_past_tier(place, &page),
                StageIn::Full => {
                    if let Err(stop) = self.work_for("a dirty page") {
                        break Err(stop);
                    }
                }
                StageIn::Dropped | StageIn::FirstTouch => {
                    break Err(Stop::violated(Invariant::Assertion, "a dirty page was dropped"));
                }
            }
        };
        self.world.leaving = page;
        written?;
        self.pool.cleaned(place);
        self.pool.set_busy(place, false);
        self.world.life.coverage.pages_written_out += 1;
        Ok(())
    }

    pub(super) fn write_disk(&mut self, place: Place, page: &[u8]) -> Result<(), Stop> {
        let written = self.world.machine.disk.write_at(page, self.offset(place));
        self.world.done("write to disk", written)
    }

    pub(super) fn sync_disk(&mut self) -> Result<(), Stop> {
        // Everything that went to the disk has been written there: nobody else runs.
        let mark = self.tier.disk_mark();
        let synced = self.world.machine.disk.flush();
        self.world.done("sync the disk", synced)?;
        self.tier.disk_synced(mark);
        Ok(())
    }

    /// Writes a page to disk that the tier does not take, and then has the tier forget what it holds of it.
    ///
    /// No job comes between the last write and the invalidation, or stage-out could write an older version
    /// over it.
    fn write_past_tier(&mut self, place: Place, page: &[u8]) -> Result<(), Stop> {
        let id = self.world.scenario.space.id(place);
        let only = self.world.scenario.space.ids(&self.world.scenario.space.extent(
            super::places::Unit::Page,
            place,
            1,
        ));
        loop {
            while self.tier.stage_out_touches(&only) {
                self.work_for("the end of a page's stage-out")?;
            }
            self.write_disk(place, page)?;
            if !self.tier_is_clean() {
                self.sync_disk()?;
            }
            if self.tier.invalidate(&id).is_ok() {
                return Ok(());
            }
            self.work_for("an invalidation")?;
        }
    }
}
