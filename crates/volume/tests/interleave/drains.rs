//! The volume is drained while files are written, synced and read.

use mezzanine_engine::planted::Bug;

use crate::schedules::{check, finds};
use crate::world::{FILLER, Setup, Thread, World};

const DRAIN: Thread = |world| {
    world.settle(|volume| volume.drain())?;
    world.write((0, 3))?;
    world.settle(|volume| volume.drain())?;
    world.sync(0)
};

/// What was drained leaves the tier.
const DRAIN_AND_GO_ON: Thread = |world| {
    world.settle(|volume| volume.drain())?;
    world.push_more(world.frames())
};

const WRITE: Thread = |world| {
    for block in [0, 1, 2, 0] {
        world.write((0, block))?;
        world.read((0, block))?;
    }
    world.sync(0)
};

const OTHERS: Thread = |world| {
    for block in 0..6 {
        world.read((0, block % 3))?;
        world.write((FILLER, block))?;
    }
    world.sync(FILLER)
};

fn begin(runners: usize) -> World {
    let world = World::new(Setup::new(runners));
    for block in 0..3 {
        world.write((0, block)).unwrap();
    }
    world.push_on();
    world
}

fn drained<const RUNNERS: usize>() {
    begin(RUNNERS).run(&[DRAIN, WRITE, OTHERS]);
}

fn left<const RUNNERS: usize>() {
    begin(RUNNERS).run(&[DRAIN_AND_GO_ON, WRITE]);
}

#[test]
fn two_runners() {
    check(drained::<2>);
}

#[test]
fn three_runners() {
    check(drained::<3>);
}

#[test]
fn pages_that_leave_after_a_drain() {
    check(left::<2>);
}

#[test]
fn pages_released_before_their_disk_writes_are_synced_are_noticed() {
    finds(Bug::ReuseBeforeDiskSync, left::<2>, 1000);
}
