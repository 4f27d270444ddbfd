//! One entry of a group summary or a metadata segment.

use mezzanine_ground::fields::{Reader, Visitor, Writer};

use super::plausible;
use crate::bounds::{Bound, VERSION_BITS};
use crate::ids::{Frame, IdRange, PAGE_ID_BYTES, PageId, Position, Sequence, Version};

/// Size of a record in bytes.
pub const RECORD_BYTES: usize = 48;

const FLAG_DIRTY: u8 = 1;
const FLAG_SECOND_CHANCE: u8 = 2;
const FLAG_LOST: u8 = 4;

const KIND_PAGE: u8 = 1;
const KIND_TOMBSTONE: u8 = 2;
const KIND_GROUP: u8 = 3;
const KIND_VOID: u8 = 4;

/// What a record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    /// The next frame of the group holds this page.
    Page {
        /// The page.
        id: PageId,
        /// Newer than its disk copy.
        dirty: bool,
        /// Appended again rather than newly staged in.
        second_chance: bool,
        /// Its content could not be read: the frame holds nothing, and the checksum is that of what is lost.
        lost: bool,
        /// Log sequence number the host gave; 0 if it has none.
        lsn: u64,
        /// CRC-32C of the page.
        checksum: u32,
        /// Where the page lies if the design writes in place; then the group may just say so once more.
        /// Otherwise 0.
        home: Frame,
    },
    /// Every version of these pages appended before is gone.
    Tombstone(IdRange),
    /// The next frame of the group holds nothing: what lay there before could not be read.
    Void,
    /// Only in segments: the records up to the next of this kind belong to this group.
    Group {
        /// Position of the group's first frame.
        position: Position,
        /// Sequence number of the group.
        sequence: Sequence,
        /// Pages in the group.
        pages: u32,
        /// Records of the group.
        records: u32,
        /// Checksum of the group's summary.
        checksum: u32,
    },
}

impl RecordKind {
    /// A page that lies in the queue itself and is appended again, or its name if it is lost.
    pub(crate) fn again(id: PageId, dirty: bool, lost: bool, lsn: u64, checksum: u32) -> Self {
        Self::Page { id, dirty, second_chance: true, lost, lsn, checksum, home: Frame::NONE }
    }
}

/// A record with its version: epoch, then sequence (invariant 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// What it says.
    pub kind: RecordKind,
    /// Epoch in which the version was staged in.
    pub epoch: u32,
    /// Number of the version within the tier's life, below 2^48; a second chance keeps it.
    pub version: Version,
}

/// A record as it lies on flash. What `number` is, and what `shift` and `home` are, depends on the kind.
#[derive(Clone, Copy, Default)]
struct Fields {
    id: [u8; PAGE_ID_BYTES],
    kind: u8,
    flags: u8,
    shift: u8,
    home: u8,
    number: u64,
    version: u64,
    epoch: u32,
    checksum: u32,
}

impl Fields {
    fn show(&mut self, visitor: &mut impl Visitor) {
        visitor.field(0, &mut self.id);
        visitor.field(20, &mut self.kind);
        visitor.field(21, &mut self.flags);
        visitor.field(22, &mut self.shift);
        visitor.field(23, &mut self.home);
        visitor.field(24, &mut self.number);
        visitor.field(32, &mut self.version);
        visitor.field(40, &mut self.epoch);
        visitor.field(44, &mut self.checksum);
    }
}

/// What a group's record has in the place of a page id.
fn show_group(visitor: &mut impl Visitor, position: &mut Position, sequence: &mut Sequence, pages: &mut u32) {
    visitor.field(0, position);
    visitor.field(8, sequence);
    visitor.field(16, pages);
}

impl Record {
    /// The record's bytes.
    pub fn encode(&self) -> [u8; RECORD_BYTES] {
        let mut out = [0; RECORD_BYTES];
        self.fields().show(&mut Writer::new(&mut out));
        out
    }

    fn fields(&self) -> Fields {
        let any = Fields { version: self.version.number(), epoch: self.epoch, ..Fields::default() };
        match &self.kind {
            RecordKind::Page { id, dirty, second_chance, lost, lsn, checksum, home } => Fields {
                id: *id.as_bytes(),
                kind: KIND_PAGE,
                flags: if *dirty { FLAG_DIRTY } else { 0 }
                    | if *second_chance { FLAG_SECOND_CHANCE } else { 0 }
                    | if *lost { FLAG_LOST } else { 0 },
                shift: (home.0 >> 16) as u8,
                home: (home.0 >> 24) as u8,
                number: *lsn,
                // A version takes the bits below; in a page's record the lower half of its home those above.
                version: self.version.number() | u64::from(home.0 & 0xFFFF) << VERSION_BITS,
                checksum: *checksum,
                ..any
            },
            RecordKind::Tombstone(range) => Fields {
                id: *range.start.as_bytes(),
                kind: KIND_TOMBSTONE,
                shift: range.shift,
                number: range.count,
                ..any
            },
            RecordKind::Void => Fields { kind: KIND_VOID, ..any },
            RecordKind::Group { position, sequence, pages, records, checksum } => {
                let mut id = [0; PAGE_ID_BYTES];
                show_group(&mut Writer::new(&mut id), &mut { *position }, &mut { *sequence }, &mut {
                    *pages
                });
                Fields { id, kind: KIND_GROUP, number: u64::from(*records), checksum: *checksum, ..any }
            }
        }
    }

    /// Whether the record takes a frame of its group.
    pub fn has_frame(&self) -> bool {
        matches!(self.kind, RecordKind::Page { .. } | RecordKind::Void)
    }

