//! Where things lie on the cache device: superblocks, map, slots.

use super::record::record_bytes;
use super::superblock::{SUPERBLOCK_BYTES_MAX, SUPERBLOCK_OFFSETS};
use crate::config::{BLOCK_BYTES, ConfigError, FRAGMENT_BYTES_MAX, FRAGMENT_BYTES_MIN, FRAGMENTS_MAX};

/// The map is written in blocks of this many bytes.
pub const MAP_BLOCK_BYTES: u64 = 4096;
/// Where the map begins, in bytes; before it lie the two copies of the superblock.
pub const MAP_OFFSET: u64 = 512 << 10;

const _: () = assert!(SUPERBLOCK_OFFSETS[0] + SUPERBLOCK_BYTES_MAX as u64 <= SUPERBLOCK_OFFSETS[1]);
const _: () = assert!(SUPERBLOCK_OFFSETS[1] + SUPERBLOCK_BYTES_MAX as u64 <= MAP_OFFSET);

/// The first slot begins at a multiple of this, or of the fragment size if that is less.
const SLOTS_ALIGNMENT_MAX: u64 = 1 << 20;

/// Where things lie on a cache device, in bytes. All of it follows from the sizes of device and fragments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceLayout {
    /// Size of the cache device.
    pub cache_bytes: u64,
    /// Size of a fragment.
    pub fragment_bytes: u64,
    /// Where the map begins.
    pub map_offset: u64,
    /// Its length: a multiple of [`MAP_BLOCK_BYTES`].
    pub map_bytes: u64,
    /// Where the first slot begins.
    pub data_offset: u64,
    /// Slots.
    pub slots: u64,
}

impl DeviceLayout {
    /// The layout of a cache device of so many bytes.
    ///
    /// # Errors
    /// If the size of a fragment is none, or the device has no room for one.
    pub fn new(cache_bytes: u64, fragment_bytes: u64) -> Result<Self, ConfigError> {
        if !fragment_bytes.is_power_of_two()
            || !(FRAGMENT_BYTES_MIN..=FRAGMENT_BYTES_MAX).contains(&fragment_bytes)
        {
            let reason = format!(
                "{fragment_bytes} is not a power of two from {FRAGMENT_BYTES_MIN} to {FRAGMENT_BYTES_MAX}"
            );
            return Err(ConfigError::new("fragment_bytes", reason, "use 1048576".into()));
        }
        let with = |slots: u64| Self::with_slots(cache_bytes, fragment_bytes, slots);
        let least = with(1);
        if least.end() > cache_bytes {
            let reason = format!("{cache_bytes} bytes have no room for superblocks, map and a fragment");
            let advice = format!("use a cache device of at least {} bytes", least.end());
            return Err(ConfigError::new("cache_bytes", reason, advice));
        }
        // Each slot takes a record and itself; alignment may then cost one more.
        let room = cache_bytes - MAP_OFFSET;
        let mut slots = room / (fragment_bytes + record_bytes(fragment_bytes));
        if slots > FRAGMENTS_MAX {
            let reason = format!("{slots} fragments are more than {FRAGMENTS_MAX}");
            return Err(ConfigError::new("cache_bytes", reason, "use larger fragments".into()));
        }
        while with(slots).end() > cache_bytes {
            slots -= 1;
        }
        Ok(with(slots))
    }

    fn with_slots(cache_bytes: u64, fragment_bytes: u64, slots: u64) -> Self {
        let map_bytes = slots.div_ceil(records_per_block(fragment_bytes)) * MAP_BLOCK_BYTES;
        let data_offset = (MAP_OFFSET + map_bytes).next_multiple_of(fragment_bytes.min(SLOTS_ALIGNMENT_MAX));
        Self { cache_bytes, fragment_bytes, map_offset: MAP_OFFSET, map_bytes, data_offset, slots }
    }

    fn end(&self) -> u64 {
        self.end_of(self.slots)
    }

    /// Bytes of the device that a cache with so many of its slots needs, from the beginning on.
    pub fn end_of(&self, slots: u64) -> u64 {
        self.data_offset + slots * self.fragment_bytes
    }

