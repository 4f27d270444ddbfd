//! Files are attached while others are written, synced and drained: a new one, and those of a volume that was
//! opened again after a crash, which cannot be changed before all are there.

use mezzanine_volume::{Design, SyncMode};

use crate::schedules::check;
use crate::threads::{BLOCKS, OTHERS, WRITE, begin};
use crate::world::{FILLER, LATE, Setup, Thread};

const ATTACH: Thread = |world| {
    world.attach(LATE)?;
    for block in 0..3 {
        world.write((LATE, block))?;
        world.read((LATE, block))?;
    }
    world.sync(LATE)
};

const DRAIN: Thread = |world| {
    world.quiesce(|volume| volume.drain())?;
    world.write((0, 3))
};

/// After a crash.
const ATTACH_AGAIN: Thread = |world| {
    world.attach(0)?;
    world.read_run((0, 0), BLOCKS)?;
    WRITE(world)
};

const ATTACH_FILLER_AGAIN: Thread = |world| {
    world.attach(FILLER)?;
    for block in 0..6 {
        world.read((FILLER, block))?;
        world.write((FILLER, block))?;
    }
    world.sync(FILLER)
};

fn a_new_one(setup: Setup) {
    begin(setup).run(&[ATTACH, WRITE, OTHERS]);
}

fn beside_a_drain(setup: Setup) {
    begin(setup.guarded()).run(&[ATTACH, DRAIN, WRITE]);
}

fn again(setup: Setup, runners: usize) {
    begin(setup).again(runners).run(&[ATTACH_AGAIN, ATTACH_FILLER_AGAIN, ATTACH]);
}

#[test]
fn two_runners() {
    check(|| a_new_one(Setup::new(2)));
}

#[test]
fn three_runners() {
    check(|| a_new_one(Setup::new(3)));
}

#[test]
fn a_tier_of_clean_pages() {
    check(|| a_new_one(Setup::of(Design::FaceGsc, SyncMode::Through, 2).past_the_tier()));
}

#[test]
fn pages_that_are_written_in_place() {
    check(|| a_new_one(Setup::of(Design::Clock, SyncMode::Durable, 2)));
}

#[test]
fn beside_an_operator() {
    check(|| beside_a_drain(Setup::new(2)));
}

#[test]
fn after_a_crash() {
    check(|| again(Setup::new(0), 2));
}

#[test]
fn after_a_crash_with_a_guard() {
    check(|| again(Setup::new(0).guarded(), 3));
}

#[test]
fn after_a_crash_with_pages_written_in_place() {
    check(|| again(Setup::of(Design::Lru, SyncMode::Durable, 0), 2));
}

#[test]
fn points_in_the_engine() {
    check(|| again(Setup::new(0).finely(), 0));
}
