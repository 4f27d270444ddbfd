//! A queue that is a ring of zones (invariant 13), on flash that takes writes at write pointers alone.
#![allow(clippy::unwrap_used, missing_docs)]

mod damage;
mod host;

use host::{Host, ZONE_FRAMES, config, zones_of};
use mezzanine_engine::planted::{Bug, only_with};
use mezzanine_engine::{TierConfig, TierZones};

#[test]
fn zones_are_written_in_order_and_reset_when_their_turn_comes_round() {
    let mut host = Host::new(1, ZONE_FRAMES);
    let zones = host.flash.written.len() as u64;
    let mut version = 0;
    while host.flash.resets < 5 * zones {
        version += 1;
        assert!(host.write(version, false), "a full tier has a job");
        if version % 50 == 0 {
            assert!(host.sync());
            host.check();
        }
    }
    host = host.close();
    host.check();
    assert!(host.write(version + 1, false) && host.sync());
    host.check();
}

#[test]
fn a_queue_goes_on_after_crashes_whether_or_not_the_device_tells_where() {
    for tells in [true, false] {
        let (mut host, mut version) = (Host::new(2, ZONE_FRAMES), 0);
        host.flash.tells = tells;
        for round in 0..120 {
            for _ in 0..20 + round % 17 {
                version += 1;
                assert!(host.write(version, false), "a full tier has a job");
                if version % 23 == 0 {
                    assert!(host.sync());
                }
            }
            host = if round % 5 == 4 { host.close() } else { host.crash() };
        }
        assert!(host.flash.resets > 3 * host.flash.written.len() as u64, "the queue came round");
    }
}

/// Writes until nothing is done any more but what writes to flash, again and again, with what makes room in
/// between, and looks at every page each time.
fn holds_what_it_has_not_left() -> bool {
    let (mut host, mut version) = (Host::new(4, 29), 0);
    for _ in 0..300 {
        for _ in 0..3 {
            host.step(false);
        }
        loop {
            version += 1;
            if !host.write(version, true) {
                break;
            }
        }
        host.synced = host.now.clone();
        if host.wrong().is_some() {
            return false;
        }
    }
    true
}

#[test]
fn a_zone_is_reset_when_all_of_it_has_left() {
    only_with(&[Bug::ZoneReusedInPart], holds_what_it_has_not_left);
}

/// Crashes whenever the queue is as full as it gets, and then uses the tier as if nothing had been.
fn survives_crashes_when_full() -> bool {
    // What is kept for other reasons does not fill a zone.
    let (mut host, mut version) = (Host::new(3, 29), 0);
    // So that each crash costs the rest of a zone.
    host.flash.tells = false;
    for _ in 0..6 {
        // Nobody carries out what would make room.
        loop {
            version += 1;
            if !host.write(version, true) {
                break;
            }
        }
        host = host.crash();
    }
    (0..400).all(|more| host.write(version + more, false)) && host.sync()
}

#[test]
fn crashes_of_a_full_queue_leave_a_zone_to_go_on_in() {
    only_with(&[Bug::LastZoneTaken], survives_crashes_when_full);
}

/// What a damaged superblock may say.
#[test]
fn zones_without_end_are_refused() {
    let zones = TierZones { zone_bytes: 1 << 40, ..zones_of(24) };
    let config = TierConfig { frames: 24 << 23, ..config(24) }.on_zones(zones);
    let error = config.geometry().unwrap_err().to_string();
    assert!(error.contains("more than 2^62"), "{error}");
    let config = TierConfig { frames: 24 << 26, ..config }.on_zones(zones);
    assert!(config.geometry().is_err());
}
