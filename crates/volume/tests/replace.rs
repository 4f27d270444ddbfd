//! The flash device is replaced while files stay attached: a healthy one, one that has failed, and one that
//! may not be.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use common::traffic::{PAGES, meanwhile};
use common::{Backing, PAGE, durable, flash_for, formatted, open, page, through};
use mezzanine_device::DeviceErrorKind;
use mezzanine_device::memory::{Fault, Injection, MemoryDevice, Operation};
use mezzanine_volume::{
    ReplaceOptions, SyncMode, TierConfig, Volume, VolumeConfig, VolumeError, VolumeErrorKind, VolumeFile,
    VolumeState,
};

fn fail(device: &MemoryDevice, operation: Operation, after: u64, count: u64) {
    device.inject(Injection { operation, after, count, fault: Fault::Error(DeviceErrorKind::Io) });
}

fn like(config: &VolumeConfig) -> ReplaceOptions {
    ReplaceOptions { identity_seed: Some(7), ..ReplaceOptions::new(config.tier.clone()) }
}

fn replace(volume: &Volume, config: &VolumeConfig) -> Arc<MemoryDevice> {
    let flash = flash_for(config);
    volume.replace_flash(flash.clone(), &like(config)).unwrap();
    assert_eq!((volume.state(), volume.sync_mode()), (VolumeState::Ok, Some(config.tier.sync_mode)));
    flash
}

fn write(file: &VolumeFile, version: u64) {
    for block in 0..PAGES {
        file.write_at(&page(block, version), block * PAGE as u64).unwrap();
    }
}

/// What a file holds, and what its disk holds.
fn contents(file: &VolumeFile, backing: &Backing) -> (Vec<u8>, Vec<u8>) {
    let mut found = vec![0; file.len() as usize];
    file.read_at(&mut found, 0).unwrap();
    (found, backing.disk.image())
}

fn holds(file: &VolumeFile, version: u64) {
    for block in 0..PAGES {
        let mut found = vec![0; PAGE];
        file.read_at(&mut found, block * PAGE as u64).unwrap();
        assert!(found == page(block, version), "page {block} is not of version {version}");
    }
}

fn kind(refused: Result<VolumeFile, VolumeError>) -> VolumeErrorKind {
    refused.unwrap_err().kind()
}

#[test]
fn a_healthy_device_is_replaced_while_the_file_is_read_and_written() {
    for workers in [0, 2] {
        for first in [durable(), through()] {
            let configs = [
                VolumeConfig {
                    workers,
                    tier: TierConfig { frames: 140, frames_max: 140, ..durable().tier },
                    ..durable()
                },
                VolumeConfig { workers, ..through() },
                VolumeConfig { workers, ..through() },
                VolumeConfig { workers, ..durable() },
                VolumeConfig { workers, ..durable() },
            ];
            let first = VolumeConfig { workers, ..first };
            let backing = Backing::guarded("a");
            let mut flashes = vec![formatted(&first)];
            let volume = open(&flashes[0], &first);
            let file = backing.attach(&volume).unwrap();
            meanwhile(&file, || {
                for config in &configs {
                    flashes.push(replace(&volume, config));
                    assert_eq!(volume.tier_config().unwrap().frames, config.tier.frames);
                    thread::sleep(Duration::from_millis(20));
                }
            });
            file.sync().unwrap();
            if workers == 0 {
                volume.check();
            }
            let (found, disk) = contents(&file, &backing);
            assert!(found != disk && disk.starts_with(b"guarded by a tier"), "the newest pages are on flash");
            drop((file, volume));
            let (last, older) = flashes.split_last().unwrap();
            // After a crash the file knows its tier, and no other.
            for flash in older {
                let volume = open(flash, &through());
                assert_eq!(kind(backing.attach(&volume)), VolumeErrorKind::ForeignTier);
                drop(volume);
                Volume::format(&**flash, &durable(), false).unwrap();
            }
            let volume = open(last, &durable());
            assert!(contents(&backing.attach(&volume).unwrap(), &backing).0 == found);
            volume.close_drained().unwrap();
            assert!(backing.disk.image() == found);
        }
    }
}

