//! Ranges of a file are discarded and written anew while pages leave the tier.

use mezzanine_engine::planted::Bug;
use mezzanine_volume::{Design, SyncMode};

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

fn begin(setup: Setup) -> World {
    let world = World::new(setup);
    for block in 0..5 {
        world.write((0, block)).unwrap();
    }
    world
}

fn anew(setup: Setup) {
    let world = begin(setup);
    world.push_on();
    world.run(&[ANEW, OTHERS]);
}

fn on_disk_alone(setup: Setup) {
    let world = begin(setup);
    world.push_out();
    world.run(&[ANEW, OTHERS]);
}

#[test]
fn two_runners() {
    check(|| anew(Setup::new(2)));
}

#[test]
fn three_runners() {
    check(|| anew(Setup::new(3)));
}

#[test]
fn pages_that_are_on_disk_alone() {
    check(|| on_disk_alone(Setup::new(2)));
}

#[test]
fn pages_that_are_written_in_place() {
    check(|| anew(Setup::of(Design::Cac, SyncMode::Durable, 2)));
}

#[test]
fn a_slot_directory() {
    check(|| anew(Setup::of(Design::Tac, SyncMode::Through, 2).past_the_tier()));
}

#[test]
fn points_in_the_engine() {
    check(|| anew(Setup::new(0).finely()));
}

#[test]
fn a_discard_that_is_not_repeated_is_noticed() {
    finds(Bug::DiscardNotRepeated, || on_disk_alone(Setup::new(2)), 4000);
}
