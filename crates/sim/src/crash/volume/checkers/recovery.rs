//! Recovers a copy of the machine once, undisturbed, and the machine itself with interruptions; both must
//! find the same.
//!
//! Invariants checked: `repeatable-recovery`.

use crate::crash::driver::{Invariant, Stop};
use crate::crash::volume::machine::Machine;
use crate::crash::volume::moments::Contents;
use crate::crash::volume::world::{Session, World};

/// To be called right after a power cut. Further power cuts follow, all of them inside recovery.
pub(in crate::crash::volume) fn check_repeatable(world: &mut World) -> Result<(), Stop> {
    let snapshot = world.machine.snapshot();
    let copy = Machine::from_snapshot(&snapshot, world.scenario.fingerprints);
    let expected = contents(world, &world.open_on(&copy)?)?;
    for _ in 0..world.life.random.between(1, 4) {
        world.machine.power.crash_after(world.life.random.magnitude(64));
        let found = world.open().and_then(|session| {
            let found = contents(world, &session);
            world.release(session);
            found
        });
        match found {
            Ok(found) => compare(world, &expected, &found)?,
            Err(Stop::PowerFailed) => {}
            Err(violated) => return Err(violated),
        }
        world.cut_again();
    }
    let session = world.open()?;
    let found = contents(world, &session);
    world.release(session);
    world.machine.power.restore();
    compare(world, &expected, &found?)?;
    world.life.coverage.recoveries_compared += 1;
    Ok(())
}

/// Reads all files whole.
pub(in crate::crash::volume) fn contents(world: &World, session: &Session) -> Result<Contents, Stop> {
    let mut contents = Vec::with_capacity(session.files.len());
    for file in &session.files {
        let mut bytes = vec![0; file.len() as usize];
        world.done("read", file.read_at(&mut bytes, 0))?;
        contents.push(bytes);
    }
    Ok(contents)
}

/// Compares what an interrupted recovery found with what an undisturbed one did.
pub(in crate::crash::volume) fn compare(
    world: &World,
    expected: &Contents,
    found: &Contents,
) -> Result<(), Stop> {
    for (file, (expected, found)) in expected.iter().zip(found).enumerate() {
        if expected != found {
            let at = expected.iter().zip(found).position(|(a, b)| a != b);
            let text = format!(
                "file {file} has {} bytes after one recovery and {} after an interrupted one; they differ from page {:?} on",
                expected.len(),
                found.len(),
                at.map(|at| at as u64 / world.scenario.page_bytes())
            );
            return Err(Stop::Violated(Invariant::RepeatableRecovery, text));
        }
    }
    Ok(())
}
