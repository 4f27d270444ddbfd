//! Mezzanine's own traces of what a database asks of its buffer pool and what leaves it. `docs/format.md`
//! draws the bytes.
//!
//! 1. A file is a header, blocks of records, and an end that says how many there were. What has no end is not
//!    whole.
//! 2. Header, blocks and end carry a checksum each, and the checksum of what stands before them, so that a
//!    block that is missing, repeated or from another trace is noticed as much as one that is damaged.
//! 3. Every block can be decoded without those before it, but for the relations that they have defined.

mod header;
mod naming;
mod record;

mod decode;
mod encode;

pub use header::Header;
pub use naming::{Naming, Relation};

pub(crate) use decode::Blocks;
pub(crate) use encode::{EncodeError, Encoder};
pub(crate) use header::MAGIC;

/// The number that block 0 of a relation has in requests, where pages have ids.
pub(crate) fn first_page(relation: u32) -> u64 {
    naming::page_number(relation, 0)
}

/// The most bytes of records in a block.
const RECORDS_BYTES_MAX: usize = 1 << 16;

/// The head of a block and of the end.
const BLOCK_HEAD_BYTES: usize = 40;

/// Kinds of blocks.
const KIND_RECORDS: u32 = 1;
const KIND_END: u32 = 2;

// A block is looked at whole.
const _: () = assert!(BLOCK_HEAD_BYTES + RECORDS_BYTES_MAX <= crate::input::BUFFER_BYTES);
const _: () = assert!(record::RECORD_BYTES_MAX < RECORDS_BYTES_MAX);

/// The head of a block, which says where in the trace it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct BlockHead {
    kind: u32,
    /// Length of the records.
    bytes: u32,
    /// Requests among them.
    requests: u32,
    /// Checksum of the block before, or of the header.
    before: u32,
    /// Requests of all blocks before.
    requests_before: u64,
    /// Time of the last of them.
    time_ns: u64,
    /// Relations that they have defined.
    relations: u32,
}

impl BlockHead {
    /// The head as it stands in front of these records, with its checksum.
    fn encode(&self, records: &[u8]) -> [u8; BLOCK_HEAD_BYTES] {
        let mut bytes = [0; BLOCK_HEAD_BYTES];
        bytes[0..4].copy_from_slice(&self.kind.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.bytes.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.requests.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.before.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.requests_before.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.time_ns.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.relations.to_le_bytes());
        let checksum = crc32c::crc32c_append(crc32c::crc32c(&bytes[..36]), records);
        bytes[36..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// The head and the checksum that it states.
    fn decode(bytes: &[u8; BLOCK_HEAD_BYTES]) -> (BlockHead, u32) {
        let head = BlockHead {
            kind: u32_at(bytes, 0),
            bytes: u32_at(bytes, 4),
            requests: u32_at(bytes, 8),
            before: u32_at(bytes, 12),
            requests_before: u64_at(bytes, 16),
            time_ns: u64_at(bytes, 24),
            relations: u32_at(bytes, 32),
        };
        (head, u32_at(bytes, 36))
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}
