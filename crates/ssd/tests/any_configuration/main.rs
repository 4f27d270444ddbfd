//! Drives of configurations of which every number may be anything.
//!
//! Invariants checked: a configuration is refused by the name of a key, or its drive survives whatever
//! condition it begins in, thousands of operations on all of it, power cuts, and starts that are cut off as
//! well; every invariant of the drive holds (`Ssd::check`); what its kind of cache promises is kept, and a
//! full charge carries every dump. Other sizes of a drive are refused or can be.
//!
//! `MEZZANINE_CONFIGURATIONS` says how many are drawn, `MEZZANINE_SEED` which comes first.
#![allow(clippy::unwrap_used)]

use std::panic::{AssertUnwindSafe, catch_unwind};

use lives::{Broken, Life, Trust};
use mezzanine_device::model::{OperationKind, Timing};
use mezzanine_ground::random::Random;
use mezzanine_ssd::{Anomaly, CacheKind, Condition, Ssd, SsdConfig};

mod draw;
#[path = "../lives/mod.rs"]
mod lives;

/// Larger drives are made and not tried: they would take long to fill.
const UNITS_MAX: u32 = 20_000;
const STATE_BYTES_MAX: u64 = 1 << 24;

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().expect("a number"))
}

fn drawn(seed: u64) -> SsdConfig {
    let mut random = Random::new(seed);
    let mut config = draw::small(&mut random);
    if random.chance(1, 4) {
        for _ in 0..random.magnitude(4) {
            draw::spoil(&mut random, &mut config);
        }
    }
    config
}

/// Other sizes of a drive, which are refused or can be.
fn resize(config: &SsdConfig, random: &mut Random) {
    for _ in 0..4 {
        let bytes = random.next_u64() >> random.below(64);
        for size in [bytes, bytes / 4096 * 4096, config.capacity_bytes.saturating_add(bytes / 4096 * 4096)] {
            if let Ok(other) = config.with_capacity(size) {
                assert_eq!((other.capacity_bytes, other.check()), (size, Ok(())));
            }
        }
        if let Ok(other) = config.with_blocks_per_plane(bytes as u32) {
            assert_eq!(other.check(), Ok(()));
        }
    }
}

/// Brings a drive into a condition and lets it work.
fn work(ssd: &Ssd, random: &mut Random, seed: u64) {
    let mut state = ssd.idle();
    let condition = *random.pick(&[Condition::Fresh, Condition::Filled, Condition::Steady]);
    ssd.prepare(&mut state, condition, seed);
    ssd.check(&mut state).unwrap();
    let unit = u64::from(ssd.config().geometry.unit_bytes);
    let mut now = 0;
    for _ in 0..2000 {
        now += random.magnitude(200_000);
        let kind = match random.below(20) {
            0 => OperationKind::Flush,
            1 => OperationKind::Discard,
            2..=4 => OperationKind::Read,
            _ => OperationKind::Write,
        };
        let address = random.below(ssd.capacity());
        let units_max = if random.chance(1, 50) { u64::from(UNITS_MAX) } else { 8 };
        let len = unit * random.magnitude(units_max);
        let operation = mezzanine_device::model::Operation {
            stream: random.below(256) as u8,
            through: random.chance(1, 10),
            ..ssd.operation(kind, address, len)
        };
        let done = ssd.submit(&mut state, now, operation).unwrap().ticket.completion().unwrap();
        assert!(done >= now, "complete before it came");
    }
    ssd.check(&mut state).unwrap();
    ssd.rest(&mut state);
    ssd.check(&mut state).unwrap();
}

/// Has the power of a drive fail, some times just after a start.
fn lose_power(config: &SsdConfig, seed: u64) {
    let harmless = Anomaly::ALL.into_iter().all(|anomaly| anomaly == Anomaly::Reordered || !config.shows(anomaly))
        // Without a copy of them, pages are taken along.
        && (config.cache.kind == CacheKind::Durable
            || config.geometry.paired_distance == 0
            || config.ftl.backs_up_paired_pages);
    let mut life = Life::new(seed, Trust::of(config.cache.kind), |_| config.clone());
    let units = config.logical_units();
    if life.random.chance(3, 4) {
        for first in (0..units).step_by(8) {
            life.now += 1000;
            life.submit(OperationKind::Write, first, 8.min(units - first), false, 0);
        }
    }
    for _ in 0..3 {
        let operations = *life.random.pick(&[0, 1, 30, 400]);
        for _ in 0..operations {
            life.operate(24);
        }
        if life.random.chance(1, 8) {
            life.submit(OperationKind::Discard, 0, units, false, 0);
        }
        match life.cut(8_000_000, 1.0) {
            Ok(found) => {
                assert_eq!(found.bytes_missing, 0, "a full charge carries the dump");
                assert!(!harmless || found.harm.is_empty(), "lost: {:?}", found.harm.len());
            }
            Err(Broken::Dead(_)) if !harmless => return,
            Err(broken) => panic!("{broken:?}"),
        }
    }
    for _ in 0..400 {
        life.operate(24);
    }
    life.ssd.check(&mut life.state).unwrap();
}

#[derive(Debug, Default)]
struct Count {
    refused: std::collections::BTreeMap<&'static str, u64>,
    tried: u64,
    large: u64,
}

fn live(config: SsdConfig, seed: u64, count: &mut Count) {
    let mut random = Random::new(seed ^ 0x6c69_7665);
    resize(&config, &mut random);
    let ssd = match Ssd::new(config.clone()) {
        Ok(ssd) => ssd,
        Err(error) => {
            assert!(!error.key().is_empty() && error.to_string().len() > error.key().len() + 5);
            *count.refused.entry(error.key()).or_default() += 1;
            return;
        }
    };
    if ssd.state_bytes() > STATE_BYTES_MAX || config.logical_units() > UNITS_MAX {
        count.large += 1;
        return;
    }
    count.tried += 1;
    work(&ssd, &mut random, seed);
    lose_power(&config, seed);
}

/// A drive without a journal that keeps the order of writes: its map had a write from when it was in flash,
/// not from when all before it were. A start left the write out, and did not find the one before it.
#[test]
fn a_map_without_a_journal_has_a_write_when_all_before_it_are_in_flash() {
    live(drawn(105_683), 105_683, &mut Count::default());
}

#[test]
fn a_configuration_is_refused_by_name_or_its_drive_survives() {
    let (first, many) = (number("MEZZANINE_SEED", 0), number("MEZZANINE_CONFIGURATIONS", 200));
    let says = std::env::var("MEZZANINE_SAY").is_ok();
    let (mut count, mut failed) = (Count::default(), 0);
    for seed in first..first + many {
        let config = drawn(seed);
        if says {
            println!("seed {seed}");
        }
        if catch_unwind(AssertUnwindSafe(|| live(config.clone(), seed, &mut count))).is_err() {
            println!("FAILED seed {seed}: {config:?}");
            failed += 1;
        }
    }
    println!("{count:?}, failed {failed}");
    assert_eq!(failed, 0, "configurations whose drives did not survive");
    assert!(3 * count.tried > many, "most are tried");
}
