//! The file: a head, then each event with its bytes behind it.
//!
//! Everything is little-endian. An event has a checksum over its fields and bytes, so that the end of a file
//! whose writer was killed is seen.

use mezzanine_ground::fields::{Reader, Visitor, Writer, put_at};

const MAGIC: [u8; 8] = *b"MEZZREC1";
pub(crate) const HEAD_BYTES: usize = 32;
const HEAD_CHECKSUM_AT: usize = HEAD_BYTES - 4;
pub(crate) const EVENT_BYTES: usize = 40;
/// The most bytes behind one event.
pub(crate) const FOLLOW_BYTES_MAX: u64 = 64 << 20;
const CHECKSUM_AT: usize = 36;

/// The head of a recording.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Head {
    /// Length of the device in bytes.
    pub(crate) len: u64,
    pub(crate) magic: [u8; 8],
}

impl Head {
    fn show(&mut self, visitor: &mut impl Visitor) {
        visitor.field(0, &mut self.magic);
        visitor.field(8, &mut self.len);
    }

    pub(crate) fn encode(len: u64) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        Self { len, magic: MAGIC }.show(&mut Writer::new(&mut bytes));
        let checksum = crc32c::crc32c(&bytes[..HEAD_CHECKSUM_AT]);
        put_at(&mut bytes, HEAD_CHECKSUM_AT, checksum);
        bytes
    }

    /// The head; none if it is something else, or damaged.
    pub(crate) fn decode(bytes: &[u8; HEAD_BYTES]) -> Option<Self> {
        let mut head = Self::default();
        head.show(&mut Reader(bytes));
        let whole = bytes[HEAD_CHECKSUM_AT..] == crc32c::crc32c(&bytes[..HEAD_CHECKSUM_AT]).to_le_bytes();
        (whole && head.magic == MAGIC).then_some(head)
    }
}

/// An event without its bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Fields {
    pub(crate) kind: u8,
    /// Events that were recorded when it began.
    pub(crate) begun: u64,
    pub(crate) offset: u64,
    pub(crate) len: u64,
    /// Bytes that follow.
    pub(crate) follow: u64,
}

impl Fields {
    fn show(&mut self, visitor: &mut impl Visitor) {
        visitor.field(0, &mut self.kind);
        visitor.field(1, &mut [0_u8; 3]);
        visitor.field(4, &mut self.begun);
        visitor.field(12, &mut self.offset);
        visitor.field(20, &mut self.len);
        visitor.field(28, &mut self.follow);
    }

    pub(crate) fn encode(mut self, bytes: &[u8]) -> [u8; EVENT_BYTES] {
        let mut out = [0; EVENT_BYTES];
        self.show(&mut Writer::new(&mut out));
        let checksum = checksum(&out, bytes);
        put_at(&mut out, CHECKSUM_AT, checksum);
        out
    }

    /// The event, of which the bytes are not known yet.
    pub(crate) fn decode(bytes: &[u8; EVENT_BYTES]) -> Self {
        let mut fields = Self::default();
        fields.show(&mut Reader(bytes));
        fields
    }

    pub(crate) fn is_whole(event: &[u8; EVENT_BYTES], bytes: &[u8]) -> bool {
        event[CHECKSUM_AT..] == checksum(event, bytes).to_le_bytes()
    }
}

fn checksum(event: &[u8; EVENT_BYTES], bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&event[..CHECKSUM_AT]), bytes)
}
