//! Reports as a kernel would write them, and such as none should.
#![allow(clippy::unwrap_used)]

use super::*;

const MIB: u64 = 1 << 20;

/// Type and condition, and start, length, write pointer and capacity in sectors.
#[derive(Clone, Copy)]
struct Raw {
    kind: u8,
    condition: u8,
    start: u64,
    len: u64,
    pointer: u64,
    capacity: u64,
}

/// A zone of 4 MiB of which 3 MiB can be written if it is a sequential one, with nothing in it.
fn raw(number: u64, kind: u8) -> Raw {
    let (start, len) = (number * 4 * MIB / SECTOR, 4 * MIB / SECTOR);
    let capacity = if kind == 1 { len } else { 3 * MIB / SECTOR };
    Raw { kind, condition: u8::from(kind != 1), start, len, pointer: start, capacity }
}

fn report(zones: &[Raw], flags: u32) -> Vec<u8> {
    let mut bytes = vec![0; HEADER_BYTES];
    bytes[8..12].copy_from_slice(&(zones.len() as u32).to_ne_bytes());
    bytes[12..16].copy_from_slice(&flags.to_ne_bytes());
    for zone in zones {
        let mut one = [0; ZONE_BYTES];
        for (at, word) in [(0, zone.start), (8, zone.len), (16, zone.pointer), (32, zone.capacity)] {
            one[at..at + 8].copy_from_slice(&word.to_ne_bytes());
        }
        (one[24], one[25]) = (zone.kind, zone.condition);
        bytes.extend(one);
    }
    bytes
}

fn zones_of(kinds: &[u8]) -> Vec<ReportedZone> {
    let zones: Vec<_> = kinds.iter().enumerate().map(|(number, kind)| raw(number as u64, *kind)).collect();
    parse(&report(&zones, HAS_CAPACITY)).unwrap()
}

#[test]
fn a_request_names_its_sector_and_its_number_of_zones() {
    let header = request(8 * MIB, 7);
    assert_eq!(u64_at(&header, 0), 8 * MIB / 512);
    assert_eq!((u32_at(&header, 8), u32_at(&header, 12)), (7, 0));
}

#[test]
fn a_zone_goes_on_where_its_condition_says() {
    let pointer = raw(1, 2).start + 24;
    let full = 3 * MIB;
    // Empty; open by itself, by request, closed; read-only, full and offline, with a pointer that is none.
    let cases = [(1, 0), (2, 24 * 512), (3, 24 * 512), (4, 24 * 512), (0xD, full), (0xE, full), (0xF, full)];
    for (condition, written) in cases {
        let pointer = if condition > 4 { u64::MAX } else { pointer };
        let zone = parse(&report(&[Raw { condition, pointer, ..raw(1, 2) }], HAS_CAPACITY)).unwrap()[0];
        assert_eq!(zone.written, written, "condition {condition}");
        let zone = zone.zone();
        assert_eq!(zone.write_pointer(), 4 * MIB + written);
        assert_eq!((zone.start, zone.capacity, zone.conventional), (4 * MIB, full, false));
    }
    // A conventional one has no pointer, whatever its report has in that place.
    let zone = parse(&report(&[Raw { pointer: u64::MAX, ..raw(0, 1) }], HAS_CAPACITY)).unwrap()[0].zone();
    assert_eq!((zone.conventional, zone.written, zone.capacity), (true, 0, 4 * MIB));
}

#[test]
fn without_capacities_a_zone_is_written_to_its_end() {
    // What lies in the place of the capacity is not one.
    let zone = parse(&report(&[Raw { capacity: 0, ..raw(0, 2) }], 0)).unwrap()[0];
    assert_eq!((zone.capacity, zone.len), (4 * MIB, 4 * MIB));
}

