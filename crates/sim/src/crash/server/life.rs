//! The life that a world leads from cut to cut.

use super::running::Server;
use super::world::World;
use crate::crash::database::checkers::check_commits;
use crate::crash::driver::Stop;
use crate::crash::driver::life::{self, Life};
use crate::crash::kind::Kind;

impl life::World for World {
    const CUTS_WHILE_OPENING: u64 = 3;

    fn life(&mut self) -> &mut Life {
        &mut self.life
    }

    fn into_life(self) -> Life {
        self.life
    }

    fn kind(&self) -> &'static str {
        Kind::Server.name()
    }

    fn summary(&self) -> String {
        format!("record {}, {}", self.machine.log.end(), self.scenario.summary())
    }

    fn session(&mut self) -> Result<(), Stop> {
        match self.start_and_use() {
            Ok(()) => self.machine.power.restore(),
            Err(Stop::PowerFailed) => self.power_failed()?,
            Err(Stop::Refused(reason)) => self.refused(reason)?,
            Err(stop) => return Err(stop),
        }
        if self.life.random.chance(1, 16) {
            self.look_at_damage()?;
        }
        self.live_on_harmed()?;
        self.tamper();
        Ok(())
    }
}

impl World {
    /// Starts, checks, operates and ends in one of the ways in which the devices keep their power.
    pub(super) fn start_and_use(&mut self) -> Result<(), Stop> {
        self.life.opening = true;
        if self.life.random.chance(1, 4) {
            let mut random = self.life.random.clone();
            self.scenario.draw_policy(&mut random);
        }
        self.plan_error_of_start();
        let hosts = match self.start() {
            Err(Stop::Refused(_) | Stop::DeviceFailed) if self.struck() => return self.failed_to_start(),
            Err(Stop::Refused(reason)) => {
                self.forget_error_of_start();
                return Err(Stop::Refused(reason));
            }
            started => started?,
        };
        if self.planned.is_none_or(|_| !self.struck()) {
            self.forget_error_of_start();
            self.plan_error();
        }
        let mut server = Server::new(self, hosts);
        let ended = server.live();
        if let Some(host) = server.hosts.first() {
            server.world.count(host);
        }
        match ended {
            Err(Stop::DeviceFailed) => server.device_failed(),
            ended => {
                self.error_outlived(ended.is_ok());
                ended
            }
        }
    }

    /// The power has failed: decides what the devices keep, and looks at what can be seen without the server.
    fn power_failed(&mut self) -> Result<(), Stop> {
        self.life.power_failed();
        self.devices_lose_power();
        self.life.tell(|| format!("power cut {}, {:?}", self.life.cuts(), self.machine.control.read()));
        self.forget_error();
        check_commits(&self.machine.log, self.acknowledged)
    }
}
