//! Power is cut at every single operation of a resize, in both directions: before, between and after the two
//! copies of the superblock. What was synced is there, and the tier has the one size or the other.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use common::{Backing, PAGE, config, page};
use mezzanine_device::memory::{MemoryDevice, Power};
use mezzanine_volume::{
    Admission, AttachOptions, Design, SyncMode, TierConfig, Volume, VolumeConfig, VolumeError, VolumeFile,
};

const PAGES: u64 = 70;

struct World {
    power: Power,
    flash: Arc<MemoryDevice>,
    disk: Arc<MemoryDevice>,
    backing: Backing,
    config: VolumeConfig,
}

impl World {
    fn new(sync_mode: SyncMode) -> Self {
        let config = config(Design::FaceGsc, Admission::Both, sync_mode, 0);
        let config = VolumeConfig { tier: TierConfig { frames_max: 160, ..config.tier }, ..config };
        let power = Power::new();
        let bytes = config.tier.geometry().unwrap().flash_bytes();
        let flash = Arc::new(MemoryDevice::on(&power, "flash", bytes, false));
        Volume::format(&*flash, &config, false).unwrap();
        let disk = Arc::new(MemoryDevice::on(&power, "disk", 0, true));
        Self { disk, flash, power, config, backing: Backing::new("a") }
    }

    fn open(&self) -> Result<(Volume, VolumeFile), VolumeError> {
        let volume = Volume::open(self.flash.clone(), self.config.clone())?;
        let sidecar = self.backing.sidecar.clone();
        let file = volume.attach(&self.backing.path, self.disk.clone(), sidecar, AttachOptions::default())?;
        Ok((volume, file))
    }
}

/// One round over all pages, synced.
fn round(file: &VolumeFile, version: u64) -> Result<(), VolumeError> {
    for block in 0..PAGES {
        file.write_at(&page(block, version), block * PAGE as u64)?;
    }
    file.sync()
}

/// Grows the tier, then shrinks it. The last round that was synced, and the power's operations when the
/// resizes began.
fn live(world: &World, done: &mut (u64, u64)) -> Result<(), VolumeError> {
    let (volume, file) = world.open()?;
    round(&file, 1)?;
    *done = (1, world.power.operations());
    let most = volume.resize_progress().unwrap().bytes_max;
    for (size, frames) in [(most, 160), (most - 60 * PAGE as u64, 100)] {
        volume.resize(size)?;
        while volume.resize_progress().unwrap().wanted.is_some() {
            round(&file, done.0 + 1)?;
            done.0 += 1;
        }
        assert_eq!(volume.resize_progress().unwrap().frames, frames);
    }
    round(&file, done.0 + 1)?;
    done.0 += 1;
    Ok(())
}

#[test]
fn a_cut_at_any_operation_of_a_resize_loses_nothing() {
    for mode in [SyncMode::Durable, SyncMode::Through] {
        let world = World::new(mode);
        let mut done = (0, 0);
        live(&world, &mut done).unwrap();
        let (first, last) = (done.1, world.power.operations());
        assert!(last - first > 100, "there is something to cut: {first}..{last}");
        for n in first..last {
            let world = World::new(mode);
            world.power.crash_after(n - world.power.operations() + 1);
            let mut done = (0, 0);
            live(&world, &mut done).unwrap_err();
            assert!(!world.power.is_on());
            world.power.restore();
            world.flash.power_cut(n);
            world.disk.power_cut(n ^ 5);
            let (volume, file) = world.open().unwrap();
            volume.check();
            let frames = volume.resize_progress().unwrap().frames;
            assert!([104, 160, 100].contains(&frames), "{frames}");
            for block in 0..PAGES {
                let mut found = vec![0; PAGE];
                file.read_at(&mut found, block * PAGE as u64).unwrap();
                let known = [done.0, done.0 + 1].iter().any(|version| found == page(block, *version));
                // Where the disk is written at once, it may tear what was not synced.
                assert!(known || mode == SyncMode::Through, "cut at {n}: page {block}");
            }
            round(&file, 99).unwrap();
            volume.check();
        }
    }
}
