//! Parts of pages are written by several threads, across pages as well: who changes a part of a page writes
//! the whole of it as it was, and what another has written of it meanwhile must be in that.

use mezzanine_engine::planted::Bug;
use mezzanine_volume::{Design, SyncMode};

use crate::pages::{PARTS, Page, part};
use crate::replaces::{REPLACE, replace};
use crate::schedules::{check, finds};
use crate::world::{FILLER, Off, Setup, Thread, World};

/// A piece of the first file: it begins in that part of that block, and has so many parts.
fn piece(block: u64, number: u64, count: u64) -> Vec<Page> {
    let first = block * PARTS + number;
    (first..first + count).map(|part_of| part((0, part_of / PARTS), part_of % PARTS)).collect()
}

fn change(world: &World, (block, number, count): (u64, u64, u64)) -> Result<(), Off> {
    let piece = piece(block, number, count);
    world.write_run(&piece)?;
    world.read_all(&piece)
}

/// The heads of pages, and the middle of one.
const HEADS: Thread = |world| {
    for piece in [(0, 0, 1), (1, 1, 1), (2, 0, 1), (0, 0, 1)] {
        change(world, piece)?;
    }
    world.sync(0)?;
    change(world, (1, 1, 1))
};

/// The rest of them, from one page into the next.
const ACROSS: Thread = |world| {
    for piece in [(0, 1, 3), (1, 2, 1), (2, 1, 2), (0, 1, 3)] {
        change(world, piece)?;
    }
    world.sync(0)?;
    change(world, (1, 2, 1))
};

/// Reads from the middle of pages, and whole ones.
const READ: Thread = |world| {
    for block in 0..6 {
        world.read_all(&piece(0, 1, 6))?;
        world.write((FILLER, block))?;
        world.read_all(&piece(0, 0, 3 * PARTS))?;
    }
    world.sync(FILLER)
};

/// The file ends in the middle of a page, further and further on, and is cut off there.
const GROW: Thread = |world| {
    for number in [0, 1] {
        change(world, (3, number, 1))?;
        world.sync(0)?;
    }
    world.truncate(0, 3)?;
    change(world, (3, 1, 1))?;
    world.sync(0)?;
    world.read_all(&piece(2, 0, 2 * PARTS))
};

const STOP: Thread = |world| {
    world.stop_admission()?;
    world.quiesce(|volume| volume.resume_admission())
};

/// The one that takes its place fails as well, and is replaced in turn.
const REPLACE_TWICE: Thread = |world| {
    replace(world, 9)?;
    world.flash_fails();
    world.write((0, 5))?;
    replace(world, 10)?;
    world.write((0, 5))?;
    world.sync(0)
};

fn begin(setup: Setup) -> World {
    let world = World::new(setup);
    for block in 0..3 {
        world.write_run(&piece(block, 0, PARTS)).unwrap();
    }
    world.push_on();
    world
}

fn written(setup: Setup) {
    begin(setup).run(&[HEADS, ACROSS, READ]);
}

fn on_disk_alone(setup: Setup) {
    let world = begin(setup);
    world.push_out();
    world.run(&[HEADS, ACROSS, READ]);
}

fn grown(setup: Setup) {
    begin(setup).run(&[GROW, HEADS, READ]);
}

fn stopped(setup: Setup) {
    begin(setup.past_the_tier().guarded()).run(&[HEADS, ACROSS, STOP]);
}

fn failing(setup: Setup) -> World {
    let world = begin(setup.given_up());
    world.flash_fails();
    world
}

fn given_up(setup: Setup) {
    failing(setup.guarded()).run(&[HEADS, ACROSS, READ]);
}

fn replaced(setup: Setup) {
    failing(setup).run(&[HEADS, ACROSS, REPLACE]);
}

fn replaced_twice(setup: Setup) {
    failing(setup).run(&[HEADS, ACROSS, REPLACE_TWICE]);
}

#[test]
fn two_runners() {
    check(|| written(Setup::new(2)));
}

#[test]
fn three_runners() {
    check(|| written(Setup::new(3)));
}

#[test]
fn no_runners() {
    check(|| written(Setup::new(0)));
}

#[test]
fn a_tier_of_clean_pages() {
    check(|| written(Setup::of(Design::FaceGsc, SyncMode::Through, 2).past_the_tier()));
}

#[test]
fn pages_that_are_written_in_place() {
    check(|| written(Setup::of(Design::Fifo, SyncMode::Durable, 2)));
}

#[test]
fn pages_that_come_in_by_writes_alone() {
    check(|| on_disk_alone(Setup::of(Design::Fifo, SyncMode::Durable, 2).takes_writes_alone()));
}

#[test]
fn pages_that_are_on_disk_alone() {
    check(|| on_disk_alone(Setup::new(2)));
}

#[test]
fn a_file_that_ends_in_the_middle_of_a_page() {
    check(|| grown(Setup::new(2)));
}

#[test]
fn admission_that_stops() {
    check(|| stopped(Setup::new(2)));
}

#[test]
fn a_tier_that_is_given_up() {
    check(|| given_up(Setup::new(2)));
}

#[test]
fn a_device_that_fails_and_is_replaced() {
    check(|| replaced(Setup::new(2)));
}

#[test]
fn a_device_that_fails_and_is_replaced_where_pages_are_written_in_place() {
    check(|| replaced(Setup::of(Design::Fifo, SyncMode::Durable, 3).takes_writes_alone()));
}

#[test]
fn two_devices_that_fail_and_are_replaced() {
    check(|| replaced_twice(Setup::new(2)));
}

#[test]
fn two_devices_that_fail_and_are_replaced_where_pages_are_written_in_place() {
    check(|| replaced_twice(Setup::of(Design::Fifo, SyncMode::Durable, 3).takes_writes_alone()));
}

#[test]
fn points_in_the_engine() {
    check(|| written(Setup::new(0).finely()));
}

#[test]
fn writes_past_a_tier_that_wait_for_nobody_are_noticed() {
    finds(Bug::GivenUpUnlocked, || given_up(Setup::new(2)), 4000);
}

#[test]
fn a_page_of_a_tier_that_was_given_up_is_noticed() {
    finds(Bug::GivenUpPageBelieved, || given_up(Setup::new(2)), 4000);
}
