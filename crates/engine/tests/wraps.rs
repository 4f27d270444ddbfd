//! A tier driven by hand over plain memory: pages keep their newest contents while the queue wraps many
//! times, across recoveries, in every design, admission and sync mode.
#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::HashMap;

use common::{Host, page};
use mezzanine_engine::{Admission, Design, PageId, SyncMode, TierConfig};

mod common;

fn run(design: Design, admission: Admission, sync_mode: SyncMode) {
    let mut config = TierConfig::new(4096, 512);
    (config.design, config.admission, config.sync_mode) = (design, admission, sync_mode);
    if config.geometry().is_err_and(|error| error.parameter == "sync_mode") {
        return;
    }
    config.policy.write_back = design == Design::Exadata;
    let mut host = Host::new(&config, 42);
    let mut model: HashMap<u64, u64> = HashMap::new();
    let mut total = mezzanine_engine::Statistics::default();
    let steps = if design.writes_in_place() { 8_000u64 } else { 30_000 };
    for n in 1..steps {
        // A hot tenth gets half of the accesses, so that pages are found referenced at the front.
        let block = if host.random(2) == 0 { host.random(60) } else { host.random(1200) };
        let id = PageId::volume(1, block);
        match host.random(100) {
            0..45 => {
                host.write(id, &page(4096, n));
                model.insert(block, n);
            }
            45..90 => {
                let wanted = model.get(&block).copied().unwrap_or(0);
                assert_eq!(host.read(id), page(4096, wanted), "block {block} at step {n}");
            }
            90..98 => {
                host.step();
            }
            98 => host.sync(),
            _ => {
                if host.random(20) == 0 {
                    host.tier.check();
                    let statistics = host.tier.statistics();
                    total.second_chances += statistics.second_chances;
                    total.pages_written += statistics.pages_written;
                    total.segments_written += statistics.segments_written;
                    total.metadata_bytes_written += statistics.metadata_bytes_written;
                    if n % 3 == 0 {
                        host = host.reopen(true);
                    } else {
                        host.sync();
                        host = host.reopen(false);
                    }
                    host.tier.check();
                }
            }
        }
    }
    let statistics = host.tier.statistics();
    total.second_chances += statistics.second_chances;
    total.pages_written += statistics.pages_written;
    total.segments_written += statistics.segments_written;
    total.metadata_bytes_written += statistics.metadata_bytes_written;
    let rounds = if design.writes_in_place() { 1 } else { 4 };
    assert!(total.pages_written > rounds * 512, "the queue must wrap: {total:?}");
    if design.has_slots() {
        assert!(
            total.metadata_bytes_written > total.pages_written / 2 * 4096,
            "slots must be written: {total:?}"
        );
    } else {
        assert!(total.segments_written > 8, "segments must be written: {total:?}");
    }
    if design == Design::FaceGsc {
        assert!(total.second_chances > 100, "second chances must happen: {total:?}");
    } else {
        assert_eq!(total.second_chances, 0);
    }
}

#[test]
fn every_combination_keeps_the_newest_pages() {
    for &design in Design::ALL {
        for &admission in Admission::ALL {
            for &sync_mode in SyncMode::ALL {
                run(design, admission, sync_mode);
            }
        }
    }
}

#[test]
fn default_configurations_are_valid() {
    for page_size in [4096, 8192, 16384, 32768] {
        for frames in [256, 1024, 5000, 100_000, 13_107_200] {
            let geometry = TierConfig::new(page_size, frames).geometry().unwrap();
            assert!(geometry.flash_bytes() > frames * u64::from(page_size));
        }
        let config = TierConfig::for_flash_bytes(page_size, 1 << 30);
        assert!(config.geometry().unwrap().flash_bytes() <= 1 << 30);
        assert!(config.frames * u64::from(page_size) > (1 << 30) * 95 / 100);
    }
}
