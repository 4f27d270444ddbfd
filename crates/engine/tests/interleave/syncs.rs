//! Several threads sync what they have staged in; the power may fail as soon as a ticket is durable.

use mezzanine_engine::PageId;
use mezzanine_engine::planted::Bug;

use crate::schedules::{check, finds};
use crate::world::{Thread, World, tiny};

fn write_and_sync(world: &World, file: u64) {
    for n in 0..2 {
        let id = PageId::volume(file, n);
        world.write(&id);
        let promised = world.promised(Some(file));
        let ticket = world.sync_begin();
        world.sync_end(&ticket);
        world.after_power_cut(&promised);
    }
}

fn two() {
    let first: Thread = |world| write_and_sync(world, 1);
    let second: Thread = |world| write_and_sync(world, 2);
    World::new(&tiny(2)).run(1, &[first, second]);
}

#[test]
fn two_threads() {
    check(two);
}

#[test]
fn a_sync_without_a_flush_is_noticed() {
    finds(Bug::SyncWithoutFlush, two, 100);
}

/// The queue goes round meanwhile, so that stage-out, bands and metadata segments take part.
fn queue_that_is_full() {
    let world = World::new(&tiny(1));
    world.write(&PageId::volume(1, 0));
    world.push_to_front(&PageId::volume(1, 0));
    let sync: Thread = |world| write_and_sync(world, 1);
    let others: Thread = |world| {
        for n in 0..8 {
            world.write(&PageId::volume(2, n));
        }
    };
    world.run(2, &[sync, others]);
}

#[test]
fn a_queue_that_is_full() {
    check(queue_that_is_full);
}

#[test]
fn pages_released_before_their_disk_writes_are_synced_are_noticed() {
    finds(Bug::ReuseBeforeDiskSync, queue_that_is_full, 2000);
}

#[test]
fn a_group_that_is_written_before_it_is_filled_is_noticed() {
    finds(Bug::GroupUnfilled, two, 1000);
}
