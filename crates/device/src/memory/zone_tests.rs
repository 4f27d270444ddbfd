//! What a device with zones takes, and what a power cut leaves of it.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use super::*;
use crate::zones::{ZoneBegun, finish_all_but, reset_active, reset_and_write, write_pointer};

const ZONES: Zones =
    Zones { zone_len: 8192, zone_capacity: 6144, count: 4, conventional: 1, open_max: 0, active_max: 0 };
/// That a zone is begun, and the one before it left.
const fn begun(zone: u64) -> ZoneBegun {
    ZoneBegun { zone, left: zone.checked_sub(ZONES.zone_len) }
}

const SECTOR: usize = SECTOR_BYTES as usize;
/// The first sequential zone.
const ZONE: u64 = ZONES.zone_len;

fn device() -> MemoryDevice {
    MemoryDevice::zoned(&Power::new(), "a zoned drive", ZONES)
}

fn sectors(count: usize, byte: u8) -> Vec<u8> {
    vec![byte; count * SECTOR]
}

fn kind<T>(result: Result<T, DeviceError>) -> DeviceErrorKind {
    result.map(|_| ()).unwrap_err().kind()
}

/// The first byte of each sector of a zone.
fn heads(device: &MemoryDevice, zone: u64) -> Vec<u8> {
    device.image()[zone as usize..]
        .chunks(SECTOR)
        .take(ZONES.zone_capacity as usize / SECTOR)
        .map(|s| s[0])
        .collect()
}

#[test]
fn what_begins_a_conventional_zone_is_written_over_what_is_there() {
    let device = device();
    for byte in [1, 2] {
        let bytes = sectors(2, byte);
        reset_and_write(&device, [begun(0), begun(ZONE)], [(0, &bytes[..]), (ZONE, &bytes[..])]).unwrap();
        assert_eq!(heads(&device, 0)[..3], [byte, byte, 0]);
        assert_eq!(heads(&device, ZONE)[..3], [byte, byte, 0]);
    }
    assert_eq!(write_pointer(&device, 0), None);
    assert_eq!(write_pointer(&device, ZONE), Some(ZONE + 2 * SECTOR_BYTES));
    assert_eq!(write_pointer(&device, 4 * ZONE), None, "behind its end");
}

#[test]
fn a_zone_is_written_at_its_write_pointer_and_reset_as_a_whole() {
    let device = device();
    assert_eq!(device.capabilities().zones, Some(ZONES));
    device.write_at(&sectors(2, 1), ZONE).unwrap();
    assert_eq!(device.zone_at(ZONE + 700).unwrap().write_pointer(), ZONE + 2 * SECTOR_BYTES);
    for elsewhere in [ZONE, ZONE + SECTOR_BYTES, ZONE + 3 * SECTOR_BYTES, 2 * ZONE + SECTOR_BYTES] {
        assert_eq!(
            kind(device.write_at(&sectors(1, 9), elsewhere)),
            DeviceErrorKind::ZoneOrder,
            "{elsewhere}"
        );
    }
    assert_eq!(device.append(&sectors(3, 2), ZONE).unwrap(), ZONE + 2 * SECTOR_BYTES);
    assert_eq!(heads(&device, ZONE), [1, 1, 2, 2, 2, 0, 0, 0, 0, 0, 0, 0], "and zeros behind it");
    let too_long = device.write_at(&sectors(8, 3), ZONE + 5 * SECTOR_BYTES);
    assert_eq!(kind(too_long), DeviceErrorKind::ZoneOrder, "the capacity is 12 sectors");
    device.write_at(&sectors(7, 3), ZONE + 5 * SECTOR_BYTES).unwrap();
    assert_eq!(kind(device.append(&sectors(1, 4), ZONE)), DeviceErrorKind::ZoneOrder, "it is full");
    assert_eq!(kind(device.discard(ZONE, 512)), DeviceErrorKind::Unsupported);
    assert_eq!(
        kind(device.reset_zone(ZONE + SECTOR_BYTES)),
        DeviceErrorKind::ZoneOrder,
        "no zone begins there"
    );
    device.reset_zone(ZONE).unwrap();
    assert_eq!(device.zone_at(ZONE).unwrap().written, 0);
    assert_eq!(heads(&device, ZONE), [0; 12]);
    device.write_at(&sectors(1, 5), ZONE).unwrap();
    // The conventional zone is written anywhere.
    device.write_at(&sectors(1, 6), 3 * SECTOR_BYTES).unwrap();
    device.write_at(&sectors(1, 7), 0).unwrap();
    assert_eq!(kind(device.reset_zone(0)), DeviceErrorKind::ZoneOrder);
}

