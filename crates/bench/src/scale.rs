//! What a tier costs as it grows: memory and metadata, and what drops, drains, checkpoints and recovery take.

use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use mezzanine_engine::{DrainScope, DrainState, Geometry, IdRange, Lookup, PageId, TierConfig};

use crate::host::MemoryHost;
use crate::recovery;
use crate::report::{Outcome, Row, Scale, median};

const PAGE: u32 = 8192;
const SMALL_PAGE: u32 = 4096;
const DATABASE: u32 = 5;
const OTHER_DATABASE: u32 = 6;
const TABLESPACE: u32 = 1663;
/// The relation that most pages are of.
const LARGE: u32 = 1;
/// Every so many pages one of a small relation comes.
const SMALL_EVERY: u64 = 64;
/// Pages of a small relation.
const SMALL_PAGES: u64 = 32;
/// Of those that are not there.
const ABSENT: u32 = 1 << 30;
const TIMES: u32 = 101;

/// The `n`th page that comes: mostly of one large relation, with pages of small ones between, of which one in
/// four is of another database.
pub(crate) fn nth(n: u64) -> PageId {
    if n % SMALL_EVERY != 0 {
        return PageId::relation(DATABASE, TABLESPACE, LARGE, 0, n as u32);
    }
    let nth = n / SMALL_EVERY;
    // Pages of sixteen of them come in turn, so that each is spread over the queue.
    let (turn, of) = (nth / (16 * SMALL_PAGES), nth % 16);
    small(turn * 16 + of, (nth / 16 % SMALL_PAGES) as u32)
}

fn small(number: u64, block: u32) -> PageId {
    let database = if number % 4 == 3 { OTHER_DATABASE } else { DATABASE };
    PageId::relation(database, TABLESPACE, 1000 + number as u32, 0, block)
}

/// The small relation with this number.
pub(crate) fn small_relation(number: u64) -> IdRange {
    let [database, tablespace, relation, ..] = small(number, 0).relation_parts();
    IdRange::relation(database, tablespace, relation)
}

/// How many small relations so many pages have.
pub(crate) fn small_relations(pages: u64) -> u64 {
    pages / SMALL_EVERY / SMALL_PAGES
}

/// Tiers of so many GiB each, measured as far as `measured_gib`, and recovered with `drops` pending.
pub(crate) fn run(scale: Scale, gib: &[u64], measured_gib: u64, drops: u64, directory: &Path) -> Outcome {
    let mut rows = Vec::new();
    for &gib in gib {
        let bytes = scale.pick(gib << 30, 64 << 20);
        let config = TierConfig::for_flash_bytes(PAGE, bytes);
        let size = format!("{gib} GiB");
        rows.extend(computed(&config, &size)?);
        if gib <= measured_gib || scale == Scale::Tiny {
            rows.extend(measured(&config, &size)?);
            rows.extend(recovery::with_drops(bytes, drops, directory, &size)?);
        }
    }
    Ok(rows)
}

fn computed(config: &TierConfig, size: &str) -> Outcome {
    let geometry = config.geometry()?;
    let region = geometry.region_bytes() as f64;
    let small = TierConfig::for_flash_bytes(SMALL_PAGE, geometry.flash_bytes()).geometry()?;
    let share = |geometry: &Geometry, bytes: u64| bytes as f64 / geometry.flash_bytes() as f64 * 100.0;
    Ok(vec![
        Row::new(format!("{size}: memory, computed"), region / f64::from(1 << 20), "MiB"),
        Row::new(
            format!("{size}: memory per frame, staging apart, computed"),
            geometry.bytes_per_frame(),
            "B",
        ),
        Row::new(
            format!("{size}: metadata segments, computed"),
            share(&geometry, geometry.metadata_bytes()),
            "% of flash",
        ),
        Row::new(
            format!("{size}: metadata segments with pages of 4 KiB, computed"),
            share(&small, small.metadata_bytes()),
            "% of flash",
        ),
        Row::new(
            format!("{size}: group summaries, computed"),
            share(&geometry, geometry.summary_bytes()),
            "% of flash",
        ),
        Row::new(
            format!("{size}: group summaries with pages of 4 KiB, computed"),
            share(&small, small.summary_bytes()),
            "% of flash",
        ),
    ])
}

