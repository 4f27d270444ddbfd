#![allow(clippy::unwrap_used)]

use super::*;

const SECTOR: usize = SECTOR_BYTES as usize;

/// The sectors of a device as numbers: the first byte of each, after checking that the whole sector is
/// uniform.
fn sectors(device: &MemoryDevice) -> Vec<u8> {
    device.inspect(|image| {
        let uniform = |sector: &[u8]| sector.iter().all(|byte| *byte == sector[0]);
        assert!(image.chunks(SECTOR).all(uniform), "a sector is torn within");
        image.chunks(SECTOR).map(|sector| sector[0]).collect()
    })
}

fn write(device: &MemoryDevice, sector: usize, count: usize, value: u8) {
    device.write_at(&vec![value; count * SECTOR], (sector * SECTOR) as u64).unwrap();
}

#[test]
fn flushed_writes_survive_every_cut() {
    for seed in 0..500 {
        let device = MemoryDevice::new(64 * SECTOR_BYTES);
        write(&device, 3, 8, 1);
        write(&device, 5, 2, 2);
        device.flush().unwrap();
        assert_eq!(device.unflushed(), 0);
        device.power_cut(seed);
        assert_eq!(sectors(&device)[3..11], [1, 1, 2, 2, 1, 1, 1, 1]);
    }
}

/// Runs random writes and flushes beside a plain list of what each sector ever held, and cuts.
#[test]
fn after_a_cut_each_sector_holds_something_it_held_since_the_flush() {
    let mut report = CutReport::default();
    for seed in 0..2000 {
        let mut random = Random::new(seed);
        let device = MemoryDevice::new(32 * SECTOR_BYTES);
        let mut possible: Vec<Vec<u8>> = vec![vec![0]; 32];
        for value in 1..=random.between(1, 40) as u8 {
            if random.chance(1, 8) {
                device.flush().unwrap();
                possible.iter_mut().for_each(|held| *held = vec![*held.last().unwrap()]);
                continue;
            }
            let sector = random.below(32) as usize;
            let count = random.between(1, 32 - sector as u64) as usize;
            write(&device, sector, count, value);
            possible[sector..sector + count].iter_mut().for_each(|held| held.push(value));
            assert_eq!(
                sectors(&device),
                possible.iter().map(|held| *held.last().unwrap()).collect::<Vec<_>>()
            );
        }
        let cut = device.power_cut(seed);
        for (sector, value) in sectors(&device).iter().enumerate() {
            assert!(possible[sector].contains(value), "seed {seed}: sector {sector} holds {value}");
        }
        report.kept += cut.kept;
        report.lost += cut.lost;
        report.torn += cut.torn;
    }
    assert!(report.kept > 1000 && report.lost > 1000 && report.torn > 500, "{report:?}");
}

#[test]
fn a_later_write_may_survive_an_earlier_one_and_any_of_two_alone() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..400 {
        let device = MemoryDevice::new(2 * SECTOR_BYTES);
        write(&device, 0, 1, 1);
        write(&device, 1, 1, 2);
        device.power_cut(seed);
        seen.insert(sectors(&device));
    }
    assert_eq!(seen.len(), 4, "{seen:?}");
}

#[test]
fn a_write_that_is_cut_may_be_there_whole_in_part_or_not_at_all() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..400 {
        let device = MemoryDevice::new(2 * SECTOR_BYTES);
        device.power().crash_after(1);
        let error = device.write_at(&[7; 2 * SECTOR], 0).unwrap_err();
        assert_eq!(error.kind(), DeviceErrorKind::PoweredOff);
        assert_eq!(device.flush().unwrap_err().kind(), DeviceErrorKind::PoweredOff);
        device.power_cut(seed);
        device.power().restore();
        seen.insert(sectors(&device));
    }
    assert_eq!(seen.len(), 4, "{seen:?}");
}

#[test]
fn a_flush_covers_nothing_of_its_own_batch() {
    let mut lost = 0;
    for seed in 0..100 {
        let device = MemoryDevice::new(2 * SECTOR_BYTES);
        write(&device, 0, 1, 1);
        let (offset, buf) = (SECTOR_BYTES, [2; SECTOR]);
        let results = device.run(&mut [Request::write(&buf, offset), Request::Flush]);
        assert!(results.iter().all(Result::is_ok));
        assert_eq!(device.unflushed(), 1);
        device.power_cut(seed);
        assert_eq!(sectors(&device)[0], 1);
        lost += usize::from(sectors(&device)[1] == 0);
    }
    assert!(lost > 10);
}

