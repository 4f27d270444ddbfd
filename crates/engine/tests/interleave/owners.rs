//! A process dies with a job in its hands, and another gives its jobs back while others go on.

use std::sync::atomic::Ordering;

use mezzanine_engine::PageId;
use mezzanine_engine::planted::Bug;

use crate::schedules::{check, finds};
use crate::world::{Thread, World, tiny};

const DEAD: u32 = 99;

/// Takes a job and dies: before its I/O, or after it but before the tier is told.
fn die_with_a_job(world: &World, after_its_io: bool) {
    let mut job = loop {
        match world.tier.next_job(DEAD) {
            Some(job) => break job,
            None if world.finished.load(Ordering::Relaxed) => return,
            None => shuttle::thread::yield_now(),
        }
    };
    if after_its_io {
        world.carry_out(&mut job);
    }
    drop(job);
    world.tier.abandon(DEAD).unwrap();
}

const WRITE: Thread = |world| {
    for n in 0..5 {
        world.write(&PageId::volume(1, n % 3));
    }
    let ticket = world.sync_begin();
    world.sync_end(&ticket);
    world.after_power_cut(&world.promised(Some(1)));
    world.finished.store(true, Ordering::Relaxed);
};

/// The queue is full, so that there are jobs of every kind.
fn full() -> World {
    let world = World::new(&tiny(2));
    world.write(&PageId::volume(1, 0));
    world.push_to_front(&PageId::volume(1, 0));
    world.read(&PageId::volume(1, 0));
    world
}

fn dies_before_its_io() {
    let die: Thread = |world| (0..4).for_each(|_| die_with_a_job(world, false));
    full().run(1, &[WRITE, die]);
}

#[test]
fn an_owner_that_dies_before_its_io() {
    check(dies_before_its_io);
}

#[test]
fn jobs_that_are_lost_with_their_owner_are_noticed() {
    finds(Bug::DeadOwnersJobsLost, dies_before_its_io, 20);
}

fn dies_after_its_io() {
    let die: Thread = |world| (0..4).for_each(|_| die_with_a_job(world, true));
    full().run(1, &[WRITE, die]);
}

#[test]
fn an_owner_that_dies_after_its_io() {
    check(dies_after_its_io);
}

#[test]
fn a_flush_of_a_dead_owner_that_counts_is_noticed() {
    finds(Bug::DeadFlushCounts, dies_before_its_io, 2000);
}

#[test]
fn a_disk_sync_of_a_dead_owner_that_counts_is_noticed() {
    finds(Bug::DeadSyncCounts, dies_before_its_io, 2000);
}
