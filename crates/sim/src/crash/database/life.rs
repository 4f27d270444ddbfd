//! The life that a world leads from cut to cut.
//!
//! Invariants checked:
//! - `redo-promise`, `log-first`: by `logging`, on every page that redo needs.
//! - `versions`: by `reading` on every page that is read, and by `checkers` after redo.
//! - `no-resurrection`, `disk-alone`, `commits`: by `checkers`.
//! - `repeatable-recovery` needs no look of its own: every recovery ends in the one state that the log has.
//! - `damage-noticed`: by `damage`, on copies.
//! - `known-tier`: a tier that does not belong to the database is refused, and the right one is not.
//! - `no-unprovoked-error`, `assertion`: everywhere.
//!
//! ```text
//!           open the tier -> redo -> check -> operate ... -> shut down | kill
//!            ^                                                    |
//!            +------------------- (power cut anywhere) <----------+
//! ```

use mezzanine_engine::Tier;
use mezzanine_engine::format::Superblock;

use super::scenario::Scenario;
use super::server::Server;
use super::world::World;
use crate::crash::driver::harm::lying_flush;
use crate::crash::driver::life::{self, Life};
use crate::crash::driver::{Stop, drives};
use crate::crash::kind::Kind;

impl life::World for World {
    const CUTS_WHILE_OPENING: u64 = 4;

    fn life(&mut self) -> &mut Life {
        &mut self.life
    }

    fn into_life(self) -> Life {
        self.life
    }

    fn kind(&self) -> &'static str {
        let kind = match self.scenario {
            Scenario { zones: Some(_), .. } => Kind::Zones,
            Scenario { drives: Some(_), .. } => Kind::DriveDatabase,
            _ => Kind::Database,
        };
        kind.name()
    }

    fn summary(&self) -> String {
        format!("record {}, {}", self.machine.log.end(), self.scenario.summary())
    }

    fn session(&mut self) -> Result<(), Stop> {
        match self.start_and_use() {
            Ok(()) => self.machine.power.restore(),
            Err(Stop::PowerFailed) => self.power_failed()?,
            Err(Stop::DeviceFailed) => self.device_failed(),
            Err(Stop::Refused(reason)) => self.refused(reason)?,
            Err(stop) => return Err(stop),
        }
        if self.life.random.chance(1, 64) { self.look_at_damage() } else { Ok(()) }
    }
}

impl World {
    /// Starts, checks, operates and ends in one of the ways in which the devices keep their power.
    fn start_and_use(&mut self) -> Result<(), Stop> {
        self.life.opening = true;
        self.life.tell(|| "start".to_owned());
        let (tier, superblock) = self.open_tier()?;
        let result = self.use_tier(&tier, superblock);
        self.count(&tier);
        if !matches!(result, Err(Stop::DeviceFailed)) {
            self.forget_error();
        }
        result
    }

    fn use_tier(&mut self, tier: &Tier, superblock: Superblock) -> Result<(), Stop> {
        self.plan_lies();
        self.plan_error();
        let mut server = Server::new(self, tier, superblock);
        let lived = server.live();
        if matches!(lived, Err(Stop::DeviceFailed)) {
            server.count_costs()?;
        }
        let in_order = lived?;
        self.process_died(in_order);
        Ok(())
    }

    /// The power has failed: decides what the devices keep, and looks at what can be seen without the
    /// database.
    fn power_failed(&mut self) -> Result<(), Stop> {
        self.life.power_failed();
        let (flash, disk, records) = self.machine.cut(&mut self.life.random);
        self.history.log_cut(&self.machine.log);
        self.life.tell(|| format!("power cut {}, {:?}", self.life.cuts(), self.machine.control.read()));
        self.life.coverage.count_cut(flash, disk);
        self.life.coverage.count_drives(&drives::take(&self.drives_done));
        self.life.coverage.records_lost += records;
        self.check_after_cut()?;
        self.swap_flash();
        Ok(())
    }

    fn plan_lies(&mut self) {
        if self.scenario.lying_flushes {
            let lie = lying_flush(&mut self.life.random);
            self.machine.flash.inject(lie);
            self.machine.disk.inject(lie);
        }
    }
}
