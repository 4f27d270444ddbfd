//! A volume whose flash device has zones.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use common::one_file::{read, write};
use common::{Backing, durable, open, page};
use mezzanine_device::memory::{MemoryDevice, Power};
use mezzanine_device::{Device, Zones};
use mezzanine_engine::TierZones;
use mezzanine_volume::{TierConfig, Volume, VolumeConfig, VolumeErrorKind, VolumeState};

/// A configuration for zones of two dozen frames, and the zones that it needs.
fn zoned() -> (VolumeConfig, Zones) {
    let mut config = durable();
    let zones = TierZones { zone_bytes: 26 * 4096, capacity_bytes: 24 * 4096 };
    let tier = TierConfig { ahead_frames: 0, ..config.tier };
    config.tier = tier.on_zones(zones);
    while config.tier.geometry().is_err() {
        config.tier = TierConfig { frames: config.tier.frames + 24, ..config.tier }.on_zones(zones);
    }
    let geometry = config.tier.geometry().unwrap();
    let zones = Zones {
        zone_len: zones.zone_bytes,
        zone_capacity: zones.capacity_bytes,
        count: geometry.flash_bytes() / zones.zone_bytes,
        conventional: geometry.conventional_bytes() / zones.zone_bytes,
        open_max: 0,
    };
    (config, zones)
}

fn flash(zones: Zones) -> Arc<MemoryDevice> {
    Arc::new(MemoryDevice::zoned(&Power::new(), "zoned flash", zones))
}

#[test]
fn what_was_synced_outlives_cuts_while_the_queue_goes_round() {
    const PAGES: u64 = 150;
    let (config, zones) = zoned();
    let (flash, backing) = (flash(zones), Backing::new("a"));
    Volume::format(&*flash, &config, false).unwrap();
    let mut written = 0;
    for round in 1..=25 {
        let volume = open(&flash, &config);
        let file = backing.attach(&volume).unwrap();
        for block in 0..if round > 1 { PAGES } else { 0 } {
            assert_eq!(read(&file, block), Ok(page(block, round - 1)), "page {block} in round {round}");
        }
        (0..PAGES).for_each(|block| write(&file, block, round));
        file.sync().unwrap();
        assert_eq!(volume.state(), VolumeState::Ok);
        written += PAGES;
        // And something that nobody waits for.
        (PAGES..PAGES + 20).for_each(|block| write(&file, block, round));
        for _ in 0..round {
            volume.step();
        }
        drop((file, volume));
        flash.power_cut(round);
    }
    assert!(written > 3 * config.tier.frames, "the queue came round");
}

#[test]
fn a_tier_that_does_not_fit_the_zones_is_refused_before_anything_is_written() {
    let (config, zones) = zoned();
    let without = VolumeConfig { tier: durable().tier, ..config.clone() };
    for (config, zones, word) in [
        (&without, zones, "laid out for none"),
        (&config, Zones { zone_capacity: zones.zone_capacity - 4096, ..zones }, "its zones are of"),
        (&config, Zones { conventional: zones.conventional - 1, ..zones }, "conventional zones"),
    ] {
        let flash = flash(zones);
        let error = Volume::format(&*flash, config, false).unwrap_err();
        assert_eq!(error.kind(), VolumeErrorKind::InvalidConfig);
        assert!(error.to_string().contains(word), "{error}");
        assert_eq!(flash.changes(), 0);
    }
    // Nor is one opened that was copied to a device of other zones.
    let there = flash(zones);
    Volume::format(&*there, &config, false).unwrap();
    let other =
        flash(Zones { zone_len: 2 * zones.zone_len, conventional: zones.conventional.div_ceil(2), ..zones });
    let mut copied = vec![0; 4096];
    for offset in (0..zones.conventional * zones.zone_len).step_by(4096) {
        there.read_at(&mut copied, offset).unwrap();
        other.write_at(&copied, offset).unwrap();
    }
    other.flush().unwrap();
    let error = Volume::open(other.clone(), config.clone()).err().unwrap();
    assert_eq!(error.kind(), VolumeErrorKind::InvalidConfig);
    assert!(error.to_string().contains("its zones are of"), "{error}");
    // What is laid out for zones does without any.
    let plain = MemoryDevice::new(config.tier.geometry().unwrap().flash_bytes());
    Volume::format(&plain, &config, false).unwrap();
    assert!(plain.capabilities().zones.is_none());
}
