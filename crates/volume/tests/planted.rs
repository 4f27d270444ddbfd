//! Rules of the volume, each tested with the rule in and with the rule out. Only the second may go wrong.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use common::{Backing, PAGE, durable, flash_for, formatted, open, page, through};
use mezzanine_device::memory::{Fault, Injection, MemoryDevice, Operation};
use mezzanine_device::{Device, DeviceErrorKind};
use mezzanine_engine::format::SUPERBLOCK_OFFSETS;
use mezzanine_engine::planted::{Bug, is, set};
use mezzanine_volume::{ReplaceOptions, Volume, VolumeFile, VolumeState};

/// Writes, takes a copy of the flash device, writes again, and opens the copy. What does the page hold then?
fn page_on_an_older_snapshot() -> Option<Vec<u8>> {
    let (flash, backing) = (formatted(&durable()), Backing::new("a"));
    let write = |version| {
        let volume = open(&flash, &durable());
        let file = backing.attach(&volume).unwrap();
        file.write_at(&page(3, version), 3 * PAGE as u64).unwrap();
        volume.close().unwrap();
    };
    write(1);
    let snapshot = Arc::new(MemoryDevice::new(flash.len()));
    snapshot.load(&flash.image());
    write(2);
    let volume = open(&snapshot, &durable());
    let file = backing.attach(&volume).ok()?;
    let mut found = vec![0; PAGE];
    file.read_at(&mut found, 3 * PAGE as u64).unwrap();
    Some(found)
}

#[test]
fn an_older_snapshot_never_answers() {
    assert_eq!(page_on_an_older_snapshot(), None, "it must be refused");
    set(Some(Bug::IdentityUnchecked));
    let found = page_on_an_older_snapshot();
    set(None);
    assert!(found.is_some_and(|found| found == page(3, 1)), "the planted fault went unnoticed");
}

/// One copy of the superblock is torn, as a crash may have left it; then the power fails at the `n`th
/// operation of an opening, or of the attachment after it. Can the tier be opened after that?
fn a_copy_is_left(n: u64, seed: u64) -> bool {
    let (flash, backing) = (formatted(&durable()), Backing::new("a"));
    backing.attach(&open(&flash, &durable())).unwrap();
    flash.write_at(&[7; 512], SUPERBLOCK_OFFSETS[1] + 1024).unwrap();
    flash.flush().unwrap();
    flash.power().crash_after(n);
    if let Ok(volume) = Volume::open(Arc::clone(&flash) as Arc<dyn Device>, durable()) {
        // With or without power: what it has written counts.
        let _ = backing.attach(&volume);
    }
    flash.power_cut(seed);
    flash.power().restore();
    Volume::open(flash, durable()).is_ok()
}

#[test]
fn a_superblock_that_is_torn_twice_leaves_a_whole_copy() {
    let all_left = || (1..150).all(|n| (0..40).all(|seed| a_copy_is_left(n, seed)));
    assert!(all_left());
    set(Some(Bug::BetterCopyFirst));
    let left = all_left();
    set(None);
    assert!(!left, "the planted fault went unnoticed");
}

/// Pages lie on disk alone; the disk loses power in the `n`th operation of a discard. Is each page old or
/// zero after that?
fn discarded_pages_are_whole(n: u64, seed: u64) -> bool {
    let (flash, backing) = (formatted(&durable()), Backing::new("a"));
    let volume = open(&flash, &durable());
    let file = backing.attach(&volume).unwrap();
    for block in 0..16 {
        file.write_at(&page(block, 1), block * PAGE as u64).unwrap();
    }
    drop(file);
    volume.close_drained().unwrap();

    let volume = open(&flash, &durable());
    let file = backing.attach(&volume).unwrap();
    file.write_at(&page(0, 2), 0).unwrap();
    file.sync().unwrap();
    backing.disk.power().crash_after(n);
    let _ = file.discard(2 * PAGE as u64, 12 * PAGE as u64);
    flash.power().crash_after(1);
    drop((file, volume));
    for device in [&flash, &backing.disk] {
        device.power_cut(seed);
        device.power().restore();
    }

    let file = backing.attach(&open(&flash, &durable())).unwrap();
    (2..14).all(|block| {
        let mut found = vec![0; PAGE];
        file.read_at(&mut found, block * PAGE as u64).unwrap();
        found == page(block, 1) || found.iter().all(|&byte| byte == 0)
    })
}

#[test]
fn a_discard_that_the_power_interrupts_leaves_no_torn_page() {
    let whole = || (1..8).all(|n| (0..10).all(|seed| discarded_pages_are_whole(n, seed)));
    assert!(whole());
    set(Some(Bug::DiscardNotRepeated));
    let held = whole();
    set(None);
    assert!(!held, "the planted fault went unnoticed");
}