/// Nanoseconds of one of `times` calls, the median; each is told its number.
fn each(times: u32, mut call: impl FnMut(u32)) -> f64 {
    let one = |n| {
        let start = Instant::now();
        call(n);
        start.elapsed().as_nanos() as f64
    };
    median((0..times).map(one).collect())
}

fn measured(config: &TierConfig, size: &str) -> Outcome {
    let host = MemoryHost::without_flash(config)?;
    let geometry = config.geometry()?;
    let page = vec![0; PAGE as usize];
    let frames = geometry.frames();
    for n in 0..frames * 11 / 10 {
        host.stage_in(&nth(n), &page);
    }
    host.settle()?;
    let tier = &host.tier;
    let drop = |range: &IdRange| {
        while tier.invalidate_range(range).is_err() {
            host.step();
        }
    };
    let held = |number: u64| {
        (0..SMALL_PAGES).filter(move |&block| tier.holds(&small(number, block as u32)).is_some())
    };

    let absent_page = each(TIMES, |n| {
        let _ = black_box(tier.invalidate(&PageId::relation(DATABASE, TABLESPACE, ABSENT + n, 0, 0)));
    });
    let absent = each(TIMES, |n| drop(&IdRange::relation(DATABASE, TABLESPACE, ABSENT + n)));
    let absent_database = each(TIMES, |n| drop(&IdRange::database(ABSENT + n)));
    let first_whole = small_relations(frames * 2 / 10) + 16;
    let pages: u64 = (0..u64::from(TIMES)).map(|n| held(first_whole + n).count() as u64).sum();
    let present = each(TIMES, |n| drop(&small_relation(first_whole + u64::from(n))));
    let per_page = present * f64::from(TIMES) / pages as f64;
    while host.step() {}

    let drain = |scope: &DrainScope| {
        let Ok(ticket) = tier.request_drain(scope) else { return };
        while tier.drain_state(&ticket) == DrainState::Pending {
            host.step();
        }
    };
    let one_page = |n: u32| {
        let Some(id) = nth_large_present(tier, frames / 2 + u64::from(n) * 128) else { return };
        drain(&DrainScope { range: Some(IdRange { start: id, count: 1, shift: 0 }), before: None });
    };
    let drained = each(TIMES, one_page);
    drain(&DrainScope::default());
    let nothing = each(TIMES, |_| drain(&DrainScope::default()));

    let mut seen = vec![0; PAGE as usize];
    let mut at = 1u64;
    let count = 200_000;
    let start = Instant::now();
    for _ in 0..count {
        at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let n = ((u128::from(at) * u128::from(frames)) >> 64) as u64 + frames / 10;
        if let Lookup::Flash(found) = tier.lookup(&nth(n), &mut seen) {
            black_box(found);
        }
    }
    let lookup = start.elapsed().as_nanos() as f64 / f64::from(count);
    let name = |what: &str| format!("{size}: {what}");
    Ok(vec![
        Row::new(name("invalidate a page that is not there"), absent_page, "ns"),
        Row::new(name("drop a relation that is not there"), absent, "ns"),
        Row::new(name("drop a database that is not there"), absent_database, "ns"),
        Row::new(name("drop a relation of 32 pages, spread"), per_page, "ns a page"),
        Row::new(name("drain of one page, jobs without I/O"), drained / 1e3, "us"),
        Row::new(name("checkpoint with nothing to write"), nothing / 1e3, "us"),
        Row::new(name("lookup, places at random"), lookup, "ns"),
    ])
}

/// A page of the large relation near the `n`th that came, if it is in the tier.
fn nth_large_present(tier: &mezzanine_engine::Tier, n: u64) -> Option<PageId> {
    let id = nth(n | 1);
    tier.holds(&id).map(|_| id)
}
