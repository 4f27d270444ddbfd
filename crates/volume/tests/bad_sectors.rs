//! Sectors of the flash device that stay bad, under every kind of data. What each may cost is in
//! docs/reliability.md.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use common::bad_places::spoil;
use common::one_file::{InUse, WRITE_BACK, begin, durable, go_round, in_use, read, write};
use common::{Backing, Model, PAGE, config, every_configuration, formatted, open, page, random_operations};
use mezzanine_device::memory::{Bad, Fault, Injection, MemoryDevice, Operation};
use mezzanine_device::{Device, DeviceErrorKind};
use mezzanine_engine::format::{TierState, read_superblock};
use mezzanine_engine::planted::{Bug, only_with};
use mezzanine_engine::{ReadError, ReadFlash};
use mezzanine_ground::random::Random;
use mezzanine_volume::{
    Admission, Design, SidecarStore, SyncMode, Volume, VolumeErrorKind, VolumeFile, VolumeState,
};

struct Flash<'f>(&'f MemoryDevice);

impl ReadFlash for Flash<'_> {
    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> Result<(), ReadError> {
        self.0.read_at(bytes, offset).map_err(|error| ReadError(error.to_string()))
    }
}

/// Designs whose pages leave flash by way of the front, and one that writes in place.
const DESIGNS: [Design; 5] =
    [Design::FaceBasic, Design::FaceGr, Design::FaceGsc, Design::Lc, Design::Exadata];

/// A sector is bad under a version that was superseded, among dirty pages that leave with it. One read brings
/// the whole run of frames to the disk, and fails; the volume was read-only from then on, also after the next
/// opening.
fn a_dead_page_costs_nothing(design: Design, bad: Bad) -> bool {
    let InUse { flash, volume, file, .. } = in_use(&durable(design));
    assert_eq!(spoil(&flash, &page(5, 1), bad), 1);
    write(&file, 5, 2);
    file.sync().unwrap();
    let went_on = go_round(&file, &volume, 8).is_ok();
    went_on && (0..12).all(|block| read(&file, block) == Ok(page(block, if block == 5 { 2 } else { 1 })))
}

#[test]
fn a_sector_under_superseded_data_costs_nothing() {
    for design in DESIGNS {
        for bad in [Bad::Unreadable, Bad::Garbled, Bad::UnreadableUntilWritten] {
            assert!(a_dead_page_costs_nothing(design, bad), "{design:?} {bad:?}");
        }
    }
    only_with(&[Bug::RunNotReadAgain], || a_dead_page_costs_nothing(Design::FaceGr, Bad::Unreadable));
}

/// A sector is bad under a page that a drain has brought to disk; its record still says that it is dirty.
/// Read or not, it costs nothing.
fn a_clean_page_costs_nothing(design: Design, mode: SyncMode, bad: Bad, is_read: bool) -> bool {
    let config = config(design, Admission::Both, mode, 0);
    let InUse { flash, volume, file, .. } = in_use(&config);
    volume.drain().unwrap();
    (0..12).for_each(|block| assert!(read(&file, block) == Ok(page(block, 1))));
    write(&file, 6, 2);
    file.sync().unwrap();
    spoil(&flash, &page(5, 1), bad);
    let right = |block: u64| read(&file, block) == Ok(page(block, if block == 6 { 2 } else { 1 }));
    let answered = !is_read || right(5);
    answered && go_round(&file, &volume, 8).is_ok() && (0..12).all(right)
}

#[test]
fn a_sector_under_clean_data_costs_nothing() {
    for (design, _, mode) in
        every_configuration().into_iter().filter(|(_, admission, _)| *admission == Admission::Both)
    {
        for bad in [Bad::Unreadable, Bad::Garbled] {
            for is_read in [false, true] {
                assert!(
                    a_clean_page_costs_nothing(design, mode, bad, is_read),
                    "{design:?} {mode:?} {bad:?}, read: {is_read}"
                );
            }
        }
    }
    let unread = || a_clean_page_costs_nothing(Design::FaceGsc, SyncMode::Durable, Bad::Unreadable, false);
    only_with(&[Bug::DeadPageMissed], unread);
}

