//! Drives with as few spare blocks as are allowed, whose power fails again and again: a plane finds room for
//! every page (T3), and what its kind of cache promises is kept.
#![allow(clippy::unwrap_used)]

use drives::{Ranges, SMALL, drawn};
use lives::{Course, Life, SHORT, Trust, first_wrong_of};
use mezzanine_ground::random::Random;
use mezzanine_ssd::{CacheKind, Collection, CollectionFrontier, CollectionPace, DumpConfig, SsdConfig};

mod drives;
mod lives;

const FEW: Ranges = Ranges {
    channels_max: 1,
    blocks_per_plane: (16, 24),
    pages_per_block: &[2, 3, 8],
    journal_optional: true,
    collections: &[Collection::Greedy, Collection::CostBenefit, Collection::Fifo],
    whole_blocks_one_in: 0,
    buffer_pages_max: 3,
    left_out_one_in: 1000,
    ..SMALL
};

/// A full drive that collects whole blocks.
fn full(
    random: &mut Random,
    kind: CacheKind,
    journal: bool,
    frontier: CollectionFrontier,
    endurance_erases: u32,
    spare: u64,
) -> SsdConfig {
    let shared = frontier == CollectionFrontier::Shared;
    let mut config = drawn(random, &Ranges { streams_max: if shared { 1 } else { 2 }, ..FEW }, kind);
    config.geometry.chips_per_package = 1;
    config.ftl.journal = journal;
    config.ftl.reserve_blocks_per_plane = config.ftl.streams + 1 + u32::from(journal);
    config.ftl.collection_pace = CollectionPace::WholeBlock;
    config.ftl.collection_frontier = frontier;
    config.ftl.endurance_erases = endurance_erases;
    let of_block = u64::from(config.geometry.pages_per_block) * u64::from(config.geometry.page_bytes);
    config.capacity_bytes = config.capacity_units_max() * u64::from(config.geometry.unit_bytes);
    config.capacity_bytes = config.capacity_bytes.saturating_sub(spare * of_block).max(of_block);
    // Not a byte more than is asked for.
    let hold_up_ms = config.dump_bytes_needed() as f64 / 1e3;
    config.cache.dump = config.cache.dump.map(|_| DumpConfig { hold_up_ms, mb_per_s: 1.0 });
    config
}

/// As many operations before the first cut as wear all blocks out.
const WORN: Course = Course { before: 1000, operations_max: 120, flush_one_in: 24, cuts: 60 };

fn survives(frontier: CollectionFrontier, endurance_erases: u32, spare: u64) {
    survive(&SHORT, frontier, endurance_erases, spare);
}

fn survive(course: &Course, frontier: CollectionFrontier, endurance_erases: u32, spare: u64) {
    for kind in [CacheKind::None, CacheKind::Volatile, CacheKind::Durable] {
        for journal in [false, true] {
            let wrong = first_wrong_of(course, 0, 1500, |seed| {
                Life::new(seed, Trust::of(kind), |random| {
                    full(random, kind, journal, frontier, endurance_erases, spare)
                })
            });
            assert!(wrong.is_none(), "{kind:?}, journal: {journal}: {wrong:?}");
        }
    }
}

#[test]
fn planes_that_collect_whole_blocks_never_run_out_of_room() {
    survives(CollectionFrontier::Separate, u32::MAX, 0);
}

#[test]
fn planes_with_one_frontier_for_all_never_run_out_of_room() {
    survives(CollectionFrontier::Shared, u32::MAX, 0);
}

#[test]
fn a_drive_whose_blocks_are_all_worn_out_goes_on() {
    for frontier in [CollectionFrontier::Separate, CollectionFrontier::Shared] {
        survives(frontier, 2, 0);
    }
}

/// A start once gave up the erased blocks of a plane whose blocks were all worn out: it counted the written
/// ones as erased as well until it had found them.
#[test]
fn a_start_gives_no_block_up_that_its_plane_needs() {
    for (endurance, spare) in [(1, 1), (1, 4), (2, 3), (5, 2)] {
        survive(&WORN, CollectionFrontier::Separate, endurance, spare);
    }
}
