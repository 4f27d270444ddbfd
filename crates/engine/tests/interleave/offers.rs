//! Clean pages offered after a miss, while the page is written.

use mezzanine_engine::PageId;
use mezzanine_engine::planted::Bug;

use crate::schedules::{check, finds};
use crate::world::{Thread, World, tiny};

fn id() -> PageId {
    PageId::volume(1, 0)
}

/// Reads the page and offers what came from disk, without a lock of the host's from the miss on.
const FILL: Thread = |world| {
    for _ in 0..2 {
        if let (version, Some(token)) = world.read_or_miss(&id()) {
            world.offer(&id(), version, Some(token));
        }
    }
};

/// The page goes to disk past the tier and is invalidated, as dirty pages are that admission refuses.
fn written_past() {
    let world = World::new(&tiny(1));
    world.write_past(&id());
    let write: Thread = |world| {
        world.write_past(&id());
        world.read(&id());
        world.write_past(&id());
    };
    world.run(1, &[FILL, FILL, write]);
}

#[test]
fn an_offer_of_a_page_that_is_written_past_the_tier() {
    check(written_past);
}

#[test]
fn an_offer_that_is_stale_is_noticed() {
    finds(Bug::StaleOfferAdmitted, written_past, 1000);
}

/// The page is staged in, and then dropped again by a write past the tier.
fn staged_in() {
    let world = World::new(&tiny(1));
    world.write_past(&id());
    let write: Thread = |world| {
        world.write(&id());
        world.write_past(&id());
        world.write(&id());
    };
    world.run(1, &[FILL, write, FILL]);
}

#[test]
fn an_offer_of_a_page_that_is_staged_in() {
    check(staged_in);
}

#[test]
fn an_invalidation_that_does_not_count_is_noticed() {
    finds(Bug::InvalidationUncounted, written_past, 1000);
}
