//! A page at the front of the queue, referenced and dirty, gets a second chance while something happens to
//! it.

use mezzanine_engine::PageId;
use mezzanine_engine::planted::Bug;

use crate::schedules::{check, finds};
use crate::world::{Thread, World, tiny};

fn id() -> PageId {
    PageId::volume(1, 0)
}

fn at_the_front() -> World {
    let world = World::new(&tiny(2));
    world.write(&id());
    world.push_to_front(&id());
    world.read(&id());
    world
}

/// So that the page need not stay in the open group.
const OTHERS: Thread = |world| {
    for n in 0..4 {
        world.write(&PageId::volume(3, n));
    }
};

const READ: Thread = |world| {
    for _ in 0..3 {
        world.read(&id());
    }
};

fn rewritten() {
    let write: Thread = |world| {
        world.write(&id());
        world.read(&id());
        world.write(&id());
        world.read(&id());
    };
    at_the_front().run(1, &[write, OTHERS]);
}

#[test]
fn a_page_that_is_rewritten() {
    check(rewritten);
}

#[test]
fn a_second_chance_of_an_old_version_is_noticed() {
    finds(Bug::SecondChanceUnchecked, rewritten, 1000);
}

fn written_past() {
    let write: Thread = |world| world.write_past(&id());
    at_the_front().run(1, &[READ, write, OTHERS]);
}

#[test]
fn a_page_that_is_written_past_the_tier() {
    check(written_past);
}

fn read() {
    at_the_front().run(2, &[READ, READ, OTHERS]);
}

#[test]
fn a_page_that_is_read() {
    check(read);
}
