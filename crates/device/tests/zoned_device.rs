//! A block device with zones, as the kernel has it. Which one says `MEZZANINE_ZONED_DEVICE`; what it holds is
//! lost. Without it the test says so and does nothing; `crates/device/zoned/run` has it run in a guest whose
//! kernel makes such devices in memory.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use mezzanine_device::zones::{ZoneBegun, finish_all_but, reset_and_write, write_pointer};
use mezzanine_device::{
    AlignedBuf, Capabilities, Device, DeviceError, DeviceErrorKind, DirectIo, FileDevice, IoEngine,
    OpenOptions, Request, Zones,
};

const BLOCK: u64 = 4096;

/// The device to write over; says why there is none.
fn named() -> Option<PathBuf> {
    let named = std::env::var_os("MEZZANINE_ZONED_DEVICE").map(PathBuf::from);
    if named.is_none() {
        println!(
            "skipped: MEZZANINE_ZONED_DEVICE names no zoned block device to write over; crates/device/zoned/run has one"
        );
    }
    named
}

fn open(path: &Path, engine: IoEngine) -> FileDevice {
    FileDevice::open(path, &OpenOptions { engine, ..OpenOptions::read_write() }).unwrap()
}

/// What the kernel has in a file of the device's queue.
fn queue(path: &Path, file: &str) -> u64 {
    let name = path.canonicalize().unwrap();
    let name = name.file_name().unwrap().to_str().unwrap().to_owned();
    std::fs::read_to_string(format!("/sys/block/{name}/queue/{file}")).unwrap().trim().parse().unwrap()
}

fn blocks(count: u64, byte: u8) -> AlignedBuf {
    let mut buf = AlignedBuf::zeroed((count * BLOCK) as usize);
    buf.fill(byte);
    buf
}

fn kind<T>(result: Result<T, DeviceError>) -> DeviceErrorKind {
    result.map(|_| ()).unwrap_err().kind()
}

/// What a device has where nothing is written: zeros, or ones.
fn assert_unwritten(heads: &[u8]) {
    assert!(heads.iter().all(|head| [0, 0xFF].contains(head)), "{heads:?}");
}

/// The first bytes of so many blocks.
fn heads(device: &FileDevice, offset: u64, count: u64) -> Vec<u8> {
    (0..count)
        .map(|block| {
            let mut bytes = [0xAA; 16];
            device.read_at(&mut bytes, offset + block * BLOCK).unwrap();
            assert!(bytes.iter().all(|byte| *byte == bytes[0]), "block {block}: {bytes:?}");
            bytes[0]
        })
        .collect()
}

fn zones(device: &FileDevice) -> Zones {
    device.capabilities().zones.expect("the device that is named has zones")
}

/// The start of a sequential zone, emptied.
fn emptied(device: &FileDevice, number: u64) -> u64 {
    let zones = zones(device);
    let start = (zones.conventional + number) * zones.zone_len;
    device.reset_zone(start).unwrap();
    start
}

/// One test, as there is one device.
#[test]
#[ignore = "writes over the zoned block device that MEZZANINE_ZONED_DEVICE names"]
fn a_zoned_block_device() {
    let Some(path) = named() else { return };
    its_zones_are_those_of_the_kernel(&path);
    let without_threads = [IoEngine::Sequential, IoEngine::RingOrSequential];
    for engine in [IoEngine::Auto, IoEngine::ThreadPool].into_iter().chain(without_threads) {
        let device = open(&path, engine);
        conventional_zones_are_written_anywhere(&device);
        a_zone_is_written_at_its_write_pointer_and_reset_as_a_whole(&device);
        a_batch_is_written_in_its_order(&device);
        a_job_may_be_repeated(&device);
        a_zone_that_is_finished_takes_no_more(&device);
    }
    no_more_zones_are_begun_than_the_device_allows(&open(&path, IoEngine::Auto));
    what_cannot_be_done_is_said(&path);
    let before = {
        let device = open(&path, IoEngine::Auto);
        let start = emptied(&device, 0);
        device.write_through(&blocks(3, 7), start).unwrap();
        device.zone_at(start).unwrap()
    };
    let device = open(&path, IoEngine::Auto);
    assert_eq!(device.zone_at(before.start).unwrap(), before, "a pointer outlives those who wrote");
    assert_eq!(before.written, 3 * BLOCK);
    emptied(&device, 0);
}