/// Stage-out has brought pages to disk ahead of need, and their frames have not left. Disk answers for one
/// that cannot be read, in a drain as well; both said that the page is lost.
fn a_page_on_disk_costs_nothing(design: Design) -> bool {
    let InUse { flash, backing, volume, file } = begin(&durable(design));
    volume.set_disk_utilisation(0);
    let mut block = 0;
    while volume.statistics().tier.unwrap().disk_syncs == 0 {
        write(&file, block, 1);
        file.sync().unwrap();
        while volume.step() {}
        block += 1;
    }
    file.sync().unwrap();
    while volume.step() {}
    let left = volume.statistics().tier.unwrap().left_clean;
    assert_eq!(left, 0, "all of them are in the tier still");
    let on_disk = |block: u64| {
        let at = block as usize * PAGE;
        backing.disk.inspect(|disk| disk.get(at..at + PAGE) == Some(&page(block, 1)))
    };
    assert!(on_disk(0) && on_disk(1));
    for block in 0..2 {
        assert_eq!(spoil(&flash, &page(block, 1), Bad::Unreadable), 1);
    }
    // One is read, the other one is met by the drain.
    let answered = (0..2).all(|_| read(&file, 0) == Ok(page(0, 1))) && volume.lost_pages().is_empty();
    // Once it was read there, the tier has let it go, and does not try flash again.
    let let_go = volume.statistics().pages_damaged == 1;
    let drained = volume.drain().is_ok() && volume.set_sync_mode(SyncMode::Through).is_ok();
    answered && let_go && drained && (0..block).all(|block| read(&file, block) == Ok(page(block, 1)))
}

#[test]
fn disk_answers_for_a_page_that_stage_out_has_brought_there() {
    for design in [Design::FaceBasic, Design::FaceGr, Design::FaceGsc] {
        assert!(a_page_on_disk_costs_nothing(design), "{design:?}");
    }
    only_with(&[Bug::SyncedCountsAsLost], || a_page_on_disk_costs_nothing(Design::FaceGr));
}

/// The page is clean in memory and its record says that it is dirty. Disk has answered for it; a power cut
/// must not make it a page that can be had from nowhere.
fn a_clean_page_stays_clean_over_a_cut(design: Design) -> bool {
    let config = durable(design);
    let InUse { flash, backing, volume, file } = in_use(&config);
    volume.drain().unwrap();
    spoil(&flash, &page(5, 1), Bad::Unreadable);
    assert!(read(&file, 5) == Ok(page(5, 1)));
    flash.power().crash_after(1);
    drop((file, volume));
    flash.power_cut(3);
    flash.power().restore();
    let volume = open(&flash, &config);
    let file = backing.attach(&volume).unwrap();
    let went_on =
        (0..12).all(|block| read(&file, block) == Ok(page(block, 1))) && go_round(&file, &volume, 8).is_ok();
    // Disk has it, and so it would be read all the same; but it would stay lost for the tier.
    went_on && volume.lost_pages().is_empty()
}

#[test]
fn disk_answers_for_a_clean_page_only_when_that_outlives_a_power_cut() {
    for design in DESIGNS {
        assert!(a_clean_page_stays_clean_over_a_cut(design), "{design:?}");
    }
    only_with(&[Bug::UnreadableUnsaid], || a_clean_page_stays_clean_over_a_cut(Design::FaceGr));
}

/// The next `count` reads fail, wherever; the first is of the whole front of the queue.
fn an_error_that_passes_costs_nothing(design: Design, count: u64) -> bool {
    let InUse { flash, volume, file, .. } = in_use(&durable(design));
    flash.inject(Injection {
        operation: Operation::Read,
        after: 0,
        count,
        fault: Fault::Error(DeviceErrorKind::Io),
    });
    go_round(&file, &volume, 8).is_ok() && (0..12).all(|block| read(&file, block) == Ok(page(block, 1)))
}

#[test]
fn an_error_of_a_read_that_passes_costs_nothing() {
    for design in DESIGNS {
        assert!(an_error_that_passes_costs_nothing(design, 2), "{design:?}");
    }
    only_with(&[Bug::UnreadableAtOnce], || an_error_that_passes_costs_nothing(Design::FaceGr, 3));
}

