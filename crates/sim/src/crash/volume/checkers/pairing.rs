//! Puts together, on a copy of the machine, what does not belong together: another flash device, files from a
//! backup, files that changed places.
//!
//! Invariants checked: `pairing`: the volume refuses with an error that says what is wrong, or every file
//! reads as it does with its own devices, as it did when the backup was made, or as the file whose place it
//! took. If nothing was attached before the refusal, nothing has changed. A file without a guard has no place
//! for its name: one that changes places with another, or whose sidecar does, while its newest pages are in
//! the tier, is not noticed (see *Not covered* in `docs/reliability.md`).
//!
//! The machine itself is not touched.

use std::sync::Arc;

use mezzanine_device::memory::Image;
use mezzanine_engine::format::{SUPERBLOCK_BYTES, SUPERBLOCK_OFFSETS, Superblock};
use mezzanine_ground::random::splitmix;
use mezzanine_volume::{Volume, VolumeError, VolumeErrorKind};

use super::recovery::contents;
use crate::crash::driver::{Invariant, Stop};
use crate::crash::volume::machine::{Machine, Snapshot, first_bytes};
use crate::crash::volume::moments::Backup;
use crate::crash::volume::moments::Contents;
use crate::crash::volume::world::{Session, World, trace};

/// What is put together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mix {
    /// The flash device as it was when the backup was made: older, or of a tier that was formatted before.
    OldFlash,
    /// The flash device formatted anew.
    NewFlash,
    /// A flash device that holds nothing.
    BlankFlash,
    /// The volume is opened without a tier.
    NoFlash,
    /// One file and its sidecar as they were when the backup was made.
    OldFile(usize),
    /// The sidecar alone.
    OldSidecar(usize),
    /// The two files have changed places, without their sidecars.
    SwappedDisks,
    /// Their sidecars have, without the files.
    SwappedSidecars,
    /// Both have: that is a change of names, and allowed.
    SwappedFiles,
}

/// Remembers the state of the machine. To be called between two sessions.
pub(in crate::crash::volume) fn back_up(world: &mut World) -> Result<(), Stop> {
    let snapshot = world.machine.snapshot();
    let contents = contents(world, &world.open_on(&machine_of(world, &snapshot))?)?;
    world.backup = Some(Backup { snapshot, contents });
    Ok(())
}

fn machine_of(world: &World, snapshot: &Snapshot) -> Machine {
    Machine::from_snapshot(snapshot, world.scenario.fingerprints)
}

/// To be called between two sessions.
pub(in crate::crash::volume) fn check(world: &mut World) -> Result<(), Stop> {
    let Some(backup) = world.backup.take() else { return Ok(()) };
    let snapshot = world.machine.snapshot();
    let expected = contents(world, &world.open_on(&machine_of(world, &snapshot))?)?;
    let mix = draw(world);
    let right = Right {
        now: &expected,
        then: &backup.contents,
        may_be_then: |file| match mix {
            Mix::OldFile(old) => old == file,
            // A cut since then has taken from flash what was not synced, and this brings it back.
            Mix::OldFlash => is_of_one_opening(&snapshot, &backup.snapshot),
            _ => false,
        },
    };
    let checked = match mixed(world, &snapshot, &backup, mix)? {
        Some(copy) => try_mixed(world, &copy, mix, &right),
        None => Ok(()),
    };
    world.backup = Some(backup);
    checked
}

/// What files may hold.
struct Right<'a, F: Fn(usize) -> bool> {
    now: &'a Contents,
    then: &'a Contents,
    /// Whether this one may hold what it did when the backup was made.
    may_be_then: F,
}

/// Whether no opening has come to its end between these moments, so that nothing was acknowledged.
fn is_of_one_opening(now: &Snapshot, then: &Snapshot) -> bool {
    // A cut may have taken the second copy of the one that an opening began with.
    let newest = |snapshot: &Snapshot| {
        let end = SUPERBLOCK_OFFSETS[1] as usize + SUPERBLOCK_BYTES;
        let bytes = first_bytes(&snapshot.flash, snapshot.zones, end);
        let copies = SUPERBLOCK_OFFSETS.map(|at| {
            let at = at as usize;
            Superblock::decode(bytes.get(at..at + SUPERBLOCK_BYTES)?).ok()
        });
        copies.into_iter().flatten().max_by_key(|copy| copy.generation)
    };
    newest(now) == newest(then) && now.sidecars == then.sidecars
}

fn draw(world: &mut World) -> Mix {
    let file = world.life.random.below(world.models.len() as u64) as usize;
    let two = world.models.len() == 2;
    match world.life.random.below(if two { 9 } else { 6 }) {
        0 => Mix::OldFlash,
        1 => Mix::NewFlash,
        2 => Mix::BlankFlash,
        3 => Mix::NoFlash,
        4 => Mix::OldFile(file),
        5 => Mix::OldSidecar(file),
        6 => Mix::SwappedDisks,
        7 => Mix::SwappedSidecars,
        _ => Mix::SwappedFiles,
    }
}

