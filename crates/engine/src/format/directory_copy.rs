//! A copy of the directory that a tier which is closed in order leaves on flash: chunks of a fixed length, each
//! with a header, and behind it what the directory says of some positions, in their order.

use mezzanine_ground::fields::{Reader, Visitor, Writer, field_at, put_at};

use super::{FORMAT_VERSION, plausible, version_of};
use crate::bounds::Bound;
use crate::directory::GroupHead;
use crate::ids::{PAGE_ID_BYTES, PageId, Position, Sequence};
use crate::planted::{self, Bug};

/// Bytes from the beginning of a chunk to that of the next: a multiple of every page size.
pub(crate) const CHUNK_BYTES: usize = 1 << 20;
/// Bytes of a chunk's header.
pub(crate) const CHUNK_HEADER_BYTES: usize = 72;
const CHUNK_MAGIC: [u8; 8] = *b"MEZZDIR1";
const CHECKSUM_AT: usize = CHUNK_HEADER_BYTES - 4;
/// Bytes of the longest item.
pub(crate) const ITEM_BYTES_MAX: usize = 1 + PAGE_ID_BYTES + 4;

/// Where the copy lies that a superblock names, and what it is known by. All zero if there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirectoryCopy {
    /// Where it begins, among the frames behind the queue.
    pub position: Position,
    /// Its bytes; 0 if there is none.
    pub bytes: u64,
    /// The checksum of its chunks' checksums.
    pub checksum: u32,
}

impl DirectoryCopy {
    /// How many chunks it has.
    pub(crate) fn chunks(&self) -> u64 {
        self.bytes.div_ceil(CHUNK_BYTES as u64)
    }
}

/// What a chunk says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChunkHeader {
    pub(crate) tier_uuid: [u8; 16],
    /// Of the superblock that names the copy.
    pub(crate) generation: u64,
    pub(crate) epoch: u32,
    /// The positions that it is of, from the first up to the one behind the last.
    pub(crate) first: Position,
    pub(crate) end: Position,
    /// Before this position may lie pages that a crash brings back, though they are valid no more: they have
    /// left, or were invalidated in memory alone.
    pub(crate) returning: Position,
    /// Bytes of items.
    pub(crate) bytes: u32,
}

impl ChunkHeader {
    fn show(&mut self, visitor: &mut impl Visitor) {
        visitor.always(0, CHUNK_MAGIC);
        visitor.always(8, FORMAT_VERSION);
        visitor.field(12, &mut self.epoch);
        visitor.field(16, &mut self.tier_uuid);
        visitor.field(32, &mut self.generation);
        visitor.field(40, &mut self.first);
        visitor.field(48, &mut self.end);
        visitor.field(56, &mut self.returning);
        visitor.field(64, &mut self.bytes);
    }

    /// Puts the header before the items in `chunk`, and returns the chunk's checksum.
    pub(crate) fn seal(&self, chunk: &mut [u8]) -> u32 {
        let mut header = self.clone();
        header.show(&mut Writer::new(&mut chunk[..CHUNK_HEADER_BYTES]));
        let checksum = checksum_of(chunk, self.bytes as usize);
        put_at(chunk, CHECKSUM_AT, checksum);
        checksum
    }

    /// The header of a whole chunk, and its checksum.
    pub(crate) fn open(chunk: &[u8]) -> Option<(Self, u32)> {
        version_of(chunk, CHUNK_MAGIC, CHUNK_HEADER_BYTES).ok()?;
        let mut header = Self::default();
        header.show(&mut Reader(chunk));
        let items = chunk.get(CHUNK_HEADER_BYTES..)?.get(..header.bytes as usize)?;
        let checksum = field_at::<u32>(chunk, CHECKSUM_AT);
        let numbers: [(Bound, &[u64]); 2] = [
            (Bound::Generation, &[header.generation]),
            (Bound::Position, &[header.first.number(), header.end.number(), header.returning.number()]),
        ];
        let whole = checksum == checksum_of(chunk, items.len()) && plausible(header.epoch, &numbers);
        let unchecked = planted::is(Bug::CopyChecksumUnchecked);
        (whole || unchecked).then_some((header, checksum))
    }

    /// The items of a whole chunk with this header.
    pub(crate) fn items<'c>(&self, chunk: &'c [u8]) -> &'c [u8] {
        &chunk[CHUNK_HEADER_BYTES..][..self.bytes as usize]
    }
}

fn checksum_of(chunk: &[u8], items: usize) -> u32 {
    let header = crc32c::crc32c(&chunk[..CHECKSUM_AT]);
    crc32c::crc32c_append(header, &chunk[CHUNK_HEADER_BYTES..CHUNK_HEADER_BYTES + items])
}

const KIND_HEAD: u8 = 1;
const KIND_BAD: u8 = 2;
const KIND_NAMED: u8 = 3;
/// The flags of a valid page are added to it.
const KIND_VALID: u8 = 8;
const FLAG_DIRTY: u8 = 1;
const FLAG_REFERENCED: u8 = 2;
const FLAG_LOST: u8 = 4;

/// What the directory says of a position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CopyItem {
    /// A group begins there; its summary is passed.
    Head(GroupHead),
    /// A record of this page was appended there, if any: the frame is bad.
    Bad(PageId),
    /// A record of this page was appended there, which is valid no more.
    Named(PageId),
    /// A valid page.
    Valid { id: PageId, checksum: u32, dirty: bool, referenced: bool, lost: bool },
}

