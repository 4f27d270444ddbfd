//! Looks at the backing files alone, as software that does not know the tier would.
//!
//! Invariants checked:
//! - `disk-alone`: after a drain, and until the next change, each backing file has all pages; after a drained
//!   close it is exactly the file.
//! - `flash-expendable`: in sync mode `through`, and wherever the tier holds clean pages only, each backing
//!   file alone is what the file may be after a crash, at every moment.
//! - `guarded`: with a guard, a backing file that is none of this begins with the guard.

use mezzanine_device::memory::Image;
use mezzanine_volume::GUARD_NAME_BYTES as NAME_BYTES;

use crate::crash::driver::{Invariant, Stop};
use crate::crash::volume::model::Drained;
use crate::crash::volume::world::{GUARD, World};

/// To be called right after a power cut, and before the software runs again.
pub(in crate::crash::volume) fn check_after_cut(world: &mut World) -> Result<(), Stop> {
    match world.drained {
        Drained::No => {}
        Drained::Pages => check_pages_drained(world)?,
        Drained::Files => check_drained(world)?,
    }
    if world.scenario.flash_is_expendable() {
        each(world, Invariant::FlashExpendable, "in sync mode through", |_| false)?;
    }
    check_guards(world)
}

/// To be called when a drained close was acknowledged: each disk is exactly the file.
pub(in crate::crash::volume) fn check_drained(world: &mut World) -> Result<(), Stop> {
    each(world, Invariant::DiskAlone, "after a drained close", |_| false)
}

/// To be called when a drain was acknowledged and the tier stays in use: every page is on disk, but the guard
/// may still stand at the head, and the length may still follow.
pub(in crate::crash::volume) fn check_pages_drained(world: &mut World) -> Result<(), Stop> {
    for (file, (model, disk)) in world.models.iter().zip(&world.machine.disks).enumerate() {
        let mut image = disk.snapshot();
        let guarded = u64::from(image.starts_with(GUARD));
        image.resize(model.len() as usize);
        if let Err(text) = model.is_possible_from(guarded, &image) {
            return Err(Stop::Violated(
                Invariant::DiskAlone,
                format!("disk {file} after a drain has {text}"),
            ));
        }
    }
    world.life.coverage.disks_compared += 1;
    Ok(())
}

/// Every file that is not what it may be on its own must say so in its head.
pub(in crate::crash::volume) fn check_guards(world: &mut World) -> Result<(), Stop> {
    if !world.scenario.guards {
        return Ok(());
    }
    // A file that is shorter than its guard has the guard's length while it stands there, and its head and
    // its length cannot be put back in one write. Files of the software that a guard is for are longer
    // than it.
    let excused = |image: &Image| image.starts_with(GUARD) || image.len() <= GUARD.len() + NAME_BYTES;
    each(world, Invariant::Guarded, "without its guard", excused)
}

fn each(
    world: &mut World,
    invariant: Invariant,
    when: &str,
    excused: impl Fn(&Image) -> bool,
) -> Result<(), Stop> {
    for (file, (model, disk)) in world.models.iter().zip(&world.machine.disks).enumerate() {
        let possible = disk.view(|image| if excused(image) { Ok(()) } else { model.is_possible(image) });
        if let Err(text) = possible {
            return Err(Stop::Violated(invariant, format!("disk {file} {when} has {text}")));
        }
    }
    world.life.coverage.disks_compared += 1;
    Ok(())
}
