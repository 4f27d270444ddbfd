//! A file and a tier that do not belong together are not used together (invariant 10), and nothing is lost by
//! the try.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use common::{Backing, PAGE, durable, formatted, open, page, through};
use mezzanine_device::Device;
use mezzanine_device::memory::MemoryDevice;
use mezzanine_engine::format::NONCES_MAX;
use mezzanine_volume::{SidecarStore, Volume, VolumeConfig, VolumeErrorKind, VolumeState};

fn write(flash: &Arc<MemoryDevice>, backing: &Backing, version: u64) {
    let volume = open(flash, &durable());
    let file = backing.attach(&volume).unwrap();
    file.write_at(&page(3, version), 3 * PAGE as u64).unwrap();
    volume.close().unwrap();
}

fn read(flash: &Arc<MemoryDevice>, backing: &Backing) -> Vec<u8> {
    let volume = open(flash, &durable());
    let mut found = vec![0; PAGE];
    backing.attach(&volume).unwrap().read_at(&mut found, 3 * PAGE as u64).unwrap();
    found
}

fn refused(flash: &Arc<MemoryDevice>, backing: &Backing) -> VolumeErrorKind {
    let before = (flash.image(), backing.disk.image(), backing.sidecar.read().unwrap());
    let volume = open(flash, &durable());
    let error = backing.attach(&volume).expect_err("it must be refused");
    let text = error.to_string();
    let named = text.contains(&format!(" {}:", backing.path.display())) || text.contains("test.mezzanine");
    assert!(named, "it must name the file: {text}");
    assert!(text.contains("; "), "it must say what to do: {text}");
    drop(volume);
    assert!(
        (flash.image(), backing.disk.image(), backing.sidecar.read().unwrap()) == before,
        "something changed"
    );
    error.kind()
}

fn copy(device: &MemoryDevice) -> Arc<MemoryDevice> {
    let copy = Arc::new(MemoryDevice::new(device.len()));
    copy.load(&device.image());
    copy
}

#[test]
fn a_tier_of_another_database() {
    let (flash, backing) = (formatted(&durable()), Backing::new("a"));
    write(&flash, &backing, 1);
    let other = formatted(&VolumeConfig { identity_seed: Some(99), ..durable() });
    assert_eq!(refused(&other, &backing), VolumeErrorKind::ForeignTier);
    assert!(read(&flash, &backing) == page(3, 1));
}

#[test]
fn the_same_device_formatted_anew() {
    let (flash, backing) = (formatted(&durable()), Backing::new("a"));
    write(&flash, &backing, 1);
    Volume::format(&*flash, &VolumeConfig { identity_seed: Some(8), ..durable() }, true).unwrap();
    assert_eq!(refused(&flash, &backing), VolumeErrorKind::ForeignTier);
}

#[test]
fn an_older_snapshot_of_the_tier() {
    let (flash, backing) = (formatted(&durable()), Backing::new("a"));
    write(&flash, &backing, 1);
    let snapshot = copy(&flash);
    write(&flash, &backing, 2);
    assert_eq!(refused(&snapshot, &backing), VolumeErrorKind::OlderTier);
    assert!(read(&flash, &backing) == page(3, 2));
}

/// The group that first names a file is the newest, and nothing on flash says that it was durable: only the
/// file's sidecar does.
#[test]
fn a_tier_whose_newest_group_is_damaged_or_missing() {
    let (flash, first, second) = (formatted(&durable()), Backing::new("a"), Backing::new("b"));
    write(&flash, &first, 1);
    let volume = open(&flash, &durable());
    let files = [first.attach(&volume).unwrap(), second.attach(&volume).unwrap()];
    files[0].write_at(&page(4, 2), 4 * PAGE as u64).unwrap();
    files[1].write_at(&page(5, 3), 5 * PAGE as u64).unwrap();
    drop((files, volume));

    let whole = flash.image();
    let at = whole.chunks(PAGE).position(|found| found == page(4, 2)).unwrap() * PAGE;
    flash.flip_bit(8 * (at + 7) as u64);
    assert_eq!(refused(&flash, &second), VolumeErrorKind::Damaged);
    flash.load(&whole);
    // Without its summary the group is not there, as in a copy that was made before it.
    flash.flip_bit(8 * (at - PAGE) as u64);
    assert_eq!(refused(&flash, &second), VolumeErrorKind::OlderTier);
    flash.load(&whole);
    let volume = open(&flash, &durable());
    first.attach(&volume).unwrap();
    second.attach(&volume).unwrap();
}

