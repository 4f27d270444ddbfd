//! A device reports an error once: the server gives the tier up and ends, or restarts from what is durable.
//!
//! Invariants checked: where [`Host::give_up`](mezzanine_ffi::host::Host::give_up) says that the server can
//! go on, disk and log are the whole database; and the next start is one of a server whose tier was given up.

use mezzanine_device::DeviceErrorKind;
use mezzanine_device::memory::{Fault, Injection, Operation};

use super::life::Server;
use super::world::{Stop, World};

impl World {
    /// Plans an error for some time in this session.
    pub(super) fn plan_error(&mut self) {
        if !self.scenario.errors || !self.random.chance(1, 4) {
            return;
        }
        let on_flash = self.random.chance(2, 3);
        let drawn = *self.random.pick(&[Operation::Flush, Operation::Write, Operation::Write]);
        // A failed write leaves any of its sectors, so a disk whose writes are atomic fails otherwise.
        let operation = if !on_flash && self.scenario.atomic_disk { Operation::Flush } else { drawn };
        let (after, fault) = (self.random.magnitude(128), Fault::Error(DeviceErrorKind::Io));
        let device = if on_flash { &self.machine.flash } else { &self.machine.disk };
        device.inject(Injection { operation, after, count: 1, fault });
        self.failing = true;
        self.coverage.errors_planned += 1;
    }
}

impl Server<'_> {
    /// An operation has failed on a device.
    pub(super) fn device_failed(mut self) -> Result<(), Stop> {
        let failure = self.hosts[0].tier().failure();
        let given_up = self.hosts[0].give_up();
        self.world.trace(|| format!("{failure:?}: given up: {given_up:?}"));
        self.world.power_is_on()?;
        if given_up.is_ok() && failure.is_some() {
            self.world.check_disk_alone("after a tier was given up")?;
        }
        self.hosts.clear();
        let world = self.world;
        // The devices are restarted, and have lost what they had not made durable.
        let seed = world.random.next_u64();
        if world.machine.flash.faults_struck() > 0 {
            world.machine.flash.power_cut(seed);
        }
        if world.machine.disk.faults_struck() > 0 {
            world.machine.disk.power_cut(seed);
        }
        world.forget_error();
        world.machine.power.restore();
        world.coverage.errors_fatal += 1;
        world.process_died(false);
        Ok(())
    }
}
