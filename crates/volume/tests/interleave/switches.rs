//! The sync mode is switched there and back while files are written, synced and read.

use mezzanine_engine::planted::Bug;
use mezzanine_volume::SyncMode;

use crate::schedules::{check, finds};
use crate::world::{FILLER, Setup, Thread, World, tiny};

const SWITCH_TO_DISK: Thread = |world| {
    world.settle(|volume| volume.set_sync_mode(SyncMode::Through))?;
    world.settle(|volume| volume.set_sync_mode(SyncMode::Durable))
};

const SWITCH_TO_TIER: Thread = |world| {
    world.settle(|volume| volume.set_sync_mode(SyncMode::Durable))?;
    world.settle(|volume| volume.set_sync_mode(SyncMode::Through))
};

const WRITE: Thread = |world| {
    for block in 0..3 {
        world.write((0, block))?;
        world.read((0, block))?;
    }
    world.sync(0)?;
    world.write((0, 1))?;
    world.read_run((0, 0), 3)
};

const OTHERS: Thread = |world| {
    for block in 0..4 {
        world.read((0, block % 3))?;
        world.write((FILLER, block))?;
    }
    world.sync(FILLER)
};

fn begin(setup: Setup) -> World {
    let world = World::new(setup.past_the_tier());
    for block in 0..3 {
        world.write((0, block)).unwrap();
    }
    world.push_on();
    world
}

fn durable<const RUNNERS: usize>() {
    begin(Setup::new(RUNNERS)).run(&[SWITCH_TO_DISK, WRITE, OTHERS]);
}

fn through<const RUNNERS: usize>() {
    begin(Setup { tier: tiny(SyncMode::Through), ..Setup::new(RUNNERS) }).run(&[
        SWITCH_TO_TIER,
        WRITE,
        OTHERS,
    ]);
}

#[test]
fn two_runners() {
    check(durable::<2>);
}

#[test]
fn three_runners() {
    check(durable::<3>);
}

#[test]
fn a_tier_of_clean_pages() {
    check(through::<2>);
}

#[test]
fn pages_that_count_as_clean_before_they_are_synced_are_noticed() {
    finds(Bug::DrainMarksUnsynced, durable::<2>, 4000);
}
