//! Two files are written and synced by several threads, while the queue goes round.

use mezzanine_engine::planted::Bug;
use mezzanine_volume::{Design, SyncMode};

use crate::schedules::{check, finds};
use crate::world::{FILLER, Off, Setup, Thread, World};

fn write_and_sync(world: &World, file: usize, first: u64) -> Result<(), Off> {
    for block in [0, 1, 0, 2] {
        world.write((file, first + block))?;
        world.sync(file)?;
    }
    Ok(())
}

const FIRST: Thread = |world| write_and_sync(world, 0, 0);
const SECOND: Thread = |world| write_and_sync(world, 0, 4);
const OTHER: Thread = |world| write_and_sync(world, FILLER, 0);

fn synced(setup: Setup) {
    let world = World::new(setup);
    world.push_on();
    world.write((0, 0)).unwrap();
    world.run(&[FIRST, SECOND, OTHER]);
}

#[test]
fn two_runners() {
    check(|| synced(Setup::new(2)));
}

#[test]
fn three_runners() {
    check(|| synced(Setup::new(3)));
}

/// Those who have no room and those who sync carry the jobs out themselves.
#[test]
fn no_runners() {
    check(|| synced(Setup::new(0)));
}

#[test]
fn pages_that_are_written_in_place() {
    check(|| synced(Setup::of(Design::Lc, SyncMode::Durable, 2)));
}

#[test]
fn points_in_the_engine() {
    check(|| synced(Setup::new(0).finely()));
}

#[test]
fn a_sync_without_a_flush_is_noticed() {
    finds(Bug::SyncWithoutFlush, || synced(Setup::new(2)), 1000);
}

/// Nobody wakes who sleeps then.
#[test]
fn who_sleeps_although_there_was_progress_is_noticed() {
    finds(Bug::ProgressUnnoted, || synced(Setup::new(2)), 1000);
}