fn its_zones_are_those_of_the_kernel(path: &Path) {
    // To be read it need not be opened for direct I/O.
    let options = OpenOptions { direct: DirectIo::Never, ..OpenOptions::default() };
    let device = FileDevice::open(path, &options).unwrap();
    let Capabilities { zones, len, .. } = device.capabilities();
    let zones = zones.expect("the device that is named has zones");
    println!("{}: {zones:?}", path.display());
    assert_eq!(zones.zone_len, queue(path, "chunk_sectors") * 512);
    assert_eq!(zones.count, queue(path, "nr_zones"));
    assert_eq!(len, zones.count * zones.zone_len);
    let limits = [zones.open_max, zones.active_max].map(u64::from);
    assert_eq!(limits, [queue(path, "max_open_zones"), queue(path, "max_active_zones")]);
    assert!(zones.conventional > 0 && zones.count > zones.conventional + 2, "the test needs some of both");
    for number in 0..zones.count {
        let zone = device.zone_at(number * zones.zone_len + zones.zone_len - 1).unwrap();
        assert_eq!(zone.start, number * zones.zone_len);
        assert_eq!(zone.conventional, number < zones.conventional);
        let capacity = if zone.conventional { zones.zone_len } else { zones.zone_capacity };
        assert_eq!(zone.capacity, capacity);
    }
    assert_eq!(kind(device.zone_at(len)), DeviceErrorKind::OutOfRange);
    assert_eq!(kind(device.reset_zone(len - zones.zone_len)), DeviceErrorKind::ReadOnly);
}

fn conventional_zones_are_written_anywhere(device: &FileDevice) {
    let zones = zones(device);
    for byte in [1, 2] {
        device.write_at(&blocks(2, byte), BLOCK).unwrap();
        device.write_at(&blocks(1, byte + 2), 0).unwrap();
        assert_eq!(heads(device, 0, 3), [byte + 2, byte, byte]);
    }
    device.write_at(&[9; 100], 2 * BLOCK + 50).unwrap();
    let mut bytes = [0; 200];
    device.read_at(&mut bytes, 2 * BLOCK).unwrap();
    assert_eq!((bytes[49], bytes[50], bytes[149], bytes[150]), (2, 9, 9, 2));
    device.write_through(&blocks(1, 5), 0).unwrap();
    device.write_through(&[6; 10], 0).unwrap();
    device.read_at(&mut bytes, 0).unwrap();
    assert_eq!((bytes[9], bytes[10]), (6, 5));
    assert_eq!(write_pointer(device, 0), None);
    assert_eq!(kind(device.reset_zone(0)), DeviceErrorKind::ZoneOrder);
    let across = zones.conventional_len() - BLOCK;
    assert_eq!(kind(device.write_at(&blocks(2, 1), across)), DeviceErrorKind::ZoneOrder);
    device.flush().unwrap();
}

