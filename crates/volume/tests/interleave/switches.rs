//! The sync mode is switched there and back while files are written, synced and read.

use mezzanine_engine::planted::Bug;
use mezzanine_volume::{Design, SyncMode};

use crate::schedules::{check, finds};
use crate::threads::{OTHERS, WRITE, begin};
use crate::world::{Setup, Thread};

const SWITCH_TO_DISK: Thread = |world| {
    world.quiesce(|volume| volume.set_sync_mode(SyncMode::Through))?;
    world.quiesce(|volume| volume.set_sync_mode(SyncMode::Durable))
};

const SWITCH_TO_TIER: Thread = |world| {
    world.quiesce(|volume| volume.set_sync_mode(SyncMode::Durable))?;
    world.quiesce(|volume| volume.set_sync_mode(SyncMode::Through))
};

fn durable(setup: Setup) {
    begin(setup.past_the_tier()).run(&[SWITCH_TO_DISK, WRITE, OTHERS]);
}

fn through(design: Design) {
    let setup = Setup::of(design, SyncMode::Through, 2).past_the_tier();
    begin(setup).run(&[SWITCH_TO_TIER, WRITE, OTHERS]);
}

#[test]
fn two_runners() {
    check(|| durable(Setup::new(2)));
}

#[test]
fn three_runners() {
    check(|| durable(Setup::new(3)));
}

#[test]
fn a_tier_of_clean_pages() {
    check(|| through(Design::FaceGsc));
}

#[test]
fn pages_that_are_written_in_place() {
    check(|| durable(Setup::of(Design::Lc, SyncMode::Durable, 2)));
}

#[test]
fn clean_pages_that_are_written_in_place() {
    check(|| through(Design::Exadata));
}

#[test]
fn points_in_the_engine() {
    check(|| durable(Setup::new(0).finely()));
}

#[test]
fn pages_that_count_as_clean_before_they_are_synced_are_noticed() {
    finds(Bug::DrainMarksUnsynced, || durable(Setup::new(2)), 4000);
}
