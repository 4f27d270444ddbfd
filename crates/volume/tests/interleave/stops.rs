//! Admission is stopped and resumed while files are written, synced and read.

use mezzanine_engine::planted::Bug;
use mezzanine_volume::{Design, SyncMode};

use crate::schedules::{check, finds};
use crate::threads::{OTHERS, begin};
use crate::world::{Setup, Thread};

const STOP: Thread = |world| {
    for _ in 0..2 {
        world.stop_admission()?;
        world.quiesce(|volume| volume.resume_admission())?;
    }
    Ok(())
};

const WRITE_AND_SYNC: Thread = |world| {
    for block in [0, 1, 0] {
        world.write((0, block))?;
        world.read((0, block))?;
        world.sync(0)?;
    }
    Ok(())
};

fn stopped(setup: Setup) {
    begin(setup.past_the_tier()).run(&[STOP, WRITE_AND_SYNC, OTHERS]);
}

#[test]
fn two_runners() {
    check(|| stopped(Setup::new(2)));
}

#[test]
fn three_runners() {
    check(|| stopped(Setup::new(3)));
}

#[test]
fn pages_that_are_written_in_place() {
    check(|| stopped(Setup::of(Design::Clock, SyncMode::Durable, 2)));
}

#[test]
fn a_slot_directory() {
    check(|| stopped(Setup::of(Design::Tac, SyncMode::Through, 2)));
}

#[test]
fn points_in_the_engine() {
    check(|| stopped(Setup::new(0).finely()));
}

#[test]
fn pages_that_count_as_clean_before_they_are_synced_are_noticed() {
    finds(Bug::DrainMarksUnsynced, || stopped(Setup::new(2)), 4000);
}

/// The runners wake one another and the operator for ever.
#[test]
fn runners_that_look_for_jobs_while_the_volume_is_settled_are_noticed() {
    finds(Bug::LooksWhileSettled, || stopped(Setup::new(2)), 200);
}
