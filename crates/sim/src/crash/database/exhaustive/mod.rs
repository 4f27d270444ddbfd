//! A database as a subject of traces ([`crate::crash::exhaustive`]): short lives with checkpoints, drops,
//! loads, processes that die with jobs in their hands, kills and shutdowns, every cut of them with every
//! outcome.
//!
//! Nothing is drawn: one process carries out one job after the other, nobody does anything while somebody
//! waits, and where a step could draw it draws the same each time. What is no device is the log, of which
//! every prefix may survive between what was flushed and what was handed to the operating system, and the
//! control file, which is the old one or the new one.

mod setting;

mod step;

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use mezzanine_device::memory::MemoryDevice;
use mezzanine_ground::random::Random;

use super::server::Server;
use super::world::World;
use crate::crash::database::logging::Logging;
use crate::crash::driver::Stop;
use crate::crash::driver::exhaustive::subject::{Broken, Choice, Ended, Subject, broken, ended};
pub(crate) use setting::Setting;
pub use step::Step;

impl Subject for World {
    type Setting = Setting;
    type Step = Step;
    /// Every recovery ends in the one state that the log has, and is compared with that.
    type Contents = ();

    fn blank(setting: &Setting) -> Self {
        Self::of(setting.scenario())
    }

    fn beginning(setting: &Setting) -> Result<Self, Broken> {
        setting.begin()
    }

    fn copy_from(&mut self, other: &Self) {
        Self::copy_from(self, other);
    }

    fn play(&mut self, trace: &[Step], stop: u64) -> Result<Ended, Broken> {
        let ended = ended(play(self, trace, stop))?;
        if ended == Ended::Idle {
            process_died(self);
        }
        Ok(ended)
    }

    fn devices(&self) -> Vec<&MemoryDevice> {
        vec![&*self.machine.flash, &*self.machine.disk]
    }

    fn ways(&self) -> usize {
        self.machine.log.ends().count() * self.controls()
    }

    fn way_key(&self, way: usize) -> u64 {
        let mut hasher = DefaultHasher::new();
        let control = match self.machine.control.under_way() {
            Some(control) if self.is_replaced(way) => control,
            _ => self.machine.control.read(),
        };
        (self.log_end(way), control.redo, control.tier, control.disk_suffices).hash(&mut hasher);
        (self.acknowledged, &self.orphaned, &self.dropped, &self.thinned).hash(&mut hasher);
        hasher.finish()
    }

    fn cut(&mut self, choice: &Choice) {
        let (end, replaced) = (self.log_end(choice.way), self.is_replaced(choice.way));
        let [flash, disk] = &choice.survivals[..] else { unreachable!("there are two devices") };
        self.machine.cut_as(flash, disk, end, replaced);
        self.history.log_cut(&self.machine.log);
    }

    fn check_after_cut(&mut self) -> Result<(), Broken> {
        self.check_commits().map_err(broken)?;
        let suffices = self.machine.control.read().disk_suffices;
        if suffices { self.check_disk_alone().map_err(broken) } else { Ok(()) }
    }

    fn open_until(&mut self, stop: u64) -> Result<Ended, Broken> {
        self.machine.power.crash_after(stop);
        ended(session(self, |_| Ok(())))
    }

    fn recover(&mut self, close: bool) -> Result<(), Broken> {
        session(self, |server| check(server, close)).map_err(broken)?;
        process_died(self);
        Ok(())
    }

    fn compare(&self, (): &(), (): &()) -> Result<(), Broken> {
        Ok(())
    }

    fn lose_flash(&mut self) -> bool {
        let expendable = self.machine.control.read().disk_suffices;
        if expendable {
            self.machine.flash.load(&vec![0; self.scenario.flash_bytes() as usize]);
        }
        expendable
    }
}

impl World {
    /// How many values the control file may have after a cut.
    fn controls(&self) -> usize {
        if self.machine.control.under_way().is_some() { 2 } else { 1 }
    }

    fn is_replaced(&self, way: usize) -> bool {
        way % self.controls() == 1
    }

    fn log_end(&self, way: usize) -> u64 {
        *self.machine.log.ends().start() + (way / self.controls()) as u64
    }
}

impl Server<'_> {
    /// A whole checkpoint that does no more than the sync mode asks for.
    fn checkpoint_under_way_to_its_end(&mut self) -> Result<(), Stop> {
        self.finish_checkpoint()?;
        self.begin_checkpoint_that(false);
        self.finish_checkpoint()
    }
}

/// Starts the server, lets it do `work`, and ends its process.
fn session(world: &mut World, work: impl FnOnce(&mut Server<'_>) -> Result<(), Stop>) -> Result<(), Stop> {
    world.life.random = Random::new(1);
    let (tier, superblock) = world.open_tier()?;
    let mut server = Server::new(world, &tier, superblock);
    let done = server.redo().and_then(|()| work(&mut server));
    done?;
    world.life.power_is_on()?;
    world.count(&tier);
    Ok(())
}

/// The process is gone: of the log there is what it had handed to the operating system.
fn process_died(world: &mut World) {
    world.machine.log.process_died();
    world.history.log_cut(&world.machine.log);
}

/// Starts, plays the steps, and lets power fail in the `stop`-th operation of the last one.
fn play(world: &mut World, trace: &[Step], stop: u64) -> Result<(), Stop> {
    if trace.is_empty() {
        world.machine.power.crash_after(stop);
    }
    let mut rest = trace;
    loop {
        let session_ends = rest.iter().position(|step| step.ends());
        let (now, later) = rest.split_at(session_ends.map_or(rest.len(), |at| at + 1));
        session(world, |server| {
            for (number, step) in now.iter().enumerate() {
                if later.is_empty() && number + 1 == now.len() {
                    server.world.machine.power.crash_after(stop);
                }
                server.world.life.random = Random::new(1);
                step.take(server)?;
                server.world.life.power_is_on()?;
            }
            Ok(())
        })?;
        if session_ends.is_none() {
            return Ok(());
        }
        process_died(world);
        rest = later;
    }
}

/// Reads and compares everything. With `close`, a checkpoint makes disk and log suffice, and they are
/// compared alone.
fn check(server: &mut Server<'_>, close: bool) -> Result<(), Stop> {
    server.tier.check();
    for place in 0..server.world.scenario.space.places() {
        server.world.waits = 0;
        server.check(place)?;
    }
    if close {
        server.begin_checkpoint_that(true);
        server.finish_checkpoint()?;
        server.world.check_disk_alone()?;
    }
    Ok(())
}
