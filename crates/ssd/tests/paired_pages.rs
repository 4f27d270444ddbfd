//! Pages that share cells: a program that a power cut stops takes along the page that was there before it,
//! however long ago that was flushed.
//!
//! Checked: a drive without a durable cache loses what was flushed by it, and says so; one that copies such a
//! page before loses nothing, and takes its time for that; with wrong bits that nobody notices, contents
//! change that no one was writing. Of durable caches that is in `power` and `planted_power`.
#![allow(clippy::unwrap_used)]

use careful::careful;
use drives::{Ranges, SMALL, drawn};
use lives::{Harm, Life, Trust};
use mezzanine_device::model::{OperationKind, Timing};
use mezzanine_ground::random::Random;
use mezzanine_ssd::{Anomaly, CacheKind, Geometry, PowerLossConfig, Ssd, SsdConfig};

mod careful;
mod drives;
mod lives;

const PAIRED: Ranges = Ranges { paired_distances: &[1, 2], ..SMALL };

const SEEDS: u64 = 100;

fn volatile(random: &mut Random, backs_up: bool) -> SsdConfig {
    let mut config = drawn(random, &PAIRED, CacheKind::Volatile);
    config.ftl.backs_up_paired_pages = backs_up;
    config
}

/// Of cuts of such drives, those that cost something that was flushed, and what.
fn harm(config: impl Fn(&mut Random) -> SsdConfig) -> (u64, Vec<Harm>) {
    let (mut cuts, mut all) = (0, Vec::new());
    for seed in 0..SEEDS {
        let mut life = Life::new(seed, Trust::InFlushes, &config);
        for _ in 0..10 {
            for _ in 0..life.random.magnitude(200) {
                life.operate(12);
            }
            cuts += 1;
            let found = life.cut(8_000_000, 0.0).unwrap_or_else(|broken| panic!("seed {seed}: {broken:?}"));
            let harm = found.harm;
            all.extend(harm.iter().map(|(_, harm)| *harm));
            if !harm.is_empty() {
                break;
            }
        }
    }
    (cuts, all)
}

#[test]
fn what_was_flushed_long_ago_is_taken_along() {
    let (cuts, harm) = harm(|random| volatile(random, false));
    let unreadable = harm.iter().filter(|harm| **harm == Harm::Unreadable).count();
    // Where a page of the map's journal was taken along, the drive knows no better than an older version, nor
    // that a unit was given up.
    let lost = harm.iter().filter(|harm| **harm == Harm::Lost).count();
    println!("{cuts} cuts, {unreadable} units unreadable, {lost} older than they must be");
    assert!(unreadable > 50 && lost > 10, "{unreadable} unreadable, {lost} lost");
    assert_eq!(unreadable + lost, harm.len(), "{harm:?}");
}

#[test]
fn a_copy_made_before_keeps_it() {
    let (cuts, harm) = harm(|random| volatile(random, true));
    println!("{cuts} cuts, {} units came to harm", harm.len());
    assert_eq!(harm, []);
}

#[test]
fn wrong_bits_are_in_what_no_one_was_writing() {
    let (cuts, harm) = harm(|random| SsdConfig {
        power_loss: Some(PowerLossConfig { anomalies: vec![Anomaly::Reordered, Anomaly::BitCorruption] }),
        ..volatile(random, false)
    });
    println!("{cuts} cuts, {} units came to harm", harm.len());
    assert!(harm.len() > 50 && harm.iter().all(|harm| *harm == Harm::Corrupt), "{harm:?}");
}

#[test]
fn a_host_with_checksums_and_two_places_knows_what_it_has_lost() {
    let costs = careful(SEEDS, |random| volatile(random, false));
    println!("{costs:?}");
    assert!(costs.made_good > 10 && costs.missed_by_damage > 10, "{costs:?}");
    let costs = careful(SEEDS, |random| volatile(random, true));
    println!("copies are made before: {costs:?}");
    assert_eq!(costs.missed_by_damage + costs.missed_by_log + costs.made_good, 0, "{costs:?}");
}

#[test]
fn copies_take_a_read_and_a_program_for_every_second_page() {
    let seconds = |backs_up: bool| {
        let mut config = volatile(&mut Random::new(5), backs_up);
        (config.geometry.pages_per_block, config.geometry.paired_distance) = (16, 2);
        let ssd = Ssd::new(config).unwrap();
        let mut state = ssd.idle();
        let bytes = u64::from(ssd.config().geometry.page_bytes);
        let pages = ssd.config().geometry.planes() * ssd.config().geometry.pages_per_block;
        for page in 0..u64::from(pages) {
            let write = ssd.operation(OperationKind::Write, page * bytes, bytes);
            ssd.submit(&mut state, 0, write).unwrap();
        }
        let counters = ssd.counters(&state);
        assert_eq!(counters.pages_backed_up > 0, backs_up);
        (counters.busy_ns, counters.pages_backed_up)
    };
    let ((without, _), (with, copies)) = (seconds(false), seconds(true));
    assert_eq!(with - without, copies * 950_000, "a read of 50 us and a program of 900 us each");
}

#[test]
fn which_pages_share_cells_follows_from_the_distance() {
    let geometry = Geometry { paired_distance: 2, ..Geometry::one_plane(2, 10, 4096) };
    let upper = [(2, 0), (3, 1), (6, 4), (7, 5), (12, 10), (13, 11)];
    for page in 0..16 {
        let before = upper.iter().find(|(upper, _)| *upper == page).map(|(_, lower)| *lower);
        assert_eq!(geometry.shares_cells_with(page), before, "page {page}");
    }
}

#[test]
fn a_distance_of_more_than_half_a_block_is_refused() {
    let geometry = Geometry { paired_distance: 6, ..Geometry::one_plane(2, 10, 4096) };
    let error = geometry.check().unwrap_err();
    assert_eq!(error.key(), "paired_distance");
    assert!(error.to_string().contains("from 1 to 5"), "{error}");
}
