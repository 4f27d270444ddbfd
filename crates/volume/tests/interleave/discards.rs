//! Ranges of a file are discarded and written anew while pages leave the tier.

use mezzanine_engine::planted::Bug;

use crate::schedules::{check, finds};
use crate::world::{FILLER, Setup, Thread, World};

const ANEW: Thread = |world| {
    for _ in 0..2 {
        world.discard(0, 1, 4)?;
        world.read_run((0, 0), 4)?;
        for block in 3..5 {
            world.write((0, block))?;
        }
        world.sync(0)?;
        world.read_run((0, 0), 5)?;
    }
    Ok(())
};

/// Has what was there before go on its way.
const OTHERS: Thread = |world| {
    for block in 0..8 {
        world.write((FILLER, block))?;
    }
    world.sync(FILLER)
};

fn begin(runners: usize) -> World {
    let world = World::new(Setup::new(runners));
    for block in 0..5 {
        world.write((0, block)).unwrap();
    }
    world
}

fn anew<const RUNNERS: usize>() {
    let world = begin(RUNNERS);
    world.push_on();
    world.run(&[ANEW, OTHERS]);
}

fn on_disk_alone<const RUNNERS: usize>() {
    let world = begin(RUNNERS);
    world.push_out();
    world.run(&[ANEW, OTHERS]);
}

#[test]
fn two_runners() {
    check(anew::<2>);
}

#[test]
fn three_runners() {
    check(anew::<3>);
}

#[test]
fn pages_that_are_on_disk_alone() {
    check(on_disk_alone::<2>);
}

#[test]
fn a_discard_that_is_not_repeated_is_noticed() {
    finds(Bug::DiscardNotRepeated, on_disk_alone::<2>, 4000);
}
