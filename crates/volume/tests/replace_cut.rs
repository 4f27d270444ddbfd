//! Power is cut at every single operation of a replacement of the flash device, there and back, on all that
//! it touches: the old device, the new one, the disk and the sidecar.
//!
//! Invariants checked: the file opens with the old device or with the new one, perhaps with either, and then
//! has what was synced; the one that it is not opened with is refused from then on, or answers with what was
//! written since.

#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;
use std::sync::Arc;

use common::powered::PoweredSidecar;
use common::{PAGE, durable, page, through};
use mezzanine_device::memory::{Fault, Injection, MemoryDevice, Operation, Power};
use mezzanine_device::{Device, DeviceErrorKind};
use mezzanine_engine::format::read_superblock;
use mezzanine_engine::{ReadError, ReadFlash};
use mezzanine_volume::{
    AttachOptions, HeaderGuard, ReplaceOptions, SyncMode, Volume, VolumeConfig, VolumeError, VolumeErrorKind,
    VolumeFile, VolumeState,
};

const PAGES: u64 = 24;

struct World {
    power: Power,
    flashes: [Arc<MemoryDevice>; 2],
    disk: Arc<MemoryDevice>,
    sidecar: Arc<PoweredSidecar>,
}

struct Flash<'f>(&'f MemoryDevice);

impl ReadFlash for Flash<'_> {
    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> Result<(), ReadError> {
        self.0.read_at(bytes, offset).map_err(|error| ReadError(error.to_string()))
    }
}

impl World {
    fn new() -> Self {
        let power = Power::new();
        let bytes = durable().tier.geometry().unwrap().flash_bytes();
        Self {
            flashes: ["old", "new"].map(|name| Arc::new(MemoryDevice::on(&power, name, bytes, false))),
            disk: Arc::new(MemoryDevice::on(&power, "disk", 0, true)),
            sidecar: Arc::new(PoweredSidecar::new(&power, 5)),
            power,
        }
    }

    /// A world of its own in the same state.
    fn copy(&self) -> Self {
        let copy = Self::new();
        copy.sidecar.copy_from(&self.sidecar);
        copy.disk.copy_from(&self.disk);
        self.flashes.iter().zip(&copy.flashes).for_each(|(from, to)| to.copy_from(from));
        copy
    }

    fn attach(&self, volume: &Volume) -> Result<VolumeFile, VolumeError> {
        let options = AttachOptions { guard: Some(HeaderGuard { bytes: b"guarded".to_vec() }) };
        volume.attach(Path::new("a"), self.disk.clone(), self.sidecar.clone(), options)
    }

    /// Opens the file with one of the devices, as its tier is.
    fn open(&self, device: usize) -> Result<(Volume, VolumeFile), VolumeError> {
        let flash = &self.flashes[device];
        let mode =
            read_superblock(&mut Flash(flash)).map_or(SyncMode::Durable, |found| found.config.sync_mode);
        let config = if mode == SyncMode::Through { through() } else { durable() };
        let volume = Volume::open(flash.clone(), config)?;
        let file = self.attach(&volume)?;
        Ok((volume, file))
    }
}

fn round(file: &VolumeFile, version: u64) -> Result<(), VolumeError> {
    for block in 0..PAGES {
        file.write_at(&page(block, version), block * PAGE as u64)?;
    }
    file.sync()
}

fn options(config: &VolumeConfig) -> ReplaceOptions {
    ReplaceOptions { identity_seed: Some(7), ..ReplaceOptions::new(config.tier.clone()) }
}

/// What is replaced by what, and whether the old device fails before.
#[derive(Clone, Copy, Debug)]
struct Course {
    modes: [SyncMode; 2],
    fails: bool,
}

impl Course {
    fn config(self, device: usize) -> VolumeConfig {
        if self.modes[device] == SyncMode::Through { through() } else { durable() }
    }

    /// Whether the disk may tear a page that was not synced.
    fn tears(self) -> bool {
        self.fails || self.modes.contains(&SyncMode::Through)
    }

    /// The old device is replaced by the new one, and if it has not failed, the other way round again. Tells
    /// the last round that was synced, and how many operations there had been when the first replacement
    /// began.
    fn live(self, world: &World, done: &mut (u64, u64)) -> Result<(), VolumeError> {
        Volume::format(&*world.flashes[0], &self.config(0), false)?;
        let (volume, file) = world.open(0)?;
        let next_round = |done: &mut (u64, u64)| round(&file, done.0 + 1).map(|()| done.0 += 1);
        next_round(done)?;
        if self.fails {
            let fault = Fault::Error(DeviceErrorKind::Io);
            world.flashes[0].inject(Injection {
                operation: Operation::Write,
                after: 0,
                count: u64::MAX,
                fault,
            });
            next_round(done)?;
            assert!(matches!(volume.state(), VolumeState::Bypass { .. }));
        }
        done.1 = world.power.operations();
        volume.replace_flash(world.flashes[1].clone(), &options(&self.config(1)))?;
        next_round(done)?;
        if !self.fails {
            volume.replace_flash(world.flashes[0].clone(), &options(&self.config(0)))?;
            next_round(done)?;
        }
        assert_eq!(volume.state(), VolumeState::Ok);
        Ok(())
    }
}

