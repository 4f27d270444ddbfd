//! What a failing device does to a volume (invariant 11).

#![allow(clippy::unwrap_used)]

mod common;

use common::{Backing, Model, PAGE, durable, formatted, open, page, random_operations, through};
use mezzanine_device::DeviceErrorKind;
use mezzanine_device::memory::{Fault, Injection, MemoryDevice, Operation, Random};
use mezzanine_volume::{SidecarStore, Volume, VolumeErrorKind, VolumeState};

fn fail(device: &MemoryDevice, operation: Operation, after: u64, kind: DeviceErrorKind) {
    device.inject(Injection { operation, after, count: u64::MAX, fault: Fault::Error(kind) });
}

#[test]
fn flash_that_cannot_be_written_is_given_up_and_nothing_is_lost() {
    for (seed, guard) in [(1, false), (2, true), (3, true)] {
        for config in [durable(), through()] {
            let flash = formatted(&config);
            let backing = if guard { Backing::guarded("a") } else { Backing::new("a") };
            let volume = open(&flash, &config);
            let file = backing.attach(&volume).unwrap();
            let mut model = Model::default();
            let mut random = Random::new(seed);
            random_operations(&file, &mut model, &mut random, 150, 150);
            fail(&flash, Operation::Write, random.below(9), DeviceErrorKind::NoSpace);
            random_operations(&file, &mut model, &mut random, 300, 150);
            let VolumeState::Bypass { reason } = volume.state() else { panic!("{:?}", volume.state()) };
            assert!(reason.contains("simulated drive") && reason.contains("space"), "{reason}");
            model.check(&file);
            file.sync().unwrap();
            backing.disk.inspect(|disk| assert!(disk == model.bytes, "the disk is not current"));
            volume.close().unwrap();
            // The old pages on flash are never believed again.
            flash.heal();
            backing.disk.load(&vec![9; 5 * PAGE]);
            let volume = open(&flash, &config);
            let file = backing.attach(&volume).unwrap();
            let mut found = vec![0; 5 * PAGE];
            file.read_at(&mut found, 0).unwrap();
            assert!(found.iter().all(|&byte| byte == 9));
            file.write_at(&page(1, 1), 0).unwrap();
            volume.close_drained().unwrap();
        }
    }
}

#[test]
fn after_a_failed_flash_flush_a_durable_volume_is_read_only() {
    let flash = formatted(&durable());
    let backing = Backing::new("a");
    let volume = open(&flash, &durable());
    let file = backing.attach(&volume).unwrap();
    file.write_at(&page(0, 1), 0).unwrap();
    file.sync().unwrap();
    file.write_at(&page(0, 2), 0).unwrap();
    fail(&flash, Operation::Flush, 0, DeviceErrorKind::Io);
    assert_eq!(file.sync().unwrap_err().kind(), VolumeErrorKind::ReadOnly);
    assert!(matches!(volume.state(), VolumeState::ReadOnly { .. }));
    assert_eq!(file.write_at(&page(0, 3), 0).unwrap_err().kind(), VolumeErrorKind::ReadOnly);
    assert_eq!(file.sync().unwrap_err().kind(), VolumeErrorKind::ReadOnly, "it is not retried");
    let mut found = vec![0; PAGE];
    file.read_at(&mut found, 0).unwrap();
    assert!(found == page(0, 2));
    assert!(volume.close().is_err());
    flash.heal();
    flash.power_cut(5);
    let volume = open(&flash, &durable());
    backing.attach(&volume).unwrap().read_at(&mut found, 0).unwrap();
    assert!(found == page(0, 1) || found == page(0, 2));
}

#[test]
fn after_a_failed_flash_flush_a_through_volume_goes_on_without() {
    let flash = formatted(&through());
    let backing = Backing::new("a");
    let volume = open(&flash, &through());
    let file = backing.attach(&volume).unwrap();
    let mut model = Model::default();
    let mut random = Random::new(4);
    random_operations(&file, &mut model, &mut random, 50, 150);
    fail(&flash, Operation::Flush, 0, DeviceErrorKind::Io);
    random_operations(&file, &mut model, &mut random, 300, 150);
    assert!(matches!(volume.state(), VolumeState::Bypass { .. }));
    model.check(&file);
    file.sync().unwrap();
    backing.disk.inspect(|disk| assert!(disk == model.bytes));
}

#[test]
fn a_disk_that_fails_in_stage_out_makes_the_volume_read_only() {
    for operation in [Operation::Write, Operation::Flush] {
        let flash = formatted(&durable());
        let backing = Backing::new("a");
        let volume = open(&flash, &durable());
        let file = backing.attach(&volume).unwrap();
        file.write_at(&page(0, 1), 0).unwrap();
        file.sync().unwrap();
        fail(&backing.disk, operation, 0, DeviceErrorKind::NoSpace);
        let failed =
            (1..1000).find_map(|n| file.write_at(&page(n, 1), n * PAGE as u64).err().map(|e| (n, e)));
        let (last, error) = failed.expect("the queue is smaller than this");
        assert_eq!(error.kind(), VolumeErrorKind::ReadOnly);
        assert!(error.to_string().contains('a'), "{error}");
        for n in 0..last {
            let mut found = vec![0; PAGE];
            file.read_at(&mut found, n * PAGE as u64).unwrap();
            assert!(found == page(n, 1), "page {n}");
        }
    }
}

