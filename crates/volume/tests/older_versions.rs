//! Tiers in older versions of the format: they can be drained, and nothing else is done with them.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use common::images::{Image, older};
use common::{Backing, config};
use mezzanine_device::Device;
use mezzanine_device::memory::{MemoryDevice, Power};
use mezzanine_engine::format::read_superblock;
use mezzanine_engine::{ReadError, ReadFlash};
use mezzanine_volume::{Admission, Design, SidecarStore, SyncMode, Volume, VolumeConfig, VolumeErrorKind};

struct World {
    power: Power,
    flash: Arc<MemoryDevice>,
    backing: Backing,
    config: VolumeConfig,
}

impl World {
    fn new(name: &str) -> Self {
        let image = Image::of(name);
        let power = Power::new();
        let flash = Arc::new(MemoryDevice::on(&power, "flash", 0, false));
        flash.load(&image.flash);
        let disk = Arc::new(MemoryDevice::on(&power, "disk", 0, true));
        disk.load(&image.file);
        let backing = Backing { disk, ..Backing::new("a") };
        backing.sidecar.replace(&image.sidecar).unwrap();
        let config = match name {
            "version-2-queue" | "version-3-queue" => {
                config(Design::FaceGsc, Admission::Both, SyncMode::Durable, 0)
            }
            "version-2-in-place" | "version-3-in-place" => {
                config(Design::Lc, Admission::Both, SyncMode::Durable, 0)
            }
            _ => config(Design::Tac, Admission::Both, SyncMode::Through, 0),
        };
        Self { power, flash, backing, config }
    }

    fn state(&self) -> (Vec<u8>, Vec<u8>, Option<Vec<u8>>) {
        (self.flash.image(), self.backing.disk.image(), self.backing.sidecar.read().unwrap())
    }

    fn drain(&self) -> Result<(), mezzanine_volume::VolumeError> {
        let config = VolumeConfig { to_drain: true, ..self.config.clone() };
        let volume = Volume::open(self.flash.clone(), config)?;
        self.backing.attach(&volume)?;
        volume.close_drained()
    }
}

struct Flash<'f>(&'f MemoryDevice);

impl ReadFlash for Flash<'_> {
    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> Result<(), ReadError> {
        self.0.read_at(bytes, offset).map_err(|error| ReadError(error.to_string()))
    }
}

#[test]
fn it_is_not_used_and_not_formatted_over() {
    for (version, name) in older() {
        let world = World::new(name);
        let before = world.state();
        let used = Volume::open(world.flash.clone(), world.config.clone()).map(drop).unwrap_err();
        let formatted = Volume::format(&*world.flash, &world.config, false).unwrap_err();
        for error in [used, formatted] {
            assert_eq!(error.kind(), VolumeErrorKind::OlderFormat { version }, "{name}: {error}");
            assert!(error.to_string().contains("mezz tier drain"), "{name}: {error}");
        }
        assert!(world.state() == before, "{name}: something changed");
    }
}

#[test]
fn it_is_drained_and_is_of_this_version_then() {
    for (_, name) in older() {
        let world = World::new(name);
        world.drain().unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(world.backing.disk.image() == Image::contents(), "{name}: the file is not complete");
        assert_eq!(world.backing.sidecar.read().unwrap(), None, "{name}");
        assert!(read_superblock(&mut Flash(&world.flash)).is_ok(), "{name}");
        Volume::format(&*world.flash, &world.config, false).unwrap();
    }
}

#[test]
fn it_is_drained_after_a_power_cut_at_any_operation_of_draining() {
    for (_, name) in older() {
        let world = World::new(name);
        let before = world.power.operations();
        world.drain().unwrap();
        for n in 1..=world.power.operations() - before {
            let world = World::new(name);
            world.power.crash_after(n);
            let drained = world.drain();
            let complete = || world.backing.disk.image() == Image::contents();
            world.flash.power_cut(n);
            world.backing.disk.power_cut(n + 1);
            world.power.restore();
            // A tier that nobody needs is given up when its device fails: the drain is done all the same, and
            // true.
            assert!(drained.is_err() || complete(), "{name}, cut {n}: drained, and the file is not complete");
            world.drain().unwrap_or_else(|error| panic!("{name}, cut {n}: {error}"));
            assert!(complete(), "{name}, cut {n}: the file is not complete");
        }
    }
}
