//! A flash device in memory for what reads and writes superblocks.
#![allow(missing_docs, unreachable_pub)]

use mezzanine_device::memory::MemoryDevice;
use mezzanine_device::{Device, DeviceError};
use mezzanine_engine::{ReadError, ReadFlash, WriteFlash};

pub struct Flash<'d>(pub &'d MemoryDevice);

impl ReadFlash for Flash<'_> {
    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> Result<(), ReadError> {
        self.0.read_at_or_zero(bytes, offset).map(drop).map_err(|error| ReadError(error.to_string()))
    }
}

impl WriteFlash for Flash<'_> {
    type Error = DeviceError;

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.0.write_at(bytes, offset)
    }

    fn flush(&mut self) -> Result<(), DeviceError> {
        self.0.flush()
    }
}
