//! Another flash device takes the place of the present one while the volume is in use.
//!
//! After a power cut on the way somebody opens the volume with the one or the other; the software must take
//! one of them, and from then on it is the flash device of the world. What is found there is up to the
//! checkers of the pages.

use mezzanine_device::memory::splitmix;
use mezzanine_volume::ReplaceOptions;

use super::checkers::disk;
use super::machine::Machine;
use super::model::FileModel;
use super::online::is_tier_alone;
use super::report::Invariant;
use super::world::{Drained, Session, Stop, World, trace};

/// Replaces the flash device by the spare one.
pub(super) fn replace(world: &mut World, session: &Session) -> Result<(), Stop> {
    // Which of the two still counts after a device has failed is a matter of what failed.
    if world.faults.planned {
        return Ok(());
    }
    trace!(world, "the flash device is replaced");
    world.formats += 1;
    let options = ReplaceOptions {
        // The spare one may be half a tier, after a cut, or one that was in use before.
        force: true,
        identity_seed: Some(splitmix(world.scenario.seed ^ world.formats)),
        ..ReplaceOptions::new(world.scenario.tier.clone())
    };
    world.replacing = true;
    let spare = world.machine.connect(&world.machine.spare);
    world.done("replace the flash device", session.volume.replace_flash(spare, &options))?;
    world.replacing = false;
    world.machine.swap_flash();
    world.coverage.replacements += 1;
    // It takes pages, whether the old one did or not.
    world.disk_first = !is_tier_alone(world, session);
    // The first change of a file that its tier does not know yet makes the file ready, and may wait.
    world.written.fill(false);
    world.models.iter_mut().for_each(FileModel::sync_acknowledged);
    world.drained = Drained::Pages;
    disk::check_pages_drained(world)
}

/// After a power cut inside of that: decides which of the two is opened, among those that can be.
pub(super) fn choose(world: &mut World) -> Result<(), Stop> {
    if !std::mem::take(&mut world.replacing) {
        return Ok(());
    }
    world.coverage.replacements_cut += 1;
    if world.random.chance(1, 2) {
        world.machine.swap_flash();
    }
    let mut refusals = Vec::new();
    for _ in 0..2 {
        // A tier that the files have left before it could be told waits for those that it knows, and refuses
        // changes of any.
        let copy = Machine::from_snapshot(&world.machine.snapshot(), world.scenario.fingerprints);
        match world.try_open_on(&copy) {
            Ok(used) => match used.files.iter().try_for_each(|file| file.set_len(file.len())) {
                Ok(()) => return Ok(()),
                Err(error) => refusals.push(format!("a change: {error}")),
            },
            Err((operation, error)) => refusals.push(format!("{operation}: {error}")),
        }
        world.machine.swap_flash();
    }
    let text = format!("neither the old nor the new flash device can be used: {}", refusals.join("; "));
    Err(Stop::Violated(Invariant::NoUnprovokedError, text))
}
