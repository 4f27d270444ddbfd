//! A flash device that cannot be used is refused with an error that names it, and nothing on it changes.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use common::one_file::{InUse, in_use, read};
use common::{Backing, PAGE, durable, flash_for, formatted, open, page, through};
use mezzanine_device::memory::{Bad, Fault, Injection, MemoryDevice, Operation};
use mezzanine_device::{DeviceErrorKind, DirectIo, FileDevice, OpenOptions};
use mezzanine_volume::{SyncMode, Volume, VolumeConfig, VolumeErrorKind, create_flash, open_flash};

fn kind_of_opening(flash: &Arc<MemoryDevice>, config: &VolumeConfig) -> VolumeErrorKind {
    let before = flash.image();
    let error = Volume::open(flash.clone(), config.clone()).err().expect("it must be refused");
    assert!(flash.image() == before, "a refused device was changed");
    let text = error.to_string();
    assert!(text.contains("simulated drive") && text.contains("; "), "what, why and the next step: {text}");
    error.kind()
}

/// A tier with a dirty page, closed in order.
fn used() -> (Arc<MemoryDevice>, Backing) {
    let flash = formatted(&durable());
    let backing = Backing::new("a");
    let volume = open(&flash, &durable());
    backing.attach(&volume).unwrap().write_at(&page(0, 1), 0).unwrap();
    volume.close().unwrap();
    (flash, backing)
}

#[test]
fn what_is_no_tier_is_unrecognised() {
    let flash = flash_for(&durable());
    assert_eq!(kind_of_opening(&flash, &durable()), VolumeErrorKind::Unrecognised);
}

#[test]
fn a_truncated_device_is_refused() {
    let (flash, _) = used();
    let image = flash.image();
    for keep in [0, 100, 5000, 70_000, image.len() - 1] {
        let cut = Arc::new(MemoryDevice::new(keep as u64));
        cut.load(&image[..keep]);
        assert_eq!(kind_of_opening(&cut, &durable()), VolumeErrorKind::Truncated, "{keep} bytes");
    }
}

#[test]
fn one_damaged_superblock_is_survived_and_two_are_refused() {
    let (flash, backing) = used();
    flash.flip_bit(8 * 40);
    drop(open(&flash, &durable()));
    flash.flip_bit(8 * (4096 + 40));
    assert_eq!(kind_of_opening(&flash, &durable()), VolumeErrorKind::Damaged);
    flash.flip_bit(8 * 40);
    let volume = open(&flash, &durable());
    let mut found = vec![0; PAGE];
    backing.attach(&volume).unwrap().read_at(&mut found, 0).unwrap();
    assert!(found == page(0, 1));
}

/// The tier may be whole, and have the only copies of its pages. The advice was to format it anew, or, where
/// the error had passed meanwhile, that the device holds something that is no tier.
#[test]
fn superblocks_that_cannot_be_read_just_now_are_no_reason_to_format() {
    let (flash, backing) = used();
    let opened = || Volume::open(flash.clone(), durable()).map(drop);
    let formatted = || Volume::format(&*flash, &durable(), false);
    let refused: [&dyn Fn() -> Result<(), mezzanine_volume::VolumeError>; 2] = [&opened, &formatted];
    let image = flash.image();
    for refused in refused {
        let passing = Fault::Error(DeviceErrorKind::Io);
        flash.inject(Injection { operation: Operation::Read, after: 0, count: 6, fault: passing });
        let error = refused().unwrap_err();
        assert_eq!(error.kind(), VolumeErrorKind::Io, "{error}");
        let told = error.to_string();
        assert!(told.contains("see to the device") && !told.contains("format it"), "{told}");
        assert!(!told.contains("not a tier"), "{told}");
    }
    [0, 4096].into_iter().for_each(|place| flash.spoil(place, 512, Bad::Unreadable));
    for refused in refused {
        let told = refused().unwrap_err().to_string();
        assert!(told.contains("see to the device") && !told.contains("format it"), "{told}");
    }
    flash.heal();
    assert!(flash.image() == image);
    let volume = open(&flash, &durable());
    let mut found = vec![0; PAGE];
    backing.attach(&volume).unwrap().read_at(&mut found, 0).unwrap();
    assert!(found == page(0, 1));
}

