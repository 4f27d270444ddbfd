//! Two workers carry out jobs while pages come in faster than they leave: groups are written out of order,
//! bands are released, the queue goes round.

use mezzanine_engine::PageId;
use mezzanine_engine::planted::Bug;

use crate::schedules::{check, finds};
use crate::world::{Thread, World, tiny};

fn full(group_pages: u32) -> World {
    let world = World::new(&tiny(group_pages));
    world.write(&PageId::volume(1, 0));
    world.push_to_front(&PageId::volume(1, 0));
    world
}

const WRITE: Thread = |world| {
    for n in 0..10 {
        world.write(&PageId::volume(1, n % 5));
    }
};

const READ: Thread = |world| {
    for n in 0..5 {
        world.read(&PageId::volume(1, n));
    }
};

fn round() {
    full(1).run(2, &[WRITE]);
}

#[test]
fn a_queue_that_goes_round() {
    check(round);
}

fn round_with_readers() {
    full(2).run(2, &[WRITE, READ]);
}

#[test]
fn a_queue_that_goes_round_under_readers() {
    check(round_with_readers);
}

#[test]
fn dirty_pages_dropped_at_the_front_are_noticed() {
    finds(Bug::DirtyDroppedAtFront, round, 100);
}
