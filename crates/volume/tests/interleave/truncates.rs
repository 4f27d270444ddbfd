//! A file is cut off and written anew, again and again, while pages leave the tier.

use mezzanine_engine::planted::Bug;

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

/// Larger than the tier. All of its pages are forgotten at once, so that they need not be read when they leave.
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

fn begin(runners: usize) -> World {
    let world = World::new(Setup::new(runners));
    for block in 0..END {
        world.write((0, block)).unwrap();
    }
    world.push_on();
    world
}

fn anew<const RUNNERS: usize>() {
    begin(RUNNERS).run(&[ANEW, OTHERS]);
}

fn larger_than_the_tier<const RUNNERS: usize>() {
    let world = World::new(Setup::new(RUNNERS));
    for block in 0..LARGE {
        world.write((0, block)).unwrap();
    }
    world.run(&[LARGE_ANEW]);
}

#[test]
fn two_runners() {
    check(anew::<2>);
}

#[test]
fn three_runners() {
    check(anew::<3>);
}

#[test]
fn a_file_larger_than_the_tier() {
    check(larger_than_the_tier::<2>);
}

#[test]
fn a_file_larger_than_the_tier_and_three_runners() {
    check(larger_than_the_tier::<3>);
}

#[test]
fn pages_that_do_not_go_to_disk_because_they_were_once_cut_off_are_noticed() {
    finds(Bug::CutJudgedByRange, larger_than_the_tier::<2>, 1000);
}
