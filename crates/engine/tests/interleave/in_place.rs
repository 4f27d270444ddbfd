//! Designs that write in place: pages are rewritten, relocated, evicted, cleaned and dropped, and their homes
//! given to others, while they are read.

use std::sync::Arc;

use mezzanine_engine::planted::Bug;
use mezzanine_engine::{Design, IdRange, PageId};
use mezzanine_ground::interleave::explore;

use crate::drains::CHECKPOINT;
use crate::schedules::{check, finds};
use crate::world::{OWNER, Thread, World, tiny_of};

fn id(block: u64) -> PageId {
    PageId::volume(1, block)
}

/// A tier whose homes are all taken: whatever comes in has another page leave.
fn full(design: Design) -> World {
    let config = tiny_of(design, 1);
    let homes = config.frames;
    let world = World::new(&config);
    for block in 0..homes {
        world.write(&id(block % 100));
    }
    while world.work(OWNER) {}
    world
}

/// A tier whose queue of records has gone round: records of two pages were just relocated, to the open group.
fn gone_round(design: Design) -> World {
    let world = World::new(&tiny_of(design, 4));
    for block in 0..2 {
        world.write(&id(block));
    }
    while world.tier.statistics().relocated == 0 {
        world.write(&id(4));
        while world.work(OWNER) {}
    }
    assert_eq!(world.tier.statistics().relocated, 2);
    world
}

/// Reads the pages that came last, and those that leave next.
const READ: Thread = |world| {
    for block in [0, 1, 2, 0, 1, 0] {
        world.read(&id(block));
    }
};

/// Comes back to pages whose records were relocated, and will be again.
const REWRITE: Thread = |world| {
    for block in [1, 0, 4, 4, 1, 4, 4, 0] {
        world.write(&id(block));
    }
};

/// Pages that were not there before.
const OTHERS: Thread = |world| {
    for n in 0..8 {
        world.write(&PageId::volume(3, n));
    }
};

/// Reads pages and offers those that came from disk.
const FILL: Thread = |world| {
    for block in [0, 1, 2] {
        if let (version, Some(token)) = world.read_or_miss(&id(block)) {
            world.offer(&id(block), version, Some(token));
        }
    }
};

const WRITE_PAST: Thread = |world| {
    world.write_past(&id(1));
    world.read(&id(1));
    world.write_past(&id(1));
};

const DROP: Thread = |world| {
    let file = PageId::volume(9, 0);
    world.write(&file);
    world.drop_pages(&IdRange { start: file, count: 4, shift: 0 });
    world.write(&file);
};

/// Whether the tier has a page. The policy is told of nothing.
fn has(world: &World, block: u64) -> bool {
    let mut cursor = world.tier.first_page();
    while let Some(held) = world.tier.pages(&mut cursor, 64) {
        if held.iter().any(|page| page.id == id(block)) {
            return true;
        }
    }
    false
}

/// A page comes into a full tier.
fn come(world: &World, block: u64) {
    world.write(&PageId::volume(3, block));
    while world.work(OWNER) {}
}

/// The page that leaves a full tier when the second page comes in and not before, as long as nothing is read.
fn leaves_second() -> u64 {
    let world = full(Design::Lru);
    come(&world, 0);
    let there: Vec<u64> = (0..100).filter(|&block| has(&world, block)).collect();
    come(&world, 1);
    there.into_iter().find(|&block| !has(&world, block)).expect("a page leaves for the second that comes")
}

/// While a page is read, another comes in, for which another one leaves. So the page that was read is not the
/// next to leave.
fn referenced() {
    let block = leaves_second();
    let world = Arc::new(full(Design::Lru));
    explore(true);
    let (read, came) = (Arc::clone(&world), Arc::clone(&world));
    let reader = shuttle::thread::spawn(move || read.read(&id(block)));
    let writer = shuttle::thread::spawn(move || come(&came, 0));
    reader.join().unwrap();
    writer.join().unwrap();
    explore(false);
    assert!(has(&world, block), "a page has left before its turn");
    come(&world, 1);
    assert!(has(&world, block), "the policy was not told that page {block} was read");
    world.tier.check();
}

fn rewritten(design: Design) {
    gone_round(design).run(1, &[READ, READ, REWRITE]);
}

fn evicted(design: Design) {
    full(design).run(2, &[READ, OTHERS]);
}

fn offered(design: Design) {
    full(design).run(1, &[FILL, WRITE_PAST, OTHERS]);
}

fn dropped(design: Design) {
    full(design).run(1, &[DROP, REWRITE]);
}

fn drained(design: Design) {
    gone_round(design).run(1, &[CHECKPOINT, REWRITE]);
}

#[test]
fn pages_that_are_rewritten() {
    check(|| rewritten(Design::Lru));
}

#[test]
fn pages_that_are_rewritten_and_cleaned() {
    check(|| rewritten(Design::Lc));
}

#[test]
fn pages_that_are_evicted() {
    check(|| evicted(Design::Lru));
}

#[test]
fn pages_that_are_cleaned_and_evicted() {
    check(|| evicted(Design::Lc));
}

#[test]
fn pages_that_are_offered() {
    check(|| offered(Design::Lru));
}

#[test]
fn pages_that_are_dropped() {
    check(|| dropped(Design::Cac));
}

#[test]
fn pages_that_are_drained() {
    check(|| drained(Design::Lc));
}

#[test]
fn a_copy_of_memory_that_never_had_the_page_is_noticed() {
    finds(Bug::HomedAskedLate, || rewritten(Design::Lru), 2000);
}

#[test]
fn a_dirty_page_that_is_let_go_is_noticed() {
    finds(Bug::DirtyEvicted, || evicted(Design::Lru), 100);
}

#[test]
fn pages_that_are_referenced_stay() {
    check(referenced);
}

#[test]
fn a_reference_that_is_told_before_it_is_noted_is_noticed() {
    finds(Bug::NotedBeforeStored, referenced, 1000);
}
