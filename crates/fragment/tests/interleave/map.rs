//! Marks beside writes, evictions and commits: at no moment does a record count that a crash must not leave.

use mezzanine_fragment::planted::Bug;

use crate::schedules::{check, finds};
use crate::world::{BLOCKS, Thread, World};

const WRITE: Thread = |world| {
    world.write(0, 1, 1);
    world.write(0, 0, 2);
};
const WRITE_OTHER: Thread = |world| world.write(1, 0, 2);
const READ: Thread = |world| {
    for _ in 0..3 {
        world.read(0, 0, BLOCKS);
    }
};
const READ_OTHER: Thread = |world| {
    for _ in 0..3 {
        world.read(1, 0, BLOCKS);
    }
};

/// Two fragments that are stable, with their records in one block.
fn two() -> World {
    let world = World::with_map(2, 2);
    world.populate(0);
    world.populate(1);
    world.stabilise();
    world
}

fn written() {
    two().run(1, &[WRITE, READ]);
}

/// With memory for one copy, which does not wait for the backing device then.
fn written_beside() {
    let world = World::with_map_and_copies(1, 1, 1);
    world.populate(0);
    world.stabilise();
    world.run(1, &[WRITE, READ]);
}

fn both_written() {
    two().run(2, &[WRITE, WRITE_OTHER]);
}

fn settling() {
    two().run(2, &[WRITE, |world| world.quiesce()]);
}

/// One stable fragment in the only slot, which the other one is to have.
fn evicted() {
    let world = World::with_map(2, 1);
    world.populate(0);
    world.stabilise();
    world.run(2, &[WRITE, READ_OTHER]);
}

#[test]
fn a_write_to_a_stable_fragment() {
    check(written);
    check(written_beside);
}

#[test]
fn writes_to_two_of_a_block() {
    check(both_written);
}

#[test]
fn an_eviction_of_a_stable_fragment() {
    check(evicted);
}

#[test]
fn a_write_while_fragments_settle_at_once() {
    check(settling);
}

#[test]
fn a_write_before_its_mark_is_noticed() {
    finds(Bug::WriteBeforeMark, written, 100);
    finds(Bug::CopyBeforeMark, written_beside, 5000);
}

#[test]
fn a_mark_that_comes_too_late_for_its_commit_is_noticed() {
    finds(Bug::LateMarkCommitted, both_written, 5000);
}

#[test]
fn a_fragment_that_leaves_before_its_record_is_noticed() {
    finds(Bug::LeavesBeforeRecord, evicted, 1000);
}

#[test]
fn a_record_under_writes_is_noticed() {
    finds(Bug::StableUnderWrites, settling, 20_000);
}
