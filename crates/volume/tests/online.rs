//! Operations on a volume in use, with readers and writers that go on meanwhile.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::{Backing, PAGE, durable, formatted, open, page, through};
use mezzanine_volume::{TierConfig, Volume, VolumeConfig, VolumeErrorKind, VolumeFile};

const PAGES: u64 = 80;

fn roomy(config: VolumeConfig, workers: usize) -> VolumeConfig {
    VolumeConfig { workers, tier: TierConfig { frames_max: 220, ..config.tier }, ..config }
}

fn version(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[8..16].try_into().unwrap())
}

/// Runs `operation` while two threads read, each of which sees versions that never go back, and one writes.
fn meanwhile(file: &VolumeFile, operation: impl FnOnce()) {
    let (stop, reads, written) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    for block in 0..PAGES {
        file.write_at(&page(block, 1), block * PAGE as u64).unwrap();
    }
    thread::scope(|scope| {
        for reader in 0..2 {
            let (stop, reads) = (&stop, &reads);
            scope.spawn(move || {
                let mut seen = vec![1; PAGES as usize];
                let mut block = reader * 31;
                while !stop.load(Ordering::Relaxed) {
                    block = (block + 7) % PAGES;
                    let mut found = vec![0; PAGE];
                    file.read_at(&mut found, block * PAGE as u64).unwrap();
                    let now = version(&found);
                    assert!(found == page(block, now), "page {block} is torn");
                    assert!(now >= seen[block as usize], "page {block} went back to {now}");
                    seen[block as usize] = now;
                    reads.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let (stopped, writes) = (&stop, &written);
        scope.spawn(move || {
            for number in 0.. {
                if stopped.load(Ordering::Relaxed) {
                    break;
                }
                let block = number * 13 % PAGES;
                file.write_at(&page(block, 2 + number), block * PAGE as u64).unwrap();
                if number % 10 == 0 {
                    file.sync().unwrap();
                }
                writes.fetch_add(1, Ordering::Relaxed);
            }
        });
        struct Stop<'s>(&'s AtomicBool);
        impl Drop for Stop<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let _stop = Stop(&stop);
        operation();
        // Both go on afterwards.
        for counter in [&reads, &written] {
            let before = counter.load(Ordering::Relaxed);
            wait(|| counter.load(Ordering::Relaxed) > before + 20);
        }
    });
}

fn wait(done: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < end, "it takes too long");
        thread::sleep(Duration::from_millis(1));
    }
}

fn resize_and_wait(volume: &Volume, bytes: u64) -> u64 {
    volume.resize(bytes).unwrap();
    wait(|| volume.resize_progress().unwrap().wanted.is_none());
    volume.resize_progress().unwrap().frames
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
            volume.check();
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
