//! Readers while their page is rewritten, leaves memory, leaves the queue and has its frame overwritten.

use mezzanine_engine::PageId;
use mezzanine_engine::planted::Bug;

use crate::schedules::{check, finds};
use crate::world::{Thread, World, tiny};

fn rewritten() {
    let world = World::new(&tiny(1));
    let read: Thread = |world| {
        for _ in 0..3 {
            world.read(&PageId::volume(1, 0));
            world.read(&PageId::volume(1, 1));
        }
    };
    let write: Thread = |world| {
        for n in 0..4 {
            world.write(&PageId::volume(1, n % 2));
        }
    };
    world.run(1, &[read, write]);
}

/// As many as are under way at once and one more, so that what was fetched for a page is old when it is
/// looked up.
fn rewritten_among_many() {
    let world = World::new(&tiny(1));
    let read: Thread = |world| {
        let ids: Vec<PageId> = (0..17).map(|n| PageId::volume(1, n % 3)).collect();
        world.read_each(&ids);
    };
    let write: Thread = |world| {
        for n in 0..4 {
            world.write(&PageId::volume(1, n % 2));
        }
    };
    world.run(1, &[read, write]);
}

/// The memory that a reader copies a page from is given to other groups meanwhile.
fn overtaken() {
    let world = World::new(&tiny(1));
    world.write(&PageId::volume(1, 0));
    let read: Thread = |world| {
        for _ in 0..2 {
            world.read(&PageId::volume(1, 0));
        }
    };
    let write: Thread = |world| {
        for n in 0..4 {
            world.write(&PageId::volume(3, n));
        }
    };
    world.run(1, &[read, write]);
}

#[test]
fn a_page_whose_memory_is_reused() {
    check(overtaken);
}

#[test]
fn a_page_that_is_rewritten() {
    check(rewritten);
}

#[test]
fn a_page_among_many_that_is_rewritten() {
    check(rewritten_among_many);
}

fn overwritten() {
    let world = World::new(&tiny(1));
    let id = PageId::volume(1, 0);
    world.write(&id);
    world.push_to_front(&id);
    let read: Thread = |world| {
        for _ in 0..2 {
            world.read(&PageId::volume(1, 0));
        }
    };
    let write: Thread = |world| {
        for n in 0..12 {
            world.write(&PageId::volume(3, n));
        }
    };
    world.run(1, &[read, write]);
}

#[test]
fn a_page_whose_frame_is_overwritten() {
    check(overwritten);
}

#[test]
fn a_read_that_is_not_confirmed_is_noticed() {
    finds(Bug::ReadUnconfirmed, overwritten, 1000);
}

#[test]
fn a_copy_of_memory_that_is_not_confirmed_is_noticed() {
    finds(Bug::StagedCopyUnconfirmed, overtaken, 1000);
}

#[test]
fn a_lookup_that_is_not_confirmed_is_noticed() {
    finds(Bug::LookupUnconfirmed, overwritten, 2000);
}

#[test]
fn a_copy_among_many_that_is_not_confirmed_is_noticed() {
    finds(Bug::StagedCopyUnconfirmed, rewritten_among_many, 2000);
}

#[test]
fn a_reference_stored_over_another_state_is_noticed() {
    finds(Bug::ReferenceStored, rewritten, 20_000);
}