/// The device answers no read for a while, longer than reads are repeated, and takes writes: a controller
/// that is reset. Nothing is lost by that; up to a sixteenth of all frames was.
fn an_outage_of_reads_loses_nothing(design: Design) -> bool {
    let config = durable(design);
    let InUse { flash, backing, volume, file } = in_use(&config);
    let fault = Fault::Error(DeviceErrorKind::Io);
    flash.inject(Injection { operation: Operation::Read, after: 0, count: u64::MAX, fault });
    assert!(go_round(&file, &volume, 8).is_err(), "nothing can leave the queue");
    flash.heal();
    if !volume.lost_pages().is_empty() || (0..12).any(|block| read(&file, block) != Ok(page(block, 1))) {
        return false;
    }
    drop((file, volume));
    let volume = open(&flash, &config);
    let file = backing.attach(&volume).unwrap();
    let right = || (0..12).all(|block| read(&file, block) == Ok(page(block, 1)));
    right() && go_round(&file, &volume, 8).is_ok() && right() && volume.lost_pages().is_empty()
}

#[test]
fn a_device_that_answers_no_read_has_lost_nothing() {
    for design in WRITE_BACK {
        assert!(an_outage_of_reads_loses_nothing(design), "{design:?}");
    }
    only_with(&[Bug::SilenceTakenForLoss], || an_outage_of_reads_loses_nothing(Design::FaceGr));
}

/// A sector is bad under the summary of a group, and stays bad. Once stage-out has met it nothing is put
/// there again: no page, and no other summary, without which a tier that was not closed could not be opened.
fn a_bad_summary_is_met_once(design: Design) -> bool {
    let InUse { flash, volume, file, .. } = in_use(&durable(design));
    let image = flash.image();
    let place = |wanted: &[u8]| (0..image.len() / PAGE).find(|at| image[at * PAGE..].starts_with(wanted));
    let first = place(&page(0, 1)).unwrap();
    assert!(image[(first - 1) * PAGE..].starts_with(b"MEZZGRP1"), "its group's summary");
    flash.spoil(((first - 1) * PAGE) as u64, 512, Bad::Unreadable);
    let right = || (0..12).all(|block| read(&file, block) == Ok(page(block, 1)));
    // Each page once, so that every one of them is the newest when it leaves.
    for block in 200..2000 {
        write(&file, block, 1);
        if block % 10 == 0 {
            file.sync().unwrap();
        }
    }
    let tier = volume.statistics().tier.unwrap();
    right() && tier.voids > 0 && tier.lost == 0
}

#[test]
fn the_place_of_a_summary_that_could_not_be_read_is_not_used_again() {
    for design in [Design::FaceGr, Design::FaceGsc] {
        assert!(a_bad_summary_is_met_once(design), "{design:?}");
    }
    only_with(&[Bug::BadSummaryForgotten], || a_bad_summary_is_met_once(Design::FaceGr));
}

/// A read fails once and goes well when it is repeated; later a write fails. What the volume says of its
/// state is about the write.
fn the_cause_is_named(design: Design) -> bool {
    let InUse { flash, volume, file, .. } = begin(&durable(design));
    let fails = |operation, count, kind| {
        flash.inject(Injection { operation, after: 0, count, fault: Fault::Error(kind) });
    };
    fails(Operation::Read, 1, DeviceErrorKind::Io);
    go_round(&file, &volume, 4).unwrap();
    assert!(flash.faults_struck() > 0);
    fails(Operation::Write, u64::MAX, DeviceErrorKind::NoSpace);
    go_round(&file, &volume, 4).unwrap_err();
    let state = volume.state();
    let (VolumeState::Bypass { reason } | VolumeState::ReadOnly { reason }) = &state else {
        panic!("{state:?}: nothing can be written")
    };
    reason.contains("no space")
}

#[test]
fn an_error_that_passed_is_not_named_as_the_cause_of_another() {
    only_with(&[Bug::PassedErrorNamed], || the_cause_is_named(Design::FaceGr));
}

