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
    /// How many zones may be written to at once; 0 when there is no limit. Devices make room by themselves
    /// where nothing is under way.
    pub open_max: u32,
    /// How many zones may be written in part, neither empty nor full, at a time (*active* ones); 0 when there
    /// is no limit.
    pub active_max: u32,
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

    /// Whether the device limits how many zones are in use.
    pub fn are_limited(&self) -> bool {
        self.open_max > 0 || self.active_max > 0
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

    /// Whether it is written in part: one of those whose number a device may limit.
    pub fn is_active(&self) -> bool {
        !self.conventional && self.written > 0 && self.written < self.capacity
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

/// A zone that a row of writes begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ZoneBegun {
    /// Its first byte.
    pub zone: u64,
    /// First byte of the zone that is left for it, and not written to any more before it is reset.
    pub left: Option<u64>,
}

/// Resets these zones, and then writes: what a job says that may be carried out again when the process that
/// had it has died. What that one has written already of these bytes is left as it is.
///
/// Each write lies in one zone. A device without zones, which takes writes anywhere, is written to all the
/// same, and so are conventional zones, which have nothing to reset. Where the device limits how many zones
/// are in use, one is written after the other, and the zone before is finished first if it is not full.
///
/// # Errors
/// The first of the device.
pub fn reset_and_write<'b>(
    device: &dyn Device,
    begun: impl IntoIterator<Item = ZoneBegun>,
    writes: impl IntoIterator<Item = (u64, &'b [u8])>,
) -> Result<(), DeviceError> {
    let zones = device.capabilities().zones;
    let is_sequential = |zone: u64| zones.is_some_and(|zones| zones.is_sequential(zone));
    let begun: Vec<ZoneBegun> = begun.into_iter().filter(|begun| is_sequential(begun.zone)).collect();
    let mut resets: Vec<_> = begun.iter().map(|begun| Request::Reset { zone: begun.zone }).collect();
    if !resets.is_empty() {
        device.run(&mut resets).into_iter().collect::<Result<(), _>>()?;
    }
    let mut requests = Vec::new();
    for (offset, buf) in writes {
        let mut written = 0;
        if is_sequential(offset) {
            let pointer = device.zone_at(offset)?.write_pointer();
            written = pointer.saturating_sub(offset).min(buf.len() as u64);
        }
        let left = begun.iter().find(|begun| begun.zone == offset).and_then(|begun| begun.left);
        if zones.is_some_and(|zones| zones.are_limited()) {
            device.run(&mut requests).into_iter().collect::<Result<(), _>>()?;
            requests.clear();
            left.map_or(Ok(()), |left| finish_if_active(device, left))?;
        }
        if written < buf.len() as u64 || buf.is_empty() {
            requests.push(Request::write(&buf[written as usize..], offset + written));
        }
    }
    device.run(&mut requests).into_iter().collect()
}

/// Finishes the zone that `offset` lies in if it is written in part.
fn finish_if_active(device: &dyn Device, offset: u64) -> Result<(), DeviceError> {
    let zone = device.zone_at(offset)?;
    if zone.is_active() { device.finish_zone(zone.start) } else { Ok(()) }
}

/// Finishes the zones before byte `end` that are written in part, but for that which begins at byte `kept`:
/// what crashes have left, so that it does not count among the zones that the device allows to be in use.
/// Does nothing where it allows any number.
///
/// # Errors
/// The first of the device.
pub fn finish_all_but(device: &dyn Device, kept: Option<u64>, end: u64) -> Result<(), DeviceError> {
    each_active(
        device,
        end,
        |zone| if Some(zone.start) == kept { Ok(()) } else { device.finish_zone(zone.start) },
    )
}

/// Resets the zones before byte `end` that are written in part, whose contents nobody needs, and finishes
/// those behind, whose contents may be somebody's, where the device limits how many there are.
///
/// # Errors
/// The first of the device.
pub fn reset_active(device: &dyn Device, end: u64) -> Result<(), DeviceError> {
    each_active(device, u64::MAX, |zone| match zone.start < end {
        true => device.reset_zone(zone.start),
        false => device.finish_zone(zone.start),
    })
}

fn each_active(
    device: &dyn Device,
    end: u64,
    mut see: impl FnMut(Zone) -> Result<(), DeviceError>,
) -> Result<(), DeviceError> {
    let Some(zones) = device.capabilities().zones.filter(Zones::are_limited) else { return Ok(()) };
    for number in zones.conventional..zones.count.min(end.div_ceil(zones.zone_len)) {
        let zone = device.zone_at(number * zones.zone_len)?;
        if zone.is_active() {
            see(zone)?;
        }
    }
    Ok(())
}