    /// How many of the slots a cache has that uses so many bytes of its device, from the beginning on.
    ///
    /// # Errors
    /// If they are no whole blocks, have no room for a fragment, or are more than this is the layout of.
    pub fn slots_within(&self, bytes: u64) -> Result<u64, ConfigError> {
        let refused = |reason, advice| Err(ConfigError::new("size", reason, advice));
        let (least, most) = (self.end_of(1), self.cache_bytes);
        if bytes < least {
            let reason = format!("{bytes} bytes have no room for superblocks, map and a fragment");
            return refused(reason, format!("use at least {least}"));
        }
        if bytes > most {
            let reason = format!("the cache was laid out for {most} bytes at most, and {bytes} are more");
            return refused(
                reason,
                format!("use {most} at most, or make a cache anew with a larger maximum"),
            );
        }
        // The device itself may end with a part of a block.
        if bytes % BLOCK_BYTES != 0 && bytes != most {
            let reason = format!("{bytes} bytes are not a multiple of {BLOCK_BYTES}");
            return refused(reason, format!("use {}", bytes / BLOCK_BYTES * BLOCK_BYTES));
        }
        Ok(self.slots.min((bytes - self.data_offset) / self.fragment_bytes))
    }

    /// Bytes of a slot's record.
    pub fn record_bytes(&self) -> u64 {
        record_bytes(self.fragment_bytes)
    }

    /// Slots whose records lie in one block of the map.
    pub fn records_per_block(&self) -> u64 {
        records_per_block(self.fragment_bytes)
    }
}

fn records_per_block(fragment_bytes: u64) -> u64 {
    MAP_BLOCK_BYTES / record_bytes(fragment_bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::format::Superblock;

    #[test]
    fn nothing_overlaps_and_no_slot_more_has_room() {
        for fragment_bytes in (17..=23).map(|bits| 1u64 << bits) {
            for cache_bytes in [
                9 << 20,
                10 << 20,
                (64 << 20) + 4096,
                1 << 30,
                1537 << 20,
                8194 << 20,
                (1 << 40) - 1,
                16 << 40,
            ] {
                let Ok(layout) = DeviceLayout::new(cache_bytes, fragment_bytes) else {
                    assert!(cache_bytes < (2 << 20) + fragment_bytes);
                    continue;
                };
                assert!(layout.map_offset + layout.map_bytes <= layout.data_offset);
                assert!(layout.end() <= cache_bytes);
                assert!(layout.slots * layout.record_bytes() <= layout.map_bytes);
                let mut config = Superblock::new([1; 16], cache_bytes, fragment_bytes).unwrap().config();
                config.volumes = vec![1 << 30];
                config.map.as_mut().unwrap().volume_numbers = vec![1];
                let slots = config.geometry_without_data().unwrap().slots();
                assert_eq!(u64::from(slots), layout.slots, "{layout:?}");
                let more = DeviceLayout::with_slots(cache_bytes, fragment_bytes, layout.slots + 1);
                assert!(more.end() > cache_bytes, "{layout:?}");
            }
        }
    }

    #[test]
    fn a_size_is_whole_blocks_and_within_the_layout() {
        let layout = DeviceLayout::new((64 << 20) + 512, 1 << 20).unwrap();
        let least = layout.end_of(1);
        for (bytes, slots) in
            [(least, 1), (least + 4096, 1), (least + (2 << 20), 3), (64 << 20, layout.slots)]
        {
            assert_eq!(layout.slots_within(bytes), Ok(slots));
        }
        assert_eq!(layout.slots_within((64 << 20) + 512), Ok(layout.slots), "all of the device");
        for (bytes, reason, advice) in [
            (0, "0 bytes have no room", "use at least 2097152"),
            (least - 4096, "no room", "use at least 2097152"),
            (least + 512, "2097664 bytes are not a multiple of 4096", "use 2097152"),
            ((64 << 20) + 4096, "laid out for 67109376 bytes at most", "use 67109376 at most"),
        ] {
            let said = layout.slots_within(bytes).unwrap_err().to_string();
            assert!(said.starts_with("size: ") && said.contains(reason) && said.contains(advice), "{said}");
        }
    }

    #[test]
    fn what_has_no_room_is_said() {
        let said = DeviceLayout::new(1 << 20, 1 << 20).unwrap_err().to_string();
        assert_eq!(
            said,
            "cache_bytes: 1048576 bytes have no room for superblocks, map and a fragment; use a cache device of at least \
             2097152 bytes"
        );
        assert!(DeviceLayout::new(2 << 20, 1 << 20).is_ok());
        assert!(DeviceLayout::new(1 << 30, 3 << 20).unwrap_err().to_string().starts_with("fragment_bytes:"));
        let said = DeviceLayout::new(u64::MAX, 1 << 20).unwrap_err().to_string();
        assert!(said.ends_with("use larger fragments"), "{said}");
    }
}
