//! Write amplification against closed forms: greedy and FIFO collection under writes at places drawn evenly;
//! and why large writes wear flash less than small ones.
//!
//! FIFO: P. Desnoyers, "Analytic modeling of SSD write performance" (SYSTOR 2012), and L. Xiang and B. M.
//! Kurkoski, "An improved analytical expression for write amplification in NAND flash" (arXiv 1110.4245).
//! Greedy: the mean field of the same works.
#![allow(clippy::unwrap_used)]

mod drives;

use mezzanine_device::model::{OperationKind, Timing};
use mezzanine_ground::random::Random;
use mezzanine_ssd::{Collection, CollectionFrontier, CollectionPace, Condition, Counters, Geometry, Ssd};

/// Blocks that are held back.
const RESERVE: u32 = 2;

/// A drive of one plane whose host fills this share of what is not held back.
fn drive(blocks: u32, pages: u32, utilisation: f64, collection: Collection) -> Ssd {
    let room = f64::from((blocks - RESERVE) * pages);
    one_plane(blocks, pages, (room * utilisation) as u64 * 4096, collection)
}

fn one_plane(blocks: u32, pages: u32, capacity_bytes: u64, collection: Collection) -> Ssd {
    let mut config = drives::bare(Geometry::one_plane(blocks, pages, 4096), capacity_bytes);
    (config.ftl.collection, config.ftl.reserve_blocks_per_plane) = (collection, RESERVE);
    Ssd::new(config).unwrap()
}

/// Write amplification in steady state.
fn measured(ssd: &Ssd, seed: u64) -> f64 {
    let mut state = ssd.idle();
    ssd.prepare(&mut state, Condition::Steady, seed);
    let mut random = Random::new(seed ^ 1);
    let units = ssd.capacity() / 4096;
    let mut now = 0;
    for _ in 0..4 * units {
        let write = ssd.operation(OperationKind::Write, 4096 * random.below(units), 4096);
        now = ssd.submit(&mut state, now, write).unwrap().ticket.completion().unwrap();
    }
    ssd.check(&mut state).unwrap();
    ssd.counters(&state).write_amplification().unwrap()
}

/// alpha / (alpha + W0(-alpha e^-alpha)), by Newton's method.
fn fifo(utilisation: f64) -> f64 {
    let alpha = 1.0 / utilisation;
    let x = -alpha * (-alpha).exp();
    let mut w = -0.5_f64;
    for _ in 0..100 {
        let e = w.exp();
        w -= (w * e - x) / (e * (w + 1.0));
    }
    alpha / (alpha + w)
}

/// b / (b - v), where utilisation = (b - v) / (b (H_b - H_v)).
fn greedy(utilisation: f64, b: u32) -> f64 {
    // The harmonic number of a real number.
    let harmonic = |x: f64| {
        let x = x + 10.0;
        let head: f64 = (0..10).map(|k| 1.0 / (x - f64::from(k))).sum();
        let euler = 0.577_215_664_901_532_9;
        let at = |x: f64| x.ln() + euler + 1.0 / (2.0 * x) - 1.0 / (12.0 * x * x) + 1.0 / (120.0 * x.powi(4));
        at(x) - head
    };
    let b = f64::from(b);
    let (mut low, mut high) = (0.0, b - 1e-6);
    for _ in 0..200 {
        let v = f64::midpoint(low, high);
        if (b - v) / (b * (harmonic(b) - harmonic(v))) < utilisation { low = v } else { high = v }
    }
    b / (b - low)
}

#[test]
fn the_closed_forms_are_those_that_were_published() {
    for (utilisation, fifo_published, greedy_published) in
        [(0.70, 1.876, 1.854), (0.80, 2.693, 2.645), (0.90, 5.179, 4.990), (0.95, 10.17, 9.447)]
    {
        assert!((fifo(utilisation) / fifo_published - 1.0).abs() < 1e-3, "{}", fifo(utilisation));
        assert!(
            (greedy(utilisation, 128) / greedy_published - 1.0).abs() < 1e-3,
            "{}",
            greedy(utilisation, 128)
        );
    }
}

#[test]
fn greedy_collection_is_within_half_a_percent() {
    for utilisation in [0.70, 0.80, 0.90, 0.95] {
        let ssd = drive(4096, 128, utilisation, Collection::Greedy);
        let (measured, expected) = (measured(&ssd, 7), greedy(ssd.config().effective_utilisation(), 128));
        println!("{utilisation}: {measured:.3} {expected:.3} {:+.2} %", 100.0 * (measured / expected - 1.0));
        assert!((measured / expected - 1.0).abs() < 0.005, "at {utilisation}: {measured} and not {expected}");
    }
}

#[test]
fn first_in_first_out_collection_is_within_half_a_percent() {
    for utilisation in [0.70, 0.90] {
        let ssd = drive(2048, 128, utilisation, Collection::Fifo);
        let (measured, expected) = (measured(&ssd, 7), fifo(ssd.config().effective_utilisation()));
        println!("{utilisation}: {measured:.3} {expected:.3} {:+.2} %", 100.0 * (measured / expected - 1.0));
        assert!((measured / expected - 1.0).abs() < 0.005, "at {utilisation}: {measured} and not {expected}");
    }
}

