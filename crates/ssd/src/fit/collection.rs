//! Erase unit and spare space, by what collection leaves of the rate when the whole drive is written over.
//!
//! Small writes at places drawn evenly cost the more, the less of the flash is spare. Writes of more at a
//! place cost less, the more of an erase unit they fill, and next to nothing if they fill it. The loads
//! follow one another here as they were measured, over a drive that was filled, so neither has to be in a
//! steady state.

use std::sync::Arc;
use std::time::Duration;

use super::Measurements;
use super::bench::{self, Figure};
use super::draft::Draft;
use super::loads;
use crate::drive::Ssd;
use crate::load::{Load, LoadKind, Measured, VirtualDrive};

/// Pages of a block, to begin with, and the smallest and the largest that are tried.
const PAGES_FIRST: u32 = 64;
const PAGES: (u32, u32) = (8, 4096);
/// A parameter is determined if the drive with another is worse by so much, in logarithms of all loads.
const WORSE_MIN: f64 = 0.05;
/// Moves of one size at most.
const MOVES_MAX: usize = 3;
/// Small writes say something of spare space if three times as many blocks make them this much faster.
const SENSITIVE: f64 = 1.05;
/// Units that a drive is computed with at most: of a larger one, as much is left away from each plane.
const UNITS_MAX: u64 = 4 << 20;

/// What the loads over the whole drive have said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Determined {
    pub(super) erase_unit: bool,
    pub(super) spare: bool,
}

/// Sets erase unit and spare space.
pub(super) fn fit(draft: &mut Draft, measured: &Measurements) -> Determined {
    let mut determined = Determined::default();
    if !measured.collection.iter().any(|row| is_small(row.load)) {
        return determined;
    }
    // What comes before small writes changes them little, and takes long.
    let is_of_small = |row: &&Measured| is_small(row.load);
    let small = Measurements {
        facts: measured.facts,
        rows: Vec::new(),
        collection: measured.collection.iter().filter(is_of_small).cloned().collect(),
    };
    let mut tried = Vec::new();
    let mut try_with = |pages: u32| {
        let pages = pages.clamp(PAGES.0, PAGES.1);
        if !tried.iter().any(|one: &Tried| one.pages == pages) {
            let mut draft = Draft { pages_per_block: pages, ..draft.clone() };
            let is_seen = fit_spare(&mut draft, &small);
            tried.push(Tried { pages, off: off(&draft, measured), is_seen, draft });
        }
        let nearest = tried.iter().min_by(|a, b| a.off.total_cmp(&b.off));
        nearest.map_or(pages, |nearest| nearest.pages)
    };
    // Downhill in ever smaller steps.
    let mut nearest = try_with(PAGES_FIRST);
    for step in [4.0, 2.0, 2_f64.sqrt()] {
        for _ in 0..MOVES_MAX {
            let before = nearest;
            for other in [f64::from(before) * step, f64::from(before) / step] {
                nearest = try_with(other.round() as u32);
            }
            if nearest == before {
                break;
            }
        }
    }
    try_with(2 * nearest);
    try_with(nearest / 2);
    let Some(best) = tried.iter().find(|one| one.pages == nearest) else { return determined };
    *draft = best.draft.clone();
    determined.spare = best.is_seen;
    // All that are as far away have to be worse.
    let is_far = |one: &&Tried| one.pages >= 2 * nearest || one.pages <= nearest / 2;
    determined.erase_unit =
        best.is_seen && tried.iter().filter(is_far).all(|one| one.off > best.off + WORSE_MIN);
    determined
}

/// A drive with blocks of so many pages, and as much spare space as goes with it.
struct Tried {
    pages: u32,
    off: f64,
    is_seen: bool,
    draft: Draft,
}

/// Small writes, of which the second half is looked at.
fn is_small(load: Load) -> bool {
    load.kind == LoadKind::RandomWrite && load.request_bytes == loads::SMALL && load.rest_ms == 0
}