/// Sectors go bad under metadata segments, and behind the last group of a tier that was closed.
fn unreadable_metadata_costs_nothing(design: Design) -> bool {
    let config = durable(design);
    let mut model = Model::default();
    let InUse { flash, backing, volume, file } = begin(&config);
    random_operations(&file, &mut model, &mut Random::new(5), 200, 60);
    volume.close().unwrap();
    drop((file, volume));
    let image = flash.image();
    let newest = (0..image.len() / 4096)
        .map(|at| at * 4096)
        .filter(|&at| image[at..at + 8] == *b"MEZZSEG1")
        .max_by_key(|&at| u64::from_le_bytes(image[at + 32..at + 40].try_into().unwrap()));
    flash.spoil(newest.unwrap() as u64, 512, Bad::Unreadable);
    let Ok(volume) = Volume::open(Arc::clone(&flash) as _, config) else { return false };
    model.check(&backing.attach(&volume).unwrap());
    true
}

#[test]
fn a_segment_that_cannot_be_read_is_had_from_its_groups() {
    for design in DESIGNS {
        assert!(unreadable_metadata_costs_nothing(design), "{design:?}");
    }
    only_with(&[Bug::UnreadableEndsRecovery], || unreadable_metadata_costs_nothing(Design::FaceGr));
}

/// A sector is bad under a page that only flash has. The page is lost, and nothing else: its name goes round
/// with the queue, over drains, closings and power cuts, until it is written anew.
fn a_dirty_page_costs_itself(design: Design, bad: Bad) -> bool {
    let config = durable(design);
    let lost = |file: &VolumeFile| read(file, 5) == Err(VolumeErrorKind::LostPage);
    let others =
        |file: &VolumeFile| (0..12).all(|block| block == 5 || read(file, block) == Ok(page(block, 1)));
    let InUse { flash, backing, volume, file } = in_use(&config);
    spoil(&flash, &page(5, 1), bad);
    if go_round(&file, &volume, 8).is_err() || !lost(&file) || !others(&file) {
        return false;
    }
    let part = file.write_at(&[7; 100], 5 * PAGE as u64 + 100).unwrap_err();
    assert_eq!(part.kind(), VolumeErrorKind::LostPage, "the rest of the page is not known");
    assert_eq!(volume.statistics().tier.unwrap().lost, 1);
    assert_eq!(volume.lost_pages(), vec![(std::path::PathBuf::from("a"), 5 * PAGE as u64)]);
    volume.close().unwrap();
    drop((file, volume));
    {
        let volume = open(&flash, &config);
        let file = backing.attach(&volume).unwrap();
        if !lost(&file) || go_round(&file, &volume, 8).is_err() || !lost(&file) || !others(&file) {
            return false;
        }
        let Err(error) = volume.drain() else { return false };
        assert_eq!((error.kind(), error.offset()), (VolumeErrorKind::LostPage, Some(5 * PAGE as u64)));
        assert_eq!(volume.state(), VolumeState::Ok, "a drain that is not complete costs nothing");
        backing.disk.inspect(|disk| {
            for block in (0..12).filter(|block| *block != 5) {
                let at = block as usize * PAGE;
                assert!(disk[at..at + PAGE] == page(block, 1), "page {block} could have been written");
            }
        });
        file.sync().unwrap();
        let to = volume.set_sync_mode(SyncMode::Through);
        assert_eq!(to.unwrap_err().kind(), VolumeErrorKind::LostPage, "nobody calls the file current");
        assert_eq!(volume.state(), VolumeState::Ok);
        assert_eq!(volume.close_drained().unwrap_err().kind(), VolumeErrorKind::LostPage);
    }
    flash.power_cut(9);
    let volume = open(&flash, &config);
    let file = backing.attach(&volume).unwrap();
    if !lost(&file) || !others(&file) {
        return false;
    }
    write(&file, 5, 3);
    file.sync().unwrap();
    let healed = read(&file, 5) == Ok(page(5, 3))
        && go_round(&file, &volume, 8).is_ok()
        && read(&file, 5) == Ok(page(5, 3));
    healed
        && others(&file)
        && volume.close_drained().is_ok()
        && backing.disk.inspect(|disk| disk[5 * PAGE..6 * PAGE] == page(5, 3))
}

