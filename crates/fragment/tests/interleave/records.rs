//! The map on the cache device of a [`World`](crate::world::World): what a crash could leave of it.

use mezzanine_fragment::MapConfig;
use mezzanine_fragment::format::{BITMAP_AT, Record, RecordState};

const ID: [u8; 16] = [5; 16];
/// Bytes of a record for a fragment of 128 KiB.
const RECORD: usize = 32;

pub(crate) fn config(volumes: u64) -> MapConfig {
    let volume_numbers = (1..=volumes as u32).collect();
    MapConfig { cache_id: ID, epoch: 1, volume_numbers, offset: 0, settle_ms: 4, waits_per_mille: 10 }
}

/// The one block of the map: as it is durable, and as it was written since.
pub(crate) struct Records(Vec<Vec<u8>>);

impl Records {
    pub(crate) fn new() -> Self {
        Self(vec![vec![0; 4096]])
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.0.push(bytes.to_vec());
    }

    /// How many there are of it when a flush begins.
    pub(crate) fn flush_begin(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn flush_end(&mut self, until: usize) {
        self.0.drain(..until - 1);
    }

    /// Records that a crash could leave and recovery would use: slot, volume, bitmap.
    fn stable(&self) -> impl Iterator<Item = (u32, usize, u32)> {
        self.0.iter().flat_map(|block| block.chunks_exact(RECORD).zip(0..)).filter_map(|(place, slot)| {
            let record = Record::decode(place, &ID, slot)?;
            let bitmap = u32::from_le_bytes(place[BITMAP_AT..BITMAP_AT + 4].try_into().unwrap());
            (record.state == RecordState::Stable).then_some((slot, record.volume as usize - 1, bitmap))
        })
    }

    /// A block of a volume changes on its backing device.
    pub(crate) fn assert_unstable(&self, volume: usize, block: u64) {
        let counts = self.stable().any(|(_, other, bitmap)| other == volume && bitmap >> block & 1 == 1);
        assert!(!counts, "block {block} of volume {volume} changes under a record that counts");
    }

    /// A slot changes.
    pub(crate) fn assert_slot_unstable(&self, slot: u32) {
        let counts = self.stable().any(|(other, ..)| other == slot);
        assert!(!counts, "slot {slot} changes under a record that counts");
    }
}