fn a_zone_is_written_at_its_write_pointer_and_reset_as_a_whole(device: &FileDevice) {
    let zones = zones(device);
    let zone = emptied(device, 0);
    assert_eq!(write_pointer(device, zone), Some(zone));
    device.write_at(&blocks(2, 1), zone).unwrap();
    assert_eq!(write_pointer(device, zone + 1), Some(zone + 2 * BLOCK));
    for elsewhere in [zone, zone + BLOCK, zone + 3 * BLOCK] {
        let error = device.write_at(&blocks(1, 9), elsewhere).unwrap_err();
        assert_eq!(error.kind(), DeviceErrorKind::ZoneOrder, "{error}");
        let error = device.run_one(Request::WriteThrough { offset: elsewhere, buf: &blocks(1, 9) });
        assert_eq!(kind(error), DeviceErrorKind::ZoneOrder);
    }
    // Nothing of that has been written, and the device still takes writes: of memory that is not aligned,
    // too.
    let memory = blocks(2, 2);
    device.write_at(&memory[8..8 + BLOCK as usize], zone + 2 * BLOCK).unwrap();
    device.write_at(&memory[512..512 + BLOCK as usize], zone + 3 * BLOCK).unwrap();
    assert_eq!(heads(device, zone, 4), [1, 1, 2, 2]);
    device.run_one(Request::WriteThrough { offset: zone + 4 * BLOCK, buf: &blocks(1, 3) }).unwrap();
    assert_eq!(heads(device, zone + 4 * BLOCK, 1), [3]);
    assert_unwritten(&heads(device, zone + 5 * BLOCK, 2));
    // Up to its capacity and no further.
    let end = zone + zones.zone_capacity;
    let left = (end - zone) / BLOCK - 5;
    assert_eq!(kind(device.write_at(&blocks(left + 1, 4), zone + 5 * BLOCK)), DeviceErrorKind::ZoneOrder);
    device.write_at(&blocks(left, 4), zone + 5 * BLOCK).unwrap();
    assert_eq!(write_pointer(device, zone), Some(end), "it is full");
    let error = device.write_at(&blocks(1, 9), zone).unwrap_err();
    assert_eq!(error.kind(), DeviceErrorKind::ZoneOrder);
    assert!(error.to_string().contains("full"), "{error}");
    device.flush().unwrap();
    assert_eq!(heads(device, end - BLOCK, 1), [4]);
    device.reset_zone(zone).unwrap();
    assert_eq!(write_pointer(device, zone), Some(zone));
    assert_unwritten(&heads(device, zone, 5));
    assert_unwritten(&heads(device, end - BLOCK, 1));
    for nowhere in [zone + BLOCK, zone + zones.zone_len - 512] {
        assert_eq!(kind(device.reset_zone(nowhere)), DeviceErrorKind::ZoneOrder);
    }
    assert_eq!(kind(device.reset_zone(device.len())), DeviceErrorKind::ZoneOrder);
}

/// As the groups of a tier are: some of one zone, some of the next, reads beside them.
fn a_batch_is_written_in_its_order(device: &FileDevice) {
    let zones = zones(device);
    let (first, second) = (emptied(device, 0), emptied(device, 1));
    let bufs: Vec<_> = (1..=24).map(|byte| blocks(2, byte)).collect();
    let mut read = vec![7; 100];
    let mut batch: Vec<Request<'_>> = Vec::new();
    for (number, buf) in bufs.iter().enumerate() {
        let zone = if number % 2 == 0 { first } else { second };
        batch.push(Request::write(buf, zone + number as u64 / 2 * 2 * BLOCK));
    }
    batch.push(Request::Read { offset: second + zones.zone_capacity - BLOCK, buf: &mut read });
    batch.push(Request::write(&bufs[0], 0));
    for result in device.run(&mut batch) {
        result.unwrap();
    }
    assert_unwritten(&read);
    let odd: Vec<u8> = (0..12).flat_map(|group| [2 * group + 1; 2]).collect();
    assert_eq!(heads(device, first, 25)[..24], odd);
    assert_eq!(heads(device, second, 2), [2, 2]);
    assert_eq!(device.zone_at(second).unwrap().written, 24 * BLOCK);
}

