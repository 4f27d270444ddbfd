//! Drives from the inside as the devices of worlds: flash with a translation layer, a write cache of any
//! kind, and what their power cuts leave, by the rules of `mezzanine_ssd::power`.
//!
//! A world sees a [`MemoryDevice`](mezzanine_device::MemoryDevice), with all that worlds do to those, and the
//! drive is behind it. A power cut comes at any instant of a request or between two, and now and then again
//! while the drive starts.

mod anomaly;

mod draw;

use std::fmt;
use std::slice;
use std::sync::{Arc, Mutex, PoisonError};

use mezzanine_device::memory::{CutReport, Image, Medium, MemoryDevice, Power, Spent};
use mezzanine_device::{Capabilities, Device, DeviceErrorKind, Request};
use mezzanine_ground::random::Random;
#[cfg(feature = "planted")]
use mezzanine_ssd::power::PlantedFault;
use mezzanine_ssd::{Anomaly, CacheKind, Ssd, SsdConfig, SsdDevice};

pub use anomaly::DriveAnomaly;

/// After one start in so many the power fails again before a request comes.
const CUTS_AFTER_START: u64 = 4;

/// What the drives of a world are like.
#[derive(Debug, Clone, PartialEq)]
pub struct Drive {
    config: SsdConfig,
    /// Whether it is told of flushes. One without is relied on for what it has acknowledged.
    hears_flushes: bool,
    /// What was flushed may be gone: an error may be all that is left to say.
    pub(crate) refuses: bool,
    /// And an older version may pass for it.
    pub(crate) goes_back: bool,
    /// A rule of dump and recovery that it breaks.
    #[cfg(feature = "planted")]
    pub planted: Option<PlantedFault>,
}

/// What the drives of a machine have done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) starts_cut: u64,
    pub(crate) units_moved: u64,
    pub(crate) units_of_map: u64,
    pub(crate) units_damaged: u64,
}

/// Where drives of a machine tell what they have done.
pub(crate) type Tally = Arc<Mutex<Done>>;

/// What was told since this was asked last.
pub(crate) fn take(tally: &Tally) -> Done {
    std::mem::take(&mut tally.lock().unwrap_or_else(PoisonError::into_inner))
}

impl Drive {
    fn of(config: SsdConfig) -> Self {
        Self {
            config,
            hears_flushes: true,
            refuses: false,
            goes_back: false,
            #[cfg(feature = "planted")]
            planted: None,
        }
    }

    /// What becomes of what it has acknowledged when the power fails.
    pub fn cache(&self) -> CacheKind {
        self.config.cache.kind
    }

    /// Whether flushes come through to it.
    pub fn hears_flushes(&self) -> bool {
        self.hears_flushes
    }

    /// A device of so many bytes with such a drive behind it, on a supply of power.
    pub(crate) fn device(
        &self,
        power: &Power,
        name: &'static str,
        bytes: u64,
        tally: &Tally,
    ) -> MemoryDevice {
        let (device, tally) = (self.new_device(), Arc::clone(tally));
        let modelled = Modelled { drive: self.clone(), device, cut: false, said: None, tally };
        MemoryDevice::before(Box::new(modelled), power, name, bytes)
    }

    fn new_device(&self) -> SsdDevice {
        let ssd = Ssd::new(self.config.clone()).unwrap_or_else(|error| panic!("{self:?}: {error}"));
        let device = SsdDevice::new(ssd.named("a modelled drive"));
        #[cfg(feature = "planted")]
        device.plant(self.planted);
        device
    }
}

impl fmt::Display for Drive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SsdConfig { geometry, ftl, cache, power_loss, .. } = &self.config;
        write!(
            f,
            "drive with cache {:?} of {} units, {} planes of {} blocks of {} pages of {}, pairs {}",
            cache.kind,
            cache.buffer_bytes / u64::from(geometry.unit_bytes),
            geometry.planes(),
            geometry.blocks_per_plane,
            geometry.pages_per_block,
            geometry.page_bytes,
            geometry.paired_distance,
        )?;
        if ftl.backs_up_paired_pages {
            write!(f, " copied before")?;
        }
        if let Some(power_loss) = power_loss {
            write!(f, ", anomalies {:?}", power_loss.anomalies)?;
        }
        if self.hears_flushes { Ok(()) } else { write!(f, ", without flushes") }
    }
}

/// A drive behind a device.
struct Modelled {
    drive: Drive,
    device: SsdDevice,
    /// The power has failed in a request.
    cut: bool,
    /// What its last error said.
    said: Option<String>,
    tally: Tally,
}

impl Medium for Modelled {
    fn capabilities(&self) -> Capabilities {
        self.device.capabilities()
    }

    fn request(&mut self, request: &mut Request<'_>, spent: Spent) -> Result<(), DeviceErrorKind> {
        if spent == Spent::On && std::mem::take(&mut self.cut) {
            self.device.power_stays_on();
        }
        self.cut |= spent == Spent::Cut;
        if matches!(request, Request::Flush) && !self.drive.hears_flushes {
            return Ok(());
        }
        let results = self.device.run_on(slice::from_mut(request), || spent);
        results.into_iter().try_for_each(|result| {
            result.map_err(|error| {
                self.said = Some(error.to_string());
                error.kind()
            })
        })
    }

    /// A corrupt map names places that are others' as well.
    fn changes_by_itself(&self) -> bool {
        self.drive.config.shows(Anomaly::CorruptMap)
    }

    fn says(&self) -> Option<String> {
        self.said.clone()
    }

    fn peek(&self, offset: u64, buf: &mut [u8]) {
        self.device.peek(offset, buf);
    }

    fn power_cut(&mut self, seed: u64) -> CutReport {
        let mut random = Random::new(seed);
        let mut report = CutReport::default();
        let mut done = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        self.cut = false;
        loop {
            let counted = self.device.counters();
            done.units_moved += counted.units_moved;
            done.units_of_map += counted.units_of_map;
            let loss = self.device.lose_power(&mut random, 1.0);
            report.lost += loss.older;
            report.torn += loss.damaged;
            done.units_damaged += loss.damaged;
            if !random.chance(1, CUTS_AFTER_START) {
                return report;
            }
            done.starts_cut += 1;
        }
    }

    fn replace(&mut self, image: &Image) {
        if image.len() as u64 > self.device.capabilities().len {
            self.drive.has_room_for(image.len() as u64);
        }
        self.device = self.drive.new_device();
        self.cut = false;
        let unit = self.drive.config.geometry.unit_bytes as usize;
        for at in (0..image.len()).step_by(unit) {
            let bytes = image.range(at..image.len().min(at + unit));
            if bytes.iter().any(|byte| *byte != 0) {
                let written = self.device.write_at(&bytes, at as u64);
                written.unwrap_or_else(|error| panic!("a new drive takes what it is to hold: {error}"));
            }
        }
        self.device.flush().unwrap_or_else(|error| panic!("a new drive keeps what it holds: {error}"));
    }
}

#[cfg(test)]
mod tests;
