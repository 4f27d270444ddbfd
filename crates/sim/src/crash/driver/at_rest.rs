//! A tier at rest, as a host sees it: also where the beginning of its device is kept in two halves of
//! sequential zones ([`two_zones`]), so that nothing lies where its offset says.

use std::sync::Arc;

use mezzanine_device::memory::{Image, MemoryDevice, Power};
use mezzanine_device::zones::write_pointer;
use mezzanine_device::{Device, DeviceError, Zones, two_zones};
use mezzanine_engine::{ReadError, ReadFlash};

/// A copy of a flash device. Nothing that is done to it counts as an operation of the device.
pub(crate) struct AtRest {
    copy: Arc<MemoryDevice>,
    seen: Arc<dyn Device>,
}

impl AtRest {
    /// The copy of a device of such zones that holds this; none if no host can open it.
    pub(crate) fn of(image: &Image, zones: Option<Zones>) -> Option<Self> {
        let (power, name) = (Power::new(), "a copy of flash");
        let copy = Arc::new(match zones {
            Some(zones) => MemoryDevice::zoned(&power, name, zones),
            None => MemoryDevice::on(&power, name, image.len() as u64, false),
        });
        copy.put_back(image);
        let seen = two_zones::shown(Arc::clone(&copy) as Arc<dyn Device>).ok()?;
        Some(Self { copy, seen })
    }

    /// So many bytes of the tier from an offset on; none if they cannot be read.
    pub(crate) fn bytes(&self, offset: u64, len: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; len];
        self.seen.read_at(&mut bytes, offset).ok()?;
        Some(bytes)
    }

    /// Changes what is written in place.
    ///
    /// # Errors
    /// That of the device.
    pub(crate) fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.seen.write_at(bytes, offset)
    }

    /// What the device holds then.
    ///
    /// # Errors
    /// That of the device.
    pub(crate) fn into_image(self) -> Result<Image, DeviceError> {
        self.seen.flush()?;
        Ok(self.copy.snapshot())
    }
}

impl ReadFlash for AtRest {
    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> Result<(), ReadError> {
        self.seen.read_at(bytes, offset).map_err(|error| ReadError(error.to_string()))
    }

    fn write_pointer(&mut self, offset: u64) -> Option<u64> {
        write_pointer(&*self.seen, offset)
    }
}