#[test]
fn a_rotten_clean_page_comes_from_disk_and_a_rotten_dirty_one_is_an_error() {
    for (config, lost) in [(through(), false), (durable(), true)] {
        let flash = formatted(&config);
        let backing = Backing::new("a");
        let volume = open(&flash, &config);
        let file = backing.attach(&volume).unwrap();
        // Enough pages that the first ones have left staging memory.
        let pages: Vec<u8> = (0..40).flat_map(|n| page(n, 1)).collect();
        file.write_at(&pages, 0).unwrap();
        volume.drain().unwrap();
        // Disk has an older version of it, if flash is not expendable.
        file.write_at(&page(5, 3), 5 * PAGE as u64).unwrap();
        file.write_at(&pages[20 * PAGE..], 20 * PAGE as u64).unwrap();
        file.sync().unwrap();
        // Page 5 rots on flash, wherever it lies.
        let needle = page(5, 3);
        let image = flash.image();
        for at in (0..image.len() / PAGE).filter(|at| image[at * PAGE..(at + 1) * PAGE] == needle) {
            flash.flip_bit(8 * (at * PAGE + 1000) as u64);
        }
        let mut found = vec![0; PAGE];
        let read = file.read_at(&mut found, 5 * PAGE as u64);
        if lost {
            let error = read.unwrap_err();
            assert_eq!((error.kind(), error.offset()), (VolumeErrorKind::LostPage, Some(5 * PAGE as u64)));
            assert_eq!(error.subject(), "a");
            assert!(volume.statistics().pages_damaged > 0);
            // A new version heals it.
            file.write_at(&page(5, 2), 5 * PAGE as u64).unwrap();
            file.read_at(&mut found, 5 * PAGE as u64).unwrap();
            assert!(found == page(5, 2));
        } else {
            read.unwrap();
            assert!(found == needle && volume.statistics().pages_damaged > 0);
        }
    }
}

#[test]
fn a_failed_write_in_through_mode_is_reported_and_leaves_disk_and_tier_alike() {
    let flash = formatted(&through());
    let backing = Backing::new("a");
    let volume = open(&flash, &through());
    let file = backing.attach(&volume).unwrap();
    file.write_at(&page(0, 1), 0).unwrap();
    backing.disk.inject(Injection {
        operation: Operation::Write,
        after: 0,
        count: 1,
        fault: Fault::Error(DeviceErrorKind::NoSpace),
    });
    assert_eq!(file.write_at(&page(0, 2), 0).unwrap_err().kind(), VolumeErrorKind::NoSpace);
    let mut found = vec![0; PAGE];
    file.read_at(&mut found, 0).unwrap();
    backing.disk.inspect(|disk| assert!(disk == found, "the tier must not hide what the disk holds"));
    assert!(backing.sidecar.read().unwrap().is_none());
}

#[test]
fn a_damaged_tail_empties_a_clean_tier_and_refuses_a_dirty_one() {
    for (config, lost) in [(through(), false), (durable(), true)] {
        let flash = formatted(&config);
        let backing = Backing::new("a");
        let volume = open(&flash, &config);
        let file = backing.attach(&volume).unwrap();
        file.write_at(&page(5, 1), 5 * PAGE as u64).unwrap();
        volume.close().unwrap();
        let needle = page(5, 1);
        let image = flash.image();
        let at = (0..image.len() / PAGE).find(|at| image[at * PAGE..(at + 1) * PAGE] == needle).unwrap();
        flash.flip_bit(8 * (at * PAGE + 1000) as u64);
        if lost {
            let error = Volume::open(flash.clone(), config).err().unwrap();
            assert_eq!(error.kind(), VolumeErrorKind::Damaged);
            continue;
        }
        let volume = open(&flash, &config);
        assert!(volume.report().unwrap().recovery.discarded);
        let mut found = vec![0; PAGE];
        backing.attach(&volume).unwrap().read_at(&mut found, 5 * PAGE as u64).unwrap();
        assert!(found == needle);
    }
}

/// The system reports a failed sync once; the next one succeeds and what was lost stays lost.
#[test]
fn after_a_failed_sync_of_the_disk_neither_a_sync_nor_a_drain_succeeds() {
    for given_up in [false, true] {
        let config = through();
        let flash = formatted(&config);
        let backing = Backing::new("a");
        let volume = open(&flash, &config);
        let file = backing.attach(&volume).unwrap();
        file.write_at(&page(0, 1), 0).unwrap();
        file.sync().unwrap();
        if given_up {
            fail(&flash, Operation::Write, 0, DeviceErrorKind::Io);
            for version in 2..200 {
                file.write_at(&page(0, version), 0).unwrap();
            }
            assert!(matches!(volume.state(), VolumeState::Bypass { .. }), "{:?}", volume.state());
        }
        file.write_at(&page(0, 200), 0).unwrap();
        let once = Injection {
            operation: Operation::Flush,
            after: 0,
            count: 1,
            fault: Fault::Error(DeviceErrorKind::Io),
        };
        backing.disk.inject(once);
        assert!(file.sync().is_err());
        assert!(file.sync().is_err());
        assert_eq!(volume.drain().unwrap_err().kind(), VolumeErrorKind::ReadOnly, "given up: {given_up}");
        assert!(volume.close().is_err());
    }
}