fn a_job_may_be_repeated(device: &FileDevice) {
    let zones = zones(device);
    let (first, second) = (emptied(device, 0), emptied(device, 1));
    let end = first + zones.zone_capacity;
    device.write_at(&blocks(zones.zone_capacity / BLOCK - 2, 1), first).unwrap();
    let bytes = blocks(2, 2);
    // The process that had it has written a part. The resets before it are carried out again.
    device.write_at(&bytes[..BLOCK as usize], end - 2 * BLOCK).unwrap();
    device.write_at(&blocks(5, 3), second).unwrap();
    for _ in 0..2 {
        let writes = [(end - 2 * BLOCK, &bytes[..]), (second, &bytes[..])];
        let begun = [(0, None), (second, Some(first))].map(|(zone, left)| ZoneBegun { zone, left });
        reset_and_write(device, begun, writes).unwrap();
        assert_eq!(heads(device, end - 3 * BLOCK, 3), [1, 2, 2]);
        assert_eq!(heads(device, second, 2), [2, 2]);
        assert_unwritten(&heads(device, second + 2 * BLOCK, 4));
    }
}

fn a_zone_that_is_finished_takes_no_more(device: &FileDevice) {
    let zones = zones(device);
    let zone = emptied(device, 0);
    device.write_at(&blocks(2, 5), zone).unwrap();
    device.finish_zone(zone).unwrap();
    assert_eq!(device.zone_at(zone).unwrap().written, zones.zone_capacity);
    assert_eq!(heads(device, zone, 2), [5, 5]);
    assert_eq!(kind(device.write_at(&blocks(1, 6), zone + 2 * BLOCK)), DeviceErrorKind::ZoneOrder);
    // Once more changes nothing.
    device.finish_zone(zone).unwrap();
    for nowhere in [0, zone + BLOCK] {
        assert_eq!(kind(device.finish_zone(nowhere)), DeviceErrorKind::ZoneOrder);
    }
    device.reset_zone(zone).unwrap();
    device.write_at(&blocks(1, 7), zone).unwrap();
    assert_eq!(heads(device, zone, 1), [7]);
}

/// Where there is a limit: one zone more is refused, and taken when another one is finished.
fn no_more_zones_are_begun_than_the_device_allows(device: &FileDevice) {
    let zones = zones(device);
    let (limit, sequential) = (u64::from(zones.active_max), zones.count - zones.conventional);
    // One of them may be read-only.
    if limit == 0 || limit + 2 > sequential {
        println!("it allows {limit} of {sequential} zones to be written in part");
        return;
    }
    let all: Vec<u64> = (0..=limit).map(|number| emptied(device, number)).collect();
    for zone in &all[..limit as usize] {
        device.write_at(&blocks(1, 1), *zone).unwrap();
    }
    let error = device.write_at(&blocks(1, 2), all[limit as usize]).unwrap_err();
    assert_eq!(error.kind(), DeviceErrorKind::ZoneLimit, "{error}");
    device.finish_zone(all[0]).unwrap();
    device.write_at(&blocks(1, 2), all[limit as usize]).unwrap();
    finish_all_but(device, Some(all[1]), device.len()).unwrap();
    let written = |zone: &u64| device.zone_at(*zone).unwrap().written;
    let full = zones.zone_capacity;
    assert_eq!((written(&all[0]), written(&all[1]), written(&all[limit as usize])), (full, BLOCK, full));
    all.iter().for_each(|zone| device.reset_zone(*zone).unwrap());
}

fn what_cannot_be_done_is_said(path: &Path) {
    let device = open(path, IoEngine::Auto);
    let zone = emptied(&device, 0);
    assert_eq!(kind(device.append(&blocks(1, 1), zone)), DeviceErrorKind::Unsupported);
    assert_eq!(
        kind(device.run_one(Request::Discard { offset: zone, len: BLOCK })),
        DeviceErrorKind::Unsupported
    );
    assert_eq!(kind(device.write_at(&[1; 100], zone)), DeviceErrorKind::Misaligned);
    assert_eq!(kind(device.set_len(1 << 30)), DeviceErrorKind::Unsupported);
    assert_eq!(write_pointer(&device, zone), Some(zone), "none of it has changed the zone");
    let options = OpenOptions { direct: DirectIo::Never, ..OpenOptions::read_write() };
    let error = FileDevice::open(path, &options).err().unwrap();
    assert_eq!(error.kind(), DeviceErrorKind::Unsupported);
    assert!(error.to_string().contains("direct I/O"), "{error}");
}