fn check(file: &VolumeFile, done: u64, tears: bool, context: &str) {
    for block in 0..PAGES {
        let mut found = vec![0; PAGE];
        file.read_at(&mut found, block * PAGE as u64).unwrap_or_else(|error| panic!("{context}: {error}"));
        let known = [page(block, done), page(block, done + 1)];
        let sectors = found.chunks_exact(512).enumerate();
        let torn = || {
            sectors
                .clone()
                .all(|(at, sector)| known.iter().any(|page| page[at * 512..(at + 1) * 512] == *sector))
        };
        let version = u64::from_le_bytes(found[8..16].try_into().unwrap());
        let right = known.contains(&found) || tears && torn();
        assert!(right, "{context}: page {block} is of version {version}, not {done} or the next");
    }
}

/// What follows a cut, with one of the devices. False if that is refused.
fn goes_on(world: &World, device: usize, course: Course, done: u64, context: &str) -> bool {
    let world = world.copy();
    world.flashes.iter().for_each(|flash| flash.heal());
    let context = format!("{context}, opened with device {device}");
    let (volume, file) = match world.open(device) {
        Ok(opened) => opened,
        Err(error) => {
            let kind = error.kind();
            let expected = matches!(
                kind,
                VolumeErrorKind::ForeignTier
                    | VolumeErrorKind::OlderTier
                    | VolumeErrorKind::Unrecognised
                    | VolumeErrorKind::Damaged
            );
            assert!(expected, "{context}: {error:?}");
            return false;
        }
    };
    volume.check();
    check(&file, done, course.tears(), &context);
    match round(&file, 77) {
        Ok(()) => {}
        // The old device does not know that it was given up, and waits for a file that no longer names it.
        Err(error) if course.fails && device == 0 => {
            assert_eq!(error.kind(), VolumeErrorKind::FileNotAttached, "{context}: {error}");
            return false;
        }
        Err(error) => panic!("{context}: {error}"),
    }
    volume.check();
    drop((volume, file));
    // The other one comes back.
    if let Ok((_volume, file)) = world.copy().open(1 - device) {
        check(&file, 77, false, &format!("{context}, then with the other"));
    }
    let (_volume, file) = world.open(device).unwrap_or_else(|error| panic!("{context}, again: {error}"));
    check(&file, 77, false, &context);
    true
}

fn cut_everywhere(course: Course) {
    let world = World::new();
    let mut done = (0, 0);
    course.live(&world, &mut done).unwrap();
    let (first, last) = (done.1, world.power.operations());
    assert!(last - first > 60, "there is something to cut: {first}..{last}");
    let mut opened = [0; 2];
    for n in first..last {
        for seed in 0..2 {
            let world = World::new();
            world.power.crash_after(n + 1);
            let mut done = (0, 0);
            course.live(&world, &mut done).unwrap_err();
            assert!(!world.power.is_on());
            world.power.restore();
            for (at, device) in [&world.flashes[0], &world.flashes[1], &world.disk].into_iter().enumerate() {
                device.power_cut(n * 6 + seed * 3 + at as u64);
            }
            let context = format!("{course:?}, cut {n}, seed {seed}");
            let ways = [0, 1].map(|device| goes_on(&world, device, course, done.0, &context));
            assert!(ways[0] || ways[1], "{context}: the file cannot be opened any more");
            opened.iter_mut().zip(ways).for_each(|(count, way)| *count += u64::from(way));
        }
    }
    assert!(opened[0] > 10 && opened[1] > 10, "{course:?}: with the one or the other: {opened:?}");
}

#[test]
fn a_cut_at_any_operation_of_a_replacement_leaves_what_was_synced_with_the_one_device_or_the_other() {
    let (through, durable) = (SyncMode::Through, SyncMode::Durable);
    for modes in [[durable, durable], [durable, through], [through, durable], [through, through]] {
        cut_everywhere(Course { modes, fails: false });
    }
}

#[test]
fn a_cut_at_any_operation_of_the_replacement_of_a_failed_device_leaves_what_was_synced() {
    let (through, durable) = (SyncMode::Through, SyncMode::Durable);
    for modes in [[durable, durable], [durable, through], [through, durable], [through, through]] {
        cut_everywhere(Course { modes, fails: true });
    }
}
