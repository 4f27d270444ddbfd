//! The flash device takes no more writes from some moment on: the tier is given up, in order, while files are written, synced, read, cut off and
//! drained, and one is just being made ready for its first change.

use mezzanine_engine::planted::Bug;
use mezzanine_volume::SyncMode;

use crate::schedules::{check, finds};
use crate::world::{FILLER, Setup, Thread, World, tiny};

const WRITE: Thread = |world| {
    for block in [0, 1, 2, 0] {
        world.write((0, block))?;
        world.read((0, block))?;
    }
    world.sync(0)?;
    world.read_run((0, 0), 3)
};

const OTHERS: Thread = |world| {
    for block in 0..6 {
        world.read((0, block % 3))?;
        world.write((FILLER, block))?;
    }
    world.sync(FILLER)
};

const SHAPE: Thread = |world| {
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

fn given_up<const RUNNERS: usize>() {
    begin(Setup::new(RUNNERS), 3).run(&[WRITE, OTHERS]);
}

fn made_ready<const RUNNERS: usize>() {
    begin(Setup::new(RUNNERS), 0).run(&[WRITE, OTHERS]);
}

fn changed<const RUNNERS: usize>() {
    begin(Setup::new(RUNNERS), 3).run(&[SHAPE, OTHERS]);
}

fn through<const RUNNERS: usize>() {
    begin(Setup { tier: tiny(SyncMode::Through), ..Setup::new(RUNNERS) }, 3).run(&[WRITE, OTHERS]);
}

#[test]
fn two_runners() {
    check(given_up::<2>);
}

#[test]
fn three_runners() {
    check(given_up::<3>);
}

#[test]
fn no_runners() {
    check(given_up::<0>);
}

#[test]
fn a_file_that_is_made_ready() {
    check(made_ready::<2>);
}

#[test]
fn a_file_whose_shape_changes() {
    check(changed::<2>);
}

#[test]
fn a_tier_of_clean_pages() {
    check(through::<2>);
}

#[test]
fn a_failure_that_a_drain_misses_is_noticed() {
    finds(Bug::LastFailureMissed, changed::<2>, 10_000);
}

#[test]
fn a_tier_that_is_given_up_over_others_is_noticed() {
    finds(Bug::OthersNotAwaited, made_ready::<2>, 4000);
}
