//! Capacitors that carry what a configuration is checked for, and not a byte more, carry every dump: whatever
//! is under way, and however often the power fails before anything else happens.
#![allow(clippy::unwrap_used)]

use drives::{Ranges, SMALL, drawn};
use lives::{Life, Trust};
use mezzanine_device::model::OperationKind;
use mezzanine_ground::random::Random;
use mezzanine_ssd::{CacheKind, CollectionPace, DumpConfig, SsdConfig};

mod drives;
mod lives;

/// A durable drive that keeps as few changed entries as are allowed, and carries no more than it has to.
fn tight(random: &mut Random, pace: CollectionPace) -> SsdConfig {
    let mut config = drawn(random, &Ranges { whole_blocks_one_in: 0, ..SMALL }, CacheKind::Durable);
    config.ftl.collection_pace = pace;
    config.ftl.dirty_entries_max = config.geometry.page_bytes / 8;
    carrying(config, 0)
}

/// The drive with capacitors for so many bytes less than it needs.
fn carrying(mut config: SsdConfig, less: u64) -> SsdConfig {
    let bytes = config.dump_bytes_needed() - less;
    config.cache.dump = Some(DumpConfig { hold_up_ms: bytes as f64 / 1e3, mb_per_s: 1.0 });
    config
}

fn is_carried(pace: CollectionPace) {
    for seed in 0..60 {
        let mut life = Life::new(seed, Trust::InAcknowledgements, |random| tight(random, pace));
        let units = life.ssd.config().logical_units();
        for round in 0..12 {
            for _ in 0..life.random.magnitude(300) {
                life.operate(200);
            }
            if life.random.chance(1, 4) {
                // As many changed entries as there can be, at once.
                life.submit(OperationKind::Discard, 0, units, false, 0);
            }
            for again in 0..life.random.magnitude(8) {
                let found = life.cut(8_000_000, 1.0).unwrap();
                assert_eq!(found.bytes_missing, 0, "seed {seed}, round {round}, start {again}");
                assert!(found.harm.is_empty(), "seed {seed}, round {round}, start {again}: {found:?}");
            }
        }
    }
}

#[test]
fn a_full_charge_carries_what_has_changed_however_often_the_power_fails() {
    is_carried(CollectionPace::Incremental);
}

#[test]
fn a_full_charge_carries_what_whole_blocks_have_changed() {
    is_carried(CollectionPace::WholeBlock);
}

#[test]
fn capacitors_that_carry_a_byte_less_are_refused() {
    for pace in [CollectionPace::Incremental, CollectionPace::WholeBlock] {
        let config = tight(&mut Random::new(1), pace);
        assert_eq!(config.check(), Ok(()));
        let error = carrying(config, 1).check().unwrap_err();
        assert!(error.key() == "dump" && error.to_string().contains("more hold_up_ms"), "{error}");
    }
}
