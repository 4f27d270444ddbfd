//! What a volume leaves behind whose power has failed, or that was not closed.

use std::sync::Arc;

use mezzanine_device::Device;
use mezzanine_device::memory::Power;
use mezzanine_engine::format::read_superblock;
use mezzanine_engine::{ReadError, ReadFlash};
use mezzanine_volume::{Volume, VolumeConfig, VolumeError, VolumeErrorKind};

use crate::device::Scheduled;
use crate::pages::{Pages, whole};
use crate::world::{Backing, Setup, attach_all, draw, look};

pub(crate) struct Left {
    pub(crate) setup: Setup,
    pub(crate) power: Power,
    pub(crate) backings: Vec<Backing>,
}

struct Flash<'f>(&'f Scheduled);

impl ReadFlash for Flash<'_> {
    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> Result<(), ReadError> {
        self.0.read_at(bytes, offset).map_err(|error| ReadError(error.to_string()))
    }
}

impl Left {
    /// The power fails, and the volume is opened with the device that it was on; or, if that was just being
    /// replaced, with the old one or the new one, whichever does not refuse. It is judged, and judged once
    /// more: nothing is written in between, so what was read stays.
    pub(crate) fn judge(&self, flashes: Vec<Arc<Scheduled>>, pages: Pages) {
        for device in self.backings.iter().map(|backing| &backing.disk).chain(&flashes) {
            device.0.power_cut(draw(u64::MAX));
            device.0.heal();
        }
        self.power.restore();
        let mut opened = 0;
        for flash in &flashes {
            let power = Power::new();
            let copy = self.copy_on(&power);
            let flash = flash.copy_on(&power);
            let mut pages = pages.clone();
            match copy.open_and_judge(&flash, &mut pages) {
                Ok(()) => opened += 1,
                Err(error) => {
                    let refused = matches!(
                        error.kind(),
                        VolumeErrorKind::ForeignTier
                            | VolumeErrorKind::OlderTier
                            | VolumeErrorKind::Unrecognised
                            | VolumeErrorKind::Damaged
                    );
                    assert!(flashes.len() > 1 && refused, "after the power failed: {error}");
                    continue;
                }
            }
            for device in copy.backings.iter().map(|backing| &backing.disk).chain([&flash]) {
                device.0.power_cut(draw(u64::MAX));
            }
            copy.open_and_judge(&flash, &mut pages).unwrap();
        }
        assert!(opened > 0, "after the power failed no device of two is the right one");
    }

    fn copy_on(&self, power: &Power) -> Self {
        let copy = |backing: &Backing| Backing {
            disk: backing.disk.copy_on(power),
            sidecar: backing.sidecar.copy_on(power),
            guarded: backing.guarded,
        };
        Self {
            setup: Setup { tier: self.setup.tier.clone(), ..self.setup },
            power: power.clone(),
            backings: self.backings.iter().map(copy).collect(),
        }
    }

    /// Opens it in the mode that its tier was in.
    fn open_and_judge(&self, flash: &Arc<Scheduled>, pages: &mut Pages) -> Result<(), VolumeError> {
        let mut config = VolumeConfig { workers: 0, ..self.setup.config() };
        if let Ok(found) = read_superblock(&mut Flash(flash)) {
            config.tier.sync_mode = found.config.sync_mode;
        }
        let volume = Volume::open(flash.clone(), config)?;
        let files = attach_all(&self.backings, &volume)?;
        volume.check();
        for page in pages.all() {
            let found = look(&files[page.0], &[page])?.remove(0);
            if self.setup.torn_is_right {
                pages.judge_torn_left(page, &found);
            } else {
                pages.judge_left(page, whole(page, &found));
            }
        }
        Ok(())
    }
}
