//! Both copies of the superblock go bad.

#![allow(clippy::unwrap_used)]

mod common;

use common::bad_places::spoil;
use common::one_file::{InUse, PAGES, WRITE_BACK, go_round, in_use, on_flash_alone, read, write};
use common::{PAGE, durable, page};
use mezzanine_device::memory::Bad;
use mezzanine_engine::format::{SUPERBLOCK_BYTES, SUPERBLOCK_OFFSETS};
use mezzanine_engine::planted::{Bug, only_with};
use mezzanine_volume::{Design, Volume, VolumeErrorKind, VolumeFile, VolumeState};

/// A volume in use with synced pages that only flash has, whose superblocks go bad.
fn with_bad_superblocks(bad: [Bad; 2]) -> InUse {
    let with = in_use(&durable());
    for (offset, bad) in SUPERBLOCK_OFFSETS.into_iter().zip(bad) {
        with.flash.spoil(offset, SUPERBLOCK_BYTES as u64, bad);
    }
    with
}

fn has_all(file: &VolumeFile) -> bool {
    (0..PAGES).all(|block| read(file, block) == Ok(page(block, 1)))
}

/// The host knows what both say, and writes them anew: nothing is lost. It did not, since nobody could tell
/// which copy might be overwritten first, and the tier could be neither closed nor opened.
fn are_written_anew(bad: [Bad; 2]) -> bool {
    let InUse { flash, backing, volume, file } = with_bad_superblocks(bad);
    if volume.close().is_err() {
        return false;
    }
    drop((volume, file));
    let Ok(volume) = Volume::open(flash, durable()) else { return false };
    has_all(&backing.attach(&volume).unwrap())
}

#[test]
fn superblocks_that_cannot_be_read_in_use_are_written_anew() {
    let until_written = [Bad::UnreadableUntilWritten; 2];
    for bad in [
        until_written,
        [Bad::Unreadable, Bad::UnreadableUntilWritten],
        [Bad::UnreadableUntilWritten, Bad::Unreadable],
        [Bad::Unreadable, Bad::Garbled],
    ] {
        let kept = bad[1] != Bad::Garbled;
        assert_eq!(are_written_anew(bad), kept, "{bad:?}");
    }
    only_with(&[Bug::UnreadSuperblocksKept], || are_written_anew(until_written));
}

/// Both places stay bad: the write succeeds, and nobody could open the tier again. Who closes it is told, and
/// the volume can still bring everything to disk before.
fn a_device_without_superblocks_is_told() -> bool {
    let InUse { flash, backing, volume, file } = with_bad_superblocks([Bad::Unreadable; 2]);
    assert!(has_all(&file));
    volume.drain().unwrap();
    assert_eq!(volume.state(), VolumeState::Ok);
    backing.disk.inspect(|disk| {
        (0..12).for_each(|block| {
            assert!(disk[block * PAGE..][..PAGE] == page(block as u64, 1), "page {block}");
        })
    });
    let Err(error) = volume.close() else { return false };
    let text = error.to_string();
    assert!(text.contains("superblock") && text.contains("cannot be opened again"), "{text}");
    drop((volume, file));
    let error = Volume::open(flash, durable()).err().unwrap();
    let text = error.to_string();
    assert_eq!(error.kind(), VolumeErrorKind::Io);
    assert!(text.contains("superblock") && text.contains("see to the device"), "{text}");
    true
}

#[test]
fn superblocks_that_stay_unreadable_are_told_at_once_and_refused_at_opening() {
    only_with(&[Bug::HealedUnread], a_device_without_superblocks_is_told);
}

/// The device answers, wherever else it is asked: a page that cannot be read either is lost, and no more. The
/// superblocks alone were asked, and the volume took no changes any more.
fn a_bad_page_beside_them_is_lost(design: Design) -> bool {
    let InUse { flash, volume, file, .. } = on_flash_alone(design);
    assert!(spoil(&flash, &page(5, 1), Bad::Unreadable) > 0);
    for offset in SUPERBLOCK_OFFSETS {
        flash.spoil(offset, SUPERBLOCK_BYTES as u64, Bad::Unreadable);
    }
    let told = read(&file, 5) == Err(VolumeErrorKind::LostPage);
    let goes_on = go_round(&file, &volume, 8);
    if !told || goes_on.is_err() {
        return false;
    }
    write(&file, 5, 2);
    file.sync().unwrap();
    read(&file, 5) == Ok(page(5, 2)) && read(&file, 6) == Ok(page(6, 1))
}

#[test]
fn a_page_that_is_bad_beside_both_superblocks_costs_that_page() {
    for design in WRITE_BACK {
        assert!(a_bad_page_beside_them_is_lost(design), "{design:?}");
    }
    only_with(&[Bug::SuperblocksAloneProbed], || a_bad_page_beside_them_is_lost(Design::FaceGr));
}
