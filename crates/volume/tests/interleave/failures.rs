//! The flash device takes no more writes from some moment on: the tier is given up, in order, while files are
//! written, synced, read, cut off and drained, and one is just being made ready for its first change.

use mezzanine_engine::planted::Bug;
use mezzanine_volume::{Design, SyncMode};

use crate::schedules::{check, finds};
use crate::threads::{OTHERS, WRITE};
use crate::world::{Setup, Thread, World};

const TRUNCATES: Thread = |world| {
    for block in 4..6 {
        world.write((0, block))?;
    }
    world.truncate(0, 4)?;
    world.write((0, 4))?;
    // It may meet the failure, and says so.
    _ = world.volume().drain();
    Ok(())
};

fn begin(setup: Setup, written: u64) -> World {
    let world = World::new(setup.given_up().guarded());
    for block in 0..written {
        world.write((0, block)).unwrap();
    }
    world.push_on();
    world.flash_fails();
    world
}

fn given_up(setup: Setup) {
    begin(setup, 3).run(&[WRITE, OTHERS]);
}

fn made_ready(setup: Setup) {
    begin(setup, 0).run(&[WRITE, OTHERS]);
}

fn changed(setup: Setup) {
    begin(setup, 3).run(&[TRUNCATES, OTHERS]);
}

#[test]
fn two_runners() {
    check(|| given_up(Setup::new(2)));
}

#[test]
fn three_runners() {
    check(|| given_up(Setup::new(3)));
}

#[test]
fn no_runners() {
    check(|| given_up(Setup::new(0)));
}

#[test]
fn a_file_that_is_made_ready() {
    check(|| made_ready(Setup::new(2)));
}

#[test]
fn a_file_that_is_truncated() {
    check(|| changed(Setup::new(2)));
}

#[test]
fn a_tier_of_clean_pages() {
    check(|| given_up(Setup::of(Design::FaceGsc, SyncMode::Through, 2)));
}

#[test]
fn pages_that_are_written_in_place() {
    check(|| given_up(Setup::of(Design::Lc, SyncMode::Durable, 2)));
}

#[test]
fn a_file_that_is_truncated_and_whose_pages_are_written_in_place() {
    check(|| changed(Setup::of(Design::Fifo, SyncMode::Durable, 2)));
}

#[test]
fn a_slot_directory() {
    check(|| given_up(Setup::of(Design::Tac, SyncMode::Through, 2)));
}

#[test]
fn points_in_the_engine() {
    check(|| given_up(Setup::new(0).finely()));
}

#[test]
fn a_failure_that_a_drain_misses_is_noticed() {
    finds(Bug::LastFailureMissed, || changed(Setup::new(2)), 10_000);
}

#[test]
fn a_tier_that_is_given_up_over_others_is_noticed() {
    finds(Bug::OthersNotAwaited, || made_ready(Setup::new(2)), 4000);
}
