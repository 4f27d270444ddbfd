//! Devices and sidecars that report errors: which, when, and what that means for a session.
//!
//! In a session that may fail, an operation may return an error once a device has failed in it; before that
//! an error is as unprovoked as ever, and after that one that the failure may not cost ([`super::costs`]).
//! The process then goes on, or ends there. Whatever it does, what was acknowledged before and after holds
//! once the devices are in order again.

use mezzanine_device::DeviceErrorKind;
use mezzanine_device::memory::{Fault, Injection, Operation};
use mezzanine_volume::VolumeErrorKind;

use super::costs::{Met, REPLACE, changes_tier};
use super::failing::{Faults, READS_OF_SILENCE};
use super::machine::{Machine, SidecarFault};
use super::operations;
use super::world::{Session, World, trace};
use crate::crash::driver::{Invariant, Stop};
use crate::crash::volume::model::Drained;

impl World {
    /// Lets devices fail in the session to come, if this is a world in which they do. Some stay broken over
    /// sessions.
    pub(super) fn plan_faults(&mut self) {
        self.faults.change_failed.set(false);
        self.faults.replacement_failed.set(false);
        if self.faults.planned && self.life.random.chance(3, 4) {
            self.machine.heal();
            self.faults.planned = false;
        }
        if !self.scenario.errors || self.faults.planned || self.life.random.chance(1, 2) {
            return;
        }
        self.expect_faults();
        for _ in 0..self.life.random.between(1, 2) {
            self.plan_fault();
        }
    }

    /// From now on devices may fail; what had failed before is none of it.
    pub(super) fn expect_faults(&mut self) {
        let struck_before = (self.machine.faults_struck(), self.machine.struck());
        self.faults = Faults { planned: true, struck_before, ..Faults::default() };
    }

    fn plan_fault(&mut self) {
        let after = self.life.random.magnitude(128) - 1;
        let count = *self.life.random.pick(&[1, 1, 2, u64::MAX]);
        let no_space = self.life.random.chance(1, 2);
        let file = self.life.random.below(self.machine.disks.len() as u64) as usize;
        self.life.coverage.errors_planned += 1;
        if self.life.random.chance(1, 6) {
            let fault = SidecarFault { after: after % 8, count, no_space };
            trace!(self, "sidecar {file} is to fail: {fault:?}");
            self.machine.sidecars[file].inject(fault);
            return;
        }
        let kinds = [
            Operation::Read,
            Operation::Write,
            Operation::Write,
            Operation::Flush,
            Operation::Flush,
            Operation::SetLen,
            Operation::Discard,
        ];
        let kind = if no_space { DeviceErrorKind::NoSpace } else { DeviceErrorKind::Io };
        let fault = Fault::Error(kind);
        let injection = Injection { operation: *self.life.random.pick(&kinds), after, count, fault };
        let on_flash = self.life.random.chance(1, 2);
        trace!(self, "to fail on {}: {injection:?}", if on_flash { "flash" } else { "a disk" });
        if on_flash && injection.operation == Operation::Read {
            self.faults.flash_reads = self.faults.flash_reads.saturating_add(count);
        }
        let device = if on_flash { &self.machine.flash } else { &self.machine.disks[file] };
        device.inject(injection);
    }

    /// Whether a device has failed in this session: only then an operation may fail.
    pub(super) fn has_fault_struck(&self) -> bool {
        self.faults.planned && self.machine.faults_struck() > self.faults.struck_before.0
    }

    /// Pages that were lost while reads of flash failed are still lost when the devices are in order again:
    /// then somebody writes them anew.
    pub(super) fn write_lost_anew(&mut self, session: &Session) -> Result<(), Stop> {
        if self.has_fault_struck() {
            return Ok(());
        }
        for (path, offset) in session.volume.lost_pages() {
            let Some(file) = (0..self.models.len()).find(|file| Machine::path(*file) == path) else {
                continue;
            };
            if self.machine.flash.faults_struck() == 0 {
                let text = format!("file {file}, offset {offset}: lost, and no read of flash ever failed");
                return Err(Stop::Violated(Invariant::NoUnprovokedError, text));
            }
            let offset = session.files[file].counted(offset);
            operations::write(self, session, file, offset, self.scenario.page_bytes())?;
        }
        Ok(())
    }

    /// Whether nothing else has failed since something may.
    pub(super) fn has_spare_alone_failed(&self) -> bool {
        self.met().struck.is_of_spare_alone()
    }

    fn met(&self) -> Met {
        Met {
            struck: self.machine.struck().since(self.faults.struck_before.1),
            clean: self.scenario.flash_is_expendable(),
            disk_first_at_times: self.scenario.switches,
            flash_is_unreadable: self.faults.flash_reads >= READS_OF_SILENCE,
            unstarted: self.has_not_started(),
            pages_may_be_lost: self.machine.struck().flash.reads > 0,
            change_failed: self.faults.change_failed.get(),
            replacement_failed: self.faults.replacement_failed.get(),
        }
    }

    /// What failed must not cost more than docs/reliability.md says (*What an error may cost*).
    pub(super) fn hold_to_cost(&self, session: &Session) -> Result<(), Stop> {
        let state = session.volume.state();
        if !self.has_fault_struck() || self.met().may_be(&state) {
            return Ok(());
        }
        // The loss of power ends everything, and it is looked at elsewhere.
        self.life.power_is_on()?;
        let text = format!("it may not cost what it did that {:?}: {state:?}", self.met());
        Err(Stop::Violated(Invariant::NoUnprovokedError, text))
    }

    /// What an error means that an operation returned after a device had failed.
    ///
    /// That a device fails can make files and tiers unusable, but never strangers to one another.
    pub(super) fn judge_failure(&self, operation: &str, kind: VolumeErrorKind, text: &str) -> Stop {
        if self.met().may_fail(operation, kind) {
            let may_cost = changes_tier(operation) && !self.has_spare_alone_failed();
            self.faults.change_failed.set(self.faults.change_failed.get() || may_cost);
            let replaces = operation == REPLACE || self.faults.replacement_failed.get();
            self.faults.replacement_failed.set(replaces);
            trace!(self, "{operation} failed: {text}");
            return Stop::DeviceFailed;
        }
        Stop::Violated(
            Invariant::NoUnprovokedError,
            format!("{operation} failed, and it may not by {:?}: {text}", self.met()),
        )
    }

    /// An operation failed and its session goes on: each part of its change was made or not. `before` is the
    /// number of the last change before it.
    pub(super) fn go_on_after_failure(&mut self, session: &Session, before: u32) -> Result<(), Stop> {
        self.life.coverage.errors_outlived += 1;
        self.drained = Drained::No;
        for (file, model) in self.models.iter_mut().enumerate() {
            let len = session.files[file].len();
            model.change_failed(before, self.version, len).map_err(|possible| {
                let text =
                    format!("file {file} has {len} bytes after a failed change; possible are {possible}");
                Stop::Violated(Invariant::ReadYourWrites, text)
            })?;
        }
        Ok(())
    }

    /// A device failed and the process ended on that. What was not synced is in doubt, also in its parts.
    pub(super) fn end_after_failure(&mut self) {
        self.machine.power.restore();
        self.models_crashed();
        self.drained = Drained::No;
        self.life.coverage.errors_fatal += 1;
        if self.life.random.chance(1, 2) {
            // A device that failed may have lost what it was to make durable.
            trace!(self, "the devices lose what was not flushed");
            self.machine.cut(&mut self.life.random);
        }
    }
}
