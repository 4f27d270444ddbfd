//! A flush fails: everybody who waits for it is told, nothing is acknowledged any more, and what was
//! acknowledged before is there. Readers go on.

use mezzanine_volume::{Design, SyncMode};

use crate::schedules::check;
use crate::threads::{OTHERS, WRITE, begin};
use crate::world::{FILLER, Setup, Thread, World};

/// Waits for the same flushes as others do.
const SYNC: Thread = |world| {
    for block in 4..7 {
        world.write((0, block))?;
        world.sync(0)?;
    }
    Ok(())
};

const DRAIN: Thread = |world| {
    world.quiesce(|volume| volume.drain())?;
    world.write((0, 4))?;
    world.sync(0)
};

/// A write that meets the failure before the flush is known to have failed has the tier given up, in order:
/// then the disk is written.
fn of_flash(setup: Setup) -> World {
    let world = begin(setup.past_the_tier());
    world.flash_flush_fails();
    world
}

fn of_disk(setup: Setup, file: usize) -> World {
    let world = begin(setup.past_the_tier());
    world.disk_flush_fails(file);
    world
}

fn synced(setup: Setup) {
    of_flash(setup).run(&[WRITE, SYNC, OTHERS]);
}

fn drained(setup: Setup) {
    of_flash(setup).run(&[DRAIN, WRITE, OTHERS]);
}

/// Pages that leave the tier are synced there.
fn staged_out(setup: Setup) {
    of_disk(setup, FILLER).run(&[WRITE, SYNC, OTHERS]);
}

fn written_through(setup: Setup) {
    of_disk(setup, 0).run(&[WRITE, SYNC, OTHERS]);
}

#[test]
fn two_runners() {
    check(|| synced(Setup::new(2)));
}

#[test]
fn three_runners() {
    check(|| synced(Setup::new(3)));
}

#[test]
fn no_runners() {
    check(|| synced(Setup::new(0)));
}

#[test]
fn pages_that_are_written_in_place() {
    check(|| synced(Setup::of(Design::Lc, SyncMode::Durable, 2)));
}

#[test]
fn a_tier_of_clean_pages() {
    check(|| synced(Setup::of(Design::FaceGsc, SyncMode::Through, 2)));
}

#[test]
fn a_drain() {
    check(|| drained(Setup::new(2)));
}

#[test]
fn the_disk_of_pages_that_leave() {
    check(|| staged_out(Setup::new(2)));
}

#[test]
fn the_disk_of_pages_that_leave_their_places() {
    check(|| staged_out(Setup::of(Design::Fifo, SyncMode::Durable, 2)));
}

#[test]
fn the_disk_that_is_written_first() {
    check(|| written_through(Setup::of(Design::FaceGsc, SyncMode::Through, 2)));
}

/// Order 684 has the disk of one file refuse a write before the thread whose sync of it failed has said so of
/// the volume: a sync of another file is then rightly acknowledged.
#[test]
fn the_disk_that_is_written_first_beside_a_slot_directory() {
    check(|| written_through(Setup::of(Design::Tac, SyncMode::Through, 2)));
}

#[test]
fn points_in_the_engine() {
    check(|| synced(Setup::new(0).finely()));
}
