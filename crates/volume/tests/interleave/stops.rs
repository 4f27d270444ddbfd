//! Admission is stopped and resumed while files are written, synced and read.

use mezzanine_engine::planted::Bug;

use crate::schedules::{check, finds};
use crate::world::{FILLER, Setup, Thread, World};

const STOP: Thread = |world| {
    for _ in 0..2 {
        world.settle(|volume| volume.stop_admission())?;
        world.settle(|volume| volume.resume_admission())?;
    }
    Ok(())
};

const WRITE: Thread = |world| {
    for block in [0, 1, 0] {
        world.write((0, block))?;
        world.read((0, block))?;
        world.sync(0)?;
    }
    Ok(())
};

const OTHERS: Thread = |world| {
    for block in 0..4 {
        world.read((0, block % 2))?;
        world.write((FILLER, block))?;
    }
    world.sync(FILLER)
};

fn stopped<const RUNNERS: usize>() {
    let world = World::new(Setup::new(RUNNERS).past_the_tier());
    for block in 0..3 {
        world.write((0, block)).unwrap();
    }
    world.push_on();
    world.run(&[STOP, WRITE, OTHERS]);
}

#[test]
fn two_runners() {
    check(stopped::<2>);
}

#[test]
fn three_runners() {
    check(stopped::<3>);
}

#[test]
fn pages_that_count_as_clean_before_they_are_synced_are_noticed() {
    finds(Bug::DrainMarksUnsynced, stopped::<2>, 4000);
}

/// The runners wake one another and the operator for ever.
#[test]
fn runners_that_look_for_jobs_while_the_volume_is_settled_are_noticed() {
    finds(Bug::LooksWhileSettled, stopped::<2>, 200);
}
