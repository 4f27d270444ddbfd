//! A volume whose devices and sidecar lose power together.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use mezzanine_device::memory::{MemoryDevice, Power, Spent};
use mezzanine_ground::random::Random;
use mezzanine_volume::{AttachOptions, SidecarStore, Volume, VolumeConfig, VolumeError, VolumeFile};

/// A flash device with a tier, a disk and its sidecar, on one power.
pub struct Machine {
    pub power: Power,
    pub flash: Arc<MemoryDevice>,
    pub disk: Arc<MemoryDevice>,
    pub sidecar: Arc<PoweredSidecar>,
}

impl Machine {
    /// Formats the tier. The disk has so many bytes, and keeps them or not; `seed` decides what a cut leaves
    /// of the sidecar.
    pub fn new(config: &VolumeConfig, seed: u64, disk_bytes: u64, can_resize: bool) -> Self {
        let power = Power::new();
        let bytes = config.tier.geometry().unwrap().flash_bytes();
        let flash = Arc::new(MemoryDevice::on(&power, "flash", bytes, false));
        Volume::format(&*flash, config, false).unwrap();
        Self {
            disk: Arc::new(MemoryDevice::on(&power, "disk", disk_bytes, can_resize)),
            sidecar: Arc::new(PoweredSidecar::new(&power, seed)),
            flash,
            power,
        }
    }

    pub fn open(
        &self,
        config: VolumeConfig,
        options: AttachOptions,
    ) -> Result<(Volume, VolumeFile), VolumeError> {
        let volume = Volume::open(self.flash.clone(), config)?;
        let file = volume.attach(Path::new("disk"), self.disk.clone(), self.sidecar.clone(), options)?;
        Ok((volume, file))
    }

    /// Power is there again. What was not flushed is lost, or not, if it had `failed`; otherwise the process
    /// alone has died.
    pub fn restore(&self, failed: bool, random: &mut Random) {
        self.power.restore();
        let (flash, disk) = (random.next_u64(), random.next_u64());
        if failed {
            self.flash.power_cut(flash);
            self.disk.power_cut(disk);
        }
    }
}

/// A sidecar on the same power as the devices: a cut in the middle of a replacement leaves the old or the new
/// one.
pub struct PoweredSidecar {
    power: Power,
    state: Mutex<(Option<Vec<u8>>, Random)>,
}

impl PoweredSidecar {
    /// One that does not exist yet; `seed` decides what a cut leaves.
    pub fn new(power: &Power, seed: u64) -> Self {
        Self { power: power.clone(), state: Mutex::new((None, Random::new(seed))) }
    }

    /// Makes it what `other` is, on its own power.
    pub fn copy_from(&self, other: &Self) {
        *self.state.lock().unwrap() = other.state.lock().unwrap().clone();
    }

    fn put(&self, bytes: Option<Vec<u8>>) -> io::Result<()> {
        let mut state = self.state.lock().unwrap();
        match self.power.spend() {
            Spent::On => {
                state.0 = bytes;
                Ok(())
            }
            Spent::Cut => {
                if state.1.chance(1, 2) {
                    state.0 = bytes;
                }
                Err(io::Error::other("power"))
            }
            Spent::Off => Err(io::Error::other("no power")),
        }
    }
}

impl SidecarStore for PoweredSidecar {
    fn describe(&self) -> String {
        "sidecar".to_owned()
    }
    fn read(&self) -> io::Result<Option<Vec<u8>>> {
        Ok(self.state.lock().unwrap().0.clone())
    }
    fn replace(&self, bytes: &[u8]) -> io::Result<()> {
        self.put(Some(bytes.to_vec()))
    }
    fn remove(&self) -> io::Result<()> {
        self.put(None)
    }
    fn fingerprint(&self) -> io::Result<Option<Vec<u8>>> {
        Ok(Some(vec![1]))
    }
}
