//! The life that a world leads from cut to cut.
//!
//! Invariants checked:
//! - `versions`, `no-going-back`, `no-resurrection`, `whole-pages`, `read-your-writes`: by
//!   [`super::checkers::pages`], on every page that is read.
//! - `repeatable-recovery`: by [`super::checkers::recovery`].
//! - `damage-noticed`: by [`super::checkers::damage`] and [`super::checkers::later`], on copies.
//! - `pairing`: by [`super::checkers::pairing`], on copies.
//! - `disk-alone`, `flash-expendable`, `guarded`: by [`super::checkers::disk`], on the images of the disks.
//! - `no-unprovoked-error`, `assertion`: everywhere; where devices fail, as `faults` says.
//!
//! ```text
//!           open -> check -> operate ... -> close | close_drained | kill
//!            ^                                              |
//!            +---------------- (power cut anywhere) <-------+
//! ```

use mezzanine_volume::VolumeState;

use super::beside;
use super::checkers::{damage, disk, later, pages, pairing, recovery, sidecars};
use super::histories;
use super::model::{Drained, FileModel};
use super::operations;
use super::replacement;
use super::scenario::Scenario;
use super::world::{Session, World, trace};
use crate::crash::driver::Stop;
use crate::crash::driver::life::{self, Life};
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
            Scenario { drive: Some(_), .. } => Kind::Drives,
            Scenario { histories: true, .. } => Kind::Histories,
            Scenario { zones: Some(_), .. } => Kind::ZonedVolume,
            Scenario { runners: 0, .. } => Kind::Volume,
            _ => Kind::Runners,
        };
        kind.name()
    }

    fn summary(&self) -> String {
        format!("operation {}, {}", self.version, self.scenario.summary())
    }

    fn session(&mut self) -> Result<(), Stop> {
        self.lead_session().map_err(|stop| self.excused_by_drive(stop))
    }
}

impl World {
    fn lead_session(&mut self) -> Result<(), Stop> {
        self.plan_faults();
        self.found = (self.closed, self.superblocks());
        self.closed = false;
        match self.open_and_use() {
            Ok(()) => {
                self.life.coverage.errors_hidden += u64::from(self.has_fault_struck());
                self.machine.power.restore();
            }
            Err(Stop::PowerFailed) => self.power_failed()?,
            Err(Stop::DeviceFailed) => self.end_after_failure(),
            Err(violated) => return Err(violated),
        }
        replacement::choose(self)?;
        self.look_at_copies()
    }

    /// What would happen if, tried on copies of the machine.
    fn look_at_copies(&mut self) -> Result<(), Stop> {
        if self.scenario.histories {
            return histories::between_sessions(self);
        }
        // A page that is lost is so on a copy as well.
        if !self.formatted || self.faults.planned || self.pages_lost || self.drive_refuses() {
            return Ok(());
        }
        if self.life.random.chance(1, 64) {
            damage::check(self, self.closed)?;
        }
        if self.life.random.chance(1, 64) {
            pairing::check(self)?;
        }
        if self.life.random.chance(1, 64) {
            pairing::back_up(self)?;
        }
        if self.scenario.later {
            later::check(self)?;
            sidecars::check(self)?;
        }
        Ok(())
    }

    /// Opens, checks, operates and ends in one of the ways in which the devices keep their power.
    fn open_and_use(&mut self) -> Result<(), Stop> {
        let session = self.open()?;
        self.start_runners(&session);
        let result = self.use_session(&session);
        self.release(session);
        result
    }

    fn use_session(&mut self, session: &Session) -> Result<(), Stop> {
        // Runners are at work already, and the cut that was planned for the opening may have come.
        self.life.power_is_on()?;
        self.life.plan_cut(self.scenario.cut_after_max);
        pages::check_lengths(self, session)?;
        self.write_lost_anew(session)?;
        pages::check_after_open(self, session)?;
        for _ in 0..self.life.random.magnitude(400) {
            if !self.life.operates() {
                continue;
            }
            self.tell_runners();
            let reading = beside::begin(self, session)?;
            let before = self.version;
            match operations::one(self, session) {
                Err(Stop::DeviceFailed) if self.machine.power.is_on() && self.life.random.chance(3, 4) => {
                    self.go_on_after_failure(session, before)?;
                }
                done => done?,
            }
            beside::end(self, reading)?;
            self.life.power_is_on()?;
            self.hold_to_cost(session)?;
            histories::in_a_session(self);
        }
        self.end(session)
    }

    fn end(&mut self, session: &Session) -> Result<(), Stop> {
        self.life.ends();
        self.tell_runners();
        match self.life.random.below(4) {
            0 | 1 => {
                trace!(self, "kill");
                self.life.coverage.kills += 1;
                self.models_crashed();
                self.life.power_is_on()?;
                disk::check_guards(self)
            }
            2 => {
                trace!(self, "close");
                let closed = session.volume.close();
                self.done("close", closed)?;
                self.models.iter_mut().for_each(FileModel::sync_acknowledged);
                // If the disk has everything, it needs no power to be closed; and the tier was not told then.
                self.life.power_is_on()?;
                self.closed = self.says_closed();
                self.life.coverage.closes += 1;
                disk::check_guards(self)
            }
            _ => {
                trace!(self, "close drained");
                let tier_in_order = session.volume.state() == VolumeState::Ok;
                let closed = session.volume.close_drained();
                self.done("close drained", closed)?;
                self.models.iter_mut().for_each(FileModel::sync_acknowledged);
                self.life.power_is_on()?;
                self.closed = true;
                self.life.coverage.closes += 1;
                self.drained = Drained::Files;
                disk::check_drained(self)?;
                // One that fails in the closing is given up as well.
                self.change_what_may_change(tier_in_order && !self.has_fault_struck());
                Ok(())
            }
        }
    }

    /// After a drained close nothing depends on the tier: policies may change, and the flash device may be
    /// lost. Where the tier was given up before, the files are free of it, but it was not told and keeps
    /// its policies.
    fn change_what_may_change(&mut self, tier_in_order: bool) {
        if self.life.random.chance(1, 2) && tier_in_order {
            self.scenario.draw_policy(&mut self.life.random);
        }
        if self.life.random.chance(1, 4) {
            self.lose_flash();
        }
    }

    /// Whether flash says that the volume was closed in order, when it was: an opening that has changed
    /// nothing leaves what it has found, be that after a crash.
    fn says_closed(&self) -> bool {
        self.found.0 || !self.has_not_started()
    }

    /// The power has failed: decides what the devices keep, and looks at what can be seen without the
    /// software.
    fn power_failed(&mut self) -> Result<(), Stop> {
        self.life.power_failed();
        self.devices_lose_power();
        self.life.coverage.replacements_cut += u64::from(self.replacing);
        self.replacing |= std::mem::take(&mut self.chosen_by_cache);
        replacement::choose(self)?;
        disk::check_after_cut(self)?;
        let in_order = self.formatted && !self.faults.planned && !self.pages_lost && !self.drive_refuses();
        if in_order && self.life.random.chance(1, 32) {
            recovery::check_repeatable(self)?;
        }
        if self.scenario.flash_is_expendable() && self.life.random.chance(1, 16) {
            self.lose_flash();
        }
        Ok(())
    }
}
