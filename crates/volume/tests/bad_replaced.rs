//! A flash device with bad sectors is replaced while files are read: they are what it is replaced for.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use common::slow::{Held, Slow};
use common::{Backing, PAGE, config, flash_for, formatted, page};
use mezzanine_device::memory::Bad;
use mezzanine_engine::planted::{Bug, set};
use mezzanine_volume::{Admission, Design, ReplaceOptions, SyncMode, Volume};

/// A reader meets a clean page that flash does not give back, and has its tombstone made durable before disk
/// answers. Meanwhile the device is replaced: the reader waited for the volume to be settled, with the file's
/// layout in its hands, and the new tier for the layout.
fn a_device_is_replaced_while_a_clean_page_is_buried(
    workers: usize,
    stopped: bool,
    bug: Option<Bug>,
) -> bool {
    let config = config(Design::FaceGsc, Admission::Both, SyncMode::Durable, workers);
    let (flash, backing) = (formatted(&config), Backing::new("a"));
    let slow = Slow::new(&flash);
    let volume = Arc::new(Volume::open(Arc::clone(&slow) as _, config.clone()).unwrap());
    let file = Arc::new(backing.attach(&volume).unwrap());
    for block in 0..12 {
        file.write_at(&page(block, 1), block * PAGE as u64).unwrap();
    }
    file.sync().unwrap();
    volume.drain().unwrap();
    if stopped {
        volume.stop_admission().unwrap();
    }
    let image = flash.image();
    let at = (0..image.len() / PAGE).find(|at| image[at * PAGE..(at + 1) * PAGE] == page(5, 1)).unwrap();
    flash.spoil((at * PAGE) as u64, 512, Bad::Unreadable);

    slow.hold(Held::ReadsDone);
    let reader = {
        let file = Arc::clone(&file);
        thread::spawn(move || {
            set(bug);
            let mut found = vec![0; PAGE];
            file.read_at(&mut found, 5 * PAGE as u64).map(|()| found)
        })
    };
    slow.wait_until_one_hangs();
    let (done, replaced) = mpsc::channel();
    let operator = {
        let (volume, config) = (Arc::clone(&volume), config.clone());
        thread::spawn(move || {
            let options =
                ReplaceOptions { identity_seed: Some(7), ..ReplaceOptions::new(config.tier.clone()) };
            done.send(volume.replace_flash(flash_for(&config), &options)).unwrap();
        })
    };
    // It reads the superblock of the old device when it has the old tier to itself.
    slow.wait_until_hanging(2);
    slow.hold(Held::Nothing);
    let patience = Duration::from_secs(if bug.is_some() { 2 } else { 60 });
    let Ok(outcome) = replaced.recv_timeout(patience) else { return false };
    outcome.unwrap();
    operator.join().unwrap();
    reader.join().unwrap().unwrap() == page(5, 1)
}

#[test]
fn a_reader_that_buries_a_page_holds_up_no_replacement() {
    for workers in [0, 1, 2] {
        for stopped in [false, true] {
            assert!(a_device_is_replaced_while_a_clean_page_is_buried(workers, stopped, None));
        }
    }
    let waits = a_device_is_replaced_while_a_clean_page_is_buried(1, false, Some(Bug::BurialWaits));
    assert!(!waits, "the planted fault went unnoticed");
}
