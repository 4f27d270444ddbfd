//! The sync mode is switched while the tier is in use.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::HashMap;

use common::{Host, page};
use mezzanine_engine::{DrainScope, DrainState, PageId, SyncMode, TierConfig};

fn switch(host: &mut Host, mode: SyncMode) {
    host.tier.stop_admission();
    host.sync();
    if mode == SyncMode::Through {
        let ticket = host.tier.request_drain(&DrainScope::default()).unwrap();
        while host.tier.drain_state(&ticket) == DrainState::Pending {
            assert!(host.step());
        }
    }
    host.superblock = host.superblock.with_sync_mode(mode);
    host.tier.set_sync_mode(mode);
    host.tier.resume_admission();
    assert_eq!(host.tier.sync_mode(), mode);
}

#[test]
fn every_switch_keeps_every_page_over_a_crash() {
    for seed in 0..30 {
        let mut host = Host::new(&TierConfig::new(4096, 512), seed);
        let mut newest = HashMap::new();
        let mut version = 0;
        for _ in 0..12 {
            for _ in 0..host.random(400) {
                let block = host.random(200);
                version += 1;
                host.write(PageId::volume(1, block), &page(4096, version));
                newest.insert(block, version);
            }
            let modes = SyncMode::ALL;
            let mode = modes[host.random(modes.len() as u64) as usize];
            switch(&mut host, mode);
            if host.random(2) == 0 {
                host.sync();
                host = host.reopen(false);
                assert_eq!(host.tier.sync_mode(), mode);
            }
            for block in 0..200 {
                let version = newest.get(&block).copied().unwrap_or(0);
                assert_eq!(
                    host.read(PageId::volume(1, block)),
                    page(4096, version),
                    "seed {seed}, block {block}"
                );
            }
            host.tier.check();
        }
    }
}

#[test]
#[should_panic(expected = "only while admission has stopped")]
fn the_mode_does_not_change_under_the_feet_of_writers() {
    Host::new(&TierConfig::new(4096, 512), 1).tier.set_sync_mode(SyncMode::Drained);
}

#[test]
#[should_panic(expected = "holds no only copies")]
fn a_tier_with_only_copies_does_not_become_expendable() {
    let mut host = Host::new(&TierConfig::new(4096, 512), 1);
    host.write(PageId::volume(1, 1), &page(4096, 1));
    host.tier.stop_admission();
    host.tier.set_sync_mode(SyncMode::Through);
}