/// Sets how many blocks a plane has, so that small writes come as fast as they were measured. False if they
/// do not depend on it: something else is slower.
fn fit_spare(draft: &mut Draft, measured: &Measurements) -> bool {
    let last = |rows: &[Measured]| {
        rows.iter().rev().find(|row| is_small(row.load)).and_then(|row| Figure::Rate.of(row))
    };
    let Some(wanted) = last(&measured.collection) else { return false };
    let capacity = computed_bytes(measured);
    let with = |draft: &Draft, blocks: u32| {
        let utilisation = draft.utilisation_of(capacity, blocks);
        Draft { utilisation, ..draft.clone() }
    };
    let rate = |blocks: u32| run(&with(draft, blocks), measured).and_then(|rows| last(&rows)).unwrap_or(0.0);
    // The fewer blocks, the slower.
    let least = (draft.blocks_of(capacity, 1.0)).max(1);
    let (mut low, mut high) = (least, least.saturating_mul(2) + 8);
    let (mut below, mut above) = (rate(low), rate(high));
    if above < below * SENSITIVE {
        return false;
    }
    // Where between two numbers of blocks it is, as a share of the way.
    let share = |below: f64, above: f64| {
        let (below, above) = (below.max(wanted * 1e-3), above.max(wanted * 1e-3));
        ((wanted / below).ln() / (above / below).ln()).clamp(0.0, 1.0)
    };
    while high - low > 1 {
        let way = share(below, above).clamp(0.1, 0.6);
        let middle = low + ((f64::from(high - low) * way).round() as u32).clamp(1, high - low - 1);
        let found = rate(middle);
        if found < wanted { (low, below) = (middle, found) } else { (high, above) = (middle, found) }
    }
    draft.place_blocks(capacity, f64::from(low) + share(below, above));
    true
}

/// How far a draft is from the loads over the whole drive, as a sum of logarithms of their rates.
pub(super) fn off(draft: &Draft, measured: &Measurements) -> f64 {
    let Some(found) = run(draft, measured) else { return 1e3 };
    let pairs = found.iter().zip(&measured.collection);
    pairs.map(|(found, row)| (found.per_second / row.per_second).ln().abs()).sum()
}

/// What a draft makes of the loads over the whole drive, as far as they are not bursts.
pub(super) fn run(draft: &Draft, measured: &Measurements) -> Option<Vec<Measured>> {
    if measured.collection.is_empty() {
        return None;
    }
    let (mut drive, capacity) = filled(draft, measured)?;
    let whole = measured.facts.capacity_bytes;
    let rows = measured.collection.iter().take_while(|row| row.load.rest_ms == 0);
    Some((1000..).zip(rows).map(|(seed, row)| carry_out(&mut drive, row, (capacity, whole), seed)).collect())
}

/// Bytes of the drive that is computed with.
fn computed_bytes(measured: &Measurements) -> u64 {
    measured.facts.capacity_bytes.min(UNITS_MAX * u64::from(super::draft::UNIT_BYTES))
}

fn filled(draft: &Draft, measured: &Measurements) -> Option<(VirtualDrive, u64)> {
    let facts = &measured.facts;
    let capacity = computed_bytes(measured);
    let ssd = Ssd::new(draft.config(capacity).ok()?).ok()?;
    let mut drive = VirtualDrive::new(Arc::new(ssd), facts.has_fua);
    drive.fill(capacity, &mut |_| {});
    Some((drive, capacity))
}

fn carry_out(drive: &mut VirtualDrive, row: &Measured, (capacity, whole): (u64, u64), seed: u64) -> Measured {
    let clients = row.load.clients as u64;
    let share = u128::from(row.requests / clients) * u128::from(capacity) / u128::from(whole.max(1));
    // A load over the whole drive is half of it, whatever a file says.
    let most = capacity / row.load.request_bytes.max(1) + 1;
    let requests_max = (share.min(u128::from(most)) as u64).max(1);
    let found = bench::carry_out(drive, Load { requests_max, ..row.load }, capacity, seed);
    drive.settle(loads::rest(Duration::from_secs(1)));
    found
}
