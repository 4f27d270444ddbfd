//! Damages the flash device of a copy of the machine, at rest or by writes that go wrong, and reads
//! everything.
//!
//! Invariants checked: `damage-noticed`:
//! - While a tier is in use, and when it is opened after it was closed in order, every page reads right or is
//!   reported as lost.
//! - A page that the disk has as well reads right: everything after a drain, and always where the tier has
//!   clean pages only.
//! - When a tier is opened after a crash, damage to its newest groups looks like a torn write, and older
//!   versions may answer for what was synced last (see *Not covered* in `docs/reliability.md`); but never
//!   anything that was not written there.
//!
//! The machine itself is not touched.

use mezzanine_volume::{TierConfig, VolumeError, VolumeErrorKind};

use super::recovery::contents;
use crate::crash::driver::harm;
use crate::crash::driver::{Invariant, Stop};
use crate::crash::volume::machine::Machine;
use crate::crash::volume::moments::Contents;
use crate::crash::volume::pattern;
use crate::crash::volume::world::{Session, World, trace};

/// How much may be wrong with what is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tolerance {
    /// Nothing.
    None,
    /// Pages may be reported as lost.
    Loss,
    /// And older versions may answer.
    Age,
}

/// To be called between two sessions. `closed` says whether the last one closed the volume in order.
pub(in crate::crash::volume) fn check(world: &mut World, closed: bool) -> Result<(), Stop> {
    let snapshot = world.machine.snapshot();
    let another = |world: &World| Machine::from_snapshot(&snapshot, world.scenario.fingerprints);
    let mut expected = contents(world, &world.open_on(&another(world))?)?;
    let copy = another(world);
    let clean = world.scenario.flash_is_expendable();
    if world.life.random.chance(1, 3) {
        damage_at_rest(world, &copy);
        let session = match world.try_open_on(&copy) {
            Ok(session) => session,
            Err((_, error)) => {
                trace!(world, "refused on a copy: {error}");
                world.life.coverage.damage_refused += 1;
                return refusal(world, &copy, &error, closed);
            }
        };
        let tolerance = match (clean, closed) {
            (true, _) => Tolerance::None,
            (false, true) => Tolerance::Loss,
            (false, false) => Tolerance::Age,
        };
        return read_everything(world, &session, &expected, tolerance);
    }
    let session = world.open_on(&copy)?;
    let mut tolerance = if clean { Tolerance::None } else { Tolerance::Loss };
    if world.life.random.chance(1, 3) {
        world.done("drain", session.volume.drain())?;
        tolerance = Tolerance::None;
        damage_at_rest(world, &copy);
    } else {
        if world.life.random.chance(1, 2) {
            plan_bad_writes(world, &copy);
        }
        write_some(world, &session, &mut expected, tolerance)?;
        damage_at_rest(world, &copy);
    }
    read_everything(world, &session, &expected, tolerance)
}

/// A damaged tier is refused as what it looks like: after a crash it may look like an older one, for nothing
/// on flash says yet that its newest groups were durable. A file that is dirty in a group that is gone says
/// so, and is refused; whether the group rotted or the device is a copy from before it cannot be told. A tier
/// that was closed in order says where it ends.
///
/// With a group that is gone a page may be gone that stage-out has written since the sidecar was replaced:
/// then the disk is ahead of the sidecar and nothing is ahead of the disk, as if another file lay there. With
/// it the length may be gone to which the disk has been cut. So a file is refused as a changed one, but by no
/// other page than one that was written or cut off since.
pub(super) fn refusal(
    world: &World,
    machine: &Machine,
    error: &VolumeError,
    closed: bool,
) -> Result<(), Stop> {
    let excused = match error.kind() {
        VolumeErrorKind::Damaged | VolumeErrorKind::Unrecognised | VolumeErrorKind::NewerFormat { .. } => {
            true
        }
        // Two records side by side are gone of the area that holds the beginning of the tier.
        VolumeErrorKind::Io => machine.keeps_area() && error.to_string().contains("kept in two halves"),
        VolumeErrorKind::OlderTier => !closed,
        VolumeErrorKind::ChangedFile => !closed && is_by_overwritten(world, machine, error),
        _ => false,
    };
    if excused {
        return Ok(());
    }
    let text = format!("a damaged tier was refused like this: {error}");
    Err(Stop::Violated(Invariant::DamageNoticed, text))
}

