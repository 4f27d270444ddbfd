//! Where the halves lie, and what they have room for.

use std::ops::Range;

use super::record::{BLOCK_BYTES, BLOCKS_MAX};
use crate::Zones;

/// Blocks of the three records of a snapshot that bring nothing, or may bring little: its beginning, what
/// says that it is complete, and the last of its zones. Twice, since a flush costs a block as well.
const HEADERS: u64 = 8;
/// Zones of a half, at most: both are looked for among the first 1,024 zones.
pub(super) const ZONES_MAX: u64 = 1000;
/// The least blocks that a record with a change needs: its header, a block, and the mark of a flush behind
/// it, which so finds room in the same zone.
pub(super) const ROOM_MIN: u64 = 3;

/// Where the halves lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    /// Of the device below.
    pub(super) zones: Zones,
    /// Zones of a half.
    pub(super) half_zones: u64,
    /// Blocks of the area.
    pub(super) area_blocks: u64,
}

/// How a place in a half is called: zone of the half, and block of the zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Position {
    pub(super) zone: u64,
    pub(super) block: u64,
}

/// Blocks of a zone.
pub(super) fn zone_blocks(zones: &Zones) -> u64 {
    zones.zone_capacity / BLOCK_BYTES as u64
}

/// Blocks that an empty zone takes as records that fill it.
fn data_blocks(zones: &Zones) -> u64 {
    let (mut room, mut data) = (zone_blocks(zones), 0);
    while room >= ROOM_MIN {
        let count = blocks_that_fit(room);
        data += count;
        room -= count + 1;
    }
    data
}

/// Blocks that a record brings where a zone has room for this many.
///
/// # Panics
/// If there is room for none.
pub(super) fn blocks_that_fit(room: u64) -> u64 {
    assert!(room >= ROOM_MIN, "no record begins where {room} blocks are left");
    (room - (ROOM_MIN - 1)).min(BLOCKS_MAX as u64)
}

impl Layout {
    /// The layout for an area of this many bytes of which so many are used; the reason if there is none.
    pub(super) fn new(zones: Zones, area_bytes: u64, used_bytes: u64) -> Result<Self, String> {
        let data = data_blocks(&zones);
        if zones.zone_len % BLOCK_BYTES as u64 != 0 || data == 0 {
            let Zones { zone_len, zone_capacity, .. } = zones;
            return Err(format!(
                "its zones of {zone_len} bytes, {zone_capacity} of them for use, have no room for blocks of {BLOCK_BYTES} bytes"
            ));
        }
        let blocks = |bytes: u64| bytes.div_ceil(BLOCK_BYTES as u64);
        let half_zones = (2 * blocks(used_bytes) + HEADERS).div_ceil(data);
        let layout = Self { zones, half_zones, area_blocks: blocks(area_bytes).max(1) };
        layout.check()?;
        Ok(layout)
    }

    /// Whether the device has the halves.
    pub(super) fn check(&self) -> Result<(), String> {
        let Self { zones, half_zones, area_blocks } = *self;
        let sequential = zones.count.saturating_sub(zones.conventional);
        if half_zones > ZONES_MAX || 2 * half_zones > sequential {
            return Err(format!(
                "kept in others they take two times {half_zones} of its {sequential} sequential zones, of {ZONES_MAX} at most"
            ));
        }
        if area_blocks >= u64::from(super::record::LOST) {
            return Err(format!("an area of {area_blocks} blocks is too large"));
        }
        Ok(())
    }

    /// Blocks that may have been written, at most: twice as many fit in a half.
    pub(super) fn used_max(&self) -> u64 {
        (self.half_zones * data_blocks(&self.zones)).saturating_sub(HEADERS) / 2
    }

    /// Blocks of a zone.
    pub(super) fn zone_blocks(&self) -> u64 {
        zone_blocks(&self.zones)
    }

    /// First byte of a zone of a half.
    pub(super) fn zone(&self, half: u32, zone: u64) -> u64 {
        self.zones.conventional_len() + (u64::from(half) * self.half_zones + zone) * self.zones.zone_len
    }

    /// First byte of a position in a half.
    pub(super) fn place(&self, half: u32, position: Position) -> u64 {
        self.zone(half, position.zone) + position.block * BLOCK_BYTES as u64
    }

    /// The position in a half at this byte, if a block begins there.
    pub(super) fn position(&self, half: u32, place: u64) -> Option<Position> {
        let beyond = place.checked_sub(self.zone(half, 0))?;
        let (zone, rest) = (beyond / self.zones.zone_len, beyond % self.zones.zone_len);
        let block = rest / BLOCK_BYTES as u64;
        let is_one = zone < self.half_zones && rest % BLOCK_BYTES as u64 == 0 && block < self.zone_blocks();
        is_one.then_some(Position { zone, block })
    }

    /// First byte of each zone of a half.
    pub(super) fn starts(&self, half: u32) -> impl Iterator<Item = u64> + use<> {
        let (first, len) = (self.zone(half, 0), self.zones.zone_len);
        (0..self.half_zones).map(move |zone| first + zone * len)
    }

    /// The zones as they are shown.
    pub(super) fn shown(&self) -> Zones {
        let area = self.area_blocks * BLOCK_BYTES as u64;
        let conventional = area.div_ceil(self.zones.zone_len);
        let behind = self.zones.count - self.zones.conventional - 2 * self.half_zones;
        Zones { conventional, count: conventional + behind, ..self.zones }
    }

    /// Where on the device below the zones lie that are shown behind the area.
    pub(super) fn behind(&self) -> Range<u64> {
        self.zone(2, 0)..self.zones.count * self.zones.zone_len
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_half_has_room_for_twice_what_is_used() {
        for capacity in [12288, 16384, 24576, 1 << 20, 4 << 20, 4096 * 402 + 512] {
            let zone_len = 8_u64 << 20;
            let zones = Zones {
                zone_len,
                zone_capacity: capacity,
                count: 2000,
                conventional: 0,
                open_max: 0,
                active_max: 0,
            };
            for used in [1, 4096, 100_000, 1_000_000] {
                let layout = Layout::new(zones, used, used).unwrap();
                assert!(layout.used_max() * BLOCK_BYTES as u64 >= used, "{capacity}, {used}");
                let less = Layout { half_zones: layout.half_zones - 1, ..layout };
                assert!(
                    layout.half_zones == 1 || less.used_max() < used.div_ceil(4096),
                    "{capacity}, {used}: not the least"
                );
            }
        }
        let zones = Zones {
            zone_len: 16384,
            zone_capacity: 8192,
            count: 2000,
            conventional: 0,
            open_max: 0,
            active_max: 0,
        };
        assert!(Layout::new(zones, 4096, 4096).unwrap_err().contains("no room"));
        let zones = Zones { zone_capacity: 16384, count: 9, ..zones };
        assert!(Layout::new(zones, 1 << 20, 1 << 20).unwrap_err().contains("of its 9 sequential"));
    }
}
