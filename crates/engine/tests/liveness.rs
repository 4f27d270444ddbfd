//! A tier never comes to a halt: whatever is asked of it, there is a job that makes room.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::{Host, page};
use mezzanine_engine::planted::{Bug, set};
use mezzanine_engine::{Admission, Design, IdRange, PageId, StageKind, TierConfig};

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
    let mut host = Host::new(&small_tier(design), seed);
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