#[test]
fn a_file_and_sidecar_restored_from_a_backup() {
    let (flash, backing) = (formatted(&durable()), Backing::new("a"));
    write(&flash, &backing, 1);
    let backup = (backing.disk.image(), backing.sidecar.read().unwrap().unwrap());
    write(&flash, &backing, 2);
    backing.disk.load(&backup.0);
    backing.sidecar.replace(&backup.1).unwrap();
    assert_eq!(refused(&flash, &backing), VolumeErrorKind::NewerTier);
}

#[test]
fn a_backup_from_before_the_last_restart_when_nothing_was_synced_since() {
    let (flash, backing) = (formatted(&durable()), Backing::new("a"));
    write(&flash, &backing, 1);
    let backup = (backing.disk.image(), backing.sidecar.read().unwrap().unwrap());
    let volume = open(&flash, &durable());
    let file = backing.attach(&volume).unwrap();
    // Page 3 leaves the tier.
    for n in 10..400 {
        file.write_at(&page(n, 1), n * PAGE as u64).unwrap();
    }
    drop(volume);
    backing.disk.load(&backup.0);
    backing.sidecar.replace(&backup.1).unwrap();
    assert_eq!(refused(&flash, &backing), VolumeErrorKind::NewerTier);
}

#[test]
fn a_lost_sidecar() {
    let (flash, backing) = (formatted(&durable()), Backing::guarded("a"));
    write(&flash, &backing, 1);
    backing.sidecar.remove().unwrap();
    assert_eq!(refused(&flash, &backing), VolumeErrorKind::SidecarMissing);
    // Without a guard the tier still knows that a file of its is missing.
    let (flash, backing) = (formatted(&durable()), Backing::new("a"));
    write(&flash, &backing, 1);
    backing.sidecar.remove().unwrap();
    assert_eq!(refused(&flash, &backing), VolumeErrorKind::FileNotAttached);
}

#[test]
fn a_damaged_or_newer_sidecar() {
    let (flash, backing) = (formatted(&durable()), Backing::new("a"));
    write(&flash, &backing, 1);
    let whole = backing.sidecar.read().unwrap().unwrap();
    let mut damaged = whole.clone();
    damaged[300] ^= 4;
    backing.sidecar.replace(&damaged).unwrap();
    assert_eq!(refused(&flash, &backing), VolumeErrorKind::Damaged);
    backing.sidecar.replace(b"mezzanine sidecar 9\n").unwrap();
    assert_eq!(refused(&flash, &backing), VolumeErrorKind::NewerFormat { version: 9 });
    backing.sidecar.replace(&whole).unwrap();
    assert!(read(&flash, &backing) == page(3, 1));
}

#[test]
fn a_guarded_file_that_was_replaced() {
    let (flash, backing) = (formatted(&durable()), Backing::guarded("a"));
    write(&flash, &backing, 1);
    let guarded = backing.disk.image();
    backing.disk.load(&vec![7; 3 * PAGE]);
    assert_eq!(refused(&flash, &backing), VolumeErrorKind::ChangedFile);
    backing.disk.load(&guarded);
    assert!(read(&flash, &backing) == page(3, 1));
}

