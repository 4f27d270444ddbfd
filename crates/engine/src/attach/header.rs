//! The head of a region: what other processes find a tier by.

use mezzanine_ground::region::{Region, Word, shared};

use crate::format::SUPERBLOCK_BYTES;

pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"MEZZREGN");
/// Counts up with every change of the layout or the meaning of a region.
pub const REGION_VERSION: u64 = 17;
/// Bytes at the start of every region that tell what it is.
pub(crate) const HEADER_BYTES: usize = size_of::<Header>() + 2 * SUPERBLOCK_BYTES;

/// All zero but `begun` until a tier is published.
#[repr(C, align(64))]
pub(super) struct Header {
    pub(super) magic: Word,
    pub(super) version: Word,
    /// Size of the region as its creator computed it.
    pub(super) bytes: Word,
    /// How many times a superblock was published: the last bit tells which copy is in force. The other one
    /// is being written, if any, so one that is copied is whole if this is the same before and after.
    pub(super) published: Word,
    /// Not 0 once a recovery has begun here: the memory is not blank any more (see `blank`).
    pub(super) begun: Word,
}
const _: () = assert!(size_of::<Header>() == 64);

shared!(Header);

pub(super) fn header(region: &Region) -> &Header {
    region.value(0)
}

/// Marks memory in which a tier is about to be built.
pub(crate) fn begin(region: &Region) {
    header(region).begun.set(1);
}

/// Whether a tier was built in this memory, or another program's bytes are there.
pub(crate) fn has_begun(region: &Region) -> bool {
    if region.bytes() < HEADER_BYTES {
        return false;
    }
    let header = header(region);
    [&header.begun, &header.magic, &header.published].iter().any(|word| word.get() != 0)
}
