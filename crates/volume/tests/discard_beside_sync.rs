//! A range is discarded while the disk is synced, for what stage-out has written there.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use common::slow::{Held, Slow};
use common::{Backing, PAGE, durable, formatted, open, page};
use mezzanine_engine::planted::{Bug, set};
use mezzanine_volume::{AttachOptions, SidecarStore, VolumeFile};

/// Is the file taken again after a crash that comes when all that is over?
fn the_file_is_taken_again(bug: Option<Bug>) -> bool {
    let (flash, backing) = (formatted(&durable()), Backing::new("a"));
    let volume = open(&flash, &durable());
    let disk = Slow::new(&backing.disk);
    let attach = |disk: Arc<Slow>| {
        volume.attach(&backing.path, disk, backing.sidecar.clone(), AttachOptions::default()).unwrap()
    };
    let file: VolumeFile = attach(disk.clone());
    file.write_at(&page(0, 1), 0).unwrap();
    file.sync().unwrap();
    disk.hold(Held::Flushes);
    thread::scope(|scope| {
        let mut block = 1;
        // Until stage-out has written something and waits for its sync.
        let syncing = loop {
            for _ in 0..4 {
                file.write_at(&page(block, 1), block * PAGE as u64).unwrap();
                block += 1;
            }
            let syncing = scope.spawn(|| while volume.step() {});
            while !syncing.is_finished() && !disk.hangs() {
                thread::sleep(Duration::from_millis(1));
            }
            if disk.hangs() {
                break syncing;
            }
            syncing.join().unwrap();
        };
        let before = backing.sidecar.read().unwrap();
        let discarding = scope.spawn(|| {
            set(bug);
            file.discard(0, 4 * PAGE as u64).unwrap();
            set(None);
        });
        while backing.sidecar.read().unwrap() == before {
            thread::sleep(Duration::from_millis(1));
        }
        disk.hold(Held::Nothing);
        syncing.join().unwrap();
        discarding.join().unwrap();
    });
    drop(file);
    drop(volume);
    let volume = open(&flash, &durable());
    let taken = backing.attach(&volume);
    taken.is_ok_and(|file| {
        let mut found = vec![1; file.len() as usize];
        file.read_at(&mut found, 0).unwrap();
        found[..4 * PAGE].iter().all(|byte| *byte == 0)
    })
}

/// The sync had what it covered in hand and put it into the sidecar when the discard had made that forget it:
/// the sidecar named pages that are zeros by now, and the file was refused for them, as one that is older
/// than its sidecar.
#[test]
fn a_sync_that_was_under_way_names_no_page_that_was_discarded() {
    assert!(the_file_is_taken_again(None));
    assert!(!the_file_is_taken_again(Some(Bug::SyncedBatchRemembered)), "the planted fault went unnoticed");
}

/// The sidecar that a crash has left names a page that was being discarded. Is the file taken at the
/// attachment after the one that repeats the discard?
fn a_repeated_discard_is_lasting(bug: Option<Bug>) -> bool {
    let (flash, backing) = (formatted(&durable()), Backing::new("a"));
    let volume = open(&flash, &durable());
    let file = backing.attach(&volume).unwrap();
    for block in 0..200 {
        file.write_at(&page(block, 1), block * PAGE as u64).unwrap();
    }
    file.sync().unwrap();
    drop((file, volume));
    let sidecar = String::from_utf8(backing.sidecar.read().unwrap().unwrap()).unwrap();
    assert!(sidecar.contains("\nwritten "));
    let (fields, _) = sidecar.split_once("crc32c ").unwrap();
    let fields = format!("{fields}discarding 0 200\n");
    let checksum = crc32c::crc32c(fields.as_bytes());
    backing.sidecar.replace(format!("{fields}crc32c {checksum:08x}\n").as_bytes()).unwrap();
    set(bug);
    drop(backing.attach(&open(&flash, &durable())).unwrap());
    let taken = backing.attach(&open(&flash, &durable())).is_ok();
    set(None);
    taken
}

/// The discard was repeated when the file was attached, and the pages were named as they had been: the
/// attachment after that found zeros and refused the file.
#[test]
fn a_discard_that_is_repeated_leaves_no_page_named() {
    assert!(a_repeated_discard_is_lasting(None));
    assert!(
        !a_repeated_discard_is_lasting(Some(Bug::SyncedBatchRemembered)),
        "the planted fault went unnoticed"
    );
}
