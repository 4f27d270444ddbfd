//! A clean page that a buffer pool gives up and offers only once others can have it: they read it from disk,
//! change it, write it to the tier or past it, or drop it, while the offer is on its way.

use mezzanine_engine::planted::Bug;
use mezzanine_engine::{IdRange, PageId};

use crate::schedules::{check, finds};
use crate::world::{Thread, World, tiny};

const FILE: u64 = 1;

fn id() -> PageId {
    PageId::volume(FILE, 0)
}

const OFFER: Thread = |world| world.offer_given_up(&id());

fn given_up(other: Thread) {
    left_pool().run(1, &[OFFER, other]);
}

/// Disk has the page, the tier nothing of its file, and the page has left the pool.
fn left_pool() -> World {
    let world = World::new(&tiny(1));
    let version = world.issue(&id());
    world.write_disk(&id(), version);
    world.taken(&id(), version);
    world.give_up(&id());
    world
}

fn changed() {
    given_up(|world| {
        world.read(&id());
        world.write(&id());
        world.read(&id());
    });
}

#[test]
fn a_page_that_is_read_again_and_changed() {
    check(changed);
}

/// The newer version has been to the tier and left it for disk when the older one comes.
fn changed_and_gone() {
    let changes: Thread = |world| {
        world.write(&id());
        for n in (0..4).cycle() {
            if world.tier.holds(&id()).is_none() {
                break;
            }
            world.write(&PageId::volume(2, n));
        }
        world.offer_given_up(&id());
        world.read(&id());
    };
    left_pool().run(1, &[changes]);
}

#[test]
fn a_page_that_is_changed_and_leaves_the_tier_before_its_older_version_comes() {
    check(changed_and_gone);
}

#[test]
fn an_older_version_that_is_admitted_is_noticed() {
    finds(Bug::StaleOfferAdmitted, changed_and_gone, 2000);
}

fn written_past() {
    given_up(|world| {
        world.read(&id());
        world.overwrite(&id());
        world.read(&id());
    });
}

#[test]
fn a_page_that_is_written_past_the_tier() {
    check(written_past);
}

#[test]
fn a_write_past_the_tier_that_does_not_count_is_noticed() {
    finds(Bug::InvalidationUncounted, written_past, 1000);
}

/// Few pages are looked up one by one.
fn dropped_with_few() {
    given_up(|world| world.drop_pages(&IdRange::blocks(FILE, 0, 3)));
}

fn dropped_with_many() {
    given_up(|world| world.drop_pages(&IdRange::blocks_from(FILE, 0)));
}

#[test]
fn a_page_that_is_dropped_with_few_others() {
    check(dropped_with_few);
}

#[test]
fn a_page_that_is_dropped_with_its_file() {
    check(dropped_with_many);
}

#[test]
fn an_offer_that_is_overtaken_by_a_drop_is_noticed() {
    finds(Bug::OfferOvertakenByDrop, dropped_with_many, 2000);
    finds(Bug::OfferOvertakenByDrop, dropped_with_few, 2000);
}

#[test]
fn a_drop_that_does_not_count_is_noticed() {
    finds(Bug::RangeUncounted, dropped_with_many, 2000);
}