#[test]
fn a_tier_that_was_given_up_is_replaced_with_the_files_that_came_since() {
    for old in [durable(), through()] {
        for new in [durable(), through()] {
            let (flash, backing) = (formatted(&old), Backing::guarded("a"));
            let volume = open(&flash, &old);
            let file = backing.attach(&volume).unwrap();
            write(&file, 1);
            file.sync().unwrap();
            fail(&flash, Operation::Write, 0, u64::MAX);
            write(&file, 2);
            assert!(matches!(volume.state(), VolumeState::Bypass { .. }));
            let late = Backing::guarded("late");
            let other = late.attach(&volume).unwrap();
            write(&other, 3);
            let next = replace(&volume, &new);
            holds(&file, 2);
            holds(&other, 3);
            write(&file, 4);
            other.write_at(&page(0, 5), 0).unwrap();
            file.sync().unwrap();
            other.sync().unwrap();
            holds(&file, 4);
            let staged = volume.statistics().tier.unwrap();
            assert!(staged.staged_dirty > PAGES / 2, "the new tier is used: {staged:?}");
            volume.check();
            drop((file, other, volume));
            // The old device is well again, and has older pages.
            flash.heal();
            let volume = open(&flash, &old);
            for backing in [&backing, &late] {
                match backing.attach(&volume) {
                    Err(error) => assert_eq!(error.kind(), VolumeErrorKind::ForeignTier),
                    Ok(_) => assert_eq!(new.tier.sync_mode, SyncMode::Through),
                }
            }
            if let Some(file) = volume.file(&backing.path) {
                holds(&file, 4);
            }
            drop(volume);
            let volume = open(&next, &new);
            let (file, other) = (backing.attach(&volume).unwrap(), late.attach(&volume).unwrap());
            holds(&file, 4);
            let mut found = vec![0; PAGE];
            other.read_at(&mut found, 0).unwrap();
            assert!(found == page(0, 5));
        }
    }
}

#[test]
fn a_device_whose_failure_nobody_has_met_yet_is_replaced_where_it_holds_nothing_alone() {
    // In mode through it is not asked at all.
    let (flash, backing) = (formatted(&through()), Backing::new("a"));
    let volume = open(&flash, &through());
    let file = backing.attach(&volume).unwrap();
    write(&file, 1);
    for operation in [Operation::Read, Operation::Write, Operation::Flush] {
        fail(&flash, operation, 0, u64::MAX);
    }
    let before = flash.faults_struck();
    replace(&volume, &durable());
    holds(&file, 1);
    write(&file, 2);
    file.sync().unwrap();
    holds(&file, 2);
    assert_eq!(flash.faults_struck(), before);

    // In mode durable what is in memory goes to disk, and what is on flash can still be read.
    let (flash, backing) = (formatted(&durable()), Backing::guarded("a"));
    let volume = open(&flash, &durable());
    let file = backing.attach(&volume).unwrap();
    write(&file, 1);
    file.sync().unwrap();
    file.write_at(&page(5, 2), 5 * PAGE as u64).unwrap();
    fail(&flash, Operation::Write, 0, u64::MAX);
    replace(&volume, &durable());
    file.write_at(&page(5, 1), 5 * PAGE as u64).unwrap();
    holds(&file, 1);
}

#[test]
fn a_device_that_may_hold_the_only_copy_is_not_replaced_and_what_is_at_stake_is_said() {
    let (flash, backing) = (formatted(&durable()), Backing::guarded("precious.db"));
    let volume = open(&flash, &durable());
    let file = backing.attach(&volume).unwrap();
    write(&file, 1);
    file.sync().unwrap();
    file.write_at(&page(5, 2), 5 * PAGE as u64).unwrap();
    fail(&flash, Operation::Flush, 0, u64::MAX);
    let next = flash_for(&durable());
    // Met now, and known from then on.
    for _ in 0..2 {
        let error = volume.replace_flash(next.clone(), &like(&durable())).unwrap_err();
        assert_eq!(error.kind(), VolumeErrorKind::OnlyCopy);
        let message = error.to_string();
        for part in ["precious.db", " of ", "alone", "open it again", "backup", &flash_name(&volume)] {
            assert!(message.contains(part), "{part} is not in: {message}");
        }
        assert!(matches!(volume.state(), VolumeState::ReadOnly { .. }));
    }
    drop((file, volume));
    flash.heal();
    let volume = open(&flash, &durable());
    let file = backing.attach(&volume).unwrap();
    file.write_at(&page(5, 1), 5 * PAGE as u64).unwrap();
    holds(&file, 1);
    // One that cannot be read, neither. Of what it holds nothing is known to be lost, and all goes on.
    fail(&flash, Operation::Read, 0, u64::MAX);
    let error = volume.replace_flash(flash_for(&durable()), &like(&durable())).unwrap_err();
    assert_eq!(error.kind(), VolumeErrorKind::Io, "{error}");
    assert!(error.to_string().contains("the flash device answers no read just now"), "{error}");
    assert_eq!(volume.state(), VolumeState::Ok);
    drop((file, volume));
    flash.heal();
    holds(&backing.attach(&open(&flash, &durable())).unwrap(), 1);
}

