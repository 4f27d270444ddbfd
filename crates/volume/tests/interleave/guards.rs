//! The head of a guarded file is on disk under its guard, and is read, while it takes its place again and is
//! guarded anew.

use mezzanine_engine::planted::Bug;
use mezzanine_volume::{Design, SyncMode};

use crate::schedules::{check, finds};
use crate::world::{FILLER, Setup, Thread, World};

const READ: Thread = |world| {
    world.read((0, 0))?;
    world.read_run((0, 0), 2)
};

const OPERATE: Thread = |world| {
    world.stop_admission()?;
    world.quiesce(|volume| volume.resume_admission())?;
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

fn begin(setup: Setup) -> World {
    let world = World::new(setup.past_the_tier().guarded());
    for block in 0..2 {
        world.write((0, block)).unwrap();
    }
    world.push_out();
    world
}

fn read(setup: Setup) {
    begin(setup).run(&[READ, READ, OPERATE]);
}

fn written(setup: Setup) {
    begin(setup).run(&[READ, WRITE]);
}

#[test]
fn two_runners() {
    check(|| read(Setup::new(2)));
}

#[test]
fn three_runners() {
    check(|| read(Setup::new(3)));
}

#[test]
fn a_head_that_is_written_anew() {
    check(|| written(Setup::new(2)));
}

#[test]
fn pages_that_are_written_in_place() {
    check(|| read(Setup::of(Design::Lc, SyncMode::Durable, 2)));
}

#[test]
fn points_in_the_engine() {
    check(|| read(Setup::new(0).finely()));
}

#[test]
fn a_guard_that_was_taken_away_while_it_was_read_is_noticed() {
    finds(Bug::GuardJudgedLate, || read(Setup::new(2)), 4000);
}

#[test]
fn a_head_that_is_left_behind_is_noticed() {
    finds(Bug::HeadLeftBehind, || written(Setup::new(2)), 4000);
}
