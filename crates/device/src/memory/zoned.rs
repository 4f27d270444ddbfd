//! Zones of a device in memory (see [`crate::zones`]).
//!
//! What lies behind a write pointer is zeros: an unwritten zone is made of them, and a reset makes them.

use super::{DeviceErrorKind, MemoryDevice, Power, State, Zone, Zones};
use crate::memory::cache::InZone;

impl MemoryDevice {
    /// A device of such zones, all of them empty, that shares `power` with others.
    ///
    /// # Panics
    /// When a zone has no bytes, or more than lie between its beginning and that of the next.
    pub fn zoned(power: &Power, name: &'static str, zones: Zones) -> Self {
        let Zones { zone_len, zone_capacity, count, .. } = zones;
        assert!(
            (1..=zone_len).contains(&zone_capacity),
            "a zone of {zone_len} bytes has room for {zone_capacity}"
        );
        let device = Self::on(power, name, zone_len * count, false);
        {
            let mut state = device.state();
            state.zones = Some(zones);
            state.zones_are_empty();
        }
        device
    }
}

impl State {
    pub(super) fn is_sequential(&self, offset: u64) -> bool {
        self.zones.is_some_and(|zones| zones.is_sequential(offset))
    }

    pub(super) fn zones_are_empty(&mut self) {
        self.image.written = vec![0; self.zones.map_or(0, |zones| zones.count) as usize];
    }

    /// Contents came from elsewhere. A copy of a device says how far its zones are written; of bytes alone
    /// only those that hold nothing are known not to be full.
    pub(super) fn zones_are_full(&mut self) {
        let Some(zones) = self.zones else { return };
        if self.image.written.len() as u64 == zones.count {
            return;
        }
        let full = |number: u64| {
            let start = (number * zones.zone_len) as usize;
            let end = (start + zones.zone_capacity as usize).min(self.image.len());
            let holds_any = start < end && self.image.range(start..end).iter().any(|byte| *byte != 0);
            if holds_any { zones.zone_capacity } else { 0 }
        };
        self.image.written = (0..zones.count).map(full).collect();
    }

    pub(super) fn zone_at(&self, offset: u64) -> Result<Zone, DeviceErrorKind> {
        let zones = self.zones.ok_or(DeviceErrorKind::Unsupported)?;
        let number = zones.number(offset);
        if number >= zones.count {
            return Err(DeviceErrorKind::OutOfRange);
        }
        let conventional = !zones.is_sequential(offset);
        Ok(Zone {
            start: zones.start(offset),
            capacity: if conventional { zones.zone_len } else { zones.zone_capacity },
            conventional,
            written: self.image.written[number as usize],
        })
    }

    /// Where a write to the sequential zone goes that begins at this byte.
    pub(super) fn write_pointer_of(&self, start: u64) -> Result<u64, DeviceErrorKind> {
        let zone = self.zone_at(start)?;
        if zone.start != start || zone.conventional {
            return Err(DeviceErrorKind::ZoneOrder);
        }
        Ok(zone.write_pointer())
    }

    pub(super) fn append(&mut self, start: u64, buf: &[u8]) -> Result<u64, DeviceErrorKind> {
        let place = self.write_pointer_of(start)?;
        self.write_in_zone(place, buf)?;
        Ok(place)
    }

    pub(super) fn write_in_zone(&mut self, offset: u64, buf: &[u8]) -> Result<(), DeviceErrorKind> {
        let zone = self.zone_at(offset)?;
        let end = offset + buf.len() as u64;
        if offset != zone.write_pointer() || end > zone.range().end {
            return Err(DeviceErrorKind::ZoneOrder);
        }
        self.take_zone(&zone)?;
        self.change_zone(&zone, (offset, buf.len() as u64), end - zone.start, false);
        self.image.write(offset as usize, buf);
        self.bad.written(&(offset..end));
        Ok(())
    }

    pub(super) fn reset_zone(&mut self, start: u64) -> Result<(), DeviceErrorKind> {
        let zone = self.zone_at(start)?;
        if zone.start != start || zone.conventional {
            return Err(DeviceErrorKind::ZoneOrder);
        }
        // What is behind the write pointer is zeros already.
        self.change_zone(&zone, (start, zone.written), 0, true);
        self.image.zero(start as usize..(start + zone.written) as usize);
        Ok(())
    }

    pub(super) fn finish_zone(&mut self, start: u64) -> Result<(), DeviceErrorKind> {
        let zone = self.zone_at(start)?;
        if zone.start != start || zone.conventional {
            return Err(DeviceErrorKind::ZoneOrder);
        }
        if zone.written < zone.capacity {
            self.change_zone(&zone, (zone.write_pointer(), 0), zone.capacity, true);
        }
        Ok(())
    }

    /// How many zones are written in part.
    fn active(&self, zones: &Zones) -> usize {
        let written = &self.image.written[zones.conventional as usize..];
        written.iter().filter(|written| (1..zones.zone_capacity).contains(*written)).count()
    }

    /// Refuses a write to a zone if the device has not room for another that is in use.
    fn take_zone(&mut self, zone: &Zone) -> Result<(), DeviceErrorKind> {
        let Some(zones) = self.zones.filter(Zones::are_limited) else { return Ok(()) };
        let number = zones.number(zone.start);
        if !self.in_batch.contains(&number) {
            if zones.open_max > 0 && self.in_batch.len() >= zones.open_max as usize {
                return Err(DeviceErrorKind::ZoneLimit);
            }
            self.in_batch.push(number);
        }
        let begins = zone.written == 0 && zones.active_max > 0;
        if begins && self.active(&zones) >= zones.active_max as usize {
            return Err(DeviceErrorKind::ZoneLimit);
        }
        Ok(())
    }

    /// After a power cut: writes of which a part was lost may have left more zones written in part than the
    /// device ever has. It finishes the first of them (a zone "finished by the controller": "NVM Express
    /// Zoned Namespace Command Set Specification", section 2.1).
    pub(super) fn finish_beyond_limit(&mut self) {
        let Some(zones) = self.zones.filter(|zones| zones.active_max > 0) else { return };
        let beyond = self.active(&zones).saturating_sub(zones.active_max as usize);
        let written = self.image.written.iter_mut().skip(zones.conventional as usize);
        let active = written.filter(|written| (1..zones.zone_capacity).contains(*written));
        active.take(beyond).for_each(|written| *written = zones.zone_capacity);
    }

    /// Notes that a range of a zone changes and how far it is written then.
    fn change_zone(&mut self, zone: &Zone, range: (u64, u64), written: u64, whole: bool) {
        let len = self.image.len() as u64;
        let number = self.zones.map_or(0, |zones| zones.number(zone.start)) as usize;
        self.changes += 1;
        self.cache.record(&self.image, self.changes, range, (len, len));
        self.cache.last_is_in_zone(InZone { number, written_before: zone.written, whole });
        self.image.written[number] = written;
    }
}
