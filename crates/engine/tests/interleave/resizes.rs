//! The queue grows and shrinks under readers and writers.

use mezzanine_engine::{PageId, TierConfig};

use crate::schedules::check;
use crate::world::{OWNER, Thread, World, tiny};

const MORE: u64 = 7;

/// Asks for the frames wanted and writes the superblock when the rear stands at the cut.
fn resize(world: &World, frames: u64) {
    world.tier.begin_resize(frames).unwrap();
    // Only appending moves the rear to the cut.
    while world.tier.frames() != frames {
        world.write_or_else(&PageId::volume(9, 0), || {
            if world.tier.resize_waits() {
                let before = world.superblock.lock().unwrap().clone();
                let after = world.tier.resized(&before);
                *world.superblock.lock().unwrap() = after;
                world.tier.finish_resize();
            } else {
                world.work_or_wait(OWNER);
            }
        });
    }
    world.write(&PageId::volume(9, 0));
}

fn wide() -> TierConfig {
    let config = tiny(1);
    TierConfig { frames_max: config.frames + MORE, ..config }
}

fn full(config: &TierConfig) -> World {
    let world = World::new(config);
    for block in 0..3 {
        world.write(&PageId::volume(1, block));
    }
    world.push_to_front(&PageId::volume(1, 0));
    world
}

const READ: Thread = |world| {
    for n in 0..12 {
        world.read(&PageId::volume(1, n % 3));
    }
};

const WRITE: Thread = |world| {
    for n in 0..6 {
        world.write(&PageId::volume(1, n % 4));
    }
};

fn grows() {
    let config = wide();
    let resize: Thread = |world| resize(world, wide().frames + MORE);
    full(&config).run(1, &[resize, READ, WRITE]);
}

#[test]
fn a_queue_that_grows() {
    check(grows);
}

fn shrinks() {
    let config = TierConfig { frames: wide().frames + MORE, ..wide() };
    let resize: Thread = |world| resize(world, wide().frames);
    full(&config).run(1, &[resize, READ, WRITE]);
}

#[test]
fn a_queue_that_shrinks() {
    check(shrinks);
}