#[test]
fn power_that_fails_inside_a_batch_leaves_its_other_writes_in_doubt() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..400 {
        let device = MemoryDevice::new(2 * SECTOR_BYTES);
        device.power().crash_after(1);
        let (first, second) = ([1; SECTOR], [2; SECTOR]);
        let results = device.run(&mut [Request::write(&first, 0), Request::write(&second, SECTOR_BYTES)]);
        assert!(results.iter().all(Result::is_err));
        device.power_cut(seed);
        seen.insert(sectors(&device));
    }
    assert_eq!(seen.len(), 4, "{seen:?}");
}

#[test]
fn devices_on_one_supply_lose_power_at_the_same_operation() {
    let power = Power::new();
    let first = MemoryDevice::on(&power, "first", 4096, false);
    let second = MemoryDevice::on(&power, "second", 4096, false);
    power.crash_after(2);
    first.write_at(&[1; 512], 0).unwrap();
    second.write_at(&[1; 512], 0).unwrap_err();
    let error = first.read_at(&mut [0; 512], 0).unwrap_err();
    assert_eq!((error.kind(), error.device()), (DeviceErrorKind::PoweredOff, "first"));
}

/// A file shrinks and grows again: what was cut off comes back only together with the old length.
#[test]
fn lengths_survive_in_order_and_a_kept_truncation_stays_empty() {
    let (mut old, mut short, mut long) = (0, 0, 0);
    for seed in 0..1000 {
        let device = MemoryDevice::file(0);
        write(&device, 0, 8, 1);
        device.flush().unwrap();
        device.set_len(2 * SECTOR_BYTES).unwrap();
        device.set_len(12 * SECTOR_BYTES).unwrap();
        write(&device, 6, 1, 2);
        device.power_cut(seed);
        let held = sectors(&device);
        assert_eq!(held[..2], [1, 1]);
        match held.len() {
            8 => {
                assert!(held[2..].iter().all(|value| *value == 1), "seed {seed}: {held:?}");
                old += 1;
            }
            2 => short += 1,
            12 => {
                let zero_or_rewritten = |at: usize| held[at] == 0 || (at == 6 && held[at] == 2);
                assert!((2..12).all(zero_or_rewritten), "seed {seed}: {held:?}");
                long += 1;
            }
            other => panic!("seed {seed}: the file has {other} sectors"),
        }
    }
    assert!(old > 50 && short > 50 && long > 50, "{old} {short} {long}");
}

#[test]
fn a_file_grows_with_writes_and_a_drive_does_not() {
    let file = MemoryDevice::file(0);
    file.write_at(&[1; 100], 1000).unwrap();
    assert_eq!(file.len(), 1100);
    let mut head = [9; 1000];
    file.read_at(&mut head, 0).unwrap();
    assert_eq!(head, [0; 1000]);
    assert_eq!(file.read_at(&mut [0; 2], 1099).unwrap_err().kind(), DeviceErrorKind::UnexpectedEnd);
    let drive = MemoryDevice::new(1024);
    assert_eq!(drive.write_at(&[1; 100], 1000).unwrap_err().kind(), DeviceErrorKind::OutOfRange);
    assert_eq!(drive.set_len(2048).unwrap_err().kind(), DeviceErrorKind::Unsupported);
}

#[test]
fn a_failed_flush_makes_nothing_durable_and_latches() {
    let device = MemoryDevice::new(1024);
    let fault = Fault::Error(DeviceErrorKind::Io);
    device.inject(Injection { operation: Operation::Flush, after: 1, count: 1, fault });
    device.flush().unwrap();
    write(&device, 0, 1, 1);
    assert_eq!(device.flush().unwrap_err().kind(), DeviceErrorKind::Io);
    assert_eq!(device.flush().unwrap_err().kind(), DeviceErrorKind::FlushFailed);
    assert_eq!(device.write_at(&[1], 0).unwrap_err().kind(), DeviceErrorKind::FlushFailed);
    assert_eq!(device.unflushed(), 1);
    let mut buf = [0; 1];
    device.read_at(&mut buf, 0).unwrap();
    assert_eq!(buf, [1]);
    device.power_cut(0);
    device.flush().unwrap();
}

