//! Sectors of the flash device that stay bad, under every kind of data. What each may cost is in docs/reliability.md.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use common::{Backing, Model, PAGE, config, every_configuration, formatted, open, page, random_operations};
use mezzanine_device::DeviceErrorKind;
use mezzanine_device::memory::{Bad, Fault, Injection, MemoryDevice, Operation, Random};
use mezzanine_engine::planted::{Bug, set};
use mezzanine_volume::{
    Admission, Design, SyncMode, Volume, VolumeConfig, VolumeErrorKind, VolumeFile, VolumeState,
};

/// Spoils every place of the device that holds these bytes; says how many there are.
fn spoil(flash: &MemoryDevice, bytes: &[u8], bad: Bad) -> usize {
    let image = flash.image();
    let places: Vec<usize> =
        (0..image.len() / PAGE).filter(|at| image[at * PAGE..(at + 1) * PAGE] == *bytes).collect();
    for at in &places {
        // One sector of the page is enough.
        flash.spoil((at * PAGE + 1024) as u64, 512, bad);
    }
    places.len()
}

fn read(file: &VolumeFile, block: u64) -> Result<Vec<u8>, VolumeErrorKind> {
    let mut found = vec![0; PAGE];
    file.read_at(&mut found, block * PAGE as u64).map(|()| found).map_err(|error| error.kind())
}

fn write(file: &VolumeFile, block: u64, version: u64) {
    file.write_at(&page(block, version), block * PAGE as u64).unwrap();
}

fn durable(design: Design) -> VolumeConfig {
    config(design, Admission::Both, SyncMode::Durable, 0)
}

/// Designs whose pages leave flash by way of the front, and one that writes in place.
const DESIGNS: [Design; 5] =
    [Design::FaceBasic, Design::FaceGr, Design::FaceGsc, Design::Lc, Design::Exadata];

/// Checks that `good` holds, and does not with any of the rules taken out.
fn only_with(bugs: &[Bug], good: impl Fn() -> bool) {
    assert!(good(), "with all rules in place");
    for &bug in bugs {
        set(Some(bug));
        let held = good();
        set(None);
        assert!(!held, "{bug:?} went unnoticed");
    }
}

/// Writes pages `from..to` and syncs, again and again, until the queue has gone round.
fn go_round(file: &VolumeFile, volume: &Volume, rounds: u64) -> Result<(), String> {
    for version in 100..100 + rounds {
        for block in 200..240 {
            file.write_at(&page(block, version), block * PAGE as u64).map_err(|error| error.to_string())?;
        }
        file.sync().map_err(|error| error.to_string())?;
        if volume.state() != VolumeState::Ok {
            return Err(format!("{:?}", volume.state()));
        }
    }
    Ok(())
}

/// A sector is bad under a version that was superseded, among dirty pages that leave with it. One read brings the whole run of frames to the disk, and
/// fails; the volume was read-only from then on, also after the next opening.
fn a_dead_page_costs_nothing(design: Design, bad: Bad) -> bool {
    let config = durable(design);
    let (flash, backing) = (formatted(&config), Backing::new("a"));
    let volume = open(&flash, &config);
    let file = backing.attach(&volume).unwrap();
    (0..12).for_each(|block| write(&file, block, 1));
    file.sync().unwrap();
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

/// A sector is bad under a page that a drain has brought to disk; its record still says that it is dirty. Read or not, it costs nothing.
fn a_clean_page_costs_nothing(design: Design, mode: SyncMode, bad: Bad, is_read: bool) -> bool {
    let config = config(design, Admission::Both, mode, 0);
    let (flash, backing) = (formatted(&config), Backing::new("a"));
    let volume = open(&flash, &config);
    let file = backing.attach(&volume).unwrap();
    (0..12).for_each(|block| write(&file, block, 1));
    file.sync().unwrap();
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

/// The page is clean in memory and its record says that it is dirty. Disk has answered for it; a power cut must not make it a page that can be had from
/// nowhere.
fn a_clean_page_stays_clean_over_a_cut(design: Design) -> bool {
    let config = durable(design);
    let (flash, backing) = (formatted(&config), Backing::new("a"));
    {
        let volume = open(&flash, &config);
        let file = backing.attach(&volume).unwrap();
        (0..12).for_each(|block| write(&file, block, 1));
        file.sync().unwrap();
        volume.drain().unwrap();
        spoil(&flash, &page(5, 1), Bad::Unreadable);
        assert!(read(&file, 5) == Ok(page(5, 1)));
        flash.power().crash_after(1);
    }
    flash.power_cut(3);
    flash.power().restore();
    let volume = open(&flash, &config);
    let file = backing.attach(&volume).unwrap();
    (0..12).all(|block| read(&file, block) == Ok(page(block, 1))) && go_round(&file, &volume, 8).is_ok()
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
    let config = durable(design);
    let (flash, backing) = (formatted(&config), Backing::new("a"));
    let volume = open(&flash, &config);
    let file = backing.attach(&volume).unwrap();
    (0..12).for_each(|block| write(&file, block, 1));
    file.sync().unwrap();
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

/// Sectors go bad under metadata segments, and behind the last group of a tier that was closed.
fn unreadable_metadata_costs_nothing(design: Design) -> bool {
    let config = durable(design);
    let (flash, backing) = (formatted(&config), Backing::new("a"));
    let mut model = Model::default();
    {
        let volume = open(&flash, &config);
        let file = backing.attach(&volume).unwrap();
        random_operations(&file, &mut model, &mut Random::new(5), 200, 60);
        volume.close().unwrap();
    }
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
