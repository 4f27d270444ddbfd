//! A device reports an error once. A read is repeated. After anything else the database does what PostgreSQL
//! does after a failed sync: it stops, and starts again from what is durable; the device is restarted and has
//! lost what was not flushed. What may be lost at that is in [`super::giving_up`].

use mezzanine_device::memory::Operation;
use mezzanine_ground::random::{Random, splitmix};

use super::scenario::Tearing;
use super::world::World;
use crate::crash::driver::{Failing, Planned};

impl World {
    /// Plans an error for some time in this session.
    pub(super) fn plan_error(&mut self) {
        if !self.scenario.errors || !self.life.random.chance(1, 4) {
            return;
        }
        let failing = if self.life.random.chance(1, 2) { Failing::Flash } else { Failing::Disk };
        let drawn = *self.life.random.pick(&[Operation::Flush, Operation::Flush, Operation::Write]);
        // A failed write leaves any of its sectors, so a disk whose writes are atomic fails otherwise.
        let whole = failing == Failing::Disk && self.scenario.tearing == Tearing::AtomicDisk;
        let operation = if whole { Operation::Flush } else { drawn };
        let after = self.life.random.magnitude(128);
        // From a number of its own, so that nothing else changes.
        let reads = Random::new(splitmix(after ^ self.life.random.clone().next_u64())).chance(1, 3);
        let operation = if reads { Operation::Read } else { operation };
        self.failing = Some(Planned::on(self.machine.device(failing), failing, operation, after));
        self.life.tell(|| format!("to fail: {:?}, after {after}", self.failing));
        self.life.coverage.errors_planned += 1;
    }

    /// The error that was planned, once it has been reported.
    pub(super) fn struck(&self) -> Option<Planned> {
        self.failing.filter(|planned| planned.has_struck(self.machine.device(planned.failing)))
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
        let seed = self.life.random.next_u64();
        self.life.tell(|| format!("{:?} has failed", self.failing));
        match self.failing {
            Some(planned) => self.machine.device(planned.failing).power_cut(seed),
            None => unreachable!("only a device that is to fail fails"),
        };
        self.forget_error();
        self.machine.power.restore();
        self.life.coverage.errors_fatal += 1;
        // A tier that was not given up is there at the next start.
        self.tier_must_be_there = !std::mem::take(&mut self.given_up);
        self.process_died(false);
    }
}
