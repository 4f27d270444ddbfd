//! Block devices with zones, as Linux has them ("Zoned Storage", docs of the kernel's block layer; what
//! reports look like: [`report`]).
//!
//! Host-managed devices are written as [`crate::zones`] says. Host-aware ones and those that manage their
//! zones by themselves take writes anywhere and are devices without zones here.
//!
//! Two calls that write to one zone have an order only if one returns before the other begins, so writes of a
//! batch are carried out one after the other. Within a call the kernel keeps the order: up to 6.9 that is
//! the work of the I/O scheduler `mq-deadline`, which it gives to such devices by itself.

use std::fs::File;
use std::io;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use super::report::{self, ReportedZone, ZonesRefused};
use super::{FileDevice, kernel};
use crate::{AlignedBuf, DeviceError, DeviceErrorKind, Request, Zone, Zones};

/// Zones that are asked for at a time.
const ZONES_PER_REPORT: u32 = 1024;

/// Why the zones of a device are not known.
pub(super) enum NoZones {
    /// Asking failed.
    Unasked(io::Error),
    /// It has some that cannot be used.
    Refused(ZonesRefused),
}

impl From<io::Error> for NoZones {
    fn from(error: io::Error) -> Self {
        Self::Unasked(error)
    }
}

impl From<ZonesRefused> for NoZones {
    fn from(refused: ZonesRefused) -> Self {
        Self::Refused(refused)
    }
}

/// The zones of a block device that has to be written in them; `None` of any other.
pub(super) fn zones_of(file: &File) -> Result<Option<Zones>, NoZones> {
    if kernel::zone_len(file)? == 0 {
        return Ok(None);
    }
    let len = kernel::block_device_len(file)?;
    let mut zones: Vec<ReportedZone> = Vec::new();
    let mut next = 0;
    while next < len {
        let more = report::parse(&kernel::report_zones(file, next, ZONES_PER_REPORT)?)?;
        // No zones, or no new ones: the rest is missing, and the geometry is that of what there is.
        let Some(last) = more.last().filter(|last| last.start >= next) else { break };
        next = last.start + last.len;
        zones.extend(more);
    }
    let limit = |name| limit(kernel::queue_limit(file, name).unwrap_or(0));
    let (open_max, active_max) = (limit("max_open_zones"), limit("max_active_zones"));
    Ok(report::geometry(&zones)?.map(|zones| Zones { open_max, active_max, ..zones }))
}

/// A limit of the kernel's as it is kept here; 0 is none in both.
fn limit(found: u64) -> u32 {
    u32::try_from(found).unwrap_or(u32::MAX)
}

/// Alignment in bytes of what is written to zones: that of direct I/O, or the larger one that the drive wants
/// there (of disks with sectors that are emulated that of the real ones).
pub(super) fn write_alignment(file: &File, direct: u32) -> u32 {
    let granularity = kernel::queue_limit(file, "zone_write_granularity").unwrap_or(0);
    u32::try_from(granularity).map_or(direct, |granularity| granularity.max(direct).next_power_of_two())
}

impl FileDevice {
    /// Whether what begins at this byte is written to a sequential zone.
    pub(super) fn is_in_zone(&self, offset: u64) -> bool {
        self.opened.zones.is_some_and(|zones| zones.is_sequential(offset))
    }

    /// Refuses what a device with zones never takes.
    pub(super) fn check_zones(&self, request: &Request<'_>) -> Result<(), DeviceError> {
        let (Some(zones), Some((offset, len))) = (self.opened.zones, request.range()) else { return Ok(()) };
        let refuse =
            |kind, advice: &str| Err(self.error(kind, request.operation()).at(offset, len).advise(advice));
        match request {
            Request::Write { .. } | Request::WriteThrough { .. }
                if !lies_in_one_zone(&zones, offset, len) =>
            {
                let advice = format!("a zone has room for {} bytes", zones.zone_capacity);
                refuse(DeviceErrorKind::ZoneOrder, &advice)
            }
            Request::Write { .. } | Request::WriteThrough { .. }
                if zones.is_sequential(offset) && !self.is_range_aligned(offset, len as usize) =>
            {
                let advice = format!("zones are written in blocks of {} bytes", self.block_size());
                refuse(DeviceErrorKind::Misaligned, &advice)
            }
            Request::Reset { .. } | Request::Finish { .. } if !is_sequential_zone(&zones, offset) => {
                refuse(DeviceErrorKind::ZoneOrder, "name the first byte of a sequential zone")
            }
            Request::Discard { .. } if offset + len > zones.conventional_len() => {
                refuse(DeviceErrorKind::Unsupported, "its contents are unchanged; reset whole zones instead")
            }
            _ => Ok(()),
        }
    }

