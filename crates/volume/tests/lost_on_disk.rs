//! A page that flash does not give back, whose record says that only flash has it, and that disk has all the
//! same.

#![allow(clippy::unwrap_used)]

mod common;

use common::bad_places::spoil;
use common::one_file::{InUse, WRITE_BACK, durable, go_round, in_use, read, write};
use common::{PAGE, open, page};
use mezzanine_device::memory::Bad;
use mezzanine_engine::planted::{Bug, only_with};
use mezzanine_volume::{Design, VolumeConfig, VolumeErrorKind, VolumeState};

const AT: u64 = 5;

/// Pages go to disk, which their records do not know; `newer`, if the page is written once more and only
/// flash has that. Then the power fails, and the newest version on flash cannot be read any more.
fn after_a_crash(config: &VolumeConfig, newer: bool) -> InUse {
    let InUse { flash, backing, volume, file } = in_use(config);
    volume.drain().unwrap();
    if newer {
        write(&file, AT, 2);
        file.sync().unwrap();
    }
    drop((file, volume));
    flash.power_cut(1);
    backing.disk.power_cut(1);
    assert_eq!(spoil(&flash, &page(AT, if newer { 2 } else { 1 }), Bad::Unreadable), 1);
    let volume = open(&flash, config);
    let file = backing.attach(&volume).unwrap();
    InUse { flash, backing, volume, file }
}

/// Does disk answer for the page, before and after the queue has come to it, and is the file whole after a
/// drain?
fn nothing_is_lost(design: Design, goes_round: bool) -> bool {
    let InUse { backing, volume, file, .. } = after_a_crash(&durable(design), false);
    if goes_round {
        go_round(&file, &volume, 8).unwrap();
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
    only_with(&[Bug::DiskNotCompared], || nothing_is_lost(Design::FaceGr, false));
}

/// Disk has a version of the page, and not the newest.
#[test]
fn an_older_version_on_disk_does_not_answer() {
    for design in WRITE_BACK {
        let InUse { volume, file, .. } = after_a_crash(&durable(design), true);
        assert_eq!(read(&file, AT), Err(VolumeErrorKind::LostPage), "{design:?}");
        assert_eq!(volume.drain().unwrap_err().kind(), VolumeErrorKind::LostPage, "{design:?}");
        file.give_up(AT * PAGE as u64).unwrap();
        volume.drain().unwrap();
    }
}
