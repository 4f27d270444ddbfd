//! The first 64 bytes.

use super::naming::Naming;
use super::{u32_at, u64_at};

/// What a trace of Mezzanine begins with.
pub(crate) const MAGIC: &[u8; 8] = b"MEZZTRC1";

/// The version that is written, and the newest that is read.
const VERSION: u32 = 1;

pub(super) const HEADER_BYTES: usize = 64;
const CHECKSUM_AT: usize = 60;

/// Flag: requests have times.
const TIMED: u32 = 1;

/// What holds for a whole trace of Mezzanine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Size of a page in bytes, not 0.
    pub page_bytes: u32,
    /// How pages are named.
    pub naming: Naming,
    /// Whether requests have times: all have, or none has.
    pub timed: bool,
    /// When time 0 was, in microseconds since 1970 UTC; 0 if nobody knows, or if there are no times.
    pub origin_unix_us: u64,
}

/// Why 64 bytes are no header.
pub(super) enum BadHeader {
    Magic,
    Version(u32),
    Damaged(&'static str),
}

impl Header {
    /// The bytes, and the checksum among them, which the first block repeats.
    pub(super) fn encode(&self) -> ([u8; HEADER_BYTES], u32) {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.page_bytes.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.naming.number().to_le_bytes());
        bytes[20..24].copy_from_slice(&(if self.timed { TIMED } else { 0 }).to_le_bytes());
        bytes[24..32].copy_from_slice(&self.origin_unix_us.to_le_bytes());
        let checksum = crc32c::crc32c(&bytes[..CHECKSUM_AT]);
        bytes[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
        (bytes, checksum)
    }

    pub(super) fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<(Header, u32), BadHeader> {
        if !bytes.starts_with(MAGIC) {
            return Err(BadHeader::Magic);
        }
        // Before the checksum: another version may have it elsewhere.
        let version = u32_at(bytes, 8);
        if version != VERSION {
            return Err(BadHeader::Version(version));
        }
        let checksum = u32_at(bytes, CHECKSUM_AT);
        if checksum != crc32c::crc32c(&bytes[..CHECKSUM_AT]) {
            return Err(BadHeader::Damaged("the checksum of the header does not match it"));
        }
        let naming =
            Naming::of(u32_at(bytes, 16)).ok_or(BadHeader::Damaged("pages are named in no known way"))?;
        let (page_bytes, flags) = (u32_at(bytes, 12), u32_at(bytes, 20));
        if page_bytes == 0 || flags & !TIMED != 0 || bytes[32..CHECKSUM_AT].iter().any(|byte| *byte != 0) {
            return Err(BadHeader::Damaged("the header says what no header of version 1 says"));
        }
        let timed = flags == TIMED;
        Ok((Header { page_bytes, naming, timed, origin_unix_us: u64_at(bytes, 24) }, checksum))
    }
}
