//! A page that has left the queue is still on flash, and a crash finds it there until the front that passed
//! it is durable. So is a clean page that was forgotten because a read of its flash copy failed.
//!
//! Once such a page was overwritten on disk and invalidated, and because the tier did not know it any more,
//! no tombstone was written: after a crash its old version answered.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Host, page};
use mezzanine_engine::{Design, Lookup, PageId, TierConfig};

#[test]
fn an_invalidation_reaches_a_page_that_has_just_left() {
    let mut config = TierConfig::new(4096, 96);
    (config.group_pages, config.survivors_max, config.staging_groups, config.segment_frames) = (1, 0, 2, 8);
    config.band_frames = 5;
    config.design = Design::FaceGr;
    let mut host = Host::new(&config, 1);
    let watched = PageId::volume(1, 1);
    host.write(watched, &page(4096, 1));
    let (mut block, mut seen) = (100, page(4096, 0));
    'left: loop {
        block += 1;
        host.write(PageId::volume(1, block), &page(4096, block));
        loop {
            if matches!(host.tier.lookup(&watched, &mut seen), Lookup::Miss(_)) {
                break 'left;
            }
            if !host.step() {
                break;
            }
        }
    }
    // The host writes the page past the tier, durably, and forgets what the tier holds.
    host.disk.insert(watched, page(4096, 2));
    while host.tier.invalidate(&watched).is_err() {
        assert!(host.step(), "a full tier must have a job");
    }
    host.sync();
    let mut host = host.reopen(false);
    assert!(host.read(watched) == page(4096, 2), "the old version answers");
}

/// A damaged read of a clean page, from which the flash device recovers; then the page is overwritten on
/// disk.
#[test]
fn an_invalidation_reaches_a_page_that_was_forgotten() {
    let mut host = Host::new(&TierConfig::new(4096, 256), 1);
    let watched = PageId::volume(1, 1);
    host.disk.insert(watched, page(4096, 1));
    assert!(host.read(watched) == page(4096, 1), "it is offered, and taken");
    host.sync();
    // Out of staging memory, but not out of the queue.
    for block in 100..130 {
        host.write(PageId::volume(1, block), &page(4096, block));
        host.sync();
        while host.step() {}
    }
    let Lookup::Flash(found) = host.tier.lookup(&watched, &mut page(4096, 0)) else {
        panic!("the page is on flash alone")
    };
    host.tier.invalidate_clean(&watched, &found);
    assert_eq!(host.tier.holds(&watched), None);
    host.disk.insert(watched, page(4096, 2));
    host.tier.invalidate(&watched).unwrap();
    host.sync();
    let mut host = host.reopen(false);
    assert!(host.read(watched) == page(4096, 2), "the old version answers");
}

#[cfg(feature = "planted")]
#[test]
fn a_missing_tombstone_is_noticed() {
    use mezzanine_engine::planted::{Bug, set};
    for (bug, test) in [
        (Bug::NoTombstoneAfterLeaving, an_invalidation_reaches_a_page_that_has_just_left as fn()),
        (Bug::NoTombstoneAfterForgetting, an_invalidation_reaches_a_page_that_was_forgotten as fn()),
    ] {
        set(Some(bug));
        let noticed = std::panic::catch_unwind(test).is_err();
        set(None);
        assert!(noticed, "{bug:?} went unnoticed");
    }
}
