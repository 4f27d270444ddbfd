//! Operations on a volume in use, with readers and writers that go on meanwhile.

#![allow(clippy::unwrap_used)]

mod common;

use std::thread;
use std::time::Duration;

use common::traffic::{PAGES, meanwhile, wait};
use common::{Backing, PAGE, durable, formatted, open, page, through};
use mezzanine_volume::{SyncMode, TierConfig, Volume, VolumeConfig, VolumeErrorKind, VolumeFile};

fn roomy(config: VolumeConfig, workers: usize) -> VolumeConfig {
    VolumeConfig { workers, tier: TierConfig { frames_max: 220, ..config.tier }, ..config }
}

fn resize_and_wait(volume: &Volume, bytes: u64) -> u64 {
    volume.resize(bytes).unwrap();
    wait(|| volume.resize_progress().unwrap().wanted.is_none());
    volume.resize_progress().unwrap().frames
}

/// The whole-structure check, where nobody else is at work on it.
fn at_rest(volume: &Volume, workers: usize) {
    if workers == 0 {
        volume.check();
    }
}

#[test]
fn a_tier_grows_and_shrinks_while_it_is_read_and_written() {
    for workers in [0, 2] {
        for config in [roomy(durable(), workers), roomy(through(), workers)] {
            let flash = formatted(&config);
            let backing = Backing::guarded("a");
            let volume = open(&flash, &config);
            let file = backing.attach(&volume).unwrap();
            let before = volume.resize_progress().unwrap();
            assert_eq!((before.frames, before.wanted), (104, None));
            meanwhile(&file, || {
                assert_eq!(resize_and_wait(&volume, before.bytes_max), 220);
                assert_eq!(resize_and_wait(&volume, before.bytes), 104);
                assert_eq!(resize_and_wait(&volume, before.bytes_max - 50 * PAGE as u64), 170);
            });
            file.sync().unwrap();
            let mut expected = vec![0; PAGES as usize * PAGE];
            file.read_at(&mut expected, 0).unwrap();
            at_rest(&volume, workers);
            drop(file);
            drop(volume);
            // What was resized is what is opened.
            let volume = open(&flash, &config);
            assert_eq!(volume.resize_progress().unwrap().frames, 170);
            let mut found = vec![0; expected.len()];
            backing.attach(&volume).unwrap().read_at(&mut found, 0).unwrap();
            assert!(found == expected);
        }
    }
}

/// Found by threads in many orders. Fewer frames of room than frames count as so many; a queue that shrank
/// kept the number, which then counted as fewer: the next opening took flash to be laid out for those, looked
/// for metadata segments and frames in other places, and refused the tier as damaged.
#[test]
fn a_tier_that_was_told_of_no_room_is_opened_after_it_has_shrunk() {
    for frames_max in [0, 1, 110, 200] {
        let config =
            VolumeConfig { tier: TierConfig { frames: 160, frames_max, ..durable().tier }, ..durable() };
        let flash = formatted(&config);
        let backing = Backing::new("a");
        let volume = open(&flash, &config);
        let file = backing.attach(&volume).unwrap();
        let bytes = volume.resize_progress().unwrap().bytes;
        volume.resize(bytes - 56 * PAGE as u64).unwrap();
        let mut version = 0;
        while volume.resize_progress().unwrap().wanted.is_some() {
            version += 1;
            assert!(version < 50, "it takes effect");
            for block in 0..PAGES {
                file.write_at(&page(block, version), block * PAGE as u64).unwrap();
            }
        }
        file.sync().unwrap();
        assert_eq!(volume.resize_progress().unwrap().frames, 104);
        drop((file, volume));
        let volume = open(&flash, &config);
        assert_eq!(volume.resize_progress().unwrap().frames, 104);
        let file = backing.attach(&volume).unwrap();
        for block in 0..PAGES {
            let mut found = vec![0; PAGE];
            file.read_at(&mut found, block * PAGE as u64).unwrap();
            assert!(found == page(block, version), "{frames_max}: page {block}");
        }
        volume.check();
    }
}

#[test]
fn a_size_that_cannot_be_is_refused_by_name_with_what_can() {
    let config = roomy(durable(), 0);
    let flash = formatted(&config);
    let volume = open(&flash, &config);
    let most = volume.resize_progress().unwrap().bytes_max;
    for (bytes, part) in
        [(most + 1, "formatted for"), (0, "at least"), (most / 10, "at least"), (u64::MAX, "at most")]
    {
        let error = volume.resize(bytes).unwrap_err();
        assert_eq!(error.kind(), VolumeErrorKind::InvalidConfig);
        let message = error.to_string();
        assert!(message.contains(part) && message.contains(error.subject()), "{message}");
    }
    assert_eq!(volume.resize_progress().unwrap().wanted, None);
    volume.resize(most).unwrap();
    assert_eq!(volume.resize_progress().unwrap().wanted.unwrap().frames, 220);
    volume.cancel_resize();
    assert_eq!(volume.resize_progress().unwrap().wanted, None);
    volume.close().unwrap();
    assert_eq!(volume.resize(most).unwrap_err().kind(), VolumeErrorKind::Closed);
    assert_eq!(Volume::without_tier().resize(most).unwrap_err().kind(), VolumeErrorKind::NoTier);
}

/// What the file holds, and what its disk holds.
fn contents(file: &VolumeFile, backing: &Backing) -> (Vec<u8>, Vec<u8>) {
    let mut found = vec![0; file.len() as usize];
    file.read_at(&mut found, 0).unwrap();
    (found, backing.disk.image())
}