#[test]
fn devices_without_zones_say_so_and_what_to_do() {
    let device = MemoryDevice::new(8192);
    for error in [device.reset_zone(0).unwrap_err(), device.append(&[0; 512], 0).unwrap_err()] {
        assert_eq!(error.kind(), DeviceErrorKind::Unsupported);
    }
    let error = Request::Reset { zone: 0 }.unsupported("a drive").to_string();
    assert!(error.contains("reset a zone of a drive") && error.contains("write over"), "{error}");
    assert_eq!(kind(device.zone_at(0)), DeviceErrorKind::Unsupported);
}

#[test]
fn a_cut_leaves_the_beginning_of_what_happened_to_a_zone() {
    let mut seen = BTreeSet::new();
    for seed in 0..400 {
        let device = device();
        device.write_at(&sectors(3, 1), ZONE).unwrap();
        device.flush().unwrap();
        device.reset_zone(ZONE).unwrap();
        device.write_at(&sectors(2, 2), ZONE).unwrap();
        device.write_at(&sectors(2, 3), ZONE + 2 * SECTOR_BYTES).unwrap();
        device.write_at(&sectors(1, 4), 2 * ZONE).unwrap();
        device.power_cut(seed);
        let held = heads(&device, ZONE);
        let written = (device.zone_at(ZONE).unwrap().written / SECTOR_BYTES) as usize;
        let whole: [&[u8]; 6] = [&[1, 1, 1], &[], &[2], &[2, 2], &[2, 2, 3], &[2, 2, 3, 3]];
        assert!(whole.contains(&&held[..written]), "seed {seed}: {held:?}, {written} written");
        assert!(held[written..].iter().all(|byte| *byte == 0), "seed {seed}: {held:?}, {written} written");
        seen.insert((held[..written].to_vec(), heads(&device, 2 * ZONE)[0]));
        // It goes on from there.
        device.append(&sectors(1, 5), ZONE).unwrap();
    }
    assert_eq!(seen.len(), 12, "each of them, with and without the other zone's write: {seen:?}");
}

#[test]
fn what_is_written_through_survives_and_nothing_else_has_to() {
    let mut lost = 0;
    for seed in 0..50 {
        let device = device();
        device.write_at(&sectors(1, 1), 0).unwrap();
        device.write_through(&sectors(1, 2), SECTOR_BYTES).unwrap();
        device.write_at(&sectors(1, 3), ZONE).unwrap();
        device.write_through(&sectors(1, 4), ZONE + SECTOR_BYTES).unwrap();
        device.power_cut(seed);
        assert_eq!(device.image()[SECTOR], 2);
        assert_eq!(heads(&device, ZONE)[..2], [3, 4], "a zone is durable from its beginning");
        lost += u32::from(device.image()[0] == 0);
    }
    assert!(lost > 5, "what was not written through was lost {lost} times");
}

#[test]
fn a_job_that_is_carried_out_again_goes_on_where_the_first_one_ended() {
    let job = |device: &MemoryDevice| {
        let (first, second) = (sectors(2, 7), sectors(3, 8));
        let place = ZONE + 10 * SECTOR_BYTES;
        reset_and_write(device, [begun(2 * ZONE)], [(place, &first[..]), (2 * ZONE, &second[..])])
    };
    for (before, there) in [(0, 0), (1, 0), (2, 2)] {
        let device = device();
        device.append(&sectors(10, 1), ZONE).unwrap();
        device.append(&sectors(5, 2), 2 * ZONE).unwrap();
        if before > 0 {
            device.append(&sectors(before, 7), ZONE).unwrap();
        }
        if there > 0 {
            device.reset_zone(2 * ZONE).unwrap();
            device.append(&sectors(there, 8), 2 * ZONE).unwrap();
        }
        job(&device).unwrap();
        job(&device).unwrap();
        assert_eq!(heads(&device, ZONE)[8..], [1, 1, 7, 7]);
        assert_eq!(heads(&device, 2 * ZONE)[..4], [8, 8, 8, 0]);
    }
}

#[test]
fn contents_in_another_slot_keep_their_write_pointers() {
    let (device, other) = (device(), device());
    device.append(&sectors(2, 1), ZONE).unwrap();
    other.put_back(&device.snapshot());
    assert_eq!(other.zone_at(ZONE).unwrap().written, 2 * SECTOR_BYTES);
    // Of bytes alone nobody knows.
    other.load(&device.image());
    assert_eq!(other.zone_at(ZONE).unwrap().written, ZONES.zone_capacity);
    assert_eq!(other.zone_at(2 * ZONE).unwrap().written, 0);
}

fn limited(open_max: u32, active_max: u32) -> MemoryDevice {
    MemoryDevice::zoned(
        &Power::new(),
        "a drive with limits",
        Zones { count: 8, open_max, active_max, ..ZONES },
    )
}

