//! A file is cut off and written anew, again and again, while pages leave the tier.

use mezzanine_engine::planted::Bug;
use mezzanine_volume::{Design, SyncMode};

use crate::schedules::{check, finds};
use crate::world::{FILLER, Setup, Thread, World};

/// Pages of the file.
const END: u64 = 5;

const ANEW: Thread = |world| {
    for first in [1, 0] {
        world.truncate(0, first)?;
        world.write((0, END - 1))?;
        world.read_run((0, 0), END)?;
        for block in 0..END - 2 {
            world.write((0, block))?;
        }
        world.sync(0)?;
        world.read_run((0, 0), END)?;
    }
    Ok(())
};

/// Larger than the tier. All of its pages are forgotten at once, so that they need not be read when they
/// leave.
const LARGE: u64 = 40;

const LARGE_ANEW: Thread = |world| {
    for _ in 0..2 {
        world.truncate(0, 0)?;
        for block in 0..LARGE {
            world.write((0, block))?;
        }
    }
    world.sync(0)
};

/// Has what was there before go on its way.
const OTHERS: Thread = |world| {
    for block in 0..8 {
        world.write((FILLER, block))?;
    }
    world.sync(FILLER)
};

fn begin(setup: Setup) -> World {
    let world = World::new(setup);
    for block in 0..END {
        world.write((0, block)).unwrap();
    }
    world.push_on();
    world
}

fn anew(setup: Setup) {
    begin(setup).run(&[ANEW, OTHERS]);
}

fn larger_than_the_tier(setup: Setup) {
    let world = World::new(setup);
    for block in 0..LARGE {
        world.write((0, block)).unwrap();
    }
    world.run(&[LARGE_ANEW]);
}

#[test]
fn two_runners() {
    check(|| anew(Setup::new(2)));
}

#[test]
fn three_runners() {
    check(|| anew(Setup::new(3)));
}

#[test]
fn pages_that_are_written_in_place() {
    check(|| anew(Setup::of(Design::Fifo, SyncMode::Durable, 2)));
}

#[test]
fn a_slot_directory() {
    check(|| anew(Setup::of(Design::Tac, SyncMode::Through, 2).past_the_tier()));
}

#[test]
fn points_in_the_engine() {
    check(|| anew(Setup::new(0).finely()));
}

#[test]
fn a_file_larger_than_the_tier() {
    check(|| larger_than_the_tier(Setup::new(2)));
}

#[test]
fn a_file_larger_than_the_tier_and_three_runners() {
    check(|| larger_than_the_tier(Setup::new(3)));
}

#[test]
fn a_file_larger_than_the_tier_in_place() {
    check(|| larger_than_the_tier(Setup::of(Design::Cac, SyncMode::Durable, 2)));
}

#[test]
fn pages_that_do_not_go_to_disk_because_they_were_once_cut_off_are_noticed() {
    finds(Bug::CutJudgedByRange, || larger_than_the_tier(Setup::new(2)), 1000);
}
