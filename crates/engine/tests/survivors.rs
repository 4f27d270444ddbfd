//! Which pages stay when they come to the front of the queue, and which leave.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Host, page};
use mezzanine_engine::{Lookup, PageId, StageIn, StageKind, TierConfig};

/// Groups of four pages, two of which may survive.
fn config(keeps_unreferenced: bool) -> TierConfig {
    TierConfig {
        group_pages: 4,
        staging_groups: 8,
        segment_frames: 32,
        survivors_max: 2,
        band_frames: 8,
        ahead_frames: 0,
        keeps_unreferenced,
        ..TierConfig::new(4096, 512)
    }
}

fn id(block: u64) -> PageId {
    PageId::volume(1, block)
}

fn has(host: &Host, block: u64) -> bool {
    !matches!(host.tier.lookup(&id(block), &mut vec![0; 4096]), Lookup::Miss(_))
}

/// Writes a page, and whatever has to be done for it.
fn write(host: &mut Host, block: u64, version: u64) {
    host.write(id(block), &page(4096, version));
    // Nothing lags behind: who comes to a full queue finds no room for second chances.
    while host.step() {}
}

const HOT: u64 = 20;
const COLD: u64 = 60;

/// Some pages are written all the time, others once, in between at the beginning; nothing is read.
fn overwritten(keeps_unreferenced: bool) -> Host {
    let mut host = Host::new(&config(keeps_unreferenced), 1);
    for version in 0..4000 {
        write(&mut host, version % HOT, version);
        if version < COLD {
            write(&mut host, HOT + version, version);
        }
    }
    host
}

#[test]
fn pages_that_were_not_referenced_stay_in_the_room_that_overwrites_make() {
    let host = overwritten(true);
    assert!(host.disk.is_empty(), "{} pages have left a queue with room for all", host.disk.len());
    assert!((HOT..HOT + COLD).all(|block| has(&host, block)));
    let statistics = host.tier.statistics();
    assert!(statistics.second_chances >= COLD, "{} second chances", statistics.second_chances);
    host.tier.check();
    // Once each, and no more: that is what keeping them costs.
    let rounds = 1 + statistics.pages_written / (512 - 512 / 5);
    assert!(statistics.second_chances <= rounds * (COLD + HOT), "{}", statistics.second_chances);
}

#[test]
fn in_the_paper_they_leave() {
    let host = overwritten(false);
    assert_eq!(host.disk.len() as u64, COLD);
    assert_eq!(host.tier.statistics().second_chances, 0);
    assert!(!(HOT..HOT + COLD).any(|block| has(&host, block)));
    host.tier.check();
}

#[test]
fn they_leave_where_nothing_is_overwritten() {
    let mut host = Host::new(&config(true), 1);
    for block in 0..2000 {
        write(&mut host, block, block);
    }
    let statistics = host.tier.statistics();
    assert_eq!(statistics.second_chances, 0);
    assert!(statistics.disk_writes > 1000, "{} pages have left", statistics.disk_writes);
    host.tier.check();
}

#[test]
fn a_dirty_page_stays_rather_than_a_clean_one_and_a_referenced_one_before_both() {
    for referenced in [false, true] {
        let mut host = Host::new(&config(true), 1);
        // Group after group: a page that the next one overwrites, which makes room for one page, a clean
        // one and two dirty ones.
        for group in 0..120 {
            let first = 1 + 3 * group;
            write(&mut host, 0, group);
            let offered = host.tier.stage_in(&id(first), &page(4096, first), StageKind::Clean(None), 0);
            assert_eq!(offered, StageIn::Staged { also_disk: false });
            write(&mut host, first + 1, group);
            write(&mut host, first + 2, group);
            if referenced {
                host.read(id(first));
            }
        }
        let gone = host.tier.statistics().groups_staged_out;
        assert!(gone > 5, "{gone} groups were staged out");
        let stayed = |block| (0..gone).filter(|group| has(&host, 1 + 3 * group + block)).count() as u64;
        // A sync ends a group early now and then, and what is in a short one has more room.
        let few = gone / 8;
        // Where the clean ones were referenced, they stay without a question, and one more has room.
        assert!(if referenced { stayed(0) == gone } else { stayed(0) <= few }, "{} of {gone}", stayed(0));
        assert!(stayed(1) <= few, "{} of {gone}", stayed(1));
        assert_eq!(stayed(2), gone);
        host.tier.check();
    }
}
