//! A device reports an error once (docs/reliability.md, *What an error may cost*).
//!
//! Invariants checked:
//! 1. A failed write of flash costs the tier and nothing else; so does a failed flush where nothing is newer
//!    in the tier than on disk. The server goes on without it until it ends: with its pages on disk, with
//!    checkpoints, drops and evictions, and with power cuts in the midst of that.
//! 2. After any other failure the server restarts, from its log or from what is durable on flash.
//! 3. Without a tier disk and log are the whole database, and the control file says so. A tier that may
//!    have had only copies is empty after the next start; of another one every page is right.
//! 4. Nothing fails but what has to do with an error that was reported. A start that meets one does without
//!    the tier where disk and log suffice, and is else repeated.

use std::fmt::Display;

use mezzanine_device::Device;
use mezzanine_device::memory::Operation;
use mezzanine_engine::{Failure, PageId, given_up_page};
use mezzanine_ground::random::{Random, splitmix};

use super::running::Server;
use super::scenario::PAGE;
use super::world::World;
use crate::crash::database::contents;
use crate::crash::driver::{Failing, Invariant, Planned, Stop};

/// Tells the numbers of errors of a start from others.
const START: u64 = 0x57A7;

impl World {
    /// Plans an error for some time in this session.
    pub(super) fn plan_error(&mut self) {
        if !self.scenario.errors || !self.life.random.chance(1, 4) {
            return;
        }
        let on_flash = self.life.random.chance(2, 3);
        let drawn = *self.life.random.pick(&[Operation::Flush, Operation::Write, Operation::Write]);
        // A failed write leaves any of its sectors, so a disk whose writes are atomic fails otherwise.
        let operation = if !on_flash && self.scenario.atomic_disk { Operation::Flush } else { drawn };
        let after = self.life.random.magnitude(128);
        self.plan(on_flash, operation, after);
    }

    /// Plans an error of flash for the start of this session, from numbers of its own.
    pub(super) fn plan_error_of_start(&mut self) {
        let mut random = Random::new(splitmix(self.life.random.clone().next_u64() ^ START));
        if self.scenario.errors && random.chance(1, 32) {
            let operation = *random.pick(&[Operation::Read, Operation::Flush, Operation::Write]);
            let after = random.magnitude(32);
            self.plan(true, operation, after);
        }
    }

    fn plan(&mut self, on_flash: bool, operation: Operation, after: u64) {
        let failing = if on_flash { Failing::Flash } else { Failing::Disk };
        self.planned = Some(Planned::on(self.machine.device(failing), failing, operation, after));
        self.life.tell(|| format!("to fail: {:?}, after {after}", self.planned));
        self.failing = true;
        self.life.coverage.errors_planned += 1;
    }

    /// Whether the error that was planned has been reported.
    pub(super) fn struck(&self) -> bool {
        self.planned.is_some_and(|planned| planned.has_struck(self.machine.device(planned.failing)))
    }

    /// Whether an operation may fail: an error was reported, or may be at any time.
    pub(super) fn may_fail(&self) -> bool {
        self.failing && (self.planned.is_none() || self.struck())
    }

    /// An error of the start did not come.
    pub(super) fn forget_error_of_start(&mut self) {
        if self.planned.is_some() {
            self.forget_error();
        }
    }

    /// The server did not start, because flash has reported an error. It is started again.
    pub(super) fn failed_to_start(&mut self) -> Result<(), Stop> {
        self.life.tell(|| "flash has failed, and the server did not start".to_owned());
        self.life.coverage.errors_fatal += 1;
        self.error_outlived(true);
        self.process_died(false);
        Ok(())
    }

    /// The session is over. Where the devices still have power, one that has failed is restarted, and has
    /// lost what it had not made durable.
    pub(super) fn error_outlived(&mut self, powered: bool) {
        if let (Some(planned), true, true) = (self.planned, powered, self.struck()) {
            let seed = self.life.random.next_u64();
            self.machine.device(planned.failing).power_cut(seed);
        }
        self.forget_error();
    }

    /// While the server has no tier disk and log are the whole database.
    pub(super) fn check_without_tier(&mut self) -> Result<(), Stop> {
        self.life.power_is_on()?;
        if self.machine.control.read().files_lack_pages {
            let text =
                "the server does without the tier, and the control file says that the files lack pages";
            return Err(Stop::violated(Invariant::DiskAlone, text));
        }
        self.check_disk_alone("without the tier")
    }
}

impl World {
    /// Pages that were lost before their tier was given up are restored from a backup, as the server says: in
    /// their places must be what no server accepts, or what they must be.
    fn restore_given_up(&mut self, lost: &[PageId]) -> Result<(), Stop> {
        let mut nothing = vec![0; PAGE as usize];
        given_up_page(&mut nothing);
        for place in 0..self.scenario.space.places() {
            let expected = self.history.now().version(place);
            let Some(version) = expected.filter(|_| lost.contains(&self.scenario.space.id(place))) else {
                continue;
            };
            let at = u64::from(place) * u64::from(PAGE);
            let mut page = vec![0; PAGE as usize];
            let read = self.machine.disk.read_at(&mut page, at);
            self.done("read the disk", read)?;
            if page == nothing {
                self.life.coverage.damage_reported += 1;
                contents::fill(&mut page, place, version);
                let restored = self.machine.disk.write_at(&page, at).and_then(|()| self.machine.disk.flush());
                self.done("restore a page", restored)?;
            }
        }
        Ok(())
    }
}