fn flash_name(volume: &Volume) -> String {
    let most = volume.resize_progress().unwrap().bytes_max;
    // The device's name, as any error of it has it.
    let error = volume.resize(most + 1).unwrap_err();
    if error.kind() == VolumeErrorKind::InvalidConfig { error.subject().to_owned() } else { String::new() }
}

#[test]
fn after_a_failed_sync_of_the_disk_nothing_is_replaced() {
    for config in [durable(), through()] {
        let (flash, backing) = (formatted(&config), Backing::new("a"));
        let volume = open(&flash, &config);
        let file = backing.attach(&volume).unwrap();
        write(&file, 1);
        fail(&backing.disk, Operation::Flush, 0, 1);
        let failed = file.sync().and_then(|()| volume.drain());
        failed.unwrap_err();
        let error = volume.replace_flash(flash_for(&config), &like(&config)).unwrap_err();
        assert!(matches!(error.kind(), VolumeErrorKind::ReadOnly | VolumeErrorKind::OnlyCopy), "{error}");
        assert!(matches!(volume.state(), VolumeState::ReadOnly { .. }));
        file.write_at(&page(0, 2), 0).unwrap_err();
    }
}

#[test]
fn a_disk_that_fails_while_the_device_is_replaced_leaves_the_old_one_in_force() {
    let (flash, backing) = (formatted(&durable()), Backing::guarded("a"));
    let volume = open(&flash, &durable());
    let file = backing.attach(&volume).unwrap();
    write(&file, 1);
    file.sync().unwrap();
    fail(&backing.disk, Operation::Write, 1, 1);
    volume.replace_flash(flash_for(&durable()), &like(&durable())).unwrap_err();
    assert!(matches!(volume.state(), VolumeState::ReadOnly { .. }));
    holds(&file, 1);
    drop((file, volume));
    backing.disk.heal();
    holds(&backing.attach(&open(&flash, &durable())).unwrap(), 1);
}

#[test]
fn without_its_sidecars_the_volume_goes_on_without_a_tier_until_they_are_mended() {
    let (flash, backing) = (formatted(&through()), Backing::new("a"));
    let volume = open(&flash, &through());
    let file = backing.attach(&volume).unwrap();
    write(&file, 1);
    *backing.sidecar.fails.lock().unwrap() = true;
    let error = volume.replace_flash(flash_for(&durable()), &like(&durable())).unwrap_err();
    assert!(error.to_string().contains("goes on without a tier"), "{error}");
    assert!(matches!(volume.state(), VolumeState::Bypass { .. }));
    write(&file, 2);
    file.sync().unwrap();
    *backing.sidecar.fails.lock().unwrap() = false;
    replace(&volume, &durable());
    holds(&file, 2);
}