impl CopyItem {
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Head(head) => {
                out.push(KIND_HEAD);
                out.extend(head.sequence.number().to_le_bytes());
                out.extend([head.pages, head.records, head.checksum].map(u32::to_le_bytes).as_flattened());
            }
            Self::Named(id) | Self::Bad(id) => {
                out.push(if matches!(self, Self::Bad(_)) { KIND_BAD } else { KIND_NAMED });
                out.extend(id.as_bytes());
            }
            Self::Valid { id, checksum, dirty, referenced, lost } => {
                let flag = |set: bool, flag: u8| if set { flag } else { 0 };
                let flags =
                    flag(*dirty, FLAG_DIRTY) | flag(*referenced, FLAG_REFERENCED) | flag(*lost, FLAG_LOST);
                out.push(KIND_VALID | flags);
                out.extend(id.as_bytes());
                out.extend(checksum.to_le_bytes());
            }
        }
    }

    /// Takes the first item of `items`; `None` if there is none that makes sense.
    #[inline]
    pub(crate) fn take(items: &mut &[u8]) -> Option<Self> {
        let (kind, rest) = items.split_first()?;
        *items = rest;
        let mut take = |bytes: usize| {
            let (taken, rest) = items.split_at_checked(bytes)?;
            *items = rest;
            Some(taken)
        };
        let number = |bytes: &[u8]| bytes.first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
        match *kind {
            KIND_HEAD => {
                let sequence = u64::from_le_bytes(*take(8)?.first_chunk()?);
                let [pages, records, checksum] = [number(take(4)?)?, number(take(4)?)?, number(take(4)?)?];
                let whole = plausible(1, &[(Bound::Sequence, &[sequence])]);
                let sequence = Sequence::from_number(sequence);
                whole.then_some(Self::Head(GroupHead { sequence, pages, records, checksum }))
            }
            KIND_BAD => Some(Self::Bad(PageId::from_bytes(*take(PAGE_ID_BYTES)?.first_chunk()?))),
            KIND_NAMED => Some(Self::Named(PageId::from_bytes(*take(PAGE_ID_BYTES)?.first_chunk()?))),
            KIND_VALID..16 => Some(Self::Valid {
                id: PageId::from_bytes(*take(PAGE_ID_BYTES)?.first_chunk()?),
                checksum: number(take(4)?)?,
                dirty: kind & FLAG_DIRTY != 0,
                referenced: kind & FLAG_REFERENCED != 0,
                lost: kind & FLAG_LOST != 0,
            }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use mezzanine_ground::fields::Offsets;
    use mezzanine_ground::fields::table::assert_is_as_listed;

    use super::*;

    fn header() -> ChunkHeader {
        ChunkHeader {
            tier_uuid: *b"the tier's name.",
            generation: 0x1112_1314_1516,
            epoch: 0x2122_2324,
            first: Position::from_number(0x3132_3334_3536),
            end: Position::from_number(0x3132_3334_3540),
            returning: Position::from_number(0x4142_4344_4546),
            bytes: 0,
        }
    }

    #[test]
    fn the_document_says_where_each_field_lies() {
        let document = include_str!("../../../../docs/format.md");
        let mut offsets = Offsets::default();
        header().show(&mut offsets);
        assert_is_as_listed(document, "offset in a chunk", &offsets.0, &["checksum of"]);
    }

    #[test]
    fn chunks_survive_their_encoding_and_show_what_is_wrong() {
        let head =
            GroupHead { sequence: Sequence::from_number(7), pages: 8, records: 9, checksum: 0xAAAA_BBBB };
        let id = PageId::volume(3, 9);
        let valid = |flags: u8| CopyItem::Valid {
            id,
            checksum: 0xDEAD_BEEF,
            dirty: flags & 1 != 0,
            referenced: flags & 2 != 0,
            lost: flags & 4 != 0,
        };
        let items: Vec<CopyItem> = [CopyItem::Head(head), CopyItem::Bad(id), CopyItem::Named(id)]
            .into_iter()
            .chain((0..8).map(valid))
            .collect();
        let mut chunk = vec![0; CHUNK_HEADER_BYTES];
        items.iter().for_each(|item| item.put(&mut chunk));
        let bytes = chunk.len() - CHUNK_HEADER_BYTES;
        assert_eq!(bytes, 21 + 21 + 21 + 8 * ITEM_BYTES_MAX);
        let header = ChunkHeader { bytes: bytes as u32, ..header() };
        let checksum = header.seal(&mut chunk);
        let (found, found_checksum) = ChunkHeader::open(&chunk).expect("it is whole");
        let mut left = found.items(&chunk);
        assert_eq!((&found, found_checksum), (&header, checksum));
        for item in items {
            assert_eq!(CopyItem::take(&mut left), Some(item));
        }
        assert_eq!((left, CopyItem::take(&mut &left[..])), (&[][..], None));
        for at in 0..chunk.len() {
            chunk[at] ^= 1;
            assert!(ChunkHeader::open(&chunk).is_none(), "byte {at} counts");
            chunk[at] ^= 1;
        }
        for short in 0..ITEM_BYTES_MAX {
            assert_eq!(CopyItem::take(&mut &[KIND_VALID; ITEM_BYTES_MAX][..short]), None);
        }
        assert_eq!(CopyItem::take(&mut &[0][..]), None);
    }
}
