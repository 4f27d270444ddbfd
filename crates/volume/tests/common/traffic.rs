//! Readers and a writer that go on while something is done to their volume.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use mezzanine_volume::VolumeFile;

use super::{PAGE, page};

/// Pages of the file.
pub const PAGES: u64 = 80;

pub fn version(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[8..16].try_into().unwrap())
}

/// Runs `operation` while two threads read, each of which sees versions that never go back, and one writes.
pub fn meanwhile(file: &VolumeFile, operation: impl FnOnce()) {
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

pub fn wait(done: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < end, "it takes too long");
        thread::sleep(Duration::from_millis(1));
    }
}
