//! Places that are damaged or cannot be read, wherever they lie: the tier is refused, or has every page.

use mezzanine_engine::format::{SUMMARY_MAGIC, SegmentHeader};
use mezzanine_engine::planted::{Bug, only_with};

use crate::host::{Host, PAGE, ZONE_FRAMES};

/// A life with crashes, and what they leave behind in zones.
fn life(seed: u64) -> Host {
    let (mut host, mut version) = (Host::new(seed, ZONE_FRAMES), 0);
    for round in 0..40 + seed {
        for _ in 0..8 + (round * 7 + seed) % 13 {
            version += 1;
            assert!(host.write(version, false), "a full tier has a job");
        }
        if round % 3 != 0 {
            assert!(host.sync());
        }
        if (round + seed) % 4 == 0 {
            host = host.crash();
        }
    }
    host
}

/// The same; what was under way at the end stays behind, torn, one group has come after it, and nothing after
/// the epoch of that but others.
fn life_with_a_torn_end(seed: u64) -> Host {
    let mut host = life(seed);
    let version = host.write_across_zones(1 << 20);
    host = host.crash();
    assert!(host.write(version + 1, false) && host.sync());
    host.crash().crash()
}

/// Offsets of pages that begin so.
fn pages_that(host: &Host, begin: impl Fn(&[u8]) -> bool) -> Vec<u64> {
    let pages = host.flash.bytes.chunks(PAGE).zip(0..);
    pages.filter(|(page, _)| begin(page)).map(|(_, number)| number * PAGE as u64).collect()
}

/// Each two of a segment and a summary are damaged.
fn damage_is_told() -> bool {
    // Of the first 24 lives those in which a segment begins behind a rest, and the group before is not the
    // only one that would be missing.
    [12, 20].into_iter().all(|seed| {
        let host = life(seed).leave();
        let segments = pages_that(&host, |page| SegmentHeader::decode(page).is_ok());
        let summaries = pages_that(&host, |page| page.starts_with(&SUMMARY_MAGIC));
        segments.iter().all(|segment| {
            summaries.iter().all(|summary| {
                let lies = host.lies_on(|flash| {
                    flash.bytes[*segment as usize + 4096] ^= 1;
                    flash.bytes[*summary as usize + 100] ^= 1;
                });
                lies != Some(true)
            })
        })
    })
}

#[test]
fn a_damaged_segment_and_a_damaged_group_are_no_rest_of_a_zone() {
    only_with(&[Bug::GroupsPassForRest], damage_is_told);
}

/// One page cannot be read.
fn bad_places_are_told() -> bool {
    (0..3).map(life_with_a_torn_end).all(|host| {
        let pages = host.flash.begin..host.flash.bytes.len() as u64;
        pages.step_by(PAGE).all(|bad| host.lies_on(|flash| flash.unreadable.push(bad)) != Some(true))
    })
}

#[test]
fn a_group_that_a_crash_left_does_not_count_for_one_that_cannot_be_read() {
    only_with(&[Bug::UnreadZoneHeadForgotten], bad_places_are_told);
}

/// A bit of one page has flipped.
fn rot_is_told() -> bool {
    (0..3).map(life_with_a_torn_end).all(|host| {
        let pages = host.flash.begin..host.flash.bytes.len() as u64;
        pages
            .step_by(PAGE)
            .all(|bad| host.lies_on(|flash| flash.bytes[bad as usize + 100] ^= 1) != Some(true))
    })
}

#[test]
fn a_group_that_a_crash_left_does_not_count_for_a_rotten_one() {
    only_with(&[Bug::RottenZoneHeadPassed], rot_is_told);
}

/// What cannot be read and is of no use to anybody does not end an opening.
#[test]
fn a_bad_place_that_nothing_lies_in_costs_nothing() {
    let (mut host, mut zones) = (Host::new(5, ZONE_FRAMES), 0);
    for version in 1..40 {
        assert!(host.write(version, false) && host.sync());
        if version % 7 == 0 {
            host = host.crash();
        }
        let zone_bytes = host.superblock.config.zones.unwrap().zone_bytes;
        for (zone, written) in host.flash.written.iter().enumerate() {
            let begin = host.flash.begin + zone as u64 * zone_bytes;
            if *written == 0 {
                assert_eq!(host.lies_on(|flash| flash.unreadable.push(begin)), Some(false));
                zones += 1;
            }
        }
    }
    assert!(zones > 100, "only {zones} zones were empty");
}
