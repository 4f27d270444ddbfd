//! A page that flash does not give back, whose record says that only flash has it, and that disk has all the
//! same.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use common::{Backing, PAGE, config, formatted, open, page};
use mezzanine_device::memory::{Bad, MemoryDevice};
use mezzanine_engine::planted::{Bug, set};
use mezzanine_volume::{
    Admission, Design, SyncMode, Volume, VolumeConfig, VolumeErrorKind, VolumeFile, VolumeState,
};

const AT: u64 = 5;

/// Those that take a page that is written for the first time.
const WRITE_BACK: [Design; 4] = [Design::FaceBasic, Design::FaceGr, Design::FaceGsc, Design::Lc];

fn durable(design: Design) -> VolumeConfig {
    config(design, Admission::Both, SyncMode::Durable, 0)
}

fn write(file: &VolumeFile, block: u64, version: u64) {
    file.write_at(&page(block, version), block * PAGE as u64).unwrap();
}

fn read(file: &VolumeFile, block: u64) -> Result<Vec<u8>, VolumeErrorKind> {
    let mut found = vec![0; PAGE];
    file.read_at(&mut found, block * PAGE as u64).map(|()| found).map_err(|error| error.kind())
}

fn spoil(flash: &MemoryDevice, bytes: &[u8]) {
    let image = flash.image();
    for at in (0..image.len() / PAGE).filter(|at| image[at * PAGE..(at + 1) * PAGE] == *bytes) {
        flash.spoil((at * PAGE + 1024) as u64, 512, Bad::Unreadable);
    }
}

/// Pages go to disk, which their records do not know; `newer`, if the page is written once more and only
/// flash has that. Then the power fails, and the newest version on flash cannot be read any more.
fn after_a_crash(
    config: &VolumeConfig,
    flash: &Arc<MemoryDevice>,
    backing: &Backing,
    newer: bool,
) -> (Volume, VolumeFile) {
    {
        let volume = open(flash, config);
        let file = backing.attach(&volume).unwrap();
        (0..12).for_each(|block| write(&file, block, 1));
        file.sync().unwrap();
        volume.drain().unwrap();
        if newer {
            write(&file, AT, 2);
            file.sync().unwrap();
        }
    }
    flash.power_cut(1);
    backing.disk.power_cut(1);
    spoil(flash, &page(AT, if newer { 2 } else { 1 }));
    let volume = open(flash, config);
    let file = backing.attach(&volume).unwrap();
    (volume, file)
}

/// Does disk answer for the page, before and after the queue has come to it, and is the file whole after a
/// drain?
fn nothing_is_lost(design: Design, goes_round: bool) -> bool {
    let config = durable(design);
    let (flash, backing) = (formatted(&config), Backing::new("a"));
    let (volume, file) = after_a_crash(&config, &flash, &backing, false);
    for version in 100..if goes_round { 108 } else { 100 } {
        (200..330).for_each(|block| write(&file, block, version));
        file.sync().unwrap();
    }
    assert_eq!(volume.state(), VolumeState::Ok);
    let mut all = vec![0; 12 * PAGE];
    let together = file.read_at(&mut all, 0).is_ok();
    let right = |block: u64| read(&file, block) == Ok(page(block, 1));
    let part = file.write_at(&[7; 10], 6 * PAGE as u64 + 5).is_ok();
    let answered = together && part && right(AT) && all[AT as usize * PAGE..][..PAGE] == page(AT, 1);
    answered
        && volume.drain().is_ok()
        && volume.lost_pages().is_empty()
        && right(AT)
        && volume.close_drained().is_ok()
        && backing.disk.inspect(|disk| disk[AT as usize * PAGE..][..PAGE] == page(AT, 1))
}

/// The page's record said that only flash had it: it was reported as lost, and the file could not leave the
/// tier, though disk had every byte of it.
#[test]
fn a_page_that_disk_has_is_not_lost() {
    for design in WRITE_BACK {
        for goes_round in [false, true] {
            assert!(nothing_is_lost(design, goes_round), "{design:?}, goes round: {goes_round}");
        }
    }
    set(Some(Bug::DiskNotCompared));
    let held = nothing_is_lost(Design::FaceGr, false);
    set(None);
    assert!(!held, "a page that disk has was called lost, and nobody noticed");
}

/// Disk has a version of the page, and not the newest.
#[test]
fn an_older_version_on_disk_does_not_answer() {
    for design in WRITE_BACK {
        let config = durable(design);
        let (flash, backing) = (formatted(&config), Backing::new("a"));
        let (volume, file) = after_a_crash(&config, &flash, &backing, true);
        assert_eq!(read(&file, AT), Err(VolumeErrorKind::LostPage), "{design:?}");
        assert_eq!(volume.drain().unwrap_err().kind(), VolumeErrorKind::LostPage, "{design:?}");
        file.give_up(AT * PAGE as u64).unwrap();
        volume.drain().unwrap();
    }
}
