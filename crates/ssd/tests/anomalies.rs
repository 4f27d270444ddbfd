//! What power cuts do to drives without a durable cache that were asked for one anomaly each, by the names of
//! "Understanding the Robustness of SSDs under Power Fault" (FAST 2013).
//!
//! Checked: a host that trusts too much is hurt by that anomaly and by no other; one that takes care loses
//! nothing that the drive still has in another place, and nothing in silence; without an anomaly neither
//! loses what was flushed.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};

use careful::{Costs, careful};
use drives::{Ranges, SMALL, drawn};
use lives::{Broken, Harm, Life, Trust};
use mezzanine_device::model::OperationKind;
use mezzanine_ground::random::Random;
use mezzanine_ssd::{Anomaly, CacheKind, Geometry, PowerLossConfig, SsdConfig};

mod careful;
mod drives;
mod lives;

/// Units that are larger than what a host may find shorn.
const DRIVES: Ranges = Ranges { unit_bytes: 2048, ..SMALL };

const SEEDS: u64 = 100;

fn with(random: &mut Random, kind: CacheKind, anomalies: &[Anomaly]) -> SsdConfig {
    let mut config = drawn(random, &DRIVES, kind);
    config.power_loss = Some(PowerLossConfig { anomalies: anomalies.to_vec() });
    config
}

/// Cuts by what they did.
#[derive(Debug, Default)]
struct Hurt {
    cuts: u64,
    by: BTreeMap<Harm, u64>,
    reordered: u64,
    dead: u64,
}

/// A host that believes every flush and every byte that it reads, and that later writes follow earlier ones.
/// A life ends with the first harm.
fn trusting(kind: CacheKind, anomalies: &[Anomaly]) -> Hurt {
    // A map is soon up to date again where flushes are frequent.
    let is_of_map = anomalies.iter().any(|anomaly| matches!(anomaly, Anomaly::CorruptMap | Anomaly::Dead));
    let flush_one_in = if is_of_map { 300 } else { 48 };
    let mut hurt = Hurt::default();
    for seed in 0..SEEDS {
        let mut life = Life::new(seed, Trust::InFlushes, |random| with(random, kind, anomalies));
        for _ in 0..10 {
            for _ in 0..life.random.magnitude(1000) {
                life.operate(flush_one_in);
            }
            hurt.cuts += 1;
            let found = match life.cut(8_000_000, 0.0) {
                Ok(found) => found,
                Err(Broken::Dead(error)) => {
                    assert_eq!(error.device(), "the drive under test");
                    hurt.dead += 1;
                    break;
                }
                Err(Broken::Books(what)) => panic!("{anomalies:?}, seed {seed}: {what}"),
            };
            hurt.reordered += u64::from(found.reordered);
            let kinds: BTreeSet<Harm> = found.harm.iter().map(|(_, harm)| *harm).collect();
            kinds.iter().for_each(|harm| *hurt.by.entry(*harm).or_default() += 1);
            if !kinds.is_empty() {
                break;
            }
        }
    }
    println!("{kind:?}, {anomalies:?}: {hurt:?}");
    hurt
}

fn taking_care(anomalies: &[Anomaly]) -> Costs {
    let costs = careful(SEEDS, |random| with(random, CacheKind::Volatile, anomalies));
    println!("{anomalies:?}: {costs:?}");
    costs
}

/// What an anomaly does to what was flushed, by the names of harm.
fn harm_of(anomaly: Anomaly) -> &'static [Harm] {
    match anomaly {
        Anomaly::Lost => &[Harm::Lost],
        Anomaly::Shorn => &[Harm::Shorn],
        Anomaly::BitCorruption => &[Harm::Corrupt],
        Anomaly::CorruptMap => &[Harm::Lost, Harm::OfAnother, Harm::Unreadable],
        Anomaly::Reordered | Anomaly::Dead => &[],
    }
}

#[test]
fn without_an_anomaly_nothing_that_was_flushed_comes_to_harm() {
    for kind in [CacheKind::Volatile, CacheKind::None] {
        let hurt = trusting(kind, &[]);
        assert!(hurt.by.is_empty() && hurt.reordered == 0 && hurt.dead == 0, "{hurt:?}");
    }
    let costs = taking_care(&[]);
    assert_eq!(Costs { cuts: costs.cuts, ..Costs::default() }, costs);
}