#[test]
fn guarded_files_that_changed_places_are_refused() {
    let flash = formatted(&durable());
    let files = [Backing::guarded("a"), Backing::guarded("b")];
    let volume = open(&flash, &durable());
    for (number, backing) in files.iter().enumerate() {
        let file = backing.attach(&volume).unwrap();
        file.write_at(&page(3, number as u64), 3 * PAGE as u64).unwrap();
    }
    volume.close().unwrap();
    let images = files.each_ref().map(|backing| backing.disk.image());
    files[0].disk.load(&images[1]);
    files[1].disk.load(&images[0]);
    assert_eq!(refused(&flash, &files[0]), VolumeErrorKind::ChangedFile);
}

#[test]
fn a_guarded_file_with_a_sidecar_from_before_is_refused() {
    let (flash, backing) = (formatted(&durable()), Backing::guarded("a"));
    let volume = open(&flash, &durable());
    backing.attach(&volume).unwrap();
    volume.close().unwrap();
    let old = backing.sidecar.read().unwrap().unwrap();
    write(&flash, &backing, 1);
    backing.sidecar.replace(&old).unwrap();
    assert_eq!(refused(&flash, &backing), VolumeErrorKind::ChangedFile);
}

#[test]
fn a_dirty_file_without_its_tier() {
    let (flash, backing) = (formatted(&durable()), Backing::new("a"));
    write(&flash, &backing, 1);
    let volume = Volume::without_tier();
    assert_eq!(backing.attach(&volume).unwrap_err().kind(), VolumeErrorKind::OnlyCopy);
    let volume = open(&flash, &durable());
    backing.attach(&volume).unwrap();
    volume.close_drained().unwrap();
    let volume = Volume::without_tier();
    assert!(matches!(volume.state(), VolumeState::Bypass { .. }));
    let mut found = vec![0; PAGE];
    backing.attach(&volume).unwrap().read_at(&mut found, 3 * PAGE as u64).unwrap();
    assert!(found == page(3, 1));
}

#[test]
fn a_copy_of_a_file_beside_it() {
    let (flash, backing) = (formatted(&durable()), Backing::new("a"));
    write(&flash, &backing, 1);
    let twin = Backing::new("b");
    twin.disk.load(&backing.disk.image());
    twin.sidecar.replace(&backing.sidecar.read().unwrap().unwrap()).unwrap();
    let volume = open(&flash, &durable());
    backing.attach(&volume).unwrap();
    assert_eq!(backing.attach(&volume).unwrap_err().kind(), VolumeErrorKind::AlreadyAttached);
    assert_eq!(twin.attach(&volume).unwrap_err().kind(), VolumeErrorKind::AlreadyAttached);
}

#[test]
fn a_file_changed_behind_a_clean_tier_is_read_from_disk() {
    let (flash, backing) = (formatted(&through()), Backing::new("a"));
    let volume = open(&flash, &through());
    let file = backing.attach(&volume).unwrap();
    file.write_at(&page(0, 1), 0).unwrap();
    volume.close().unwrap();
    let found = |expected: Vec<u8>, hits: u64| {
        let volume = open(&flash, &through());
        let mut found = vec![0; PAGE];
        backing.attach(&volume).unwrap().read_at(&mut found, 0).unwrap();
        assert!(found == expected);
        let statistics = volume.statistics();
        assert_eq!(statistics.page_hits_flash + statistics.page_hits_memory, hits);
        volume.close().unwrap();
    };
    found(page(0, 1), 1);
    backing.disk.write_at(&page(0, 2), 0).unwrap();
    *backing.sidecar.fingerprint.lock().unwrap() = Some(vec![2]);
    found(page(0, 2), 0);
}

/// The superblock keeps the nonces of so many openings: with more in between, a file is judged by numbers
/// alone.
const AWAY: u32 = NONCES_MAX as u32 + 6;

/// Changes another file only, again and again, or tries to.
fn opened_without(flash: &Arc<MemoryDevice>, config: &VolumeConfig, other: &Backing) {
    for round in 0..AWAY {
        let volume = open(flash, config);
        let file = other.attach(&volume).unwrap();
        // Refused while the tier waits for the file that is away.
        let _ = file.write_at(&page(7, u64::from(round)), 7 * PAGE as u64);
        volume.close().unwrap();
    }
}