/// What tells where the queue ends cannot be read. The error named the place, and no next step.
#[test]
fn a_tier_that_cannot_be_read_just_now_is_opened_later() {
    let InUse { flash, backing, volume, file } = in_use(&durable());
    drop((file, volume));
    let fault = Fault::Error(DeviceErrorKind::Io);
    for after in 2..8 {
        flash.inject(Injection { operation: Operation::Read, after, count: u64::MAX, fault });
        assert_eq!(kind_of_opening(&flash, &durable()), VolumeErrorKind::Io, "after {after} reads");
        let told = Volume::open(flash.clone(), durable()).err().unwrap().to_string();
        assert!(told.contains("see to the device"), "{told}");
        flash.heal();
    }
    let volume = open(&flash, &durable());
    assert!(read(&backing.attach(&volume).unwrap(), 0) == Ok(page(0, 1)));
}

#[test]
fn a_newer_format_is_refused_by_its_number() {
    let (flash, _) = used();
    let mut image = flash.image();
    image[8..12].copy_from_slice(&77u32.to_le_bytes());
    let checksum = crc32c::crc32c(&image[..4092]);
    image[4092..4096].copy_from_slice(&checksum.to_le_bytes());
    flash.load(&image);
    assert_eq!(kind_of_opening(&flash, &durable()), VolumeErrorKind::NewerFormat { version: 77 });
    let error = Volume::format(&*flash, &durable(), false).unwrap_err();
    assert_eq!(error.kind(), VolumeErrorKind::NewerFormat { version: 77 });
}

#[test]
fn a_tier_with_only_copies_is_not_opened_in_a_mode_that_loses_them() {
    let (flash, _) = used();
    assert_eq!(kind_of_opening(&flash, &through()), VolumeErrorKind::OnlyCopy);
}

#[test]
fn formatting_spares_what_it_does_not_recognise_and_what_is_not_drained() {
    let config = durable();
    let flash = flash_for(&config);
    let mut image = flash.image();
    image[512..518].copy_from_slice(b"ext4!!");
    flash.load(&image);
    let error = Volume::format(&*flash, &config, false).unwrap_err();
    assert_eq!(error.kind(), VolumeErrorKind::Unrecognised);
    assert!(flash.image() == image);

    let (flash, backing) = used();
    let image = flash.image();
    assert_eq!(Volume::format(&*flash, &config, false).unwrap_err().kind(), VolumeErrorKind::OnlyCopy);
    assert!(flash.image() == image);
    // Drained, it may go.
    let volume = open(&flash, &config);
    backing.attach(&volume).unwrap();
    volume.close_drained().unwrap();
    Volume::format(&*flash, &config, false).unwrap();
}

#[test]
fn a_device_that_is_too_small_is_not_formatted() {
    let small = MemoryDevice::new(1 << 16);
    let error = Volume::format(&small, &durable(), false).unwrap_err();
    assert_eq!(error.kind(), VolumeErrorKind::Truncated);
}

#[test]
fn files_missing_locked_or_read_only() {
    let directory = std::env::temp_dir().join(format!("mezzanine-bad-flash-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let path = directory.join("tier");
    assert_eq!(open_flash(&path).err().unwrap().kind(), VolumeErrorKind::Missing);
    let config = durable();
    let flash = create_flash(&path, &config.tier).unwrap();
    Volume::format(&*flash, &config, false).unwrap();
    let error = open_flash(&path).err().unwrap();
    assert_eq!(error.kind(), VolumeErrorKind::Busy, "{error}");
    assert!(error.to_string().contains("only one process"), "{error}");
    drop(flash);
    // A device that was opened for reading.
    let read_only = OpenOptions { direct: DirectIo::Never, ..OpenOptions::default() };
    let device = FileDevice::open(&path, &read_only).unwrap();
    let refused = match Volume::open(Arc::new(device), config.clone()) {
        Ok(volume) => Backing::new("a").attach(&volume).err().map(|error| error.kind()),
        Err(error) => Some(error.kind()),
    };
    assert_eq!(refused, Some(VolumeErrorKind::ReadOnly));
    assert_eq!(config.tier.sync_mode, SyncMode::Durable);
    let volume = Volume::open(open_flash(&path).unwrap(), config).unwrap();
    let file = volume.attach_path(&directory.join("db"), Default::default()).unwrap();
    file.write_at(&page(1, 1), 0).unwrap();
    volume.close_drained().unwrap();
    assert!(std::fs::read(directory.join("db")).unwrap() == page(1, 1));
    assert!(!directory.join("db.mezzanine").exists(), "a drained file needs no sidecar");
    std::fs::remove_dir_all(&directory).unwrap();
}