/// A drive that is filled to 0.90 of all its flash, in whole large writes.
fn nearly_full(units: u32, pages: u32, frontier: CollectionFrontier, pace: CollectionPace) -> Ssd {
    let geometry = Geometry::one_plane(units / pages, pages, 4096);
    let capacity = geometry.bytes() * 9 / 10 / LARGE * LARGE;
    let one = one_plane(geometry.blocks(), pages, capacity, Collection::Greedy);
    let mut config = one.config().clone();
    (config.ftl.collection_frontier, config.ftl.collection_pace) = (frontier, pace);
    Ssd::new(config).unwrap()
}

/// Write amplification of a filled drive with writes of so many bytes, at multiples of them drawn evenly.
fn with_writes_of(write_bytes: u64, ssd: &Ssd) -> f64 {
    let mut state = ssd.idle();
    ssd.prepare(&mut state, Condition::Filled, 1);
    let (mut random, mut now) = (Random::new(5), 0);
    let mut write = |state: &mut [u64], passes: u64| {
        for _ in 0..passes * ssd.capacity() / write_bytes {
            let place = random.below(ssd.capacity() / write_bytes) * write_bytes;
            let write = ssd.operation(OperationKind::Write, place, write_bytes);
            now = ssd.submit(state, now, write).unwrap().ticket.completion().unwrap();
        }
        ssd.counters(state)
    };
    let (before, after) = (write(&mut state, 4), write(&mut state, 3));
    let of = |count: fn(&Counters) -> u64| (count(&after) - count(&before)) as f64;
    ssd.check(&mut state).unwrap();
    1.0 + of(|c| c.units_moved) / of(|c| c.units_programmed)
}

const LARGE: u64 = 256 << 10;

#[test]
fn large_writes_wear_less_as_long_as_the_erase_unit_is_not_larger() {
    let mut before = 0.0;
    for pages in [64, 128, 256, 1024] {
        let ssd = nearly_full(1 << 19, pages, CollectionFrontier::Separate, CollectionPace::Incremental);
        let (small, large) = (with_writes_of(4096, &ssd), with_writes_of(LARGE, &ssd));
        let expected = greedy(ssd.config().effective_utilisation(), pages);
        println!(
            "{pages} pages a block: {small:.3} with 4 KiB ({expected:.3} expected), {large:.3} with 256 KiB"
        );
        assert!((small / expected - 1.0).abs() < 0.01, "{pages} pages: {small} and not {expected}");
        assert!(large >= before && large < small, "{pages} pages: {large} after {before}, beside {small}");
        before = large;
        match pages {
            64 => assert!(large < 1.001, "a write that fills a block leaves nothing to move: {large}"),
            _ => assert!(large > 1.5, "{pages} pages: a larger block is not written over at once: {large}"),
        }
    }
}

/// Write amplification for writes of 4 and of 256 KiB by pages of an erase unit, as a program had it that
/// shares no code with this one: 1 GiB, one frontier for what is written and what is moved, whole blocks
/// collected as soon as fewer than two are erased. So collection follows the first page of a large write to a
/// new block, and what it moves first is the rest of what is being written over: large writes straddle blocks
/// from then on.
const OF_ONE_FRONTIER: [(u32, f64, f64); 4] =
    [(64, 4.84, 1.000), (128, 5.04, 2.30), (256, 5.17, 2.97), (1024, 5.55, 4.37)];

#[test]
fn one_frontier_for_writes_and_collection_has_large_writes_straddle_blocks() {
    for (pages, small_expected, large_expected) in OF_ONE_FRONTIER {
        let ssd = nearly_full(1 << 18, pages, CollectionFrontier::Shared, CollectionPace::WholeBlock);
        let (small, large) = (with_writes_of(4096, &ssd), with_writes_of(LARGE, &ssd));
        println!("{pages} pages a block: {small:.3} with 4 KiB, {large:.3} with 256 KiB");
        assert!((small / small_expected - 1.0).abs() < 0.01, "{pages}: {small} and not {small_expected}");
        assert!((large / large_expected - 1.0).abs() < 0.02, "{pages}: {large} and not {large_expected}");
    }
}

#[test]
fn one_frontier_is_refused_where_writes_could_fill_the_place_of_what_is_moved() {
    let shared = |pace, streams| {
        let mut config = one_plane(64, 64, 1 << 20, Collection::Greedy).config().clone();
        config.ftl.collection_frontier = CollectionFrontier::Shared;
        (config.ftl.collection_pace, config.ftl.streams) = (pace, streams);
        config.ftl.reserve_blocks_per_plane = 4;
        config.check().map_err(|error| error.to_string())
    };
    assert_eq!(shared(CollectionPace::WholeBlock, 1), Ok(()));
    for (pace, streams, hint) in
        [(CollectionPace::Incremental, 1, "whole_block"), (CollectionPace::WholeBlock, 2, "one stream")]
    {
        let refused = shared(pace, streams).unwrap_err();
        assert!(refused.contains("collection_frontier") && refused.contains(hint), "{refused}");
    }
}
