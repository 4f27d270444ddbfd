//! Power cuts of a drive at any instant, also while it starts.
//!
//! Invariants checked, of a durable cache: a unit reads as the last write or discard that was acknowledged,
//! or as one that was under way (whole); every invariant of the drive holds after each start (`Ssd::check`);
//! a dump always fits what the capacitors carry, and one that does not, since they are weak, is reported.
//! Pages that share cells change nothing of that. Planted faults of it are in `planted_power`.
//!
//! Of a volatile cache: it loses what was acknowledged and not flushed, the last writes first or in any
//! order. What it does worse is in `anomalies`, and pages that share cells in `paired_pages`.
#![allow(clippy::unwrap_used)]

use drives::{Ranges, SMALL, drawn};
use lives::{Broken, Harm, Life, Trust, first_wrong};
use mezzanine_ssd::{CacheKind, PowerLossConfig};

mod drives;
mod lives;

/// Lives of durable drives with this many cuts in all, of which none may lose anything.
fn durable(ranges: &Ranges, cuts_max: u64) {
    let wrong = first_wrong(cuts_max, |seed| {
        Life::new(seed, Trust::InAcknowledgements, |random| drawn(random, ranges, CacheKind::Durable))
    });
    assert!(wrong.is_none(), "after {} cuts: {}", wrong.as_ref().unwrap().0, wrong.as_ref().unwrap().1);
}

fn cuts() -> u64 {
    std::env::var("MEZZANINE_CUTS").map_or(20_000, |text| text.parse().expect("a number"))
}

#[test]
fn nothing_acknowledged_is_lost_or_torn_by_a_durable_cache() {
    durable(&SMALL, cuts());
}

#[test]
fn pages_that_share_cells_change_nothing_for_a_durable_cache() {
    durable(&Ranges { paired_distances: &[1, 2], ..SMALL }, cuts() / 2);
}

#[test]
fn weak_capacitors_are_reported() {
    let mut reported = 0;
    for seed in 0..200 {
        let durable = |random: &mut _| drawn(random, &SMALL, CacheKind::Durable);
        let mut life = Life::new(seed, Trust::InAcknowledgements, durable);
        for _ in 0..60 {
            life.operate(24);
        }
        match life.cut(8_000_000, 0.002) {
            Ok(found) => {
                reported += u64::from(found.bytes_missing > 0);
                assert!(found.harm.is_empty() || found.bytes_missing > 0, "seed {seed}: lost in silence");
            }
            // Without its entries the map may be of no use, and is not used.
            Err(Broken::Dead(error)) => assert_eq!(error.device(), "the drive under test"),
            Err(Broken::Books(what)) => panic!("seed {seed}: {what}"),
        }
    }
    assert!(reported > 20, "only {reported} of 200 starts say that the dump was cut short");
}

/// Cuts, those that did harm, those that left a later write without an earlier one.
#[derive(Debug, Default)]
struct Count {
    cuts: u64,
    harmful: u64,
    reordered: u64,
}

/// Lives of drives without a durable cache.
fn volatile(kind: CacheKind, trust: Trust, power_loss: Option<PowerLossConfig>) -> Count {
    let mut count = Count::default();
    for seed in 0..cuts().div_ceil(100) {
        let mut life = Life::new(seed, trust, |random| {
            let mut config = drawn(random, &SMALL, kind);
            config.power_loss.clone_from(&power_loss);
            config
        });
        for _ in 0..30 {
            for _ in 0..life.random.magnitude(200) {
                life.operate(24);
            }
            let found = life.cut(8_000_000, 0.0);
            let found = found.unwrap_or_else(|broken| panic!("{kind:?}, seed {seed}: {broken:?}"));
            let other = found.harm.iter().find(|(_, harm)| *harm != Harm::Lost);
            assert_eq!(other, None, "{kind:?}, seed {seed}");
            count.cuts += 1;
            count.harmful += u64::from(!found.harm.is_empty());
            count.reordered += u64::from(found.reordered);
        }
    }
    println!("{kind:?}, {trust:?}, {power_loss:?}: {count:?}");
    count
}

fn in_order() -> Option<PowerLossConfig> {
    Some(PowerLossConfig { anomalies: Vec::new() })
}

#[test]
fn a_volatile_cache_keeps_what_was_flushed_whole() {
    for kind in [CacheKind::Volatile, CacheKind::None] {
        for power_loss in [None, in_order()] {
            assert_eq!(volatile(kind, Trust::InFlushes, power_loss).harmful, 0, "{kind:?}");
        }
    }
}

#[test]
fn a_volatile_cache_loses_what_was_acknowledged_and_not_flushed() {
    let any = volatile(CacheKind::Volatile, Trust::InAcknowledgements, None);
    let ordered = volatile(CacheKind::Volatile, Trust::InAcknowledgements, in_order());
    for count in [&any, &ordered] {
        assert!(3 * count.harmful > count.cuts, "{count:?}");
    }
    assert!(200 * any.reordered > any.cuts, "{any:?}");
    assert_eq!(ordered.reordered, 0, "of a drive that keeps the order");
}