#[test]
fn a_sector_under_dirty_data_costs_that_page_alone() {
    for design in WRITE_BACK {
        for bad in [Bad::Unreadable, Bad::Garbled] {
            assert!(a_dirty_page_costs_itself(design, bad), "{design:?} {bad:?}");
        }
    }
    let rules = [Bug::LostEndsWriting, Bug::LostNotCarried, Bug::LostCountsAsDrained];
    only_with(&rules, || a_dirty_page_costs_itself(Design::FaceGr, Bad::Unreadable));
}

/// A tier carries a sixteenth of its frames as lost pages. What counts is how many are lost now: sectors go
/// bad one after the other for as long as the device lives, and each page is written anew before the next is
/// lost.
fn pages_may_be_lost_one_after_the_other(design: Design) -> bool {
    let config = durable(design);
    let InUse { flash, volume, file, .. } = begin(&config);
    (0..config.tier.frames / 16 + 2).all(|block| {
        write(&file, block, 1);
        file.sync().unwrap();
        assert_eq!(spoil(&flash, &page(block, 1), Bad::Unreadable), 1);
        let lost = go_round(&file, &volume, 4).is_ok() && volume.lost_pages().len() == 1;
        lost && file.write_at(&page(block, 2), block * PAGE as u64).is_ok() && file.sync().is_ok()
    })
}

/// Told by seed 1515 of the crash worlds, whose checker took as many bad sectors as the tier carries lost
/// pages for reason enough to end writing.
#[test]
fn as_many_pages_may_be_lost_in_time_as_are_written_anew() {
    for design in [Design::FaceGr, Design::Lc] {
        only_with(&[Bug::RewrittenStaysLost], || pages_may_be_lost_one_after_the_other(design));
    }
}

/// The sector stays bad however often it is written, and a flush says nothing of that. It takes one page, and
/// not one at each round of the queue, before and after a restart.
fn a_bad_place_takes_one_page(design: Design) -> bool {
    let config = durable(design);
    let InUse { flash, backing, volume, file } = in_use(&config);
    spoil(&flash, &page(5, 1), Bad::Unreadable);
    let once = go_round(&file, &volume, 8).is_ok() && volume.lost_pages().len() == 1;
    volume.close().unwrap();
    let volume = open(&flash, &config);
    let file = backing.attach(&volume).unwrap();
    let again = go_round(&file, &volume, 8).is_ok() && volume.lost_pages().len() == 1;
    once && again && (200..330).all(|block| read(&file, block) == Ok(page(block, 107)))
}

#[test]
fn a_place_that_could_not_be_read_gets_no_other_page() {
    for design in WRITE_BACK {
        assert!(a_bad_place_takes_one_page(design), "{design:?}");
    }
    only_with(&[Bug::BadFrameReused], || a_bad_place_takes_one_page(Design::FaceGr));
}

/// Power fails after each sync while a lost page goes round. What was acknowledged beside it is there.
fn what_lies_beside_a_lost_page_survives(design: Design) -> bool {
    let config = durable(design);
    let InUse { flash, backing, volume: _volume, file } = in_use(&config);
    spoil(&flash, &page(5, 1), Bad::Unreadable);
    (0..150).all(|step| {
        write(&file, 20 + step % 30, step);
        file.sync().unwrap();
        let (later, after) = (formatted(&config), Backing::new("a"));
        later.copy_from(&flash);
        after.disk.copy_from(&backing.disk);
        if let Some(bytes) = backing.sidecar.read().unwrap() {
            after.sidecar.replace(&bytes).unwrap();
        }
        later.power_cut(step);
        after.disk.power_cut(step);
        let Ok(volume) = Volume::open(later, config.clone()) else { return false };
        let file = after.attach(&volume).unwrap();
        read(&file, 20 + step % 30) == Ok(page(20 + step % 30, step))
            && read(&file, 5) == Err(VolumeErrorKind::LostPage)
    })
}

#[test]
fn what_was_synced_beside_a_lost_page_survives_a_power_cut() {
    for design in WRITE_BACK {
        assert!(what_lies_beside_a_lost_page_survives(design), "{design:?}");
    }
    only_with(&[Bug::LostTakenForTorn], || what_lies_beside_a_lost_page_survives(Design::FaceGr));
}

