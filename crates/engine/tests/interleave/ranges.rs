//! A range of pages is dropped while others are staged in and stage-out moves pages of the range.

use mezzanine_engine::planted::Bug;
use mezzanine_engine::{IdRange, PageId};

use crate::schedules::{check, finds};
use crate::world::{Thread, World, tiny};

/// The file that is dropped.
const DROPPED: u64 = 1;

/// A few pages are looked up one by one.
const DROP_FEW: Thread = |world| world.drop_pages(&IdRange::blocks(DROPPED, 0, 3));

/// Many take a pass over the queue.
const DROP_MANY: Thread = |world| world.drop_pages(&IdRange::blocks_from(DROPPED, 0));

const OTHERS: Thread = |world| {
    for n in 0..6 {
        world.write(&PageId::volume(2, n % 4));
    }
};

fn staged(pages: u64, read: bool) -> World {
    let world = World::new(&tiny(2));
    for block in 0..pages {
        world.write(&PageId::volume(DROPPED, block));
    }
    world.push_to_front(&PageId::volume(DROPPED, 0));
    if read {
        for block in 0..pages {
            world.read(&PageId::volume(DROPPED, block));
        }
    }
    world
}

fn leaving() {
    staged(3, false).run(1, &[DROP_MANY, OTHERS]);
}

#[test]
fn a_range_that_is_leaving_the_queue() {
    check(leaving);
}

fn few_getting_second_chances() {
    staged(3, true).run(1, &[DROP_FEW, OTHERS]);
}

#[test]
fn a_few_pages_that_get_second_chances() {
    check(few_getting_second_chances);
}

fn many_getting_second_chances() {
    staged(3, true).run(1, &[DROP_MANY, OTHERS]);
}

#[test]
fn a_range_whose_pages_get_second_chances() {
    check(many_getting_second_chances);
}

/// Its pass over the queue meets no other page, whose shard's lock would make it wait for the second chance.
fn one_page() {
    staged(1, true).run(1, &[DROP_MANY]);
}

#[test]
fn a_range_with_one_page_that_gets_a_second_chance() {
    check(one_page);
}

/// The file is created anew at once by whoever dropped it.
fn used_again() {
    let again: Thread = |world| {
        DROP_MANY(world);
        world.write(&PageId::volume(DROPPED, 1));
        world.read(&PageId::volume(DROPPED, 0));
        world.read(&PageId::volume(DROPPED, 1));
    };
    staged(3, true).run(2, &[again, OTHERS]);
}

#[test]
fn a_range_that_is_used_again() {
    check(used_again);
}

#[test]
fn second_chances_during_a_drop_are_noticed() {
    finds(Bug::SecondChanceDuringDrop, many_getting_second_chances, 2000);
}