/// Whether a refusal names a page that was written to disk, or cut off there, since it was there as the
/// sidecar says.
fn is_by_overwritten(world: &World, machine: &Machine, error: &VolumeError) -> bool {
    let named = |file: &usize| Machine::path(*file).display().to_string() == error.subject();
    let file = (0..machine.sidecars.len()).find(named);
    file.zip(error.offset()).is_some_and(|(file, offset)| {
        machine.sidecars[file].names_overwritten(&(offset..offset + world.scenario.page_bytes()))
    })
}

/// Bits flip, frames become zeros, or hold what belongs to another place.
fn damage_at_rest(world: &mut World, copy: &Machine) {
    let page = world.scenario.page_bytes() as usize;
    for done in harm::damage_at_rest(&copy.flash, page, &mut world.life.random) {
        trace!(world, "on the copy {done}");
    }
    world.life.coverage.damages += 1;
}

fn plan_bad_writes(world: &mut World, copy: &Machine) {
    copy.flash.inject(harm::bad_writes(8, &mut world.life.random));
}

/// Whether as many pages are lost as a tier carries: one more ends writing (docs/reliability.md, *What an
/// error may cost*). A queue of hardly more frames than it must have finds no room for as many names side by
/// side.
pub(super) fn carries_no_more(session: &Session, bad_frames: usize) -> bool {
    let config = session.volume.tier_config();
    let frames = config.as_ref().map_or(0, |config| config.frames);
    let hardly_suffices = config.is_some_and(|config| has_no_room_for_names(&config, bad_frames));
    session.volume.lost_pages().len() as u64 >= (frames / 16).max(1) || hardly_suffices
}

/// Whether the frames that a queue has beyond those that it must have are fewer than what the names of all
/// pages that it may carry take, in groups of their own with one more for each, and as many again; or than
/// what the bad frames cost, and as many again.
fn has_no_room_for_names(config: &TierConfig, bad_frames: usize) -> bool {
    let Ok(geometry) = config.geometry() else { return false };
    let Some(least) = geometry.least_queue() else { return false };
    let (spare, summary) = (config.frames.saturating_sub(least) / 2, geometry.summary_frames());
    let names = (config.frames / 16).min(256);
    let groups = names.div_ceil(u64::from(config.group_pages));
    spare < names + 2 * groups * summary || spare < bad_frames as u64 * (1 + summary)
}

/// Writes whole pages and carries out jobs, until something fails that may.
fn write_some(
    world: &mut World,
    session: &Session,
    expected: &mut Contents,
    tolerance: Tolerance,
) -> Result<(), Stop> {
    let page = world.scenario.page_bytes();
    for number in 0..world.life.random.magnitude(32) as u32 {
        let file = world.life.random.below(expected.len() as u64) as usize;
        let pages = expected[file].len() as u64 / page;
        if pages == 0 {
            continue;
        }
        let offset = world.life.random.below(pages) * page;
        let mut bytes = vec![0; page as usize];
        pattern::fill(&mut bytes, file as u8, world.version + 1 + number, offset);
        let written = session.files[file].write_at(&bytes, offset);
        if let Err(error) = written {
            // Whole pages are written, so none for being lost.
            let excused = error.kind() == VolumeErrorKind::ReadOnly && carries_no_more(session, 0);
            if !excused || tolerance == Tolerance::None {
                let text = format!("a write to a damaged tier failed: {error}");
                return Err(Stop::Violated(Invariant::DamageNoticed, text));
            }
            // It was written or it was not.
            let at = offset as usize..(offset + page) as usize;
            if session.files[file].read_at(&mut bytes, offset).is_ok() && expected[file][at.clone()] != bytes
            {
                let mut newer = vec![0; page as usize];
                pattern::fill(&mut newer, file as u8, world.version + 1 + number, offset);
                expected[file][at].copy_from_slice(&newer);
            }
            return Ok(());
        }
        expected[file][offset as usize..(offset + page) as usize].copy_from_slice(&bytes);
        for _ in 0..world.life.random.below(4) {
            session.volume.step();
        }
    }
    Ok(())
}

