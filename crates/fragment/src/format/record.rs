//! A slot's record in the map: which fragment lies there, and what of it is valid.
//!
//! Records divide the sectors of every device, so that a torn write of a block leaves each of its records old
//! or new. The checksum covers the cache's id and the slot's number beside the record: so no other cache's
//! record and none of another slot passes for it, and a cache that was initialised anew has an empty map.

use mezzanine_ground::fields::{Reader, Visitor, Writer, put_at};

use crate::config::BLOCK_BYTES;

const CHECKSUM_AT: usize = 20;
/// Where the bitmap begins: a bit for each block of the fragment, the lowest of the first byte first.
pub const BITMAP_AT: usize = 24;

/// Bytes of a record: a power of two, and no more than a sector.
pub(crate) const fn record_bytes(fragment_bytes: u64) -> u64 {
    (BITMAP_AT as u64 + fragment_bytes / BLOCK_BYTES / 8).next_power_of_two()
}

const _: () = assert!(record_bytes(crate::config::FRAGMENT_BYTES_MAX) == 512, "the smallest sector");
const _: () = assert!(record_bytes(1 << 20) == 64, "64 records in a block of the map");

/// What recovery makes of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecordState {
    /// Its fragment may be written to: nothing of it is used.
    #[default]
    Unstable,
    /// Cache device and backing device have the same in the valid blocks, durably.
    Stable,
}

/// A record but for its bitmap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The epoch in which it was written.
    pub epoch: u64,
    /// The number of the volume's attachment.
    pub volume: u32,
    /// The fragment, counted in its volume.
    pub fragment: u32,
    /// What recovery makes of it.
    pub state: RecordState,
}

impl Record {
    pub(super) fn show(&mut self, visitor: &mut impl Visitor) {
        let mut state = match self.state {
            RecordState::Unstable => 1u32,
            RecordState::Stable => 2,
        };
        visitor.field(0, &mut self.epoch);
        visitor.field(8, &mut self.volume);
        visitor.field(12, &mut self.fragment);
        visitor.field(16, &mut state);
        // Whatever is not known to be stable is not used.
        self.state = if state == 2 { RecordState::Stable } else { RecordState::Unstable };
    }

    /// Writes the record of a slot into its place, whose bitmap is there already.
    ///
    /// # Panics
    /// If the place is shorter than what lies before the bitmap.
    pub fn encode(&self, place: &mut [u8], cache_id: &[u8; 16], slot: u32) {
        { *self }.show(&mut Writer::new(place));
        let checksum = checksum(place, cache_id, slot);
        put_at(place, CHECKSUM_AT, checksum);
    }

    /// Reads the record of a slot from its place; `None` if there is none of this cache and slot.
    ///
    /// # Panics
    /// If the place is shorter than what lies before the bitmap.
    pub fn decode(place: &[u8], cache_id: &[u8; 16], slot: u32) -> Option<Self> {
        if place[CHECKSUM_AT..BITMAP_AT] != checksum(place, cache_id, slot).to_le_bytes() {
            return None;
        }
        let mut record = Self::default();
        record.show(&mut Reader(place));
        Some(record)
    }
}

fn checksum(place: &[u8], cache_id: &[u8; 16], slot: u32) -> u32 {
    let of_slot = crc32c::crc32c_append(crc32c::crc32c(cache_id), &slot.to_le_bytes());
    let of_head = crc32c::crc32c_append(of_slot, &place[..CHECKSUM_AT]);
    crc32c::crc32c_append(of_head, &place[BITMAP_AT..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_of_its_cache_and_slot() {
        let record = Record { epoch: 3, volume: 2, fragment: 9, state: RecordState::Stable };
        let mut place = [0; 64];
        place[BITMAP_AT..BITMAP_AT + 32].fill(0xA5);
        record.encode(&mut place, &[7; 16], 12);
        assert_eq!(Record::decode(&place, &[7; 16], 12), Some(record));
        assert_eq!(Record::decode(&place, &[7; 16], 13), None, "another slot");
        assert_eq!(Record::decode(&place, &[8; 16], 12), None, "another cache");
        assert_eq!(Record::decode(&[0; 64], &[7; 16], 0), None, "no record");
        for at in 0..64 {
            let mut damaged = place;
            damaged[at] ^= 1;
            assert_eq!(Record::decode(&damaged, &[7; 16], 12), None, "byte {at}");
        }
    }

    /// Of the seven sizes of Figure 11.
    #[test]
    fn a_record_has_room_for_a_bit_for_each_block() {
        let sizes: Vec<u64> = (17..=23).map(|bits| record_bytes(1 << bits)).collect();
        assert_eq!(sizes, [32, 32, 64, 64, 128, 256, 512]);
    }
}
