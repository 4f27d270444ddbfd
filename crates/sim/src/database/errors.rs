//! A device reports an error once. The database does what PostgreSQL does after a failed sync: it stops, and starts again from what
//! is durable; the device is restarted and has lost what was not flushed.

use mezzanine_device::DeviceErrorKind;
use mezzanine_device::memory::{Fault, Injection, Operation};

use super::scenario::Tearing;
use super::world::World;

/// The device that is to report an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failing {
    Flash,
    Disk,
}

impl World {
    /// Plans an error for some time in this session.
    pub(super) fn plan_error(&mut self) {
        if !self.scenario.errors || !self.random.chance(1, 4) {
            return;
        }
        let failing = if self.random.chance(1, 2) { Failing::Flash } else { Failing::Disk };
        let drawn = *self.random.pick(&[Operation::Flush, Operation::Flush, Operation::Write]);
        // A failed write leaves any of its sectors, so a disk whose writes are atomic fails otherwise.
        let whole = failing == Failing::Disk && self.scenario.tearing == Tearing::AtomicDisk;
        let operation = if whole { Operation::Flush } else { drawn };
        let (after, fault) = (self.random.magnitude(128), Fault::Error(DeviceErrorKind::Io));
        let error = Injection { operation, after, count: 1, fault };
        match failing {
            Failing::Flash => self.machine.flash.inject(error),
            Failing::Disk => self.machine.disk.inject(error),
        }
        self.failing = Some(failing);
        self.coverage.errors_planned += 1;
    }

    /// Forgets an error that did not come.
    pub(super) fn forget_error(&mut self) {
        if self.failing.take().is_some() {
            self.machine.flash.heal();
            self.machine.disk.heal();
        }
    }

    /// The database has stopped because a device failed.
    pub(super) fn device_failed(&mut self) {
        let seed = self.random.next_u64();
        self.trace(|| format!("{:?} has failed", self.failing));
        match self.failing {
            Some(Failing::Flash) => self.machine.flash.power_cut(seed),
            Some(Failing::Disk) => self.machine.disk.power_cut(seed),
            None => unreachable!("only a device that is to fail fails"),
        };
        self.forget_error();
        self.machine.power.restore();
        self.coverage.errors_fatal += 1;
        self.process_died(false);
    }
}
