//! With second-touch admission a clean page is taken at its second offer, whatever the design; dirty ones
//! always are.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Host, page};
use mezzanine_engine::{Design, Lookup, PageId, SecondTouch, StageIn, StageKind, Statistics, TierConfig};

const PAGE: usize = 4096;
const STAGED: StageIn = StageIn::Staged { also_disk: false };

fn id(block: u64) -> PageId {
    PageId::volume(1, block)
}

fn config(design: Design) -> TierConfig {
    TierConfig {
        returning_only: true,
        remembered_pages: Some(4096),
        ..TierConfig::of(design, PAGE as u32, 1024)
    }
}

/// Offers a page, and sees that nothing but admission stands in its way.
fn offer(host: &mut Host, block: u64) -> StageIn {
    while host.step() {}
    host.tier.stage_in(&id(block), &page(PAGE, block), StageKind::Clean(None), 0)
}

/// A tier that new pages have filled, and its counters.
fn full(config: &TierConfig) -> (Host, Statistics) {
    let mut host = Host::new(config, 1);
    let mut block = 1_000_000;
    while offer(&mut host, block) != StageIn::FirstTouch {
        block += 1;
        assert!(block < 1_000_000 + 2 * config.frames, "a full tier takes every page");
    }
    let before = host.tier.statistics();
    assert!(
        before.staged_clean > config.frames / 2,
        "only {} pages came while it filled",
        before.staged_clean
    );
    (host, before)
}

#[test]
fn a_page_is_taken_at_its_second_touch() {
    for design in Design::ALL.iter().copied() {
        // It chooses, too: by a temperature that these pages do not have.
        if design == Design::Tac {
            continue;
        }
        let (mut host, before) = full(&config(design));
        let offers = [
            (1, StageIn::FirstTouch),
            (2, StageIn::FirstTouch),
            (1, STAGED),
            (1, StageIn::Dropped),
            (3, StageIn::FirstTouch),
            (2, STAGED),
            (3, STAGED),
            (4, StageIn::FirstTouch),
        ];
        for (nth, (block, becomes)) in offers.into_iter().enumerate() {
            assert_eq!(offer(&mut host, block), becomes, "{design}: offer {nth}, of page {block}");
        }
        let dirty = u64::from(design != Design::Exadata);
        if dirty == 1 {
            host.write(id(5), &page(PAGE, 5));
        }
        let since = host.tier.statistics().since(&before);
        let counted = [since.clean_first_seen, since.staged_clean, since.dropped_present, since.staged_dirty];
        assert_eq!(counted, [4, 3, 1, dirty], "{design}");
        assert_eq!([since.refused, since.dropped_busy, since.dropped_stale], [0; 3], "{design}");
        host.tier.check();
    }
}

#[test]
fn what_is_turned_away_may_be_offered_by_a_lookup_of_long_ago() {
    let (mut host, before) = full(&config(Design::FaceGsc));
    let mut out = vec![0; PAGE];
    let Lookup::Miss(token) = host.tier.lookup(&id(1), &mut out) else { panic!("page 1 is not there") };
    host.write(id(1), &page(PAGE, 7));
    while host.tier.invalidate(&id(1)).is_err() {
        assert!(host.step(), "a full tier must have a job");
    }
    // It is an old version: not even remembered.
    let old = |host: &Host| host.tier.stage_in(&id(1), &page(PAGE, 1), StageKind::Clean(Some(token)), 0);
    assert_eq!(old(&host), StageIn::Dropped);
    assert_eq!(offer(&mut host, 1), StageIn::FirstTouch);
    assert_eq!(old(&host), StageIn::Dropped, "also when its page is remembered");
    let since = host.tier.statistics().since(&before);
    assert_eq!((since.dropped_stale, since.clean_first_seen, since.staged_clean), (2, 1, 0));
}

#[test]
fn the_memory_of_pages_is_part_of_the_region_and_off_by_default() {
    let off = TierConfig::new(PAGE as u32, 4096);
    assert!(!off.returning_only);
    let on = TierConfig { returning_only: true, ..off.clone() };
    let (without, with) = (off.geometry().unwrap(), on.geometry().unwrap());
    assert_eq!((without.remembered_pages(), with.remembered_pages()), (0, 2048));
    let more = with.region_bytes() - without.region_bytes();
    // Page memory begins at a whole page.
    assert!(more.abs_diff(SecondTouch::bytes(2048)) <= 4096, "{more} bytes more");
    assert_eq!(with.flash_bytes(), without.flash_bytes());
    let alone = TierConfig { remembered_pages: Some(7), ..off };
    assert_eq!(alone.geometry().unwrap_err().parameter, "remembered_pages");
    let none = TierConfig { remembered_pages: Some(0), ..on };
    assert_eq!(none.geometry().unwrap_err().parameter, "remembered_pages");
}
