//! The devices of a storm, and how a volume is opened on them again.

use std::path::PathBuf;
use std::sync::Arc;

use mezzanine_device::Device;
use mezzanine_device::memory::{MemoryDevice, Power};
use mezzanine_ground::random::Random;
use mezzanine_volume::{
    AttachOptions, HeaderGuard, SyncMode, TierConfig, Volume, VolumeConfig, VolumeError, VolumeFile,
};

use crate::common::powered::PoweredSidecar;
use crate::common::{PAGE, config};
use crate::model::PAGES;

/// One file: its device, its sidecar, and whether its header is guarded.
#[derive(Clone)]
pub struct Backing {
    name: &'static str,
    pub disk: Arc<MemoryDevice>,
    sidecar: Arc<PoweredSidecar>,
    guarded: bool,
}

/// Flash devices and files on one supply.
pub struct Scene {
    pub power: Power,
    /// The one in use, and those that may be as well after a crash in a replacement.
    pub flashes: Vec<Arc<MemoryDevice>>,
    pub files: Vec<Backing>,
    pub config: VolumeConfig,
    /// The tier was given up in this life.
    pub given_up: bool,
}

fn backings(power: &Power, seed: u64) -> Vec<Backing> {
    [("guarded", true, true), ("plain", true, false), ("device", false, false)]
        .into_iter()
        .map(|(name, resizable, guarded)| {
            let len = if resizable { 0 } else { PAGES * PAGE as u64 };
            let disk = Arc::new(MemoryDevice::on(power, name, len, resizable));
            Backing { name, disk, sidecar: Arc::new(PoweredSidecar::new(power, seed)), guarded }
        })
        .collect()
}

impl Backing {
    pub fn is_resizable(&self) -> bool {
        self.disk.capabilities().can_resize
    }

    fn attach(&self, volume: &Volume) -> Result<VolumeFile, VolumeError> {
        let guard = self.guarded.then(|| HeaderGuard { bytes: b"guarded by a tier".to_vec() });
        let path = PathBuf::from(self.name);
        volume.attach(&path, self.disk.clone(), self.sidecar.clone(), AttachOptions { guard })
    }
}

impl Scene {
    /// Empty files and a formatted tier.
    pub fn new(
        design: &(mezzanine_volume::Design, mezzanine_volume::Admission, SyncMode),
        random: &mut Random,
    ) -> Self {
        let plain = config(design.0, design.1, design.2, random.below(4) as usize);
        let frames_max = if design.0.writes_in_place() { 0 } else { 220 };
        let tier = TierConfig { frames_max: frames_max.max(plain.tier.frames_max), ..plain.tier };
        let config = VolumeConfig { tier, ..plain };
        let power = Power::new();
        let mut scene = Self {
            files: backings(&power, random.below(u64::MAX)),
            flashes: Vec::new(),
            given_up: false,
            config,
            power,
        };
        let flash = scene.another_flash();
        Volume::format(&*flash, &scene.config, false).unwrap();
        scene.flashes.push(flash);
        scene
    }

    /// A new flash device.
    pub fn another_flash(&self) -> Arc<MemoryDevice> {
        let bytes = self.config.tier.geometry().unwrap().flash_bytes();
        Arc::new(MemoryDevice::on(&self.power, "flash", bytes, false))
    }

    /// The power fails, and comes back.
    pub fn power_cut(&self, random: &mut Random) {
        let disks = self.files.iter().map(|file| &file.disk);
        for device in self.flashes.iter().chain(disks) {
            device.power_cut(random.below(u64::MAX));
            device.heal();
        }
        self.power.restore();
    }

    /// As it is, on devices of its own.
    fn copy(&self) -> Self {
        let power = Power::new();
        let device = |other: &MemoryDevice| {
            let copy = MemoryDevice::on(&power, "copy", other.len(), other.capabilities().can_resize);
            copy.copy_from(other);
            Arc::new(copy)
        };
        let files = self.files.iter().map(|file| {
            let sidecar = PoweredSidecar::new(&power, 0);
            sidecar.copy_from(&file.sidecar);
            Backing { disk: device(&file.disk), sidecar: Arc::new(sidecar), ..file.clone() }
        });
        Self {
            files: files.collect(),
            flashes: self.flashes.iter().map(|flash| device(flash)).collect(),
            power: power.clone(),
            config: self.config.clone(),
            given_up: self.given_up,
        }
    }

    fn open_with(&self, flash: usize) -> Result<(Volume, Vec<VolumeFile>), VolumeError> {
        let volume = Volume::open(self.flashes[flash].clone(), self.config.clone())?;
        let files = self.files.iter().map(|file| file.attach(&volume)).collect::<Result<_, _>>()?;
        Ok((volume, files))
    }

    /// Whether the files can be used with this flash device.
    fn would_open(&self, flash: usize) -> Result<(), VolumeError> {
        let (_volume, files) = self.copy().open_with(flash)?;
        files.iter().try_for_each(|file| file.write_at(&[1], 0))
    }

    /// Opens all files, with one of the devices that may be the right one.
    pub fn open(&mut self, context: &str) -> (Volume, Vec<VolumeFile>) {
        let mut refusals = Vec::new();
        // The mode that it was formatted for may be refused by a tier that was left in the other one, which
        // never is.
        let formatted = self.config.tier.sync_mode;
        let other = if self.config.tier.design.has_slots() { formatted } else { SyncMode::Durable };
        for (at, mode) in (0..self.flashes.len()).flat_map(|at| [(at, formatted), (at, other)]) {
            self.config.tier.sync_mode = mode;
            let opened = self.would_open(at).map(|()| self.open_with(at));
            self.config.tier.sync_mode = formatted;
            match opened {
                Ok(opened) => {
                    (self.flashes, self.given_up) = (vec![self.flashes[at].clone()], false);
                    return opened.unwrap_or_else(|error| panic!("{context}: {error}"));
                }
                Err(error) => refusals.push(error.to_string()),
            }
        }
        assert!(self.given_up, "{context}: the files cannot be opened any more: {refusals:#?}");
        // Everything is on the disks, and no sidecar needs a tier.
        let flash = self.another_flash();
        Volume::format(&*flash, &self.config, false).unwrap();
        (self.flashes, self.given_up) = (vec![flash], false);
        self.open(context)
    }
}
