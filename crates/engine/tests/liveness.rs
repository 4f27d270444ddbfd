//! A tier never comes to a halt: whatever is asked of it, there is a job that makes room.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::{Host, page};
use mezzanine_engine::planted::{Bug, set};
use mezzanine_engine::{Admission, Design, IdRange, PageId, StageIn, StageKind, TierConfig};

const PAGES: u64 = 120;

/// The smallest staging memory, and metadata segments that one group full of tombstones fills.
fn small_tier(design: Design) -> TierConfig {
    TierConfig {
        group_pages: 4,
        staging_groups: 3,
        segment_frames: 12,
        shards: 4,
        survivors_max: 2,
        band_frames: 8,
        design,
        admission: Admission::Clean,
        ..TierConfig::new(4096, 104)
    }
}

/// How a host mixes what it asks for, each one in so many.
#[derive(Clone, Copy, Debug)]
struct Mix {
    offers: u64,
    syncs: u64,
    /// Jobs of flash are carried out, and others only when there is no room.
    flash_only: bool,
}

/// Offers and invalidates pages; whether room was made each time that there was none.
fn goes_on(design: Design, seed: u64, mix: Mix, operations: u64) -> bool {
    goes_on_in(&small_tier(design), seed, mix, operations)
}

fn goes_on_in(config: &TierConfig, seed: u64, mix: Mix, operations: u64) -> bool {
    let mut host = Host::new(config, seed);
    for _ in 0..operations {
        let id = PageId::volume(1, host.random(PAGES));
        if host.random(mix.offers) == 0 {
            // A clean page that finds no room is not taken; nobody waits for that.
            let _ = host.tier.stage_in(&id, &page(4096, 1), StageKind::Clean(None), 0);
        } else {
            // A range leaves a tombstone whatever is there.
            let range = IdRange { start: id, count: 1, shift: 0 };
            while host.tier.invalidate_range(&range).is_err() {
                if !host.step() {
                    return false;
                }
            }
        }
        if host.random(mix.syncs) == 0 {
            let _ = host.tier.request_sync();
        }
        while host.random(20) != 0 && if mix.flash_only { host.write_flash() } else { host.step() } {}
    }
    true
}

fn designs() -> impl Iterator<Item = Design> {
    Design::ALL.iter().copied().filter(|design| !design.has_slots())
}

fn mixes() -> impl Iterator<Item = Mix> {
    let offers = [2, 5, 50, 1000];
    let syncs = [3, 40, 100_000];
    offers.into_iter().flat_map(move |offers| {
        syncs.into_iter().flat_map(move |syncs| {
            [true, false].into_iter().map(move |flash_only| Mix { offers, syncs, flash_only })
        })
    })
}

#[test]
fn tombstones_never_bring_a_tier_to_a_halt() {
    for design in designs() {
        for mix in mixes() {
            assert!(goes_on(design, 1, mix, 4000), "{design} has come to a halt with {mix:?}");
        }
    }
}

#[test]
fn without_counting_segments_they_do() {
    for design in designs() {
        set(Some(Bug::SegmentsUncounted));
        let all = mixes().all(|mix| goes_on(design, 1, mix, 4000));
        set(None);
        assert!(!all, "{design} goes on without its segments being counted");
    }
}

/// Staging memory that takes many segments, and segments that take many groups.
fn of_many_groups(design: Design) -> impl Iterator<Item = TierConfig> {
    let shapes = [(6, 12, 600), (16, 40, 600), (8, 64, 512), (16, 128, 1024)];
    shapes.into_iter().map(move |(staging_groups, segment_frames, frames)| TierConfig {
        staging_groups,
        segment_frames,
        ..TierConfig { frames, ..small_tier(design) }
    })
}

/// Once a tier halted when staging memory had been full of tombstones: for a group that carries the front it
/// wanted segments for as many groups again.
#[test]
fn a_staging_memory_of_many_segments_never_brings_a_tier_to_a_halt() {
    let mixes = || mixes().filter(|mix| mix.syncs == 100_000);
    for config in of_many_groups(Design::FaceGsc) {
        for mix in mixes() {
            assert!(goes_on_in(&config, 1, mix, 8000), "{config:?} has come to a halt with {mix:?}");
        }
    }
    set(Some(Bug::SegmentsForEmptyStaging));
    let all =
        of_many_groups(Design::FaceGsc).all(|config| mixes().all(|mix| goes_on_in(&config, 1, mix, 8000)));
    set(None);
    assert!(!all, "it goes on although it wants segments for an empty staging memory");
}

/// A tier of this design that takes dirty pages, if there is one.
fn takes_dirty(design: Design) -> Option<TierConfig> {
    let both = TierConfig { admission: Admission::Both, ..small_tier(design) };
    both.geometry().is_ok().then_some(both)
}

/// Offers pages and forgets them in memory alone, and then writes others: whether each write found room.
fn forgets_and_goes_on(config: &TierConfig, seed: u64) -> bool {
    let mut host = Host::new(config, seed);
    let one = |host: &mut Host| PageId::volume(1, host.random(PAGES));
    for _ in 0..10 {
        for _ in 0..host.random(4) {
            for _ in 0..host.random(100) {
                let id = one(&mut host);
                // A clean page that finds no room is not taken. Nothing but flash is written, so none leaves.
                let _ = host.tier.stage_in(&id, &page(4096, 1), StageKind::Clean(None), 0);
                while host.random(4) != 0 && host.write_flash() {}
            }
            let range = IdRange::blocks_from(1, host.random(2));
            host.tier.distrust_clean(&range, host.tier.rear());
        }
        for _ in 0..host.random(20) {
            let id = one(&mut host);
            while host.tier.stage_in(&id, &page(4096, 2), StageKind::Dirty, 0) == StageIn::Full {
                if !host.step() {
                    return false;
                }
            }
        }
        host.tier.check();
    }
    true
}

/// Of pages that are written in place nothing else than the front gives the homes of such pages back, and
/// nothing moved it for them.
#[test]
fn pages_that_are_forgotten_never_bring_a_tier_to_a_halt() {
    for config in designs().filter_map(takes_dirty) {
        for seed in 0..10 {
            assert!(
                forgets_and_goes_on(&config, seed),
                "{} has come to a halt with seed {seed}",
                config.design
            );
        }
    }
}

#[test]
fn without_the_front_moving_for_their_homes_they_do() {
    for config in designs().filter(|design| design.writes_in_place()).filter_map(takes_dirty) {
        set(Some(Bug::OrphansKeepHomes));
        let all = (0..10).all(|seed| forgets_and_goes_on(&config, seed));
        set(None);
        assert!(!all, "{} goes on without the front moving for homes", config.design);
    }
}