#[test]
fn injected_errors_strike_the_nth_operation_or_all_from_then_on() {
    let device = MemoryDevice::new(4096);
    let full = Fault::Error(DeviceErrorKind::NoSpace);
    device.inject(Injection { operation: Operation::Write, after: 2, count: u64::MAX, fault: full });
    let broken = Fault::Error(DeviceErrorKind::Io);
    device.inject(Injection { operation: Operation::Read, after: 0, count: 1, fault: broken });
    assert_eq!(device.read_at(&mut [0], 0).unwrap_err().kind(), DeviceErrorKind::Io);
    device.read_at(&mut [0], 0).unwrap();
    device.write_at(&[1], 0).unwrap();
    device.write_at(&[1], 0).unwrap();
    for _ in 0..3 {
        assert_eq!(device.write_at(&[1], 0).unwrap_err().kind(), DeviceErrorKind::NoSpace);
    }
    device.heal();
    device.write_at(&[1], 0).unwrap();
}

#[test]
fn silent_faults_do_what_they_say_and_report_success() {
    let device = MemoryDevice::new(64 * SECTOR_BYTES);
    device.reset(64 * SECTOR_BYTES, 5);
    let strike = |operation, fault| device.inject(Injection { operation, after: 0, count: 1, fault });

    strike(Operation::Write, Fault::Lie);
    write(&device, 0, 1, 1);
    assert_eq!(sectors(&device)[0], 0);

    strike(Operation::Write, Fault::Misdirect);
    write(&device, 0, 1, 2);
    let held = sectors(&device);
    assert_eq!((held[0], held.iter().filter(|value| **value == 2).count()), (0, 1));

    strike(Operation::Flush, Fault::Lie);
    device.flush().unwrap();
    assert_eq!(device.unflushed(), 1);

    strike(Operation::Read, Fault::FlipBit);
    let mut buf = [0; SECTOR];
    device.read_at(&mut buf, 0).unwrap();
    assert_eq!(buf.iter().map(|byte| byte.count_ones()).sum::<u32>(), 1);
    device.read_at(&mut buf, 0).unwrap();
    assert_eq!(buf, [0; SECTOR]);

    strike(Operation::Write, Fault::FlipBit);
    device.write_at(&[0; SECTOR], 0).unwrap();
    device.read_at(&mut buf, 0).unwrap();
    assert_eq!(buf.iter().map(|byte| byte.count_ones()).sum::<u32>(), 1);

    device.write_at(&[0; SECTOR], 0).unwrap();
    device.flip_bit(9);
    assert_eq!(device.image()[..3], [0, 2, 0]);
}

#[test]
fn a_discard_leaves_old_bytes_or_zeros() {
    let device = MemoryDevice::new(8 * SECTOR_BYTES);
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..50 {
        write(&device, 0, 8, 3);
        device.discard(2 * SECTOR_BYTES, SECTOR_BYTES).unwrap();
        let held = sectors(&device);
        assert_eq!([held[1], held[3]], [3, 3]);
        seen.insert(held[2]);
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [0, 3]);
}

#[test]
fn a_promise_of_atomic_writes_is_kept() {
    let device = MemoryDevice::new(32 * SECTOR_BYTES);
    device.set_atomic_write(8 * SECTOR_BYTES);
    assert_eq!(u64::from(device.capabilities().atomic_write), 8 * SECTOR_BYTES);
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..50 {
        device.load(&[0; 32 * SECTOR]);
        write(&device, 0, 16, 7);
        device.power_cut(seed);
        let held = sectors(&device);
        for piece in held.chunks(8) {
            assert!(piece.iter().all(|sector| *sector == piece[0]), "{held:?}");
        }
        seen.insert((held[0], held[8]));
    }
    assert!(
        seen.contains(&(7, 0)) && seen.contains(&(0, 7)),
        "a write of two pieces is torn between them: {seen:?}"
    );
}

#[test]
fn the_window_lists_what_a_cut_may_undo_and_any_choice_can_be_made() {
    let device = MemoryDevice::file(0);
    write(&device, 0, 2, 1);
    device.flush().unwrap();
    write(&device, 0, 2, 2);
    write(&device, 2, 2, 3);
    let window = device.window();
    let listed: Vec<_> = window.iter().map(|change| (change.offset, change.len, change.resizes)).collect();
    assert_eq!(listed, [(0, 2 * SECTOR_BYTES, false), (2 * SECTOR_BYTES, 2 * SECTOR_BYTES, true)]);
    assert_eq!(window[1].number, window[0].number + 1);
    let (kept, lost, tail) = (Fate::Kept, Fate::Lost, Fate::Torn(0b10));
    for (fates, resizes, expected) in [
        ([lost, lost], 0, &[1, 1][..]),
        ([kept, lost], 0, &[2, 2]),
        ([lost, kept], 1, &[1, 1, 3, 3]),
        // The length was journalled and the bytes never came.
        ([lost, lost], 1, &[1, 1, 0, 0]),
        // The bytes came and the length was never journalled.
        ([tail, kept], 0, &[1, 2]),
        ([kept, tail], 1, &[2, 2, 0, 3]),
    ] {
        let copy = MemoryDevice::file(0);
        copy.copy_from(&device);
        copy.power_cut_as(&Survival { fates: fates.to_vec(), resizes });
        assert_eq!(sectors(&copy), expected, "{fates:?} {resizes}");
    }
    assert_eq!(device.unflushed(), 2, "the original is untouched");
}