    /// Whether a write can be durable by itself: on block devices, and past the page cache.
    pub(super) fn writes_through(&self) -> bool {
        self.writable && self.opened.block_device_len.is_some() && self.opened.direct.is_some()
    }

    /// Writes to a zone, or durably: past the page cache, from front to back.
    pub(super) fn write_in_order(&self, buf: &[u8], offset: u64, durably: bool) -> Result<(), DeviceError> {
        let Some((file, _)) = &self.opened.direct else {
            unreachable!("a device with zones is opened past the page cache for writing")
        };
        let copy;
        let bytes = if self.is_aligned(buf.as_ptr(), offset, buf.len()) {
            buf
        } else {
            copy = AlignedBuf::copy_of(buf);
            &copy[..]
        };
        let mut done = 0;
        while done < bytes.len() {
            let wrote = kernel::write_at(file, &bytes[done..], offset + done as u64, durably);
            let error = match wrote {
                Ok(0) => io::ErrorKind::WriteZero.into(),
                Ok(count) => {
                    done += count;
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => error,
            };
            return Err(self.write_failed(error, offset, buf.len() as u64, done as u64));
        }
        Ok(())
    }

    /// The error of a write of which the first `done` bytes are written.
    fn write_failed(&self, source: io::Error, offset: u64, len: u64, done: u64) -> DeviceError {
        // What drivers say of a zone more than may be active, or open.
        if self.is_in_zone(offset)
            && matches!(source.raw_os_error(), Some(libc::EOVERFLOW | libc::ETOOMANYREFS))
        {
            return self.error(DeviceErrorKind::ZoneLimit, "write").at(offset, len);
        }
        let elsewhere = if self.is_in_zone(offset) { self.reported_zone(offset).ok() } else { None };
        match elsewhere.filter(|zone| is_elsewhere(zone, offset, len, done)) {
            Some(zone) => {
                let error = self.error(DeviceErrorKind::ZoneOrder, "write").at(offset, len);
                error.advise(match zone.range().end {
                    end if end == zone.write_pointer() => "the zone is full; reset it first".to_owned(),
                    _ => format!("it goes on at byte {}", zone.write_pointer()),
                })
            }
            None => self.failed("write", offset, len as usize, source),
        }
    }

    /// Writes, and has that on the medium when it returns, whatever else is.
    pub(super) fn write_durably(&self, buf: &[u8], offset: u64) -> Result<(), DeviceError> {
        if !self.is_range_aligned(offset, buf.len()) {
            // Through the page cache, whose lost writes are reported to one descriptor (rule 3).
            self.write(buf, offset)?;
            return self.flush_all();
        }
        let _shared = self.edges.read().unwrap_or_else(PoisonError::into_inner);
        self.write_in_order(buf, offset, true).inspect_err(|error| {
            // The drive's cache may have been flushed for it, and that may be what failed.
            if !matches!(error.kind(), DeviceErrorKind::ZoneOrder | DeviceErrorKind::Unsupported) {
                self.flush.failed.store(true, Ordering::Release);
            }
        })
    }

    /// Empties a sequential zone.
    pub(super) fn reset(&self, zone: u64) -> Result<(), DeviceError> {
        let len = self.opened.zones.map_or(0, |zones| zones.zone_len);
        kernel::reset_zones(&self.opened.buffered, zone, len)
            .map_err(|error| self.io_error("reset a zone of", error).at(zone, len))
    }

    /// Has a sequential zone full.
    pub(super) fn finish(&self, zone: u64) -> Result<(), DeviceError> {
        let len = self.opened.zones.map_or(0, |zones| zones.zone_len);
        let finish = || kernel::finish_zones(&self.opened.buffered, zone, len);
        // Some drivers open a zone to finish it, and close none for that if as many are open and as many
        // active as may be (null_blk of Linux 6.1).
        let finished = finish().or_else(|error| match error.raw_os_error() {
            Some(libc::ETOOMANYREFS) => self.close_one_zone().and_then(|()| finish()),
            _ => Err(error),
        });
        finished.map_err(|error| self.io_error("finish a zone of", error).at(zone, len))
    }

    /// Closes one of the zones that the drive has opened by itself; it opens it again when it is written to.
    fn close_one_zone(&self) -> io::Result<()> {
        let file = &self.opened.buffered;
        let (mut next, len) = (0, kernel::block_device_len(file)?);
        while next < len {
            let report = kernel::report_zones(file, next, ZONES_PER_REPORT)?;
            let zones = report::parse(&report).map_err(|error| io::Error::other(error.to_string()))?;
            if let Some(open) = zones.iter().find(|zone| zone.is_open) {
                return kernel::close_zones(file, open.start, open.len);
            }
            match zones.last() {
                Some(last) if last.start >= next => next = last.start + last.len,
                _ => break,
            }
        }
        Ok(())
    }

    /// What the device says of the zone that a byte lies in.
    pub(super) fn reported_zone(&self, offset: u64) -> Result<Zone, DeviceError> {
        const OPERATION: &str = "report a zone of";
        let Some(zones) = self.opened.zones else {
            return Err(self
                .error(DeviceErrorKind::Unsupported, OPERATION)
                .at(offset, 0)
                .advise("it has no zones"));
        };
        if zones.number(offset) >= zones.count {
            return Err(self.error(DeviceErrorKind::OutOfRange, OPERATION).at(offset, 0));
        }
        let start = zones.start(offset);
        let bytes = kernel::report_zones(&self.opened.buffered, start, 1)
            .map_err(|error| self.io_error(OPERATION, error).at(start, zones.zone_len))?;
        let refused = |reason: String| {
            self.error(DeviceErrorKind::Io, OPERATION).at(start, zones.zone_len).advise(reason)
        };
        let reported = report::parse(&bytes).map_err(|error| refused(error.to_string()))?;
        match reported.first() {
            Some(zone) if (zone.start, zone.len) == (start, zones.zone_len) => Ok(zone.zone()),
            _ => Err(refused("it reports another one; open it again".to_owned())),
        }
    }
}

/// Whether a write lies in the capacity of one sequential zone, or in conventional ones.
fn lies_in_one_zone(zones: &Zones, offset: u64, len: u64) -> bool {
    let end = offset + len;
    if zones.is_sequential(offset) {
        end <= zones.start(offset) + zones.zone_capacity
    } else {
        end <= zones.conventional_len()
    }
}

/// Whether a sequential zone begins at this byte.
fn is_sequential_zone(zones: &Zones, offset: u64) -> bool {
    zones.start(offset) == offset && zones.is_sequential(offset) && zones.number(offset) < zones.count
}

/// Whether a write that failed was not at the write pointer, as the zone says afterwards: one that was, and
/// failed at the medium, has left the pointer somewhere in its range.
fn is_elsewhere(zone: &Zone, offset: u64, len: u64, done: u64) -> bool {
    !(offset + done..offset + len).contains(&zone.write_pointer())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZONES: Zones =
        Zones { zone_len: 4096, zone_capacity: 3072, count: 4, conventional: 2, open_max: 0, active_max: 0 };

    #[test]
    fn a_write_lies_in_one_zone_or_in_conventional_ones() {
        for (offset, len, fits) in [
            (0, 8192, true),
            (4095, 2, true),
            (0, 8193, false),
            (8191, 2, false),
            (8192, 3072, true),
            (8192, 3073, false),
            (8192 + 3071, 1, true),
            (8192 + 3072, 1, false),
            (8192 + 4096, 3072, true),
        ] {
            assert_eq!(lies_in_one_zone(&ZONES, offset, len), fits, "{len} bytes at {offset}");
        }
    }

    #[test]
    fn only_whole_sequential_zones_are_reset() {
        let zones = [0, 4096, 8192, 8193, 12_288, 16_384].map(|offset| is_sequential_zone(&ZONES, offset));
        assert_eq!(zones, [false, false, true, false, true, false]);
    }

    #[test]
    fn a_write_that_failed_where_the_zone_goes_on_has_failed_at_the_medium() {
        let zone = |written| Zone { start: 8192, capacity: 3072, conventional: false, written };
        // At the pointer, which has not moved or has moved by a part; and of which a part was written.
        assert!(!is_elsewhere(&zone(1024), 8192 + 1024, 1024, 0));
        assert!(!is_elsewhere(&zone(1536), 8192 + 1024, 1024, 0));
        assert!(!is_elsewhere(&zone(1536), 8192 + 1024, 1024, 512));
        // Behind it, and over what is there.
        assert!(is_elsewhere(&zone(512), 8192 + 1024, 1024, 0));
        assert!(is_elsewhere(&zone(2048), 8192 + 1024, 1024, 0));
        assert!(is_elsewhere(&zone(3072), 8192 + 1024, 1024, 0));
    }

    #[test]
    fn a_limit_beyond_what_is_kept_is_as_good_as_none() {
        assert_eq!([0, 14, u64::MAX].map(limit), [0, 14, u32::MAX]);
    }
}
