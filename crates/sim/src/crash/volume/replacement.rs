//! Another flash device takes the place of the present one while the volume is in use.
//!
//! After a power cut on the way somebody opens the volume with the one or the other; the software must take
//! one of them, and from then on it is the flash device of the world. What is found there is up to the
//! checkers of the pages. After a failure a device may be taken by what it has not flushed, such as that
//! nobody needs it; if a power cut takes that back, they decide once more.

use mezzanine_ground::random::splitmix;
use mezzanine_volume::{ReplaceOptions, VolumeError, VolumeState};

use super::checkers::disk;
use super::costs::{REPLACE, Struck};
use super::machine::Machine;
use super::model::FileModel;
use super::online::is_tier_alone;
use super::spares;
use super::world::{Session, World, trace};
use crate::crash::driver::{Invariant, Stop};
use crate::crash::volume::model::Drained;

/// Replaces the flash device by the spare one.
pub(super) fn replace(world: &mut World, session: &Session) -> Result<(), Stop> {
    // Which of the two still counts after a device has failed is a matter of what failed.
    if world.faults.planned && !world.scenario.spares {
        return Ok(());
    }
    trace!(world, "the flash device is replaced");
    spares::plan(world);
    let struck_before = world.machine.struck();
    world.formats += 1;
    let options = ReplaceOptions {
        // The spare one may be half a tier, after a cut, or one that was in use before.
        force: true,
        identity_seed: Some(splitmix(world.scenario.seed ^ world.formats)),
        ..ReplaceOptions::new(world.scenario.tier.clone())
    };
    // One that fails leaves it without, whatever else fails before the next one.
    let already = world.replacing && world.without_tier;
    world.without_tier = already || matches!(session.volume.state(), VolumeState::Bypass { .. });
    world.replacing = true;
    let spare = world.machine.connect(&world.machine.spare);
    if let Err(error) = session.volume.replace_flash(spare, &options) {
        return Err(failed(world, session, struck_before, &error));
    }
    world.replacing = false;
    world.life.coverage.replacements_outlived += u64::from(world.machine.struck() != struck_before);
    world.machine.swap_flash();
    world.life.coverage.replacements += 1;
    // It takes pages, whether the old one did or not.
    world.disk_first = !is_tier_alone(world, session);
    // The first change of a file that its tier does not know yet makes the file ready, and may wait.
    world.written.fill(false);
    world.models.iter_mut().for_each(FileModel::sync_acknowledged);
    world.drained = Drained::Pages;
    disk::check_pages_drained(world)
}

/// The replacement has failed: the volume goes on with the old device, or, if it is not in order any more,
/// somebody opens it with the one or the other later.
fn failed(world: &mut World, session: &Session, struck_before: Struck, error: &VolumeError) -> Stop {
    let stop = world.failed(REPLACE, error);
    if !matches!(stop, Stop::DeviceFailed) {
        return stop;
    }
    match spares::judge(world, session, struck_before, error) {
        Err(violated) => violated,
        Ok(as_before) => {
            world.replacing = !as_before;
            // Writes may go to disk from now on, and files may have to be made ready again.
            world.disk_first |= !is_tier_alone(world, session);
            world.written.fill(false);
            stop
        }
    }
}

/// After a power cut inside of that, or a failure: decides which of the two is opened, among those that can
/// be. Where the volume was without a tier when the replacement began nobody needs either.
pub(super) fn choose(world: &mut World) -> Result<(), Stop> {
    // A device that is lost since has nothing to choose.
    if !std::mem::take(&mut world.replacing) || !world.formatted {
        world.chosen_by_cache &= world.machine.flash.unflushed() > 0;
        return Ok(());
    }
    // Somebody has put it aside, and it has lost what was not flushed; after a power cut that is nothing.
    world.machine.spare.power_cut(world.life.random.clone().next_u64());
    if world.life.random.chance(1, 2) {
        world.machine.swap_flash();
    }
    let mut refusals = Vec::new();
    for _ in 0..2 {
        // A tier that the files have left before it could be told waits for those that it knows, and refuses
        // changes of any.
        let copy = Machine::from_snapshot(&world.machine.snapshot(), world.scenario.fingerprints);
        match world.try_open_on(&copy) {
            Ok(used) => match used.files.iter().try_for_each(|file| file.set_len(file.len())) {
                Ok(()) => {
                    world.chosen_by_cache = world.machine.flash.unflushed() > 0;
                    return Ok(());
                }
                Err(error) => refusals.push(format!("a change: {error}")),
            },
            Err((operation, error)) => refusals.push(format!("{operation}: {error}")),
        }
        world.machine.swap_flash();
    }
    if std::mem::take(&mut world.without_tier) {
        // The spare one was formatted again, which a file had been told of before, and that failed, too. Disk
        // has everything, and any device will do.
        trace!(world, "the spare device is formatted once more");
        world.formatted = false;
        return Ok(());
    }
    let text = format!("neither the old nor the new flash device can be used: {}", refusals.join("; "));
    Err(Stop::Violated(Invariant::NoUnprovokedError, text))
}