impl Server<'_> {
    /// Whether there is a tier that works. One that has failed is given up first.
    pub(super) fn tier_in_use(&mut self) -> Result<bool, Stop> {
        if self.hosts.first().is_some_and(|host| host.tier().failure().is_some()) {
            self.world.life.power_is_on()?;
            self.give_up_tier()?;
        }
        Ok(!self.hosts.is_empty())
    }

    /// What came of a call that must not fail: `None` if it did because the tier's device has failed, and
    /// the server goes on without the tier. What the call was to bring about holds then.
    pub(super) fn must<T, E: Display>(
        &mut self,
        operation: &str,
        result: Result<T, E>,
    ) -> Result<Option<T>, Stop> {
        if result.is_err() && !self.tier_in_use()? {
            return Ok(None);
        }
        self.world.done(operation, result).map(Some)
    }

    fn give_up_tier(&mut self) -> Result<(), Stop> {
        if self.world.harm.is_some() {
            return Err(Stop::DeviceFailed);
        }
        let failure = self.hosts[0].tier().failure();
        let newer = self.hosts[0].tier().valid_and_dirty().1 > 0;
        let given_up = self.host().give_up();
        self.world.life.tell(|| format!("{failure:?}: given up: {given_up:?}"));
        self.world.life.power_is_on()?;
        self.check_cause(failure)?;
        let clean = self.hosts[0].is_provably_clean();
        let restarts = match failure {
            Some(Failure::FlashWrite) => false,
            Some(Failure::FlashSync) => newer && !clean,
            _ => !clean,
        };
        match given_up {
            Err(_) if restarts => Err(Stop::DeviceFailed),
            Err(refusal) => {
                let text = format!("{failure:?} costs more than the tier: {refusal}");
                Err(Stop::violated(Invariant::NoUnprovokedError, text))
            }
            Ok(_) => self.go_on_without_tier(),
        }
    }

    fn go_on_without_tier(&mut self) -> Result<(), Stop> {
        self.world.count(&self.hosts[0]);
        // One that never has only copies may be believed: its slots as far as redo brings them up to date, or
        // all of it when it could just be closed.
        self.world.given_up = !self.hosts[0].is_provably_clean();
        self.hosts.clear();
        self.world.life.coverage.errors_outlived += 1;
        self.world.check_without_tier()?;
        // Somebody restarts it at once.
        if self.world.life.random.chance(1, 4) { Err(Stop::DeviceFailed) } else { Ok(()) }
    }

    /// A tier has failed because of the error that was reported, and of no other.
    fn check_cause(&self, failure: Option<Failure>) -> Result<(), Stop> {
        let planned = self.world.planned.filter(|_| self.world.struck());
        let planned = planned.map(|planned| (planned.failing == Failing::Flash, planned.operation));
        let right = match failure {
            None | Some(Failure::FlashRead { .. }) => false,
            Some(Failure::FlashWrite) => {
                matches!(planned, Some((true, Operation::Write | Operation::Flush)))
            }
            Some(Failure::FlashSync) => planned == Some((true, Operation::Flush)),
            Some(Failure::DiskWrite) => planned == Some((false, Operation::Write)),
            Some(Failure::DiskSync) => planned == Some((false, Operation::Flush)),
        };
        if right {
            return Ok(());
        }
        let text = format!("the tier has failed, {failure:?}, and what has failed is {planned:?}");
        Err(Stop::violated(Invariant::NoUnprovokedError, text))
    }

    /// An operation has failed on a device, and the server restarts.
    pub(super) fn device_failed(mut self) -> Result<(), Stop> {
        if self.world.harm.is_some() && !self.hosts.is_empty() {
            self.give_up_harmed()?;
        }
        self.hosts.clear();
        let world = self.world;
        // The devices are restarted, and have lost what they had not made durable.
        let seed = world.life.random.next_u64();
        if world.machine.flash.faults_struck() > 0 {
            world.machine.flash.power_cut(seed);
        }
        if world.machine.disk.faults_struck() > 0 {
            world.machine.disk.power_cut(seed);
        }
        world.forget_error();
        world.machine.power.restore();
        world.life.coverage.errors_fatal += 1;
        world.process_died(false);
        Ok(())
    }

    /// On flash that comes to harm more may be lost than what an error costs.
    fn give_up_harmed(&mut self) -> Result<(), Stop> {
        let failure = self.hosts[0].tier().failure();
        let lost = self.hosts[0].tier().lost();
        let given_up = self.hosts[0].give_up();
        self.world.life.tell(|| format!("{failure:?}: given up: {given_up:?}, of them lost: {lost:?}"));
        self.world.life.power_is_on()?;
        if given_up.is_ok() && failure.is_some() {
            self.world.restore_given_up(&lost)?;
            self.world.check_disk_alone("after a tier was given up")?;
        }
        Ok(())
    }
}
