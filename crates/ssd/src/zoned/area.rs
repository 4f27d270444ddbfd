//! The conventional area: two halves of flash in turn.
//!
//! A half is written front to back, a page for as many units as came together. When it has no room left, the
//! other one is erased, the newest version of every unit is copied there, and it goes on there. A half is
//! twice as large as the area, so that a copy is paid for by as much that was written.

use super::layout::Parts;
use super::{FLASH_PER_AREA, Span, ZonedSsd};

impl ZonedSsd {
    /// Units of flash in one half.
    fn half_units(&self) -> u64 {
        self.area_units() * u64::from(FLASH_PER_AREA) / 2
    }

    /// Zone of flash and unit in it of a place of the log of a half.
    fn place_of(&self, half: u64, at: u64) -> (u64, u64) {
        let zones = self.half_units() / self.zone_units();
        (half * zones + at / self.zone_units(), at % self.zone_units())
    }

    /// Where the newest version of a unit of the area lies, if it was written.
    pub(super) fn area_place(&self, parts: &Parts<'_>, unit: u64) -> Option<(u64, u64)> {
        let at = u64::from(parts.map[unit as usize]).checked_sub(1)?;
        Some(self.place_of(parts.words.half, at))
    }

    /// Writes units of the area, and returns when they are in flash.
    pub(super) fn write_area(&self, parts: &mut Parts<'_>, span: Span, here: u64) -> u64 {
        let per_page = u64::from(self.config.geometry.units_per_page());
        let units: Vec<u64> = (span.first..span.first + span.units).collect();
        assert!(span.first + span.units <= self.area_units(), "Z2: a write to the area ends within it");
        let mut from = here;
        if parts.words.log_units + span.units.next_multiple_of(per_page) > self.half_units() {
            from = self.turn(parts, here);
        }
        parts.counters.units_programmed += span.units;
        self.append_to_log(parts, &units, from)
    }

    /// Appends units to the half that is written, in pages of their own.
    fn append_to_log(&self, parts: &mut Parts<'_>, units: &[u64], not_before: u64) -> u64 {
        let per_page = u64::from(self.config.geometry.units_per_page());
        let mut done = not_before;
        for page in units.chunks(per_page as usize) {
            let at = parts.words.log_units;
            let (zone, within) = self.place_of(parts.words.half, at);
            for (unit, place) in page.iter().zip(at..) {
                parts.map[*unit as usize] = place as u32 + 1;
            }
            parts.units[zone as usize] += per_page;
            parts.counters.units_padded += per_page - page.len() as u64;
            parts.words.log_units += per_page;
            done = done.max(self.program(parts, zone, within / per_page, not_before));
        }
        done
    }

    /// The other half is erased, takes what is there of the area, and is the one that is written (Z3).
    fn turn(&self, parts: &mut Parts<'_>, now: u64) -> u64 {
        let (old, new) = (parts.words.half, 1 - parts.words.half);
        let zones = self.half_units() / self.zone_units();
        let mut erased = now;
        for zone in new * zones..(new + 1) * zones {
            erased = erased.max(self.erase(parts, zone, now));
            parts.units[zone as usize] = 0;
        }
        let per_page = u64::from(self.config.geometry.units_per_page());
        let written = |unit: &u64| parts.map[*unit as usize] != 0;
        let units: Vec<u64> = (0..self.area_units()).filter(written).collect();
        let mut read = erased;
        for unit in &units {
            if let Some((zone, within)) = self.area_place(parts, *unit) {
                read = read.max(self.read_page(parts, zone, within / per_page, 1, now));
            }
        }
        parts.counters.units_moved += units.len() as u64;
        (parts.words.half, parts.words.log_units) = (new, 0);
        let done = self.append_to_log(parts, &units, read);
        parts.counters.collection_ns += done.saturating_sub(now);
        debug_assert_ne!(old, parts.words.half);
        done
    }
}
