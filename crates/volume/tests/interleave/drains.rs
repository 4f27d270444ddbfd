//! The volume is drained while files are written, synced and read.

use mezzanine_engine::planted::Bug;
use mezzanine_volume::{Design, SyncMode};

use crate::schedules::{check, finds};
use crate::threads::{OTHERS, WRITE, begin};
use crate::world::{Setup, Thread};

const DRAIN: Thread = |world| {
    world.quiesce(|volume| volume.drain())?;
    world.write((0, 3))?;
    world.quiesce(|volume| volume.drain())?;
    world.sync(0)
};

/// What was drained leaves the tier.
const DRAIN_AND_GO_ON: Thread = |world| {
    world.quiesce(|volume| volume.drain())?;
    world.push_more(world.frames())
};

fn drained(setup: Setup) {
    begin(setup).run(&[DRAIN, WRITE, OTHERS]);
}

fn left(setup: Setup) {
    begin(setup).run(&[DRAIN_AND_GO_ON, WRITE]);
}

#[test]
fn two_runners() {
    check(|| drained(Setup::new(2)));
}

#[test]
fn three_runners() {
    check(|| drained(Setup::new(3)));
}

#[test]
fn pages_that_leave_after_a_drain() {
    check(|| left(Setup::new(2)));
}

#[test]
fn pages_that_are_written_in_place() {
    check(|| drained(Setup::of(Design::Lc, SyncMode::Durable, 2)));
}

#[test]
fn pages_that_leave_their_places_after_a_drain() {
    check(|| left(Setup::of(Design::Lru, SyncMode::Durable, 2)));
}

#[test]
fn points_in_the_engine() {
    check(|| left(Setup::new(0).finely()));
}

#[test]
fn pages_released_before_their_disk_writes_are_synced_are_noticed() {
    finds(Bug::ReuseBeforeDiskSync, || left(Setup::new(2)), 1000);
}