fn read_everything(
    world: &mut World,
    session: &Session,
    expected: &Contents,
    tolerance: Tolerance,
) -> Result<(), Stop> {
    let page = world.scenario.page_bytes() as usize;
    let broken = |text| Err(Stop::Violated(Invariant::DamageNoticed, text));
    for (file, expected) in expected.iter().enumerate() {
        let len = session.files[file].len() as usize;
        if len != expected.len() && tolerance != Tolerance::Age {
            return broken(format!(
                "file {file} has {len} bytes instead of {} on a damaged tier",
                expected.len()
            ));
        }
        for start in (0..len).step_by(page) {
            let mut found = vec![0; page.min(len - start)];
            let offset = start as u64;
            if let Err(error) = session.files[file].read_at(&mut found, offset) {
                if error.kind() != VolumeErrorKind::LostPage || tolerance == Tolerance::None {
                    return broken(format!("file {file}: {error}"));
                }
                world.life.coverage.damage_reported += 1;
                continue;
            }
            let right = match tolerance {
                Tolerance::Age => pattern::belongs(&found, file as u8, offset),
                _ => found == expected[start..start + found.len()],
            };
            if !right {
                let text = pattern::describe(&found, file as u8, offset);
                return broken(format!(
                    "file {file}, page {}: {text} came from a damaged tier",
                    start / page
                ));
            }
        }
    }
    world.life.coverage.damage_refetched += session.volume.statistics().pages_damaged;
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use mezzanine_volume::{Design, SidecarStore};

    use super::*;
    use crate::crash::volume::holes::Hole;
    use crate::crash::volume::machine::Flash;

    /// A queue of 55 frames that needs 54 found no room for the third name (seed 40716400932). A larger one
    /// has it, and no smaller number of lost pages than a sixteenth is an excuse there.
    #[test]
    fn a_queue_has_room_for_names_unless_it_hardly_suffices() {
        let queue = |frames| TierConfig {
            group_pages: 1,
            staging_groups: 3,
            band_frames: 2,
            segment_frames: 13,
            survivors_max: 0,
            ..TierConfig::new(4096, frames)
        };
        assert!(has_no_room_for_names(&queue(55), 0));
        assert!(!has_no_room_for_names(&queue(128), 0));
        assert!(!has_no_room_for_names(&queue(128), 18));
        assert!(has_no_room_for_names(&queue(128), 19), "bad frames take it");
        let in_place = TierConfig { design: Design::Lru, ..queue(128) };
        assert!(!has_no_room_for_names(&in_place, 128), "homes need none");
    }

    /// A lost write to flash and a power cut made the right file look like an older one (seed 915). What
    /// excuses the refusal is that the page was written to disk since the sidecar was right about it; no
    /// other page does, and not because the tier is damaged.
    #[test]
    fn a_file_is_a_changed_one_by_no_other_page_than_one_that_was_written_since() {
        let world = World::new(915);
        let page = world.scenario.page_bytes();
        let machine = Machine::new(Flash::memory(1 << 20, None), 1, false, 0);
        let disk = machine.connect_disk(0, Hole { at: page, bytes: 1 << 32 });
        let at = 3 * page + (1 << 32);
        let name = Machine::path(0).display().to_string();
        let refused = |offset: u64, closed: bool| {
            let changed = VolumeErrorKind::ChangedFile;
            let error = VolumeError::new(changed, "attach", &name, "a test".to_owned()).at(offset);
            refusal(&world, &machine, &error, closed).is_err()
        };
        let names = |version: u8| {
            let checksum = crc32c::crc32c(&vec![version; page as usize]);
            let sidecar = format!("page-size {page}\nwritten {}:{checksum:08x}\n", at / page);
            machine.sidecars[0].replace(sidecar.as_bytes()).unwrap();
        };
        assert!(refused(at, false), "nothing was written");
        disk.write_at(&vec![1; page as usize], at).unwrap();
        assert!(!refused(at, false));
        assert!(refused(at + page, false), "another page was");
        assert!(refused(at, true), "a tier that was closed in order says where it ends");
        names(1);
        assert!(refused(at, false), "the sidecar is right again");
        disk.write_at(&vec![2; page as usize], at).unwrap();
        names(1);
        assert!(!refused(at, false), "it names the page as it was before");
        names(2);
        assert!(refused(at, false), "it names the page as it is");
        // The power fails before the sidecar can name what is left, and the group with the new length rots
        // (seed 40716301005).
        disk.set_len(at).unwrap();
        assert!(!refused(at, false), "it was cut off");
        assert!(refused(at - page, false), "it was not");
        let copy = Machine::from_snapshot(&machine.snapshot(), false);
        assert!(copy.sidecars[0].names_overwritten(&(at..at + page)), "a copy knows that as well");
    }
}
