//! Slots: what lies in which home, for designs with a slot directory. And the head of that directory, which
//! carries the host's bytes.
//!
//! A slot divides the sectors of every device, so a torn write of a block leaves each of its slots old or
//! new. The checksum covers the tier's name and the home's number beside the slot, so that no other tier's
//! slot and none of another home passes for it.

use mezzanine_ground::fields::{Reader, Visitor, Writer, put_at};

use super::plausible;
use crate::bounds::Bound;
use crate::ids::{Frame, PAGE_ID_BYTES, PageId, Version};
use crate::layout::HOST_METADATA_BYTES;

/// Size of a slot in bytes.
pub const SLOT_BYTES: usize = 64;
/// Slots are written in blocks of this many bytes.
pub const SLOT_BLOCK_BYTES: usize = 4096;
/// Copies of the directory's head, each a block: that which is worth less is overwritten.
pub const SLOT_HEADS: u64 = 2;

const CHECKSUM_AT: usize = SLOT_BYTES - 4;
const HEAD_MAGIC: [u8; 8] = *b"MEZZSLT1";
const HEAD_BYTES: usize = 256;
const HEAD_CHECKSUM_AT: usize = HEAD_BYTES - 4;

/// A valid slot: its home holds this page, and disk the same version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotEntry {
    /// The page.
    pub id: PageId,
    /// CRC-32C of the page.
    pub checksum: u32,
    /// Epoch in which the version was staged in.
    pub epoch: u32,
    /// Number of the version within the tier's life.
    pub version: Version,
    /// Log sequence number the host gave; 0 if it has none.
    pub lsn: u64,
}

impl SlotEntry {
    pub(super) fn show(&mut self, visitor: &mut impl Visitor) {
        let mut id = *self.id.as_bytes();
        visitor.field(0, &mut id);
        visitor.field(20, &mut self.checksum);
        visitor.field(24, &mut self.epoch);
        visitor.field(28, &mut self.version);
        visitor.field(36, &mut self.lsn);
        self.id = PageId::from_bytes(id);
    }

    /// The bytes of the slot of `home`. An invalid slot is all zeros.
    pub fn encode(&self, tier_uuid: &[u8; 16], home: Frame) -> [u8; SLOT_BYTES] {
        let mut out = [0; SLOT_BYTES];
        { *self }.show(&mut Writer::new(&mut out));
        let checksum = checksum(&out, tier_uuid, home);
        put_at(&mut out, CHECKSUM_AT, checksum);
        out
    }

    /// Reads the slot of `home`; `None` if it is not valid.
    pub fn decode(bytes: &[u8; SLOT_BYTES], tier_uuid: &[u8; 16], home: Frame) -> Option<Self> {
        if bytes[CHECKSUM_AT..] != checksum(bytes, tier_uuid, home).to_le_bytes() {
            return None;
        }
        let id = PageId::from_bytes([0; PAGE_ID_BYTES]);
        let mut slot = Self { id, checksum: 0, epoch: 0, version: Version::ZERO, lsn: 0 };
        slot.show(&mut Reader(bytes));
        plausible(slot.epoch, &[(Bound::Version, &[slot.version.number()])]).then_some(slot)
    }
}

fn checksum(slot: &[u8; SLOT_BYTES], tier_uuid: &[u8; 16], home: Frame) -> u32 {
    let of_home = crc32c::crc32c_append(crc32c::crc32c(tier_uuid), &home.0.to_le_bytes());
    crc32c::crc32c_append(of_home, &slot[..CHECKSUM_AT])
}

/// The head of a slot directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotHead {
    /// Epoch in which it was written.
    pub epoch: u32,
    /// Counts the heads written: the larger one counts.
    pub number: u64,
    /// The host's bytes.
    pub host_metadata: [u8; HOST_METADATA_BYTES],
}

impl SlotHead {
    pub(super) fn show(&mut self, tier_uuid: &[u8; 16], visitor: &mut impl Visitor) {
        visitor.always(0, HEAD_MAGIC);
        visitor.always(8, *tier_uuid);
        visitor.field(24, &mut self.epoch);
        visitor.field(28, &mut self.number);
        visitor.field(36, &mut self.host_metadata);
    }

    /// The bytes of one copy.
    pub fn encode(&self, tier_uuid: &[u8; 16]) -> [u8; HEAD_BYTES] {
        let mut out = [0; HEAD_BYTES];
        self.clone().show(tier_uuid, &mut Writer::new(&mut out));
        let checksum = crc32c::crc32c(&out[..HEAD_CHECKSUM_AT]);
        put_at(&mut out, HEAD_CHECKSUM_AT, checksum);
        out
    }

    /// Reads one copy; `None` if it is not whole or another tier's.
    pub fn decode(bytes: &[u8], tier_uuid: &[u8; 16]) -> Option<Self> {
        let bytes = bytes.first_chunk::<HEAD_BYTES>()?;
        let whole = bytes[HEAD_CHECKSUM_AT..] == crc32c::crc32c(&bytes[..HEAD_CHECKSUM_AT]).to_le_bytes();
        if !whole || bytes[..8] != HEAD_MAGIC || bytes[8..24] != *tier_uuid {
            return None;
        }
        let mut head = Self { epoch: 0, number: 0, host_metadata: [0; HOST_METADATA_BYTES] };
        head.show(tier_uuid, &mut Reader(bytes));
        plausible(head.epoch, &[(Bound::Generation, &[head.number])]).then_some(head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_belong_to_their_home_and_their_tier() {
        let slot = SlotEntry {
            id: PageId::volume(3, 9),
            checksum: 0xDEAD_BEEF,
            epoch: 4,
            version: Version::from_number(77),
            lsn: 5,
        };
        let bytes = slot.encode(&[7; 16], Frame(12));
        assert_eq!(SlotEntry::decode(&bytes, &[7; 16], Frame(12)), Some(slot));
        assert_eq!(SlotEntry::decode(&bytes, &[7; 16], Frame(13)), None, "another home");
        assert_eq!(SlotEntry::decode(&bytes, &[8; 16], Frame(12)), None, "another tier");
        assert_eq!(SlotEntry::decode(&[0; SLOT_BYTES], &[7; 16], Frame(0)), None, "an invalid slot");
        for at in 0..SLOT_BYTES {
            let mut damaged = bytes;
            damaged[at] ^= 1;
            assert_eq!(SlotEntry::decode(&damaged, &[7; 16], Frame(12)), None, "byte {at}");
        }
    }

    #[test]
    fn heads_carry_the_host_metadata() {
        let head = SlotHead { epoch: 2, number: 9, host_metadata: [5; HOST_METADATA_BYTES] };
        let mut bytes = head.encode(&[7; 16]).to_vec();
        assert_eq!(SlotHead::decode(&bytes, &[7; 16]), Some(head));
        assert_eq!(SlotHead::decode(&bytes, &[8; 16]), None);
        bytes[100] ^= 1;
        assert_eq!(SlotHead::decode(&bytes, &[7; 16]), None);
    }
}