#[test]
fn a_report_that_contradicts_itself_is_refused() {
    let good = report(&[raw(0, 2)], HAS_CAPACITY);
    for len in [0, 15, HEADER_BYTES, good.len() - 1] {
        assert!(parse(&good[..len]).unwrap_err().to_string().contains("too few"), "{len} bytes");
    }
    let mut many = good.clone();
    many[8..12].copy_from_slice(&u32::MAX.to_ne_bytes());
    assert!(parse(&many).is_err());
    let zone = raw(3, 2);
    for (zone, word) in [
        (Raw { len: 0, ..zone }, "no length"),
        (Raw { start: u64::MAX, ..zone }, "no length"),
        (Raw { start: u64::MAX / 512, ..zone }, "beyond 2^64"),
        (Raw { capacity: 0, ..zone }, "room for 0"),
        (Raw { capacity: zone.len + 1, ..zone }, "room for 8193"),
        (Raw { kind: 4, ..zone }, "type 4"),
        (Raw { condition: 5, ..zone }, "condition 5"),
        (Raw { condition: 2, pointer: zone.start - 1, ..zone }, "goes on at sector"),
        (Raw { condition: 4, pointer: zone.start + zone.capacity + 1, ..zone }, "goes on at sector"),
    ] {
        let error = parse(&report(&[zone], HAS_CAPACITY)).unwrap_err().to_string();
        assert!(error.contains(word) && error.contains("kernel's log"), "{word}: {error}");
    }
}

#[test]
fn a_host_managed_device_has_the_geometry_of_its_sequential_zones() {
    let expected = Zones {
        zone_len: 4 * MIB,
        zone_capacity: 3 * MIB,
        count: 5,
        conventional: 2,
        open_max: 0,
        active_max: 0,
    };
    assert_eq!(geometry(&zones_of(&[1, 1, 2, 2, 2])), Ok(Some(expected)));
    // Conventional ones behind are left out, and so is a shorter one.
    assert_eq!(geometry(&zones_of(&[1, 1, 2, 2, 2, 1, 1])), Ok(Some(expected)));
    for kind in [1, 2] {
        let mut zones = zones_of(&[1, 1, 2, 2, 2, kind]);
        zones[5].len = MIB;
        zones[5].capacity = MIB;
        assert_eq!(geometry(&zones), Ok(Some(expected)));
    }
    let none = Zones { count: 2, conventional: 0, ..expected };
    assert_eq!(geometry(&zones_of(&[2, 2])), Ok(Some(none)));
}

#[test]
fn what_can_be_written_anywhere_has_no_zones() {
    // Host-aware, with and without conventional zones; nothing but these; no zones at all.
    for kinds in [&[3, 3, 3][..], &[1, 3, 3], &[1, 1], &[]] {
        assert_eq!(geometry(&zones_of(kinds)), Ok(None), "{kinds:?}");
    }
}

#[test]
fn zones_that_no_tier_could_use_are_refused() {
    let refused = |zones: &[ReportedZone]| geometry(zones).unwrap_err().to_string();
    let longer = {
        let mut zones = zones_of(&[1, 2, 2, 2]);
        zones[2].len *= 2;
        zones[3].start += 4 * MIB;
        refused(&zones)
    };
    assert!(longer.contains("zones of 4194304 and of 8388608 bytes are mixed"), "{longer}");
    let roomier = {
        let mut zones = zones_of(&[1, 2, 2, 2]);
        zones[2].capacity += 512;
        refused(&zones)
    };
    assert!(roomier.contains("room for 3145728 and for 3146240 bytes"), "{roomier}");
    let between = refused(&zones_of(&[1, 2, 1, 2]));
    assert!(between.contains("between sequential ones"), "{between}");
    let hole = {
        let mut zones = zones_of(&[1, 2, 2]);
        zones.remove(1);
        refused(&zones)
    };
    assert!(hole.contains("was to begin at byte 4194304"), "{hole}");
    let short = {
        let mut zones = zones_of(&[1, 2]);
        zones[1].len = MIB;
        zones[1].capacity = MIB;
        refused(&zones)
    };
    assert!(short.contains("no whole zone"), "{short}");
}
