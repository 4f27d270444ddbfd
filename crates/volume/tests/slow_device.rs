//! Devices that take their time, or hang: nothing is acknowledged early, writers wait instead of filling
//! memory, readers and other files go on, and a stop waits for what is under way.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use common::slow::{Held, Slow};
use common::{Backing, PAGE, config, durable, formatted, page};
use mezzanine_volume::{Admission, AttachOptions, Design, SyncMode, Volume, VolumeConfig};

/// Long enough that whoever does not wait would have come through.
const A_WHILE: Duration = Duration::from_millis(60);

fn with_workers(workers: usize) -> VolumeConfig {
    config(Design::FaceGsc, Admission::Both, SyncMode::Durable, workers)
}

#[test]
fn a_sync_waits_for_a_flush_that_hangs_and_readers_do_not() {
    for workers in [0, 2] {
        let (memory, backing) = (formatted(&durable()), Backing::new("a"));
        let flash = Slow::new(&memory);
        let volume = Volume::open(flash.clone(), with_workers(workers)).unwrap();
        let file = backing.attach(&volume).unwrap();
        file.write_at(&page(0, 1), 0).unwrap();
        file.sync().unwrap();
        file.write_at(&page(1, 1), PAGE as u64).unwrap();
        flash.hold(Held::Flushes);
        let acknowledged = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let sync = scope.spawn(|| {
                file.sync().unwrap();
                acknowledged.store(true, Ordering::SeqCst);
            });
            flash.wait_until_one_hangs();
            let mut found = vec![0; PAGE];
            for n in 0..2 {
                file.read_at(&mut found, n * PAGE as u64).unwrap();
                assert!(found == page(n, 1));
            }
            std::thread::sleep(A_WHILE);
            assert!(!acknowledged.load(Ordering::SeqCst), "acknowledged before the flush had ended");
            flash.hold(Held::Nothing);
            sync.join().unwrap();
        });
        drop(volume);
        memory.power_cut(3);
        let volume = Volume::open(memory.clone(), with_workers(0)).unwrap();
        let mut found = vec![0; PAGE];
        backing.attach(&volume).unwrap().read_at(&mut found, PAGE as u64).unwrap();
        assert!(found == page(1, 1));
    }
}

#[test]
fn writers_wait_for_flash_that_hangs_and_then_go_on() {
    for workers in [0, 2] {
        let (memory, backing) = (formatted(&durable()), Backing::new("a"));
        let flash = Slow::new(&memory);
        let volume = Volume::open(flash.clone(), with_workers(workers)).unwrap();
        let file = backing.attach(&volume).unwrap();
        file.write_at(&page(0, 1), 0).unwrap();
        flash.hold(Held::Writes);
        let written = AtomicU64::new(0);
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for n in 1..300 {
                    file.write_at(&page(n, 1), n * PAGE as u64).unwrap();
                    written.store(n, Ordering::SeqCst);
                }
            });
            flash.wait_until_one_hangs();
            std::thread::sleep(A_WHILE);
            // Three groups of four pages are all the memory there is.
            let stalled = written.load(Ordering::SeqCst);
            assert!(stalled <= 12, "{stalled} pages were taken, and flash has none of them");
            flash.hold(Held::Nothing);
            writer.join().unwrap();
        });
        file.sync().unwrap();
        let mut found = vec![0; PAGE];
        for n in 0..300 {
            file.read_at(&mut found, n * PAGE as u64).unwrap();
            assert!(found == page(n, 1));
        }
    }
}

#[test]
fn a_disk_that_hangs_in_stage_out_holds_up_writers_and_not_readers() {
    let (flash, backing) = (formatted(&durable()), Backing::new("a"));
    let disk = Slow::new(&backing.disk);
    let volume = Volume::open(flash.clone(), with_workers(2)).unwrap();
    let sidecar = backing.sidecar.clone();
    let file = volume.attach(&backing.path, disk.clone(), sidecar, AttachOptions::default()).unwrap();
    file.write_at(&page(0, 1), 0).unwrap();
    disk.hold(Held::Writes);
    std::thread::scope(|scope| {
        // Until the queue is full and nothing leaves it.
        let writer = scope.spawn(|| {
            (1..300).for_each(|n| file.write_at(&page(n, 1), n * PAGE as u64).unwrap());
        });
        disk.wait_until_one_hangs();
        std::thread::sleep(A_WHILE);
        assert!(!writer.is_finished(), "more pages than the queue has frames");
        let mut found = vec![0; PAGE];
        file.read_at(&mut found, PAGE as u64).unwrap();
        assert!(found == page(1, 1));
        disk.hold(Held::Nothing);
        writer.join().unwrap();
    });
    file.sync().unwrap();
    volume.close_drained().unwrap();
    let expected: Vec<u8> = (0..300).flat_map(|n| page(n, 1)).collect();
    backing.disk.inspect(|disk| assert!(disk == expected));
}

#[test]
fn a_stop_waits_for_what_hangs() {
    for drained in [false, true] {
        let (memory, backing) = (formatted(&durable()), Backing::new("a"));
        let flash = Slow::new(&memory);
        let volume = Volume::open(flash.clone(), with_workers(1)).unwrap();
        let file = backing.attach(&volume).unwrap();
        let expected: Vec<u8> = (0..20).flat_map(|n| page(n, 1)).collect();
        file.write_at(&expected[..PAGE], 0).unwrap();
        flash.hold(Held::Writes);
        std::thread::scope(|scope| {
            // It was first, or finds the volume closed in the middle.
            scope.spawn(|| file.write_at(&expected, 0));
            flash.wait_until_one_hangs();
            let close = scope.spawn(|| if drained { volume.close_drained() } else { volume.close() });
            std::thread::sleep(A_WHILE);
            assert!(!close.is_finished(), "closed while a write was under way");
            flash.hold(Held::Nothing);
            close.join().unwrap().unwrap();
        });
        drop(volume);
        let volume = Volume::open(memory.clone(), with_workers(1)).unwrap();
        let file = backing.attach(&volume).unwrap();
        let mut found = vec![0; file.len() as usize];
        file.read_at(&mut found, 0).unwrap();
        for (n, found) in found.chunks(PAGE).enumerate() {
            assert!(found == page(n as u64, 1) || found.iter().all(|&byte| byte == 0), "page {n}");
        }
        assert!(found[..PAGE] == expected[..PAGE]);
    }
}
