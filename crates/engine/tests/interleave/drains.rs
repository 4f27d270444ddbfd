//! A database's checkpoint drains what is dirty since before its mark, while pages are written on.

use mezzanine_engine::planted::Bug;
use mezzanine_engine::{DrainScope, DrainState, PageId};

use crate::schedules::{check, finds};
use crate::world::{OWNER, Thread, World, tiny};

/// A checkpoint: afterwards every page is on disk, synced, at least as it was when the mark was made.
pub(crate) const CHECKPOINT: Thread = |world| {
    for _ in 0..2 {
        let before = world.promised(None);
        let mark = world.tier.begin_checkpoint();
        let ticket = world.sync_begin();
        world.sync_end(&ticket);
        let scope = DrainScope { before: Some(mark), range: None };
        let ticket = loop {
            match world.tier.request_drain(&scope) {
                Ok(ticket) => break ticket,
                Err(_) => world.work_or_wait(OWNER),
            }
        };
        while world.tier.drain_state(&ticket) == DrainState::Pending {
            world.work_or_wait(OWNER);
        }
        assert_eq!(world.tier.drain_state(&ticket), DrainState::Done);
        let disk = world.disk.lock().unwrap();
        for (id, known) in before {
            let synced = disk.synced.get(&id).copied().unwrap_or(0);
            assert!(
                synced >= known.seen,
                "{id:?}: version {synced} on disk after a drain, not {}",
                known.seen
            );
        }
    }
};

/// Evicts the same few pages again and again.
const EVICT: Thread = |world| {
    for n in 0..6 {
        world.write(&PageId::volume(1, n % 2));
    }
};

fn evicted() {
    let world = World::new(&tiny(2));
    world.write(&PageId::volume(1, 0));
    world.write(&PageId::volume(1, 2));
    world.run(1, &[CHECKPOINT, EVICT]);
}

#[test]
fn pages_that_are_evicted_again_and_again() {
    check(evicted);
}

#[test]
fn a_version_that_forgets_since_when_its_page_is_dirty_is_noticed() {
    finds(Bug::SinceNotInherited, evicted, 1000);
}

/// The drain's pages get second chances and leave meanwhile.
fn leaving() {
    let world = World::new(&tiny(2));
    for block in 0..2 {
        world.write(&PageId::volume(1, block));
    }
    world.push_to_front(&PageId::volume(1, 0));
    world.read(&PageId::volume(1, 0));
    let others: Thread = |world| {
        for n in 0..4 {
            world.write(&PageId::volume(2, n));
        }
    };
    world.run(2, &[CHECKPOINT, others]);
}

#[test]
fn pages_that_leave_the_queue() {
    check(leaving);
}

#[test]
fn a_second_chance_that_rejuvenates_is_noticed() {
    finds(Bug::SecondChanceRejuvenates, leaving, 2000);
}

#[test]
fn a_sweep_whose_end_stays_is_noticed() {
    finds(Bug::SweepEndUnmoved, evicted, 2000);
}

#[test]
fn a_drain_without_a_sync_is_noticed() {
    finds(Bug::DrainUnsynced, leaving, 2000);
}

#[test]
fn a_last_sweep_that_is_superseded_is_noticed() {
    finds(Bug::LastSweepSuperseded, evicted, 2000);
}