#[test]
fn each_anomaly_hurts_a_host_that_trusts_too_much_in_its_own_way() {
    for kind in [CacheKind::Volatile, CacheKind::None] {
        for anomaly in Anomaly::ALL {
            let hurt = trusting(kind, &[anomaly]);
            let harmful: u64 = hurt.by.values().sum();
            assert!(hurt.by.keys().all(|harm| harm_of(anomaly).contains(harm)), "{anomaly:?}: {hurt:?}");
            let does_harm = !harm_of(anomaly).is_empty();
            assert_eq!(harmful > 0, does_harm, "{kind:?}, {anomaly:?}: {hurt:?}");
            assert_eq!(hurt.dead > 0, anomaly == Anomaly::Dead, "{kind:?}, {anomaly:?}: {hurt:?}");
            if anomaly == Anomaly::CorruptMap && kind == CacheKind::Volatile {
                assert!(hurt.by.contains_key(&Harm::OfAnother), "{hurt:?}");
            }
            // Without a cache everything that is acknowledged is in flash. A map that has forgotten a place
            // knows no order.
            if anomaly != Anomaly::CorruptMap {
                let is_reordered = anomaly == Anomaly::Reordered && kind == CacheKind::Volatile;
                assert_eq!(hurt.reordered > 0, is_reordered, "{kind:?}, {anomaly:?}: {hurt:?}");
            }
        }
    }
}

#[test]
fn a_host_that_takes_care_makes_good_what_it_can_and_knows_of_the_rest() {
    for anomaly in Anomaly::ALL {
        let costs = taking_care(&[anomaly]);
        let missed = costs.missed_by_damage + costs.missed_by_log;
        match anomaly {
            Anomaly::Reordered => assert_eq!((costs.made_good, missed, costs.dead), (0, 0, 0), "{costs:?}"),
            // What was acknowledged is in the place that was not being written.
            Anomaly::Shorn => {
                assert!(costs.made_good > 100, "{costs:?}");
                assert_eq!((missed, costs.dead), (0, 0), "{costs:?}");
            }
            // Unless collection was moving it as well, for a second time since the journal named a place:
            // which of its copies is the good one the drive cannot tell, but damage shows.
            Anomaly::BitCorruption => {
                assert!(costs.made_good > 100, "{costs:?}");
                assert!(costs.missed_by_damage <= costs.made_good / 100, "{costs:?}");
                assert_eq!((costs.missed_by_log, costs.dead), (0, 0), "{costs:?}");
            }
            // No checksum tells an old version from the newest.
            Anomaly::Lost => {
                assert!(costs.missed_by_log > 100, "{costs:?}");
                assert_eq!((costs.made_good, costs.missed_by_damage), (0, 0), "{costs:?}");
            }
            // A flush leaves the newest place of each unit in the journal: an older version is never named.
            Anomaly::CorruptMap => {
                assert!(costs.made_good > 10 && costs.missed_by_damage > 10, "{costs:?}");
                assert_eq!((costs.missed_by_log, costs.dead), (0, 0), "{costs:?}");
            }
            Anomaly::Dead => {
                assert!(costs.dead > 10, "{costs:?}");
                assert_eq!((costs.made_good, missed), (0, 0), "{costs:?}");
            }
        }
    }
}

/// Changed entries are counted when programs begin, and can be journalled when they are done: with a buffer
/// larger than what a page of the journal is for, a flush left the last of them in no page, and a drive that
/// believes its map had the version before.
#[test]
fn a_flush_of_a_large_buffer_leaves_no_entry_behind() {
    let mut life = Life::new(1, Trust::InFlushes, |random| {
        let ranges = Ranges { channels_max: 1, left_out_one_in: 1000, ..SMALL };
        let mut config = drawn(random, &ranges, CacheKind::Volatile);
        config.geometry = Geometry::one_plane(200, 16, 512);
        config.cache.buffer_bytes = 512 * 400;
        config.capacity_bytes = 512 * 1500;
        config.power_loss = Some(PowerLossConfig { anomalies: vec![Anomaly::CorruptMap] });
        config
    });
    for _ in 0..2 {
        for unit in 0..300 {
            life.now = life.submit(OperationKind::Write, unit, 1, false, 0);
        }
        life.now = life.submit(OperationKind::Flush, 0, 0, false, 0);
    }
    let found = life.cut_at(life.now, 0.0).unwrap();
    assert_eq!(found.harm, []);
}
