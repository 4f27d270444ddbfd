//! Tiers that were closed in order, and of which something cannot be read any more: that costs what nobody
//! else has, and no more.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use common::bad_places::spoil;
use common::one_file::{InUse, PAGES, WRITE_BACK, durable, in_use, read, write};
use common::{Backing, PAGE, config, open, page};
use mezzanine_device::Device;
use mezzanine_device::memory::{Bad, MemoryDevice};
use mezzanine_engine::format::SUMMARY_MAGIC;
use mezzanine_engine::planted::{Bug, only_with};
use mezzanine_volume::{Admission, Design, SyncMode, Volume, VolumeConfig, VolumeErrorKind, VolumeState};

/// A tier with pages of a file, closed in order.
fn closed(config: &VolumeConfig) -> (Arc<MemoryDevice>, Backing) {
    let InUse { flash, backing, volume, file } = in_use(config);
    drop(file);
    volume.close().unwrap();
    (flash, backing)
}

/// The same after nothing was done but to read: disk has all of them.
fn closed_after_reads(config: &VolumeConfig) -> (Arc<MemoryDevice>, Backing) {
    let InUse { flash, backing, volume, file } = in_use(config);
    drop(file);
    volume.close_drained().unwrap();
    let volume = open(&flash, config);
    let file = backing.attach(&volume).unwrap();
    (0..PAGES).for_each(|block| assert!(read(&file, block) == Ok(page(block, 1))));
    file.sync().unwrap();
    drop(file);
    volume.close().unwrap();
    (flash, backing)
}

/// One page of the last groups has rotted, or its sector has gone bad. It is lost, everything else goes on,
/// and it comes back by being written.
fn a_page_costs_itself(design: Design, bad: Bad) -> bool {
    let config = durable(design);
    let (flash, backing) = closed(&config);
    assert_eq!(spoil(&flash, &page(5, 1), bad), 1);
    let Ok(volume) = Volume::open(flash, config) else { return false };
    let file = backing.attach(&volume).unwrap();
    let right = |block| match block {
        5 => read(&file, block) == Err(VolumeErrorKind::LostPage),
        _ => read(&file, block) == Ok(page(block, 1)),
    };
    let only_it = (0..PAGES).all(right);
    write(&file, 5, 2);
    file.sync().unwrap();
    only_it && read(&file, 5) == Ok(page(5, 2)) && volume.state() == VolumeState::Ok
}

#[test]
fn a_page_in_the_last_groups_of_a_closed_tier_costs_itself() {
    for design in WRITE_BACK {
        for bad in [Bad::Unreadable, Bad::Garbled] {
            assert!(a_page_costs_itself(design, bad), "{design:?} {bad:?}");
        }
    }
    only_with(&[Bug::KnownEndVerified], || a_page_costs_itself(Design::FaceGr, Bad::Garbled));
}

/// Disk has every page, and the summaries have gone: the tier is empty, and everything is there.
fn summaries_cost_nothing(mode: SyncMode, rotten: bool) -> bool {
    let config = config(Design::FaceGr, Admission::Both, mode, 0);
    let (flash, backing) =
        if mode == SyncMode::Durable { closed_after_reads(&config) } else { closed(&config) };
    let image = flash.image();
    for at in (0..image.len() / PAGE).filter(|at| image[at * PAGE..][..8] == SUMMARY_MAGIC) {
        match rotten {
            true => flash.write_at(&[0x5A; 512], (at * PAGE) as u64).unwrap(),
            false => flash.spoil((at * PAGE) as u64, 512, Bad::UnreadableUntilWritten),
        }
    }
    for version in 2..4 {
        let Ok(volume) = Volume::open(flash.clone(), config.clone()) else { return false };
        let Ok(file) = backing.attach(&volume) else { return false };
        let before = |block| if block == 3 && version == 3 { page(3, 2) } else { page(block, 1) };
        if !(0..PAGES).all(|block| read(&file, block) == Ok(before(block))) {
            return false;
        }
        write(&file, 3, version);
        file.sync().unwrap();
        assert_eq!(volume.state(), VolumeState::Ok);
        drop(file);
        volume.close_drained().unwrap();
    }
    let mut found = vec![0; PAGE];
    backing.disk.read_at(&mut found, 3 * PAGE as u64).unwrap();
    found == page(3, 3)
}

#[test]
fn a_tier_that_nobody_needs_is_emptied() {
    // A tier in `through` that is damaged was emptied before.
    assert!(summaries_cost_nothing(SyncMode::Through, true));
    only_with(&[Bug::UnreadExpendableRefused], || summaries_cost_nothing(SyncMode::Through, false));
    only_with(&[Bug::DrainedTierNeeded], || summaries_cost_nothing(SyncMode::Durable, true));
    only_with(&[Bug::UnreadExpendableRefused, Bug::DrainedTierNeeded], || {
        summaries_cost_nothing(SyncMode::Durable, false)
    });
}
