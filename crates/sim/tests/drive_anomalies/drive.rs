//! A drive from the inside, on a supply that others hang on as well.

use std::sync::Mutex;

use mezzanine_device::memory::Power;
use mezzanine_device::{Capabilities, Device, DeviceError, Request};
use mezzanine_ground::random::Random;
use mezzanine_ssd::{Loss, Ssd};

/// The unit that the drive maps, in bytes.
pub(crate) const UNIT: usize = 4096;

pub(crate) struct SsdDevice {
    drive: mezzanine_ssd::SsdDevice,
    power: Power,
    random: Mutex<Random>,
    lost: Mutex<Loss>,
}

impl SsdDevice {
    pub(crate) fn new(ssd: Ssd, power: &Power, seed: u64) -> Self {
        let drive = mezzanine_ssd::SsdDevice::new(ssd);
        let (random, lost) = (Mutex::new(Random::new(seed)), Mutex::new(Loss::default()));
        Self { drive, power: power.clone(), random, lost }
    }

    /// The power fails, if it has not failed in an operation, and the drive starts again. To be called before
    /// it returns to the others.
    pub(crate) fn lose_power(&self) {
        let loss = self.drive.lose_power(&mut self.random.lock().unwrap(), 1.0);
        self.lost.lock().unwrap().damaged += loss.damaged;
    }

    /// Units that starts have found to have other contents than any version.
    pub(crate) fn damaged(&self) -> u64 {
        self.lost.lock().unwrap().damaged
    }
}

impl Device for SsdDevice {
    fn capabilities(&self) -> Capabilities {
        self.drive.capabilities()
    }

    fn run(&self, batch: &mut [Request<'_>]) -> Vec<Result<(), DeviceError>> {
        self.drive.run_on(batch, || self.power.spend())
    }

    fn set_len(&self, len: u64) -> Result<(), DeviceError> {
        self.drive.set_len(len)
    }

    fn describe(&self) -> String {
        self.drive.describe()
    }
}