#[test]
fn no_more_zones_are_written_in_part_than_the_device_allows() {
    let device = limited(0, 2);
    device.append(&sectors(1, 1), ZONE).unwrap();
    device.append(&sectors(1, 2), 2 * ZONE).unwrap();
    let error = device.append(&sectors(1, 3), 3 * ZONE).unwrap_err();
    assert_eq!(error.kind(), DeviceErrorKind::ZoneLimit);
    assert!(error.to_string().contains("finish or reset"), "{error}");
    // Those that are begun go on, and one that is finished, full or empty counts no more.
    device.append(&sectors(1, 1), ZONE).unwrap();
    device.finish_zone(ZONE).unwrap();
    device.append(&sectors(1, 3), 3 * ZONE).unwrap();
    assert_eq!(kind(device.append(&sectors(1, 4), 4 * ZONE)), DeviceErrorKind::ZoneLimit);
    device.append(&sectors(11, 3), 3 * ZONE).unwrap();
    device.append(&sectors(1, 4), 4 * ZONE).unwrap();
    device.reset_zone(4 * ZONE).unwrap();
    device.append(&sectors(1, 5), 5 * ZONE).unwrap();
    // What was finished is there, and takes no more.
    assert_eq!(heads(&device, ZONE)[..3], [1, 1, 0]);
    assert_eq!(device.zone_at(ZONE).unwrap().written, ZONES.zone_capacity);
    assert_eq!(kind(device.append(&sectors(1, 6), ZONE)), DeviceErrorKind::ZoneOrder);
    assert_eq!(kind(device.finish_zone(0)), DeviceErrorKind::ZoneOrder);
    finish_all_but(&device, None, 2 * ZONE).unwrap();
    assert_eq!(device.zone_at(2 * ZONE).unwrap().written, SECTOR_BYTES, "it lies behind the end");
    finish_all_but(&device, Some(5 * ZONE), 8 * ZONE).unwrap();
    assert_eq!(device.zone_at(2 * ZONE).unwrap().written, ZONES.zone_capacity);
    assert_eq!(device.zone_at(5 * ZONE).unwrap().written, SECTOR_BYTES);
    let before = heads(&device, 5 * ZONE);
    reset_active(&device, 5 * ZONE).unwrap();
    assert_eq!(device.zone_at(5 * ZONE).unwrap().written, ZONES.zone_capacity, "behind the end it is full");
    assert_eq!(heads(&device, 5 * ZONE), before, "and has what it had");
    device.reset_zone(5 * ZONE).unwrap();
    device.append(&sectors(1, 5), 5 * ZONE).unwrap();
    reset_active(&device, 8 * ZONE).unwrap();
    assert_eq!(device.zone_at(5 * ZONE).unwrap().written, 0);
    assert_eq!(device.zone_at(2 * ZONE).unwrap().written, ZONES.zone_capacity);
}

#[test]
fn a_batch_is_under_way_in_no_more_zones_than_may_be_open() {
    let device = limited(1, 0);
    let bytes = sectors(1, 1);
    let mut places = [0; 3];
    let append = |(zone, at)| Request::Append { zone: zone * ZONE, buf: &bytes, at };
    let mut batch: Vec<_> = [1, 1, 2].into_iter().zip(&mut places).map(append).collect();
    let kinds: Vec<_> =
        device.run(&mut batch).into_iter().map(|result| result.map_err(|error| error.kind())).collect();
    assert_eq!(kinds, [Ok(()), Ok(()), Err(DeviceErrorKind::ZoneLimit)]);
    // One after the other they may be as many as there are.
    device.append(&bytes, 2 * ZONE).unwrap();
    let (first, second) = (sectors(10, 7), sectors(3, 8));
    reset_and_write(
        &device,
        [begun(3 * ZONE)],
        [(2 * ZONE + SECTOR_BYTES, &first[..]), (3 * ZONE, &second[..])],
    )
    .unwrap();
    assert_eq!(device.zone_at(2 * ZONE).unwrap().written, ZONES.zone_capacity, "it is finished");
    assert_eq!(heads(&device, 2 * ZONE), [1, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 0]);
}

#[test]
fn a_finish_that_is_not_flushed_happens_or_not_and_no_cut_leaves_more_zones_than_are_allowed() {
    let mut seen = BTreeSet::new();
    for seed in 0..200 {
        let device = limited(0, 2);
        device.append(&sectors(2, 1), ZONE).unwrap();
        device.flush().unwrap();
        device.finish_zone(ZONE).unwrap();
        for zone in 2..5 {
            device.append(&sectors(12, 2), zone * ZONE).unwrap();
        }
        device.power_cut(seed);
        let written: Vec<u64> =
            (1..5).map(|zone| device.zone_at(zone * ZONE).unwrap().written / SECTOR_BYTES).collect();
        assert!([2, 12].contains(&written[0]), "{written:?}");
        assert_eq!(heads(&device, ZONE)[..3], [1, 1, 0]);
        let active = written.iter().filter(|written| (1..12).contains(*written)).count();
        assert!(active <= 2, "{written:?}");
        seen.insert((written[0], active));
    }
    assert!(seen.len() >= 5, "{seen:?}");
}