#[test]
fn the_sync_mode_is_switched_while_the_file_is_read_and_written() {
    for workers in [0, 2] {
        let config = roomy(durable(), workers);
        let flash = formatted(&config);
        let backing = Backing::guarded("a");
        let volume = open(&flash, &config);
        let file = backing.attach(&volume).unwrap();
        meanwhile(&file, || {
            for mode in [SyncMode::Through, SyncMode::Durable, SyncMode::Durable, SyncMode::Through] {
                volume.set_sync_mode(mode).unwrap();
                assert_eq!(volume.sync_mode(), Some(mode));
                thread::sleep(Duration::from_millis(20));
            }
        });
        file.sync().unwrap();
        let (found, disk) = contents(&file, &backing);
        assert!(found == disk, "in mode through the disk has everything");
        volume.set_sync_mode(SyncMode::Durable).unwrap();
        file.write_at(&page(3, 1_000_000), 3 * PAGE as u64).unwrap();
        file.sync().unwrap();
        let (found, disk) = contents(&file, &backing);
        assert!(found != disk && disk.starts_with(b"guarded by a tier"));
        at_rest(&volume, workers);
        // A crash: flash has the page that was synced.
        drop((file, volume));
        let volume = open(&flash, &config);
        assert_eq!(contents(&backing.attach(&volume).unwrap(), &backing).0, found);
    }
}

#[test]
fn without_admission_the_tier_serves_what_it_has_and_the_disk_is_current() {
    for workers in [0, 2] {
        for config in [roomy(durable(), workers), roomy(through(), workers)] {
            let flash = formatted(&config);
            let backing = Backing::guarded("a");
            let volume = open(&flash, &config);
            let file = backing.attach(&volume).unwrap();
            meanwhile(&file, || {
                for _ in 0..3 {
                    volume.stop_admission().unwrap();
                    thread::sleep(Duration::from_millis(20));
                    assert_eq!(volume.takes_pages(), Some(false));
                    volume.resume_admission().unwrap();
                    thread::sleep(Duration::from_millis(20));
                }
                volume.stop_admission().unwrap();
            });
            // Draining and cutting the queue leave it so.
            volume.drain().unwrap();
            let before = volume.statistics().tier.unwrap();
            for block in 0..10 {
                file.write_at(&page(block, 1_000_000), block * PAGE as u64).unwrap();
            }
            file.sync().unwrap();
            let now = volume.statistics().tier.unwrap();
            assert_eq!((before.staged_dirty, before.staged_clean), (now.staged_dirty, now.staged_clean));
            let (found, disk) = contents(&file, &backing);
            assert!(found == disk);
            let more = volume.statistics();
            assert!(more.page_hits_flash + more.page_hits_memory > 0);
            at_rest(&volume, workers);
            drop((file, volume));
            let volume = open(&flash, &config);
            assert_eq!(volume.takes_pages(), Some(true));
            assert_eq!(contents(&backing.attach(&volume).unwrap(), &backing).0, found);
        }
    }
}

/// A tier of clean pages needs none of its files; one that may hold only copies waits for all that it knows.
#[test]
fn files_that_are_gone_hold_up_no_switch_of_the_sync_mode() {
    let flash = formatted(&through());
    let [kept, gone] = [Backing::new("a"), Backing::new("b")];
    let volume = open(&flash, &through());
    for backing in [&kept, &gone] {
        backing.attach(&volume).unwrap().write_at(&page(3, 1), 3 * PAGE as u64).unwrap();
    }
    volume.close().unwrap();
    let volume = open(&flash, &through());
    let file = kept.attach(&volume).unwrap();
    volume.set_sync_mode(SyncMode::Durable).unwrap();
    file.write_at(&page(3, 2), 3 * PAGE as u64).unwrap();
    drop((file, volume));
    // It was forgotten durably, and may come back with its disk alone.
    let volume = open(&flash, &durable());
    let found = [&kept, &gone].map(|backing| {
        let mut found = vec![0; PAGE];
        backing.attach(&volume).unwrap().read_at(&mut found, 3 * PAGE as u64).unwrap();
        found
    });
    assert!(found[1] == page(3, 1) && (found[0] == page(3, 1) || found[0] == page(3, 2)));
}

#[test]
fn modes_that_a_volume_cannot_have_are_refused() {
    let config = durable();
    let volume = open(&formatted(&config), &config);
    let error = volume.set_sync_mode(SyncMode::Drained).unwrap_err();
    assert_eq!(error.kind(), VolumeErrorKind::InvalidConfig);
    assert!(error.to_string().contains("use durable, or through"), "{error}");
    assert_eq!(volume.sync_mode(), Some(SyncMode::Durable));
    let tierless = Volume::without_tier();
    assert_eq!(tierless.set_sync_mode(SyncMode::Through).unwrap_err().kind(), VolumeErrorKind::NoTier);
    assert_eq!(tierless.stop_admission().unwrap_err().kind(), VolumeErrorKind::NoTier);
}

#[test]
fn the_disk_counts_as_idle_when_nobody_waits_for_it() {
    let config = roomy(durable(), 1);
    let volume = open(&formatted(&config), &config);
    assert_eq!(volume.disk_utilisation(), Some(1000), "before it was measured");
    let file = Backing::new("a").attach(&volume).unwrap();
    for block in 0..PAGES {
        file.write_at(&page(block, 1), block * PAGE as u64).unwrap();
    }
    file.sync().unwrap();
    wait(|| volume.disk_utilisation() < Some(500));
    let config = roomy(durable(), 0);
    assert_eq!(open(&formatted(&config), &config).disk_utilisation(), None);
}