    /// The id of the page that a record at the start of `bytes` names, if it is a page's.
    pub(crate) fn page_id(bytes: &[u8]) -> Option<PageId> {
        let id = *bytes.first_chunk::<PAGE_ID_BYTES>()?;
        (bytes.get(PAGE_ID_BYTES) == Some(&KIND_PAGE)).then(|| PageId::from_bytes(id))
    }

    /// Reads a record; `None` if it is none of the known kinds or its numbers are impossible.
    pub fn decode(bytes: &[u8; RECORD_BYTES]) -> Option<Self> {
        let mut fields = Fields::default();
        fields.show(&mut Reader(bytes));
        let Fields { id, kind, flags, shift, home, number, mut version, epoch, checksum } = fields;
        let home = Frame(u32::from(home) << 24 | u32::from(shift) << 16 | (version >> VERSION_BITS) as u32);
        if kind == KIND_PAGE {
            version &= (1 << VERSION_BITS) - 1;
        }
        let kind = match kind {
            KIND_PAGE => RecordKind::Page {
                home,
                id: PageId::from_bytes(id),
                dirty: flags & FLAG_DIRTY != 0,
                second_chance: flags & FLAG_SECOND_CHANCE != 0,
                lost: flags & FLAG_LOST != 0,
                lsn: number,
                checksum,
            },
            KIND_VOID => RecordKind::Void,
            KIND_TOMBSTONE if shift < 160 => {
                RecordKind::Tombstone(IdRange { start: PageId::from_bytes(id), count: number, shift })
            }
            KIND_GROUP => {
                let (mut position, mut sequence, mut pages) = (Position::ZERO, Sequence::ZERO, 0);
                show_group(&mut Reader(&id), &mut position, &mut sequence, &mut pages);
                let records = u32::try_from(number).ok()?;
                let numbers: [(Bound, &[u64]); 2] =
                    [(Bound::Position, &[position.number()]), (Bound::Sequence, &[sequence.number()])];
                if !plausible(epoch, &numbers) {
                    return None;
                }
                RecordKind::Group { position, sequence, pages, records, checksum }
            }
            _ => return None,
        };
        plausible(epoch, &[(Bound::Version, &[version])]).then_some(Self {
            kind,
            epoch,
            version: Version::from_number(version),
        })
    }
}

#[cfg(test)]
mod tests {
    use mezzanine_ground::fields::Offsets;
    use mezzanine_ground::fields::table::assert_is_as_listed;

    use super::*;

    #[test]
    fn every_field_lies_where_the_format_says() {
        let kind = RecordKind::Page {
            id: PageId::from_bytes(*b"the id of some page."),
            dirty: false,
            second_chance: true,
            lost: true,
            lsn: 0x1112_1314_1516_1718,
            checksum: 0x2122_2324,
            home: Frame(0x3132_3334),
        };
        let page = Record { kind, epoch: 0x4142_4344, version: Version::from_number(0x5152_5354_5556) };
        assert_eq!(
            page.encode(),
            *b"the id of some page.\x01\x06\x32\x31\x18\x17\x16\x15\x14\x13\x12\x11\
               \x56\x55\x54\x53\x52\x51\x34\x33\x44\x43\x42\x41\x24\x23\x22\x21"
        );
        let kind = RecordKind::Group {
            position: Position::from_number(0x1112_1314_1516),
            sequence: Sequence::from_number(0x2122_2324_2526),
            pages: 0x3132_3334,
            records: 0x6162_6364,
            checksum: 0x7172_7374,
        };
        let group = Record { kind, epoch: 0x4142_4344, version: Version::ZERO };
        assert_eq!(
            group.encode(),
            *b"\x16\x15\x14\x13\x12\x11\0\0\x26\x25\x24\x23\x22\x21\0\0\x34\x33\x32\x31\
               \x03\0\0\0\x64\x63\x62\x61\0\0\0\0\0\0\0\0\0\0\0\0\
               \x44\x43\x42\x41\x74\x73\x72\x71"
        );
    }

    #[test]
    fn the_document_says_where_each_field_lies() {
        let document = include_str!("../../../../docs/format.md");
        let (mut any, mut group) = <(Offsets, Offsets)>::default();
        Fields::default().show(&mut any);
        show_group(&mut group, &mut { Position::ZERO }, &mut { Sequence::ZERO }, &mut 0);
        assert_is_as_listed(document, "| page | tombstone |", &any.0, &[]);
        assert_is_as_listed(document, "offset in a group's record", &group.0, &[]);
    }

    #[test]
    fn records_survive_their_encoding() {
        let kinds = [
            RecordKind::Page {
                id: PageId::volume(3, 9),
                dirty: true,
                second_chance: true,
                lost: true,
                lsn: 77,
                checksum: 0xDEAD_BEEF,
                home: Frame(0x1234_5678),
            },
            RecordKind::Tombstone(IdRange::blocks(3, 4, 5)),
            RecordKind::Void,
            RecordKind::Group {
                position: Position::from_number(1 << 40),
                sequence: Sequence::from_number(12),
                pages: 64,
                records: 70,
                checksum: 5,
            },
        ];
        for kind in kinds {
            let record = Record { kind, epoch: 4, version: Version::from_number(1 << 33) };
            assert_eq!(Record::decode(&record.encode()), Some(record));
        }
        assert_eq!(Record::decode(&[0; RECORD_BYTES]), None);
        assert_eq!(Record::decode(&[0xFF; RECORD_BYTES]), None);
    }
}
