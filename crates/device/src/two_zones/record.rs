//! A record of the log: one block of header, then the blocks that it brings. docs/format.md says what lies
//! where.

use mezzanine_ground::fields::{Reader, Visitor, Writer, field_at, put_at};

/// Bytes of a block of the area, and of a header.
pub(super) const BLOCK_BYTES: usize = 4096;
/// Blocks that a record brings at most.
pub(super) const BLOCKS_MAX: usize = 400;
/// Set in the number of a block whose contents could not be read when it was to be copied: the record holds
/// zeros in its place, and reading it is an error.
pub(super) const LOST: u32 = 1 << 31;

const MAGIC: [u8; 8] = *b"MEZZ2ZON";
const VERSION: u32 = 1;
const VERSION_AT: usize = 8;
const CHECKSUM_AT: usize = 12;
const LIST_BYTES: usize = BLOCKS_MAX * 4;

/// Why a record was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Kind {
    /// It begins its half, or brings what the other half held.
    #[default]
    Snapshot = 1,
    /// All of that is there: from here on the half counts.
    Complete = 2,
    /// A write; without blocks the mark of a flush.
    Change = 3,
}

impl Kind {
    fn of(number: u32) -> Option<Self> {
        [Self::Snapshot, Self::Complete, Self::Change].into_iter().find(|kind| *kind as u32 == number)
    }
}

/// What the next record repeats of a record.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Brief {
    /// Its first byte on the device.
    pub(super) place: u64,
    pub(super) kind: Kind,
    /// The numbers of its blocks, perhaps [`LOST`].
    pub(super) blocks: Vec<u32>,
}

/// The header of a record.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Header {
    /// Grows with each change of the halves.
    pub(super) generation: u64,
    /// Number of the record in its half, from 0.
    pub(super) number: u64,
    pub(super) area_bytes: u64,
    /// Zones of a half.
    pub(super) zones: u32,
    pub(super) half: u32,
    pub(super) data_checksum: u32,
    pub(super) own: Brief,
    /// The record before it; the first has none, and a place of 0 there.
    pub(super) before: Brief,
}

/// A header as it lies in its block.
struct Fields {
    generation: u64,
    number: u64,
    place: u64,
    area_bytes: u64,
    zones: u32,
    half: u32,
    kind: u32,
    data_checksum: u32,
    count: u32,
    kind_before: u32,
    place_before: u64,
    count_before: u32,
    list: [u8; LIST_BYTES],
    list_before: [u8; LIST_BYTES],
}

impl Fields {
    fn of(header: &Header) -> Self {
        let Header { generation, number, area_bytes, zones, half, data_checksum, ref own, ref before } =
            *header;
        Self {
            generation,
            number,
            place: own.place,
            area_bytes,
            zones,
            half,
            kind: own.kind as u32,
            data_checksum,
            count: own.blocks.len() as u32,
            kind_before: before.kind as u32,
            place_before: before.place,
            count_before: before.blocks.len() as u32,
            list: list_of(&own.blocks),
            list_before: list_of(&before.blocks),
        }
    }

    fn show(&mut self, visitor: &mut impl Visitor) {
        visitor.always(0, MAGIC);
        visitor.always(VERSION_AT, VERSION);
        visitor.field(16, &mut self.generation);
        visitor.field(24, &mut self.number);
        visitor.field(32, &mut self.place);
        visitor.field(40, &mut self.area_bytes);
        visitor.field(48, &mut self.zones);
        visitor.field(52, &mut self.half);
        visitor.field(56, &mut self.kind);
        visitor.field(60, &mut self.data_checksum);
        visitor.field(64, &mut self.count);
        visitor.field(68, &mut self.kind_before);
        visitor.field(72, &mut self.place_before);
        visitor.field(80, &mut self.count_before);
        visitor.field(88, &mut self.list);
        visitor.field(88 + LIST_BYTES, &mut self.list_before);
    }
}

/// The numbers of blocks as they lie in a header.
///
/// # Panics
/// If there are more than [`BLOCKS_MAX`].
fn list_of(blocks: &[u32]) -> [u8; LIST_BYTES] {
    assert!(blocks.len() <= BLOCKS_MAX, "{} blocks in a record", blocks.len());
    let mut list = [0; LIST_BYTES];
    for (at, block) in list.chunks_exact_mut(4).zip(blocks) {
        at.copy_from_slice(&block.to_le_bytes());
    }
    list
}