#[test]
fn devices_and_parameters_that_cannot_be_are_refused_and_nothing_changes() {
    let (flash, backing) = (formatted(&durable()), Backing::guarded("a"));
    let volume = open(&flash, &durable());
    let file = backing.attach(&volume).unwrap();
    write(&file, 1);
    let refused = |flash: &Arc<MemoryDevice>, options: &ReplaceOptions, kind, parts: &[&str]| {
        let before = flash.image();
        let error = volume.replace_flash(flash.clone(), options).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        parts.iter().for_each(|part| assert!(error.to_string().contains(part), "{part} is not in: {error}"));
        assert!(flash.image() == before, "it was written to");
        assert_eq!(volume.state(), VolumeState::Ok);
    };
    // Another tier in use, of another volume.
    let (live, others) = (formatted(&durable()), Backing::new("b"));
    let other = open(&live, &durable());
    others.attach(&other).unwrap().write_at(&page(1, 1), 0).unwrap();
    drop(other);
    let theirs = Arc::new(MemoryDevice::new(flash_for(&durable()).image().len() as u64));
    Volume::format(&*theirs, &VolumeConfig { identity_seed: Some(99), ..durable() }, false).unwrap();
    let other = open(&theirs, &durable());
    others.sidecar.inner_remove();
    others.attach(&other).unwrap().write_at(&page(1, 1), 0).unwrap();
    drop(other);
    refused(&theirs, &like(&durable()), VolumeErrorKind::OnlyCopy, &["nowhere else"]);
    // The tier in use, and a copy of it, even if they are to be formatted.
    let forced = ReplaceOptions { force: true, ..like(&durable()) };
    let copy = Arc::new(MemoryDevice::new(0));
    copy.load(&flash.image());
    for same in [&flash, &copy] {
        refused(same, &forced, VolumeErrorKind::Busy, &["in use, or a copy"]);
    }
    // Something else.
    let strange = flash_for(&durable());
    strange.load(&vec![0xEE; strange.image().len()]);
    refused(&strange, &like(&durable()), VolumeErrorKind::Unrecognised, &["not a tier"]);
    let small = Arc::new(MemoryDevice::new(64 << 10));
    refused(&small, &like(&durable()), VolumeErrorKind::Truncated, &["larger device"]);
    let other_pages = ReplaceOptions::new(TierConfig { page_size: 8192, ..durable().tier });
    refused(
        &flash_for(&durable()),
        &other_pages,
        VolumeErrorKind::InvalidConfig,
        &["4096", "8192", "closed"],
    );
    let drained = ReplaceOptions::new(TierConfig { sync_mode: SyncMode::Drained, ..durable().tier });
    refused(&flash_for(&durable()), &drained, VolumeErrorKind::InvalidConfig, &["no log"]);
    holds(&file, 1);
    write(&file, 2);
    // By force.
    volume.replace_flash(theirs.clone(), &forced).unwrap();
    holds(&file, 2);
    volume.close().unwrap();
    let error = volume.replace_flash(flash_for(&durable()), &forced).unwrap_err();
    assert_eq!(error.kind(), VolumeErrorKind::Closed);
    let error = Volume::without_tier().replace_flash(flash_for(&durable()), &forced).unwrap_err();
    assert_eq!(error.kind(), VolumeErrorKind::NoTier);
}

#[test]
fn files_that_are_not_attached_keep_their_tier() {
    let (flash, a, b) = (formatted(&durable()), Backing::new("a"), Backing::new("b"));
    let volume = open(&flash, &durable());
    let files = [a.attach(&volume).unwrap(), b.attach(&volume).unwrap()];
    files.iter().for_each(|file| write(file, 1));
    files[0].sync().unwrap();
    volume.close().unwrap();
    let volume = open(&flash, &durable());
    a.attach(&volume).unwrap();
    let error = volume.replace_flash(flash_for(&durable()), &like(&durable())).unwrap_err();
    assert_eq!(error.kind(), VolumeErrorKind::FileNotAttached, "{error}");
    let file = b.attach(&volume).unwrap();
    replace(&volume, &durable());
    holds(&file, 1);
}

#[test]
fn numbers_that_the_old_tier_gave_are_not_given_again() {
    let (flash, first) = (formatted(&through()), Backing::new("first"));
    for n in 0..5 {
        let volume = open(&flash, &through());
        Backing::new(&format!("before {n}")).attach(&volume).unwrap();
    }
    let volume = open(&flash, &through());
    first.attach(&volume).unwrap();
    let next = replace(&volume, &through());
    drop(volume);
    // Each time the tier is emptied, because it was not closed, and its table with it.
    for n in 0..9 {
        let volume = open(&next, &through());
        let file = Backing::new(&format!("after {n}")).attach(&volume).unwrap();
        write(&file, n);
        holds(&first.attach(&volume).map(|_| file).unwrap(), n);
    }
}
