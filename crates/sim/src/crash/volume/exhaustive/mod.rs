//! Files on a volume, as a subject of traces.

mod setting;

mod step;

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use mezzanine_device::memory::MemoryDevice;

use super::checkers::{disk, pages, recovery};
use super::moments::Contents;
use super::world::{Session, World};
use crate::crash::driver::Stop;
use crate::crash::driver::exhaustive::subject::{Broken, Choice, Ended, Subject, broken, ended};
pub(super) use setting::Setting;
pub use step::Step;

impl Subject for World {
    type Setting = Setting;
    type Step = Step;
    type Contents = Contents;

    fn blank(setting: &Setting) -> Self {
        Self::of(setting.scenario())
    }

    fn beginning(setting: &Setting) -> Result<Self, Broken> {
        setting.begin().map_err(broken)
    }

    fn copy_from(&mut self, other: &Self) {
        Self::copy_from(self, other);
    }

    fn play(&mut self, trace: &[Step], stop: u64) -> Result<Ended, Broken> {
        let mut session = None;
        let played = play_steps(self, &mut session, trace, stop);
        if let Some(session) = session {
            self.release(session);
        }
        let ended = ended(played)?;
        self.models_crashed();
        Ok(ended)
    }

    fn devices(&self) -> Vec<&MemoryDevice> {
        let disks = self.machine.disks.iter().map(|disk| &**disk);
        std::iter::once(&*self.machine.flash).chain(disks).collect()
    }

    /// A sidecar that power failed in the replacement of is the old one or the new one.
    fn ways(&self) -> usize {
        if self.machine.sidecars_cut_short().contains(&true) { 2 } else { 1 }
    }

    fn way_key(&self, way: usize) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.machine.sidecars.iter().for_each(|sidecar| sidecar.after_cut(way == 1).hash(&mut hasher));
        hasher.finish()
    }

    fn cut(&mut self, choice: &Choice) {
        let sidecars = vec![choice.way == 1; self.machine.sidecars.len()];
        let (flash, disks) = choice.survivals.split_first().expect("there is a flash device");
        self.machine.cut_as(flash, disks, &sidecars);
    }

    fn check_after_cut(&mut self) -> Result<(), Broken> {
        disk::check_after_cut(self).map_err(broken)
    }

    fn open_until(&mut self, stop: u64) -> Result<Ended, Broken> {
        self.machine.power.crash_after(stop);
        let opened = self.open().map(|session| self.release(session));
        let ended = ended(opened)?;
        if ended == Ended::Stopped {
            self.models_crashed();
        }
        Ok(ended)
    }

    fn recover(&mut self, close: bool) -> Result<Contents, Broken> {
        let session = reopen(self).map_err(broken)?;
        let checked = check(self, &session, close);
        self.release(session);
        checked.map_err(broken)
    }

    fn compare(&self, expected: &Contents, found: &Contents) -> Result<(), Broken> {
        recovery::compare(self, expected, found).map_err(broken)
    }

    fn lose_flash(&mut self) -> bool {
        let expendable = self.scenario.flash_is_expendable();
        if expendable {
            self.machine.flash.load(&vec![0; self.scenario.flash_bytes() as usize]);
            self.formatted = false;
        }
        expendable
    }
}

/// Opens, plays the steps, and lets power fail in the `stop`-th operation of the last one. The session that
/// is open at the end is left in `open`.
fn play_steps(world: &mut World, open: &mut Option<Session>, trace: &[Step], stop: u64) -> Result<(), Stop> {
    let mut cut_at = None;
    if trace.is_empty() {
        cut_at = Some(arm(world, stop));
    }
    *open = Some(reopen(world)?);
    for (number, step) in trace.iter().enumerate() {
        if number + 1 == trace.len() {
            cut_at = Some(arm(world, stop));
        }
        if !step.ends() {
            if let Some(session) = open {
                step.take(world, session)?;
            }
            continue;
        }
        if let Some(session) = open.take() {
            let ended = step.end(world, &session);
            world.release(session);
            ended?;
            // A closing that gives up a tier which nothing needs says nothing of the power that failed over
            // it.
            if !world.machine.power.is_on() {
                return Err(Stop::PowerFailed);
            }
            // The release forgot the planned cut, which has not come yet.
            if let Some(at) = cut_at {
                world.machine.power.crash_after(at + 1 - world.machine.power.operations());
            }
        }
        *open = Some(reopen(world)?);
    }
    Ok(())
}

/// Plans the cut in the `stop`-th operation from now, and returns its number.
fn arm(world: &World, stop: u64) -> u64 {
    world.machine.power.crash_after(stop);
    world.machine.power.operations() + stop - 1
}

/// Opens and compares the lengths. Pages are not read, because that changes what the tier holds.
fn reopen(world: &mut World) -> Result<Session, Stop> {
    let session = world.open()?;
    match pages::check_lengths(world, &session) {
        Ok(()) => Ok(session),
        Err(stop) => {
            world.release(session);
            Err(stop)
        }
    }
}

/// Reads and compares everything. With `close`, closes drained and looks at the disk alone.
fn check(world: &mut World, session: &Session, close: bool) -> Result<Contents, Stop> {
    for file in 0..world.models.len() {
        for page in 0..world.models[file].len().div_ceil(world.scenario.page_bytes()) {
            pages::read(world, session, file, page, 1)?;
        }
    }
    let contents = recovery::contents(world, session)?;
    session.volume.check();
    if close {
        world.done("close drained", session.volume.close_drained())?;
        disk::check_drained(world)?;
    }
    Ok(contents)
}
