//! The cache shrinks and grows beside requests and populations.

use mezzanine_fragment::planted::Bug;

use crate::schedules::{check, finds};
use crate::world::{BLOCKS, Thread, World};

const WRITE: Thread = |world| {
    world.write(1, 0, 2);
    world.write(0, 0, 1);
};
const READ: Thread = |world| {
    for volume in [1, 0, 1] {
        world.read(volume, 0, BLOCKS);
    }
};
const SHRINK: Thread = |world| world.shrink(1);

fn two() -> World {
    let world = World::new(2, 2, 16);
    world.populate(0);
    world.populate(1);
    world
}

fn shrunk() {
    two().run(1, &[WRITE, READ, SHRINK]);
}

fn shrunk_with_a_map() {
    let world = World::with_map(2, 2);
    world.populate(0);
    world.populate(1);
    world.stabilise();
    world.run(1, &[WRITE, READ, SHRINK]);
}

fn shrunk_and_grown() {
    let resize: Thread = |world| {
        world.shrink(1);
        world.grow(2);
    };
    two().run(1, &[WRITE, READ, resize]);
}

/// A population is under way.
fn shrunk_beside_a_population() {
    let world = World::new(2, 2, 16);
    world.populate(0);
    world.read(1, 0, 1);
    while !world.work() {}
    world.run(2, &[READ, SHRINK]);
}

#[test]
fn a_cache_that_shrinks() {
    check(shrunk);
    check(shrunk_with_a_map);
    check(shrunk_beside_a_population);
}

#[test]
fn a_cache_that_shrinks_and_grows() {
    check(shrunk_and_grown);
}

#[test]
fn a_slot_behind_the_limit_is_noticed() {
    finds(Bug::SlotBehindLimit, shrunk, 5000);
}

#[test]
fn what_stays_under_writes_is_noticed() {
    finds(Bug::ShrunkUnderWrites, shrunk, 5000);
}