/// A tier with a lost page cannot be closed drained. Is it closed in order, so that nothing but its pages is
/// needed at the next opening?
fn a_tier_that_cannot_be_drained_is_closed_in_order(design: Design) -> bool {
    let config = durable(design);
    let InUse { flash, backing, volume, file } = in_use(&config);
    spoil(&flash, &page(5, 1), Bad::Unreadable);
    assert_eq!(volume.close_drained().unwrap_err().kind(), VolumeErrorKind::LostPage);
    assert_eq!(file.write_at(&page(1, 2), 0).unwrap_err().kind(), VolumeErrorKind::Closed);
    drop((file, volume));
    flash.power_cut(9);
    let state = read_superblock(&mut Flash(&flash)).unwrap().state;
    let volume = open(&flash, &config);
    let file = backing.attach(&volume).unwrap();
    (0..12).for_each(|block| {
        let right = if block == 5 { Err(VolumeErrorKind::LostPage) } else { Ok(page(block, 1)) };
        assert!(read(&file, block) == right, "{design:?}: page {block}");
    });
    write(&file, 5, 2);
    volume.close_drained().unwrap();
    state == TierState::Closed
}

#[test]
fn a_tier_with_a_lost_page_is_closed_in_order() {
    for design in WRITE_BACK {
        only_with(&[Bug::LostLeftOpen], || a_tier_that_cannot_be_drained_is_closed_in_order(design));
    }
}

/// A page written in place is lost, and then its sector can be read after all. A drain brings it to disk. Is
/// it a page like any other from then on, and can it leave?
fn a_page_that_is_found_again_leaves(volume: &Volume, flash: &MemoryDevice, file: &VolumeFile) -> bool {
    (0..12).for_each(|block| write(file, block, 1));
    file.sync().unwrap();
    spoil(flash, &page(5, 1), Bad::Unreadable);
    go_round(file, volume, 8).unwrap();
    assert_eq!(volume.lost_pages().len(), 1);
    flash.heal();
    assert!(read(file, 5) == Ok(page(5, 1)));
    volume.drain().unwrap();
    let found = volume.lost_pages().is_empty();
    go_round(file, volume, 8).unwrap();
    let before = volume.statistics().disk_reads;
    assert!(read(file, 5) == Ok(page(5, 1)));
    volume.check();
    found && volume.statistics().disk_reads > before
}

#[test]
fn a_lost_page_that_can_be_read_after_all_is_lost_no_more() {
    only_with(&[Bug::FoundStaysLost], || {
        let InUse { flash, volume, file, .. } = begin(&durable(Design::Lc));
        a_page_that_is_found_again_leaves(&volume, &flash, &file)
    });
}

/// A page that is lost and cut off the file, or discarded, is gone.
#[test]
fn a_lost_page_that_is_dropped_is_gone() {
    for design in WRITE_BACK {
        for discarded in [false, true] {
            let InUse { flash, backing, volume, file } = in_use(&durable(design));
            spoil(&flash, &page(5, 1), Bad::Unreadable);
            go_round(&file, &volume, 8).unwrap();
            assert_eq!(volume.lost_pages().len(), 1);
            if discarded {
                file.discard(5 * PAGE as u64, PAGE as u64).unwrap();
            } else {
                file.set_len(5 * PAGE as u64).unwrap();
                file.set_len(330 * PAGE as u64).unwrap();
            }
            assert!(read(&file, 5) == Ok(vec![0; PAGE]));
            assert_eq!(volume.lost_pages().len(), 0);
            go_round(&file, &volume, 8).unwrap();
            volume.close_drained().unwrap();
            assert!(backing.disk.inspect(|disk| disk[5 * PAGE..6 * PAGE] == [0; PAGE]), "{design:?}");
        }
    }
}