#[test]
fn bad_places_outlive_cuts_and_only_some_are_healed_by_a_write() {
    let device = MemoryDevice::new(16 * SECTOR_BYTES);
    write(&device, 0, 16, 7);
    device.flush().unwrap();
    device.spoil(2 * SECTOR_BYTES, SECTOR_BYTES, Bad::Unreadable);
    device.spoil(6 * SECTOR_BYTES, 2 * SECTOR_BYTES, Bad::UnreadableUntilWritten);
    device.spoil(12 * SECTOR_BYTES, SECTOR_BYTES, Bad::Garbled);
    let read = |sector: u64, count: usize| {
        let mut found = vec![0; count * SECTOR];
        device.read_at(&mut found, sector * SECTOR_BYTES).map(|()| found).map_err(|error| error.kind())
    };
    for round in 0..3 {
        assert_eq!(read(0, 4), Err(DeviceErrorKind::Io), "a read over a bad sector fails as a whole");
        assert_eq!(read(2, 1), Err(DeviceErrorKind::Io));
        assert_eq!(read(0, 2), Ok(vec![7; 2 * SECTOR]), "its neighbours can be read");
        let after = if round < 1 { Err(DeviceErrorKind::Io) } else { Ok(vec![9; SECTOR]) };
        assert_eq!(read(6, 1), after);
        assert_eq!(read(7, 1), Err(DeviceErrorKind::Io), "the other half was not written");
        assert!(read(12, 1).unwrap().iter().all(|&byte| byte != 7 && byte != 9));
        write(&device, 2, 1, 9);
        write(&device, 6, 1, 9);
        write(&device, 12, 1, 9);
        device.flush().unwrap();
        device.power_cut(round);
    }
    let copy = MemoryDevice::new(1);
    copy.copy_from(&device);
    assert!(copy.read_at(&mut [0; 8], 2 * SECTOR_BYTES).is_err(), "a copy of the drive is as bad");
    device.heal();
    assert_eq!(read(2, 1), Ok(vec![9; SECTOR]));
}

/// A cache of a bounded size: what is older is durable, and what a cut takes back is what there was.
#[test]
fn a_drained_cache_loses_nothing_that_is_older_than_what_it_holds() {
    const SECTORS: u64 = 64;
    let (mut lost, mut older_kept) = (0, 0);
    for seed in 0..200 {
        let device = MemoryDevice::new(SECTORS * SECTOR_BYTES);
        let mut random = Random::new(seed);
        // The first version of each is what a new device has.
        let mut written = vec![vec![0]; SECTORS as usize];
        for number in 1..=300u64 {
            let (sector, sectors) = (random.below(SECTORS - 2), random.between(1, 2));
            let bytes = number.to_le_bytes().repeat((sectors * SECTOR_BYTES / 8) as usize);
            device.write_at(&bytes, sector * SECTOR_BYTES).unwrap();
            (sector..sector + sectors).for_each(|sector| written[sector as usize].push(number));
            device.drain_cache(16 * SECTOR_BYTES);
            assert!(device.unflushed() <= 16);
        }
        device.power_cut(seed);
        let image = device.image();
        for (sector, numbers) in written.iter().enumerate() {
            let at = sector * SECTOR_BYTES as usize;
            let found = u64::from_le_bytes(image[at..at + 8].try_into().unwrap());
            let place = numbers.iter().position(|&number| number == found).expect("some version");
            // Each change has a sector at least, so 16 of them are not durable at most.
            let next = numbers.get(place + 1);
            assert!(next.is_none_or(|&next| next > 300 - 16), "seed {seed}, sector {sector}");
            lost += u64::from(next.is_some());
            older_kept += u64::from(next.is_none());
        }
    }
    assert!(lost > 100 && older_kept > 1000, "{lost}, {older_kept}");
}