/// The machine so put together; none if the mix is one that cannot be noticed.
fn mixed(world: &mut World, now: &Snapshot, backup: &Backup, mix: Mix) -> Result<Option<Machine>, Stop> {
    let named = world.scenario.guards || !now.sidecars.iter().any(is_dirty);
    let mut mixed = now.clone();
    match mix {
        Mix::OldFlash => mixed.flash.clone_from(&backup.snapshot.flash),
        Mix::NewFlash | Mix::NoFlash => {}
        Mix::BlankFlash => mixed.flash = Image::zeroed(mixed.flash.len()),
        Mix::OldFile(file) => {
            mixed.disks[file].clone_from(&backup.snapshot.disks[file]);
            mixed.changes[file] = backup.snapshot.changes[file];
            mixed.sidecars[file].clone_from(&backup.snapshot.sidecars[file]);
        }
        Mix::OldSidecar(file) if named => mixed.sidecars[file].clone_from(&backup.snapshot.sidecars[file]),
        Mix::SwappedDisks if named => {
            mixed.disks.swap(0, 1);
            mixed.changes.swap(0, 1);
        }
        Mix::SwappedSidecars if named => mixed.sidecars.swap(0, 1),
        Mix::SwappedFiles => {
            mixed.disks.swap(0, 1);
            mixed.changes.swap(0, 1);
            mixed.sidecars.swap(0, 1);
        }
        _ => return Ok(None),
    }
    let copy = machine_of(world, &mixed);
    if mix == Mix::NewFlash {
        let mut config = world.scenario.volume();
        config.identity_seed = Some(splitmix(world.life.random.next_u64()));
        world.done("format", Volume::format(&*copy.flash, &config, true))?;
    }
    Ok(Some(copy))
}

fn is_dirty(sidecar: &Option<Vec<u8>>) -> bool {
    sidecar.as_ref().is_some_and(|bytes| bytes.windows(12).any(|words| words == b"\nstate dirty"))
}

fn try_mixed<F: Fn(usize) -> bool>(
    world: &mut World,
    copy: &Machine,
    mix: Mix,
    right: &Right<'_, F>,
) -> Result<(), Stop> {
    trace!(world, "on a copy: {mix:?}");
    world.life.coverage.mixes += 1;
    let before = copy.snapshot();
    // Nonces are random: an opening of older flash does not draw that of the newest by chance.
    let mut config = world.scenario.volume();
    config.nonce_seed = config.nonce_seed.or(config.identity_seed).map(splitmix);
    let opened = match mix {
        Mix::NoFlash => Ok(Volume::without_tier()),
        _ => Volume::open(copy.connect(&copy.flash), config).map_err(|error| (0, error)),
    };
    let opened = opened.and_then(|volume| Ok((world.attach_all(copy, &volume)?, volume)));
    match opened {
        Ok((files, volume)) => {
            let session = Session { volume: Arc::new(volume), files };
            judge_contents(mix, &contents(world, &session)?, right)
        }
        Err((attached, error)) => {
            trace!(world, "refused on the copy: {error}");
            world.life.coverage.mixes_refused += 1;
            if attached == 0 && before != copy.snapshot() {
                return Err(Stop::Violated(
                    Invariant::Pairing,
                    format!("{mix:?} was refused and changed: {error}"),
                ));
            }
            judge_refusal(mix, &error)
        }
    }
}

fn judge_contents<F: Fn(usize) -> bool>(
    mix: Mix,
    found: &Contents,
    Right { now, then, may_be_then }: &Right<'_, F>,
) -> Result<(), Stop> {
    for (file, found) in found.iter().enumerate() {
        let may_be_other = matches!(mix, Mix::SwappedDisks | Mix::SwappedSidecars | Mix::SwappedFiles);
        let right = (*found == now[file] && mix != Mix::SwappedFiles)
            || (may_be_then(file) && *found == then[file])
            || (may_be_other && *found == now[1 - file]);
        if !right {
            let text = format!("{mix:?} was accepted, and file {file} reads as it never did");
            return Err(Stop::Violated(Invariant::Pairing, text));
        }
    }
    Ok(())
}

/// Whether an error of this kind says that things do not belong together.
pub(super) fn is_clear(kind: VolumeErrorKind) -> bool {
    use VolumeErrorKind as Kind;
    matches!(
        kind,
        Kind::ForeignTier
            | Kind::OlderTier
            | Kind::NewerTier
            | Kind::Unrecognised
            | Kind::OnlyCopy
            | Kind::ChangedFile
            | Kind::SidecarMissing
            | Kind::FileNotAttached
            | Kind::AlreadyAttached
    )
}

fn judge_refusal(mix: Mix, error: &VolumeError) -> Result<(), Stop> {
    // Files that have changed names are told from older ones of the same names when the one with pages in the
    // tier comes first.
    let by_name = mix == Mix::SwappedFiles && error.kind() == VolumeErrorKind::NewerTier;
    // A group that is there and torn tells a damaged tier from an older copy, also in one that has both.
    let torn = mix == Mix::OldFlash
        && error.kind() == VolumeErrorKind::Damaged
        && error.to_string().contains("whose newest groups are damaged");
    if by_name || torn || is_clear(error.kind()) && mix != Mix::SwappedFiles {
        return Ok(());
    }
    Err(Stop::Violated(Invariant::Pairing, format!("{mix:?} was refused like this: {error}")))
}
