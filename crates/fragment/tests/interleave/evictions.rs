//! Fragments that leave for others while they are read and written.

use mezzanine_fragment::planted::Bug;

use crate::schedules::{check, finds};
use crate::world::{BLOCKS, Thread, World};

/// One slot for two volumes: the first is there, and the second is a candidate.
fn crowded() -> World {
    let world = World::new(2, 1, 16);
    world.populate(0);
    world.read(1, 0, 1);
    world
}

fn read() {
    let read: Thread = |world| {
        for _ in 0..3 {
            world.read(0, 0, BLOCKS);
        }
    };
    crowded().run(2, &[read]);
}

fn written() {
    let write: Thread = |world| {
        world.write(0, 0, 2);
        world.write(0, 2, 1);
    };
    let read: Thread = |world| {
        world.read(0, 0, BLOCKS);
        world.read(1, 0, BLOCKS);
        world.read(1, 0, BLOCKS);
    };
    crowded().run(2, &[write, read]);
}

#[test]
fn a_read_of_what_leaves() {
    check(read);
}

#[test]
fn a_write_to_what_leaves() {
    check(written);
}

#[test]
fn a_read_that_is_not_confirmed_is_noticed() {
    finds(Bug::ReadUnconfirmed, read, 2000);
}

#[test]
fn a_fragment_that_leaves_under_its_copies_is_noticed() {
    finds(Bug::EvictedUnderCopies, written, 5000);
}
