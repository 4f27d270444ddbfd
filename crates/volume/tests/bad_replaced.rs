//! A flash device with bad sectors is replaced while files are read: they are what it is replaced for.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use common::bad_places::spoil;
use common::one_file::{InUse, PAGES, WRITE_BACK, durable, go_round, in_use, read};
use common::slow::{Held, Slow};
use common::{Backing, PAGE, config, flash_for, formatted, page};
use mezzanine_device::memory::{Bad, Fault, Injection, Operation};
use mezzanine_device::{Device, DeviceErrorKind};
use mezzanine_engine::planted::{Bug, only_with, set};
use mezzanine_volume::{Admission, Design, ReplaceOptions, SyncMode, Volume, VolumeErrorKind, VolumeState};

/// A reader meets a clean page that flash does not give back, and has its tombstone made durable before disk
/// answers. Meanwhile the device is replaced: the reader waited for the volume to be quiesced, with the
/// file's layout in its hands, and the new tier for the layout.
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

/// A page is lost, so the device is not replaced. When the page has been given up it is, by the same spare:
/// that held a tier by then, in which there was nothing, and was refused because of pages that may be nowhere
/// else.
fn a_spare_is_taken_the_second_time(design: Design) -> bool {
    let config = durable(design);
    let InUse { flash, volume, file, .. } = in_use(&config);
    assert!(spoil(&flash, &page(5, 1), Bad::Unreadable) > 0);
    go_round(&file, &volume, 8).unwrap();
    let spare = flash_for(&config);
    let options = ReplaceOptions { identity_seed: Some(7), ..ReplaceOptions::new(config.tier.clone()) };
    let replace = || volume.replace_flash(spare.clone(), &options).map_err(|error| error.kind());
    assert_eq!(replace(), Err(VolumeErrorKind::LostPage));
    assert_eq!(volume.state(), VolumeState::Ok);
    file.give_up(5 * PAGE as u64).unwrap();
    let taken = replace();
    (0..PAGES)
        .filter(|block| *block != 5)
        .for_each(|block| assert_eq!(read(&file, block), Ok(page(block, 1))));
    taken == Ok(())
}

#[test]
fn a_spare_that_was_not_needed_can_be_used_later() {
    for design in WRITE_BACK {
        assert!(a_spare_is_taken_the_second_time(design), "{design:?}");
    }
    only_with(&[Bug::SuccessorStartedEarly], || a_spare_is_taken_the_second_time(Design::FaceGr));
}

/// Any write or flush of the spare fails, also the last ones, with which it says that it is in use: the old
/// device stays in use, and changes go on. The same spare is taken when it is well.
#[test]
fn a_spare_that_fails_leaves_the_old_device_in_use() {
    for operation in [Operation::Write, Operation::Flush] {
        for after in 0.. {
            let config = durable(Design::FaceGr);
            let InUse { flash, backing, volume, file } = in_use(&config);
            let spare = flash_for(&config);
            let fault = Fault::Error(DeviceErrorKind::Io);
            spare.inject(Injection { operation, after, count: u64::MAX, fault });
            let options =
                ReplaceOptions { identity_seed: Some(7), ..ReplaceOptions::new(config.tier.clone()) };
            let replaced = volume.replace_flash(spare.clone(), &options);
            let struck = spare.faults_struck() > 0;
            spare.heal();
            if !struck {
                replaced.unwrap();
                assert!(after > 3, "{operation:?}: nothing of a replacement was struck");
                break;
            }
            assert_eq!(replaced.unwrap_err().kind(), VolumeErrorKind::Io, "{operation:?} {after}");
            assert_eq!(volume.state(), VolumeState::Ok);
            go_round(&file, &volume, 3).unwrap();
            // In the middle of its formatting it may hold anything.
            let options = ReplaceOptions { force: true, ..options };
            volume.replace_flash(spare.clone(), &options).unwrap();
            go_round(&file, &volume, 3).unwrap();
            assert!((0..PAGES).all(|block| read(&file, block) == Ok(page(block, 1))));
            drop((file, volume, flash));
            let volume = Volume::open(spare as Arc<dyn Device>, config.clone()).unwrap();
            let file = backing.attach(&volume).unwrap();
            assert!((0..PAGES).all(|block| read(&file, block) == Ok(page(block, 1))));
        }
    }
}

/// A spare device holds an older tier with older pages, and keeps nothing of what is written to it from some
/// write on, and reports none of that. Either the old device stays in use, or the new tier is.
fn an_older_tier_is_not_taken_for_the_new_one(after: u64) -> (bool, bool) {
    let config = durable(Design::FaceGsc);
    let InUse { flash, volume, file, .. } = in_use(&config);
    let older = flash.image();
    let options =
        ReplaceOptions { force: true, identity_seed: Some(7), ..ReplaceOptions::new(config.tier.clone()) };
    volume.replace_flash(flash_for(&config), &options).unwrap();
    for block in 0..PAGES {
        file.write_at(&page(block, 2), block * PAGE as u64).unwrap();
    }
    let spare = flash_for(&config);
    spare.load(&older);
    spare.inject(Injection { operation: Operation::Write, after, count: u64::MAX, fault: Fault::Lie });
    let replaced = volume.replace_flash(spare.clone(), &options);
    let named = replaced.as_ref().is_err_and(|error| error.to_string().contains(&spare.describe()));
    let right = (replaced.is_ok() || named)
        && volume.state() == VolumeState::Ok
        && (0..PAGES).all(|block| read(&file, block) == Ok(page(block, 2)));
    (right, spare.faults_struck() > 0)
}

#[test]
fn a_spare_that_keeps_nothing_is_not_used_with_what_it_held() {
    for after in 0.. {
        let (right, struck) = an_older_tier_is_not_taken_for_the_new_one(after);
        assert!(right, "from write {after} on");
        if !struck {
            assert!(after > 3, "nothing of a replacement was struck");
            break;
        }
    }
    only_with(&[Bug::OlderSuccessorUsed], || an_older_tier_is_not_taken_for_the_new_one(0).0);
}
