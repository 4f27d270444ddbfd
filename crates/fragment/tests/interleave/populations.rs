//! Writes and discards of a fragment that is on its way into the cache: the race of a write that goes past
//! the cache with the read that fills it.

use mezzanine_fragment::planted::Bug;

use crate::schedules::{check, finds};
use crate::world::{BLOCKS, Thread, World};

/// A fragment that was missed, and so is a candidate.
fn missed() -> World {
    let world = World::new(2, 2, 16);
    world.read(0, 0, 1);
    world
}

const WRITE: Thread = |world| {
    world.write(0, 1, 1);
    world.write(0, 0, 2);
};
const READ: Thread = |world| {
    for _ in 0..3 {
        world.read(0, 0, BLOCKS);
    }
};
const DISCARD: Thread = |world| world.discard(0, 1, 2);

fn written() {
    missed().run(2, &[WRITE, READ]);
}

fn discarded() {
    missed().run(2, &[DISCARD, READ]);
}

fn written_and_discarded() {
    missed().run(1, &[WRITE, DISCARD, READ]);
}

#[test]
fn a_write_beside_a_population() {
    check(written);
}

#[test]
fn a_discard_beside_a_population() {
    check(discarded);
}

#[test]
fn a_write_and_a_discard_beside_a_population() {
    check(written_and_discarded);
}

#[test]
fn a_population_over_writes_is_noticed() {
    finds(Bug::PopulationOverWrites, written, 1000);
    finds(Bug::PopulationOverWrites, discarded, 1000);
}

#[test]
fn a_discard_that_is_not_counted_is_noticed() {
    finds(Bug::DiscardUncounted, discarded, 2000);
}

#[test]
fn a_population_beside_writes_is_noticed() {
    finds(Bug::PopulationBesideWrites, written, 2000);
    finds(Bug::PopulationBesideWrites, discarded, 2000);
}

/// Two volumes and one slot: the slot of a population that a write has ended goes to the other one.
fn ended() {
    let world = World::new(2, 1, 16);
    world.read(1, 0, 1);
    // It is the hotter one, and goes first.
    world.read(0, 0, 1);
    world.read(0, 0, 1);
    // Its fragment is read, and is to be written.
    while !world.work() {}
    let read: Thread = |world| world.read(1, 0, BLOCKS);
    world.run(2, &[WRITE, read]);
}

#[test]
fn a_population_that_a_write_ends() {
    check(ended);
}

#[test]
fn a_slot_that_is_reused_before_its_population_has_ended_is_noticed() {
    finds(Bug::AbortedSlotReused, ended, 5000);
}