/// Pages that were synced, and then another flash device. Are they there?
fn pages_outlive_their_device() -> bool {
    let (flash, backing) = (formatted(&durable()), Backing::new("a"));
    let volume = open(&flash, &durable());
    let file = backing.attach(&volume).unwrap();
    for block in 0..8 {
        file.write_at(&page(block, 1), block * PAGE as u64).unwrap();
    }
    file.sync().unwrap();
    volume.replace_flash(flash_for(&durable()), &ReplaceOptions::new(durable().tier)).unwrap();
    (0..8).all(|block| read(&file, block) == page(block, 1))
}

fn read(file: &VolumeFile, block: u64) -> Vec<u8> {
    let mut found = vec![0; PAGE];
    file.read_at(&mut found, block * PAGE as u64).unwrap();
    found
}

#[test]
fn a_device_is_not_replaced_before_its_pages_are_on_disk() {
    assert!(pages_outlive_their_device());
    set(Some(Bug::ReplacedUndrained));
    let held = pages_outlive_their_device();
    set(None);
    assert!(!held, "the planted fault went unnoticed");
}

/// A page is written to disk while there is no tier, a new tier takes it up from there and is synced on
/// behalf of another file, and the power fails. The page is read, leaves the tier, and is read again: is it
/// the same?
fn what_was_read_stays(seed: u64) -> bool {
    let (flash, a, b) = (formatted(&durable()), Backing::new("a"), Backing::new("b"));
    let volume = open(&flash, &durable());
    let (file, other) = (a.attach(&volume).unwrap(), b.attach(&volume).unwrap());
    for block in 0..40 {
        file.write_at(&page(block, 1), block * PAGE as u64).unwrap();
    }
    file.sync().unwrap();
    let fault = Fault::Error(DeviceErrorKind::Io);
    flash.inject(Injection { operation: Operation::Write, after: 0, count: u64::MAX, fault });
    for block in 0..16 {
        other.write_at(&page(block, 1), block * PAGE as u64).unwrap();
    }
    assert!(matches!(volume.state(), VolumeState::Bypass { .. }));
    file.write_at(&page(3, 2), 3 * PAGE as u64).unwrap();
    let next = flash_for(&durable());
    volume.replace_flash(next.clone(), &ReplaceOptions::new(durable().tier)).unwrap();
    file.write_at(&page(0, 2), 0).unwrap();
    assert!(read(&file, 3) == page(3, 2));
    other.write_at(&page(0, 2), 0).unwrap();
    other.sync().unwrap();
    next.power().crash_after(1);
    drop((file, other, volume));
    next.power_cut(seed);
    next.power().restore();
    for backing in [&a, &b] {
        backing.disk.power_cut(seed);
    }

    let volume = open(&next, &durable());
    let (file, other) = (a.attach(&volume).unwrap(), b.attach(&volume).unwrap());
    let first = read(&file, 3);
    for round in 3..9 {
        for block in 0..40 {
            other.write_at(&page(block, round), block * PAGE as u64).unwrap();
        }
    }
    read(&file, 3) == first
}

#[test]
fn what_was_written_without_a_tier_is_synced_before_there_is_another() {
    let stays = || (0..20).all(what_was_read_stays);
    assert!(stays());
    set(Some(Bug::ReplacedUnsynced));
    let held = stays();
    set(None);
    assert!(!held, "the planted fault went unnoticed");
}

/// A durable tier is closed when everything happens to be on disk, opened in `through` if it may be, and a
/// header is changed and leaves the tier. Is it there? After a refusal the tier is opened as before.
fn header_is_there() -> bool {
    let (flash, backing) = (formatted(&durable()), Backing::guarded("a"));
    let volume = open(&flash, &durable());
    backing.attach(&volume).unwrap().write_at(&page(0, 1), 0).unwrap();
    volume.drain().unwrap();
    volume.close().unwrap();
    drop(volume);

    let opened = Volume::open(flash.clone(), through());
    assert_eq!(
        opened.is_err(),
        !is(Bug::DrainedForDirtyFiles),
        "the file's sidecar says that it needs the tier"
    );
    let volume = opened.unwrap_or_else(|_| open(&flash, &durable()));
    let file = backing.attach(&volume).unwrap();
    file.write_at(&page(0, 2), 0).unwrap();
    for block in 1..400 {
        file.write_at(&page(block, 1), block * PAGE as u64).unwrap();
    }
    read(&file, 0) == page(0, 2)
}

/// Found by the storm (`tests/storm`).
#[test]
fn a_tier_that_a_file_needs_is_not_drained() {
    assert!(header_is_there());
    set(Some(Bug::DrainedForDirtyFiles));
    let there = header_is_there();
    set(None);
    assert!(!there, "the planted fault went unnoticed");
}