/// The page that a file ends in is lost, and the power fails. Can the rest of the file be changed, and the
/// page be written anew?
fn a_lost_page_at_the_end_of_a_file_costs_itself(design: Design) -> bool {
    const END: usize = 1000;
    let config = durable(design);
    let InUse { flash, backing, volume, file } = begin(&config);
    (0..4).for_each(|block| write(&file, block, 1));
    let last = 4 * PAGE as u64;
    file.write_at(&page(4, 1)[..END], last).unwrap();
    file.sync().unwrap();
    drop((file, volume));
    let mut lost = page(4, 1);
    lost[END..].fill(0);
    assert!(spoil(&flash, &lost, Bad::Unreadable) > 0);
    let volume = open(&flash, &config);
    let file = backing.attach(&volume).unwrap();
    let mut found = vec![0; END];
    assert_eq!(file.read_at(&mut found, last).unwrap_err().kind(), VolumeErrorKind::LostPage);
    let changed = file.write_at(&page(1, 2), PAGE as u64).is_ok() && file.sync().is_ok();
    let healed = file.write_at(&page(4, 3)[..END], last).is_ok() && file.read_at(&mut found, last).is_ok();
    if !(changed && healed) {
        return false;
    }
    assert!(found == page(4, 3)[..END] && read(&file, 1).unwrap() == page(1, 2));
    file.set_len(last + PAGE as u64).unwrap();
    let mut grown = page(4, 3);
    grown[END..].fill(0);
    read(&file, 4).unwrap() == grown
}

#[test]
fn a_file_that_ends_in_a_lost_page_can_be_changed() {
    for design in WRITE_BACK {
        let bugs = [Bug::LostTailEndsWriting];
        only_with(&bugs, || a_lost_page_at_the_end_of_a_file_costs_itself(design));
    }
}

/// A file grows without a sync, and a crash leaves pages in the tier that lie past its end. One of them
/// cannot be read. Can the tier be drained?
fn a_bad_page_past_the_end_costs_nothing(design: Design, closed: bool) -> bool {
    let config = durable(design);
    let InUse { flash, backing, volume, file } = begin(&config);
    (0..10).for_each(|block| write(&file, block, 1));
    file.sync().unwrap();
    (10..24).for_each(|block| write(&file, block, 1));
    while volume.step() {}
    drop((file, volume));
    let volume = open(&flash, &config);
    let file = backing.attach(&volume).unwrap();
    assert_eq!(file.len(), 10 * PAGE as u64, "a crash leaves the length that was synced");
    assert_eq!(spoil(&flash, &page(15, 1), Bad::Unreadable), 1);
    let drained = if closed { volume.close_drained() } else { volume.drain() };
    if let Err(error) = drained {
        assert_eq!(error.kind(), VolumeErrorKind::LostPage);
        return false;
    }
    backing.disk.inspect(|disk| {
        (0..10).for_each(|block| assert!(disk[block * PAGE..(block + 1) * PAGE] == page(block as u64, 1)));
    });
    if !closed {
        // What lay past the end does not come back when the file grows.
        write(&file, 20, 2);
        assert!(read(&file, 15) == Ok(vec![0; PAGE]));
        volume.close_drained().unwrap();
    }
    true
}

#[test]
fn a_sector_under_a_page_past_the_end_costs_nothing() {
    for design in WRITE_BACK {
        for closed in [false, true] {
            only_with(&[Bug::PastEndDrained], || a_bad_page_past_the_end_costs_nothing(design, closed));
        }
    }
}

/// There is an end to what is carried: then, and not before, writing ends.
#[test]
fn a_device_that_rots_away_ends_writing_before_it_is_full_of_lost_pages() {
    // With one shard every page has its lock in common with the one that is judged: those that are lost are
    // counted without it.
    for (design, shards) in WRITE_BACK.into_iter().flat_map(|design| [(design, 4), (design, 1)]) {
        let mut config = durable(design);
        config.tier.shards = shards;
        let InUse { flash, volume, file, .. } = begin(&config);
        (0..40).for_each(|block| write(&file, block, 1));
        file.sync().unwrap();
        for block in 0..40 {
            spoil(&flash, &page(block, 1), Bad::Unreadable);
        }
        assert!(go_round(&file, &volume, 8).is_err(), "{design:?}");
        assert!(matches!(volume.state(), VolumeState::ReadOnly { .. }));
        assert!((1..20).contains(&volume.lost_pages().len()), "{design:?}: {:?}", volume.lost_pages());
    }
}