fn brief(place: u64, kind: u32, list: &[u8; LIST_BYTES], count: u32, area_bytes: u64) -> Option<Brief> {
    let (kind, count) = (Kind::of(kind)?, count as usize);
    let number = |at: &[u8]| u32::from_le_bytes(at.try_into().unwrap_or_default());
    let blocks: Vec<u32> = list.chunks_exact(4).take(count).map(number).collect();
    let is_in_area = |block: &u32| u64::from(block & !LOST) < area_bytes / BLOCK_BYTES as u64;
    (count <= BLOCKS_MAX && blocks.iter().all(is_in_area)).then_some(Brief { place, kind, blocks })
}

/// The checksum of a header: of all but itself.
fn checksum(bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&bytes[..CHECKSUM_AT]), &bytes[CHECKSUM_AT + 4..])
}

fn is_whole(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC) && field_at::<u32>(bytes, CHECKSUM_AT) == checksum(bytes)
}

/// The version of a whole header that another build has written, if this one does not know it.
pub(super) fn unknown_version(bytes: &[u8]) -> Option<u32> {
    let version = field_at::<u32>(bytes, VERSION_AT);
    (is_whole(bytes) && version != VERSION).then_some(version)
}

impl Header {
    /// Writes the header into a block of zeros.
    ///
    /// # Panics
    /// If it names more than [`BLOCKS_MAX`] blocks.
    pub(super) fn encode(&self, bytes: &mut [u8]) {
        Fields::of(self).show(&mut Writer::new(bytes));
        put_at(bytes, CHECKSUM_AT, checksum(bytes));
    }

    /// The header in the block at byte `place` of the device; `None` if it is none, is damaged, or was
    /// written for another place.
    pub(super) fn decode(bytes: &[u8], place: u64) -> Option<Self> {
        if !is_whole(bytes) || unknown_version(bytes).is_some() {
            return None;
        }
        let mut fields = Fields::of(&Self::default());
        fields.show(&mut Reader(bytes));
        let Fields { generation, number, area_bytes, zones, half, data_checksum, .. } = fields;
        let own = brief(fields.place, fields.kind, &fields.list, fields.count, area_bytes)?;
        let (place_before, list) = (fields.place_before, &fields.list_before);
        let before = brief(place_before, fields.kind_before, list, fields.count_before, area_bytes)?;
        let is_possible = zones > 0 && half < 2 && own.place == place && area_bytes > 0;
        is_possible.then_some(Self {
            generation,
            number,
            area_bytes,
            zones,
            half,
            data_checksum,
            own,
            before,
        })
    }
}

#[cfg(test)]
mod tests {
    use mezzanine_ground::fields::Offsets;
    use mezzanine_ground::fields::table::assert_is_as_listed;

    use super::*;

    fn header() -> Header {
        let before = Brief { place: 8192, kind: Kind::Complete, blocks: vec![3, 4 | LOST] };
        let own = Brief { place: 20480, kind: Kind::Change, blocks: (0..BLOCKS_MAX as u32).collect() };
        let (area_bytes, zones, half) = (1 << 22, 3, 1);
        Header { generation: 5, number: 7, area_bytes, zones, half, data_checksum: 9, own, before }
    }

    #[test]
    fn the_format_is_as_documented() {
        let (document, mut offsets) = (include_str!("../../../../docs/format.md"), Offsets::default());
        Fields::of(&header()).show(&mut offsets);
        assert_is_as_listed(document, "MEZZ2ZON", &offsets.0, &["checksum of the header"]);
    }

    #[test]
    fn a_header_is_read_as_it_was_written_and_at_its_place_alone() {
        let mut bytes = vec![0; BLOCK_BYTES];
        header().encode(&mut bytes);
        assert_eq!(Header::decode(&bytes, 20480), Some(header()));
        assert_eq!(Header::decode(&bytes, 24576), None);
        for bit in 0..BLOCK_BYTES * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Header::decode(&bytes, 20480), None, "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn a_block_beyond_the_area_is_damage_and_another_version_is_told() {
        let mut bytes = vec![0; BLOCK_BYTES];
        Header { area_bytes: 4096 * 399, ..header() }.encode(&mut bytes);
        assert_eq!(Header::decode(&bytes, 20480), None);
        assert_eq!(unknown_version(&bytes), None);
        put_at(&mut bytes, VERSION_AT, 2_u32);
        assert_eq!(unknown_version(&bytes), None, "of a damaged header no version is believed");
        let sum = checksum(&bytes);
        put_at(&mut bytes, CHECKSUM_AT, sum);
        assert_eq!(unknown_version(&bytes), Some(2));
    }
}