/// What is read of a page beside the other file, and how many pages the tier had.
fn read_beside(
    flash: &Arc<MemoryDevice>,
    config: &VolumeConfig,
    other: &Backing,
    backing: &Backing,
) -> (Vec<u8>, u64) {
    let volume = open(flash, config);
    let _other = other.attach(&volume).unwrap();
    let mut found = vec![0; PAGE];
    backing.attach(&volume).unwrap().read_at(&mut found, 3 * PAGE as u64).unwrap();
    let statistics = volume.statistics();
    (found, statistics.page_hits_flash + statistics.page_hits_memory)
}

/// Its number is still in the tier's table, and nothing says that the opening that its sidecar names was not
/// one of this tier's: its pages are there.
#[test]
fn a_file_that_was_away_for_more_openings_than_are_known_goes_on_by_its_number() {
    let (flash, away, other) = (formatted(&durable()), Backing::new("a"), Backing::new("b"));
    write(&flash, &away, 1);
    let volume = open(&flash, &durable());
    let files = [away.attach(&volume).unwrap(), other.attach(&volume).unwrap()];
    files[1].write_at(&page(0, 1), 0).unwrap();
    volume.close().unwrap();
    drop(files);
    opened_without(&flash, &durable(), &other);
    assert!(read(&flash, &away) == page(3, 1));
    let volume = open(&flash, &durable());
    let files = [away.attach(&volume).unwrap(), other.attach(&volume).unwrap()];
    files[0].write_at(&page(3, 2), 3 * PAGE as u64).unwrap();
    drop(files);
    volume.close_drained().unwrap();
    assert!(away.disk.image()[3 * PAGE..] == page(3, 2));
}

/// Its number is gone, too: the tier was drained into the newest file meanwhile. The older one is refused, as
/// if it had been away for one opening.
#[test]
fn a_file_that_was_away_for_more_openings_than_are_known_and_has_no_number_is_refused() {
    let (flash, away, other) = (formatted(&durable()), Backing::new("a"), Backing::new("b"));
    write(&flash, &away, 1);
    let older = (away.disk.image(), away.sidecar.read().unwrap().unwrap());
    let volume = open(&flash, &durable());
    away.attach(&volume).unwrap().write_at(&page(3, 2), 3 * PAGE as u64).unwrap();
    volume.close_drained().unwrap();
    let newest = away.disk.image();
    opened_without(&flash, &durable(), &other);
    away.disk.load(&older.0);
    away.sidecar.replace(&older.1).unwrap();
    assert_eq!(refused(&flash, &away), VolumeErrorKind::NewerTier);
    // The newest file is complete, and a new one to the tier.
    away.disk.load(&newest);
    away.sidecar.inner_remove();
    assert!(read_beside(&flash, &durable(), &other, &away).0 == page(3, 2));
}

/// Where the tier holds copies only, the file counts: its pages are read from disk again.
#[test]
fn a_current_file_that_was_away_for_more_openings_than_are_known_begins_cold() {
    let (flash, away, other) = (formatted(&through()), Backing::new("a"), Backing::new("b"));
    let volume = open(&flash, &through());
    away.attach(&volume).unwrap().write_at(&page(3, 1), 3 * PAGE as u64).unwrap();
    volume.close().unwrap();
    let known = away.sidecar.read().unwrap().unwrap();
    let (found, hits) = read_beside(&copy(&flash), &through(), &Backing::new("c"), &away);
    assert!((found, hits) == (page(3, 1), 1), "one that was not away goes on warm");
    away.sidecar.replace(&known).unwrap();
    opened_without(&flash, &through(), &other);
    let (found, hits) = read_beside(&flash, &through(), &other, &away);
    assert!((found, hits) == (page(3, 1), 0));
}
