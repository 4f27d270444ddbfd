//! Zoned devices: what of a zone may be written, and how a host writes to it.
//!
//! A zone is *conventional*, written anywhere and over what is there, or *sequential*: it is written front to
//! back, from its *write pointer* on, up to its capacity, and reset as a whole. What lies behind the write
//! pointer reads as anything, but never as what was written there before: as zeros in memory, and as zeros or
//! ones on devices that Linux has. ("NVM Express Zoned Namespace Command Set Specification", section 2.1;
//! "Zoned Block Commands" of INCITS T10 has the conventional ones besides.)

use std::ops::Range;

use crate::{Device, DeviceError, Request};

/// Geometry of a zoned device. All zones are of one length; the conventional ones come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Zones {
    /// Bytes from the start of one zone to the start of the next.
    pub zone_len: u64,
    /// Bytes of a sequential zone that can be written, from its start on.
    pub zone_capacity: u64,
    /// Number of zones.
    pub count: u64,
    /// How many of them are conventional.
    pub conventional: u64,
    /// How many zones may be open for writing at once; 0 when there is no limit.
    pub open_max: u32,
}

impl Zones {
    /// The number of the zone that `offset` lies in.
    pub fn number(&self, offset: u64) -> u64 {
        offset / self.zone_len
    }

    /// First byte of the zone that `offset` lies in.
    pub fn start(&self, offset: u64) -> u64 {
        offset - offset % self.zone_len
    }

    /// Bytes at the beginning of the device that are written anywhere.
    pub fn conventional_len(&self) -> u64 {
        self.conventional * self.zone_len
    }

    /// Whether a zone that `offset` lies in is written front to back.
    pub fn is_sequential(&self, offset: u64) -> bool {
        offset >= self.conventional_len()
    }
}

/// A zone, as the device reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Zone {
    /// First byte on the device.
    pub start: u64,
    /// Bytes that can be written.
    pub capacity: u64,
    /// Whether it is written anywhere; it has no write pointer then.
    pub conventional: bool,
    /// Bytes written since it was reset: where it goes on, counted from its start.
    pub written: u64,
}

impl Zone {
    /// Where on the device the next write goes.
    pub fn write_pointer(&self) -> u64 {
        self.start + self.written
    }

    /// The bytes of the device that it has.
    pub fn range(&self) -> Range<u64> {
        self.start..self.start + self.capacity
    }
}

/// Where on the device the zone goes on that `offset` lies in; `None` where it can be written anywhere, and
/// where the device cannot be asked.
pub fn write_pointer(device: &dyn Device, offset: u64) -> Option<u64> {
    let zone = device.zone_at(offset).ok()?;
    (!zone.conventional).then(|| zone.write_pointer())
}

/// Resets these zones, and then writes: what a job says that may be carried out again when the process that
/// had it has died. What that one has written already of these bytes is left as it is.
///
/// Each write lies in one zone. A device without zones, which takes writes anywhere, is written to all the
/// same, and so are conventional zones, which have nothing to reset.
///
/// # Errors
/// The first of the device.
pub fn reset_and_write<'b>(
    device: &dyn Device,
    resets: impl IntoIterator<Item = u64>,
    writes: impl IntoIterator<Item = (u64, &'b [u8])>,
) -> Result<(), DeviceError> {
    let zones = device.capabilities().zones;
    let is_sequential = |zone: &u64| zones.is_some_and(|zones| zones.is_sequential(*zone));
    let mut resets: Vec<_> =
        resets.into_iter().filter(is_sequential).map(|zone| Request::Reset { zone }).collect();
    if !resets.is_empty() {
        device.run(&mut resets).into_iter().collect::<Result<(), _>>()?;
    }
    let mut requests = Vec::new();
    for (offset, buf) in writes {
        let mut written = 0;
        if zones.is_some_and(|zones| zones.is_sequential(offset)) {
            let pointer = device.zone_at(offset)?.write_pointer();
            written = pointer.saturating_sub(offset).min(buf.len() as u64);
        }
        if written < buf.len() as u64 || buf.is_empty() {
            requests.push(Request::Write { offset: offset + written, buf: &buf[written as usize..] });
        }
    }
    device.run(&mut requests).into_iter().collect()
}
