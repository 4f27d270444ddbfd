//! The volume is closed while files are written, synced and read: who comes later is told, and what was
//! complete before is there.

use mezzanine_engine::planted::Bug;
use mezzanine_volume::{Design, SyncMode};

use crate::schedules::{check, finds};
use crate::threads::{OTHERS, WRITE, begin};
use crate::world::{Setup, Thread};

const CLOSE: Thread = |world| {
    world.write((0, 5))?;
    world.close(|volume| volume.close())
};

const CLOSE_DRAINED: Thread = |world| {
    world.write((0, 6))?;
    world.close(|volume| volume.close_drained())
};

const SWITCH: Thread = |world| world.quiesce(|volume| volume.set_sync_mode(SyncMode::Through));

fn closed(setup: Setup) {
    begin(setup.guarded()).run(&[CLOSE, WRITE, OTHERS]);
}

fn closed_drained(setup: Setup) {
    begin(setup.guarded()).run(&[CLOSE_DRAINED, WRITE, OTHERS]);
}

fn through(design: Design) -> Setup {
    Setup::of(design, SyncMode::Through, 2).past_the_tier()
}

/// Two close it, and one changes its way to the disks.
fn closed_twice(setup: Setup) {
    begin(setup.past_the_tier().guarded()).run(&[CLOSE, CLOSE_DRAINED, SWITCH, OTHERS]);
}

#[test]
fn two_runners() {
    check(|| closed(Setup::new(2)));
}

#[test]
fn three_runners() {
    check(|| closed(Setup::new(3)));
}

#[test]
fn a_tier_of_clean_pages() {
    check(|| closed(through(Design::FaceGsc)));
}

#[test]
fn a_slot_directory() {
    check(|| closed(through(Design::Tac)));
}

#[test]
fn pages_that_are_written_in_place() {
    check(|| closed(Setup::of(Design::Lc, SyncMode::Durable, 2)));
}

#[test]
fn drained() {
    check(|| closed_drained(Setup::new(2)));
}

#[test]
fn drained_where_pages_are_written_in_place() {
    check(|| closed_drained(Setup::of(Design::Cac, SyncMode::Durable, 2)));
}

#[test]
fn by_two_at_once() {
    check(|| closed_twice(Setup::new(2)));
}

#[test]
fn points_in_the_engine() {
    check(|| closed(Setup::new(0).finely()));
}

/// Found here, in order 43: a page had gone to disk, and the volume was closed before the tier heard of it.
/// The next opening believed the tier, and gave the older page until that had left.
#[test]
fn a_volume_that_is_closed_over_a_write_is_noticed() {
    finds(Bug::ClosedOverWriters, || closed(through(Design::FaceGsc)), 1000);
}
