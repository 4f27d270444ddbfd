//! Damages the sidecar of one file on a copy of the machine, at rest.
//!
//! Invariants checked: `damage-noticed`: that costs the opening of its file and no more (docs/reliability.md,
//! *What an error may cost*).
//! - The file is refused as damaged.
//! - Every other file is attached and reads as it does beside it.
//! - When the sidecar is put back as it was, all files read as before.
//!
//! The machine itself is not touched, and no number is drawn that anything else in the life would have drawn.

use mezzanine_ground::random::{Random, splitmix};
use mezzanine_volume::{Volume, VolumeErrorKind};

use super::recovery::{compare, contents};
use crate::crash::driver::{Invariant, Stop};
use crate::crash::volume::machine::Machine;
use crate::crash::volume::world::{World, trace};

/// To be called between two sessions.
pub(in crate::crash::volume) fn check(world: &mut World) -> Result<(), Stop> {
    let mut random = Random::new(splitmix(world.life.random.clone().next_u64() ^ 0x7369_6465_6361_7273));
    if !random.chance(1, 64) {
        return Ok(());
    }
    let snapshot = world.machine.snapshot();
    let another = || Machine::from_snapshot(&snapshot, world.scenario.fingerprints);
    let machine = another();
    let damaged = random.below(machine.sidecars.len() as u64) as usize;
    let Some(right) = machine.sidecars[damaged].at_rest() else { return Ok(()) };
    let expected = contents(world, &world.open_on(&another())?)?;
    machine.sidecars[damaged].put_back(Some(damage(&right, &mut random)));
    trace!(world, "on a copy: the sidecar of file {damaged} is damaged");
    world.life.coverage.damages += 1;
    let opened = Volume::open(machine.connect(&machine.flash), world.scenario.volume());
    let volume = world.done("open", opened)?;
    for (file, expected) in expected.iter().enumerate() {
        match world.attach_one(&machine, &volume, file).map_err(|error| (error.kind(), error)) {
            Err((VolumeErrorKind::Damaged | VolumeErrorKind::NewerFormat { .. }, _)) if file == damaged => {
                world.life.coverage.damage_refused += 1;
            }
            // A file without a sidecar may be the one that the tier misses.
            Err((VolumeErrorKind::FileNotAttached, _)) if machine.sidecars[file].at_rest().is_none() => {}
            Ok(attached) if file != damaged => {
                let mut found = vec![0; attached.len() as usize];
                world.done("read", attached.read_at(&mut found, 0))?;
                if found != *expected {
                    return broken(format!(
                        "file {file} reads otherwise while the other's sidecar is damaged"
                    ));
                }
            }
            Ok(_) => return broken(format!("file {file} was attached by a damaged sidecar")),
            Err((_, error)) => return broken(format!("file {file}, of {damaged} damaged: {error}")),
        }
    }
    machine.power.crash_after(1);
    drop(volume);
    machine.power.restore();
    machine.sidecars[damaged].put_back(Some(right));
    compare(world, &expected, &contents(world, &world.open_on(&machine)?)?)
}

/// A bit flips, or it is cut off, or holds nothing but zeros.
fn damage(right: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = right.to_vec();
    let at = random.below(bytes.len() as u64) as usize;
    match random.below(4) {
        0 => bytes.truncate(at),
        1 => bytes.fill(0),
        _ => bytes[at] ^= 1 << random.below(8),
    }
    bytes
}

fn broken(text: String) -> Result<(), Stop> {
    Err(Stop::Violated(Invariant::DamageNoticed, text))
}
