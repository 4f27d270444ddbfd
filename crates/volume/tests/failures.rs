//! What a failing device does to a volume (invariant 11).

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use common::{Backing, Model, PAGE, durable, formatted, open, page, random_operations, through};
use mezzanine_device::DeviceErrorKind;
use mezzanine_device::memory::{Fault, Injection, MemoryDevice, Operation};
use mezzanine_ground::random::Random;
use mezzanine_volume::{SidecarStore, Volume, VolumeConfig, VolumeErrorKind, VolumeState};

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

/// A closed tier with one page, of which a bit is flipped: in the page, or in the summary before it.
fn closed_and_damaged(config: &VolumeConfig, in_summary: bool) -> (Arc<MemoryDevice>, Backing) {
    let flash = formatted(config);
    let backing = Backing::new("a");
    let volume = open(&flash, config);
    let file = backing.attach(&volume).unwrap();
    file.write_at(&page(5, 1), 5 * PAGE as u64).unwrap();
    volume.close().unwrap();
    let image = flash.image();
    let at = (0..image.len() / PAGE).find(|at| image[at * PAGE..(at + 1) * PAGE] == page(5, 1)).unwrap();
    let byte = if in_summary { (at - 1) * PAGE + 20 } else { at * PAGE + 1000 };
    flash.flip_bit(8 * byte as u64);
    (flash, backing)
}

fn read_5(volume: &Volume, backing: &Backing) -> Result<Vec<u8>, VolumeErrorKind> {
    let mut found = vec![0; PAGE];
    let read = backing.attach(volume).unwrap().read_at(&mut found, 5 * PAGE as u64);
    read.map(|()| found).map_err(|error| error.kind())
}

#[test]
fn a_damaged_tail_empties_a_clean_tier_and_refuses_a_dirty_one() {
    let (flash, _backing) = closed_and_damaged(&durable(), true);
    let error = Volume::open(flash, durable()).err().unwrap();
    assert_eq!(error.kind(), VolumeErrorKind::Damaged);
    let (flash, backing) = closed_and_damaged(&through(), true);
    let volume = open(&flash, &through());
    assert!(volume.report().unwrap().recovery.discarded);
    assert!(read_5(&volume, &backing) == Ok(page(5, 1)));
}

/// The page of a tier that was closed is there, or known to be lost.
#[test]
fn a_damaged_page_at_the_end_of_a_closed_tier_comes_from_disk_or_is_lost_alone() {
    for (config, expected) in [(through(), Ok(page(5, 1))), (durable(), Err(VolumeErrorKind::LostPage))] {
        let (flash, backing) = closed_and_damaged(&config, false);
        let volume = open(&flash, &config);
        assert!(!volume.report().unwrap().recovery.discarded);
        assert!(read_5(&volume, &backing) == expected);
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
