//! As many bad frames side by side as a group has pages: a crash finds the tier, wherever the rear stands.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use common::bad_places::spoil;
use common::one_file::{InUse, begin, durable, read};
use common::{Backing, PAGE, open, page};
use mezzanine_device::memory::{Bad, MemoryDevice};
use mezzanine_engine::planted::{Bug, only_with};
use mezzanine_volume::{Design, SidecarStore, Volume, VolumeConfig, VolumeErrorKind};

/// Blocks that come and go while the queue goes round.
const TRAFFIC: u64 = 700;

fn config(design: Design) -> VolumeConfig {
    let mut config = durable(design);
    (config.tier.frames, config.tier.frames_max) = (512, 512);
    config
}

/// What power cuts leave of the devices and the sidecar just now, opened and read: `lost` pages are named,
/// all others are as they were synced last.
fn survives(life: &InUse, config: &VolumeConfig, lost: u64, last: u64, seed: u64) -> bool {
    let (flash, backing) = (Arc::new(MemoryDevice::new(0)), Backing::new("a"));
    for (copy, original) in [(&flash, &life.flash), (&backing.disk, &life.backing.disk)] {
        copy.copy_from(original);
        copy.power_cut(seed);
    }
    backing.sidecar.replace(&life.backing.sidecar.read().unwrap().unwrap()).unwrap();
    let Ok(volume) = Volume::open(flash, config.clone()) else { return false };
    let file = backing.attach(&volume).unwrap();
    for block in 0..lost {
        assert!(matches!(read(&file, block), Err(VolumeErrorKind::LostPage)), "page {block}");
    }
    // The newest first, and some of each age.
    for step in (0..=last).rev().step_by(23).take(TRAFFIC as usize / 23) {
        assert!(read(&file, 1000 + step % TRAFFIC) == Ok(page(1000 + step % TRAFFIC, step)), "step {step}");
    }
    true
}

/// A life in which `run` pages side by side are lost after `before` others were written, and power that may
/// fail at every sync of two rounds of the queue.
fn every_cut_is_survived(design: Design, run: u64, before: u64) -> bool {
    let config = config(design);
    let life = begin(&config);
    let write = |block: u64, version: u64| life.file.write_at(&page(block, version), block * PAGE as u64);
    (0..before).for_each(|block| write(500 + block, 1).unwrap());
    (0..run).for_each(|block| write(block, 1).unwrap());
    life.file.sync().unwrap();
    for block in 0..run {
        assert_eq!(spoil(&life.flash, &page(block, 1), Bad::Unreadable), 1);
    }
    for step in 0..2 * config.tier.frames {
        write(1000 + step % TRAFFIC, step).unwrap();
        if step % 3 == 0 {
            life.file.sync().unwrap();
            // They are called lost when their frames are needed; before, they cannot be read either.
            if step > TRAFFIC / 2 && !survives(&life, &config, run, step, step) {
                return false;
            }
        }
    }
    assert_eq!(life.volume.lost_pages().len() as u64, run);
    drop(life.file);
    life.volume.close().unwrap();
    life.backing.attach(&open(&life.flash, &config)).is_ok()
}

/// The pages of a whole group were bad. Where the rear stood two frames before them, no group with pages
/// ended beside good frames, and the next summary was put on a bad one: a crash before a segment stood for it
/// found a tier that was refused.
#[test]
fn bad_frames_as_many_as_a_group_has_pages_are_passed() {
    let all = || {
        let lives = [(2, 0), (3, 4), (4, 0), (4, 4), (4, 8)];
        lives.iter().all(|&(run, before)| every_cut_is_survived(Design::FaceGr, run, before))
    };
    for design in [Design::FaceBasic, Design::FaceGsc] {
        assert!(every_cut_is_survived(design, 4, 0), "{design:?}");
    }
    only_with(&[Bug::SummaryBeforeBadRun], all);
}
