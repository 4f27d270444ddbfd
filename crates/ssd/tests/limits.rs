//! Numbers at the edges of what a drive can be: refused by their names, or computed with.
#![allow(clippy::unwrap_used)]

use mezzanine_device::model::{self, OperationKind, Timing};
use mezzanine_ssd::{CacheKind, Condition, Ssd, SsdConfig};

/// Gives a drive a rate.
type Spoil = fn(&mut SsdConfig, f64);

fn durassd() -> SsdConfig {
    let ssd = Ssd::of_model(&model::find("durassd").unwrap()).unwrap().unwrap();
    ssd.config().with_blocks_per_plane(24).unwrap()
}

fn completion(ssd: &Ssd, state: &mut [u64], now: u64, kind: OperationKind, len: u64) -> u64 {
    let operation = ssd.operation(kind, 0, len);
    ssd.submit(state, now, operation).unwrap().ticket.completion().unwrap()
}

#[test]
fn rates_next_to_nothing_are_refused_and_the_lowest_ones_do_not_run_over() {
    let spoilt = |spoil: Spoil, rate| {
        let mut config = durassd();
        spoil(&mut config, rate);
        config
    };
    let of_link: Spoil = |config, rate| config.host.link_mb_per_s = rate;
    let of_channel: Spoil = |config, rate| config.timings.channel_mb_per_s = rate;
    for (key, spoil) in [("link_mb_per_s", of_link), ("channel_mb_per_s", of_channel)] {
        for rate in [0.0, -1.0, 1e-308, 1e-9, 0.0099, f64::NAN, f64::INFINITY] {
            let error = spoilt(spoil, rate).check().unwrap_err();
            assert!(error.key() == key && error.to_string().contains("0.01"), "{error}");
        }
        let ssd = Ssd::new(spoilt(spoil, 0.01)).unwrap();
        let mut state = ssd.idle();
        let mut now = 0;
        for kind in [OperationKind::Write, OperationKind::Read, OperationKind::Flush] {
            now = completion(&ssd, &mut state, now, kind, u64::MAX);
        }
        assert!(now > 1_000_000_000 && now < u64::MAX / 2, "{now} ns");
    }
}

#[test]
fn a_drive_with_as_large_a_reserve_as_there_can_be_is_given_other_capacities() {
    let mut config = durassd();
    config.geometry.channels = 1;
    (config.geometry.packages_per_channel, config.geometry.chips_per_package) = (1, 1);
    (config.geometry.planes_per_chip, config.geometry.pages_per_block) = (1, 4);
    config.geometry.blocks_per_plane = 1 << 20;
    config.ftl.reserve_blocks_per_plane = 1 << 19;
    // The buffer and the capacitors of a large one.
    config.cache.kind = CacheKind::Volatile;
    (config.cache.dump, config.power_loss) = (None, None);
    config.capacity_bytes = config.capacity_units_max() * 4096;
    config.check().unwrap();
    for capacity in [0, 4096, config.capacity_bytes / 2, config.capacity_bytes, u64::MAX / 4096 * 4096] {
        match config.with_capacity(capacity) {
            Ok(other) => assert_eq!(other.check(), Ok(())),
            Err(error) => assert!(!error.key().is_empty()),
        }
    }
    assert_eq!(config.with_blocks_per_plane(u32::MAX).unwrap_err().key(), "blocks_per_plane");
}

#[test]
fn blocks_that_live_short_are_used_on_where_there_is_no_room_without_them() {
    let mut config = durassd();
    config.geometry.channels = 1;
    (config.geometry.packages_per_channel, config.geometry.chips_per_package) = (1, 1);
    config.cache.buffer_bytes = 1 << 17;
    for spare_blocks in [0, 8] {
        config.ftl.endurance_erases = 1;
        let spare = spare_blocks * u64::from(config.geometry.units_per_block() * config.geometry.planes());
        config.capacity_bytes = (config.capacity_units_max() - spare) * 4096;
        let ssd = Ssd::new(config.clone()).unwrap();
        let mut state = ssd.idle();
        ssd.prepare(&mut state, Condition::Steady, 1);
        ssd.check(&mut state).unwrap();
        let before = ssd.erases(&state);
        let units = u64::from(config.logical_units());
        for now in 0..20 * units {
            let write = ssd.operation(OperationKind::Write, 4096 * (now * 7919 % units), 4096);
            ssd.submit(&mut state, now, write).unwrap();
        }
        ssd.check(&mut state).unwrap();
        let after = ssd.erases(&state);
        // Those that were taken out of use are erased no more; each plane has done without some.
        let lost = before.iter().zip(&after).filter(|(before, after)| before == after).count() as u64;
        let planes = u64::from(config.geometry.planes());
        assert!(spare_blocks == 0 || lost >= planes, "only {lost} were taken out of use");
        assert!(after.iter().any(|erases| *erases > 2), "none was used on: {after:?}");
    }
}
