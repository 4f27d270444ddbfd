//! The head of a guarded file is on disk under its guard, and is read, while it takes its place again and is guarded anew.

use mezzanine_engine::planted::Bug;

use crate::schedules::{check, finds};
use crate::world::{FILLER, Setup, Thread, World};

const READ: Thread = |world| {
    world.read((0, 0))?;
    world.read_run((0, 0), 2)
};

const OPERATE: Thread = |world| {
    world.settle(|volume| volume.stop_admission())?;
    world.settle(|volume| volume.resume_admission())?;
    world.write((0, 1))?;
    world.sync(0)
};

const WRITE: Thread = |world| {
    for block in 0..6 {
        world.write((FILLER, block))?;
    }
    world.write((0, 0))?;
    for block in 0..6 {
        world.write((FILLER, block))?;
    }
    world.sync(0)
};

fn begin(runners: usize) -> World {
    let world = World::new(Setup::new(runners).past_the_tier().guarded());
    for block in 0..2 {
        world.write((0, block)).unwrap();
    }
    world.push_out();
    world
}

fn read<const RUNNERS: usize>() {
    begin(RUNNERS).run(&[READ, READ, OPERATE]);
}

fn written<const RUNNERS: usize>() {
    begin(RUNNERS).run(&[READ, WRITE]);
}

#[test]
fn two_runners() {
    check(read::<2>);
}

#[test]
fn three_runners() {
    check(read::<3>);
}

#[test]
fn a_head_that_is_written_anew() {
    check(written::<2>);
}

#[test]
fn a_guard_that_was_taken_away_while_it_was_read_is_noticed() {
    finds(Bug::GuardJudgedLate, read::<2>, 4000);
}

#[test]
fn a_head_that_is_left_behind_is_noticed() {
    finds(Bug::HeadLeftBehind, written::<2>, 4000);
}
