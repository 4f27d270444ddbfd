//! A pass over the pages shows what the tier holds: each page once, its newest version, and no other.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;

use common::{Host, page};
use mezzanine_engine::{HeldPage, PageId, StageKind, Tier, TierConfig};

const PAGE: usize = 4096;

fn id(block: u64) -> PageId {
    PageId::volume(1, block)
}

fn held(tier: &Tier, frames: usize) -> BTreeMap<u64, HeldPage> {
    let mut cursor = tier.first_page();
    let mut seen = BTreeMap::new();
    while let Some(pages) = tier.pages(&mut cursor, frames) {
        for page in pages {
            assert!(seen.insert(page.id.block(), page).is_none(), "{:?} twice", page.id);
        }
    }
    seen
}

#[test]
fn every_page_is_shown_once_with_its_newest_version() {
    let mut host = Host::new(&TierConfig::new(PAGE as u32, 2048), 1);
    for version in 0..3 {
        for block in 0..100 {
            host.write(id(block), &page(PAGE, version * 1000 + block));
        }
    }
    host.tier.stage_in(&id(500), &page(PAGE, 500), StageKind::Clean(None), 0);
    while host.tier.invalidate(&id(7)).is_err() {
        assert!(host.step());
    }
    host.sync();
    host.read(id(3));
    for frames in [1, 7, 10_000] {
        let seen = held(&host.tier, frames);
        let blocks: Vec<u64> = seen.keys().copied().collect();
        let expected: Vec<u64> = (0..100).filter(|block| *block != 7).chain([500]).collect();
        assert_eq!(blocks, expected);
        assert_eq!(
            (seen.len() as u64, seen.values().filter(|page| page.flash.dirty).count() as u64),
            host.tier.valid_and_dirty()
        );
        assert!(!seen[&500].flash.dirty && seen[&8].flash.dirty);
        let referenced: Vec<u64> =
            seen.values().filter(|page| page.referenced).map(|page| page.id.block()).collect();
        assert_eq!(referenced, [3]);
        assert!(seen.values().all(|page| !page.staged), "a sync leaves nothing in staging memory alone");
        for (block, found) in &seen {
            let from = found.flash.offset as usize;
            let bytes = &host.flash.0[from..from + PAGE];
            let version = if *block == 500 { 500 } else { 2000 + block };
            assert!(host.tier.verify(&found.flash, bytes) && bytes == page(PAGE, version), "block {block}");
        }
    }
}

#[test]
fn a_pass_ends_though_pages_come_in_and_sees_what_stays() {
    let mut host = Host::new(&TierConfig::new(PAGE as u32, 2048), 1);
    for block in 0..100 {
        host.write(id(block), &page(PAGE, block));
    }
    host.sync();
    let mut cursor = host.tier.first_page();
    let mut seen = Vec::new();
    let mut next = 1000;
    while let Some(pages) = host.tier.pages(&mut cursor, 3) {
        seen.extend(pages.iter().map(|page| page.id.block()));
        for _ in 0..10 {
            host.write(id(next), &page(PAGE, next));
            next += 1;
        }
    }
    assert_eq!(seen, (0..100).collect::<Vec<_>>());
}

#[test]
fn pages_in_staging_memory_are_told_from_those_on_flash() {
    let mut host = Host::new(&TierConfig::new(PAGE as u32, 2048), 1);
    host.write(id(1), &page(PAGE, 1));
    host.sync();
    assert_eq!(host.tier.staged_pages(), 0);
    host.write(id(2), &page(PAGE, 2));
    let seen = held(&host.tier, 100);
    assert_eq!((seen[&1].staged, seen[&2].staged), (false, true));
    assert_eq!(host.tier.staged_pages(), 1);
}

#[test]
fn whether_pages_are_taken_is_told() {
    let host = Host::new(&TierConfig::new(PAGE as u32, 2048), 1);
    assert!(host.tier.admits());
    host.tier.stop_admission();
    assert!(!host.tier.admits());
    host.tier.resume_admission();
    assert!(host.tier.admits());
}
