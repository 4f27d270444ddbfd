//! Requests of a virtual SCSI disk, as VMware's vscsiStats records them and CloudPhysics published them.
//! Little-endian.
//!
//! | version 1 | version 2 | bytes | field |
//! |---|---|---|---|
//! | 0 | 4 | 4 | serial number |
//! | 4 | 8 | 4 | length in bytes |
//! | 8 | 12 | 4 | elements of the scatter-gather list |
//! | 12 | 0 | 2 | SCSI's operation code |
//! | 14 | 2 | 2 | version in the high byte |
//! | 16 | 16 | 8 | first block, of 512 bytes |
//! | 24 | 24 | 8 | time in microseconds |
//! | | 32 | 8 | response time; version 2 alone |
//!
//! A request becomes one for each page that it touches: one of 4,096 bytes that begins in the middle of a
//! page of 4,096 bytes touches two.

use crate::error::{Position, TraceError, TraceErrorKind};
use crate::input::Input;
use crate::own::EncodeError;
use crate::reader::Run;
use crate::request::{Op, Request};

const V1_BYTES: usize = 32;
const V2_BYTES: usize = 40;
pub(crate) const SECTOR_BYTES: u32 = 512;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

impl Version {
    const ALL: [Version; 2] = [Version::One, Version::Two];

    fn record_bytes(self) -> usize {
        [V1_BYTES, V2_BYTES][self as usize]
    }

    /// Whether a record claims to be of this version.
    fn is_of(self, record: &[u8]) -> bool {
        let (at, number) = [(15, 1), (3, 2)][self as usize];
        record.get(at) == Some(&number)
    }
}

/// Whether two records or more stand at the beginning, all of the same version and with operations that are
/// known.
pub(crate) fn looks_like(head: &[u8]) -> bool {
    Version::ALL.iter().any(|&version| {
        let mut records = head.chunks_exact(version.record_bytes());
        records.len() >= 2
            && records
                .all(|record| version.is_of(record) && op(Fields::of(version, record).command).is_some())
    })
}

/// Which version the records are, once one was seen.
pub(crate) struct Vscsi {
    version: Option<Version>,
}

impl Vscsi {
    pub(crate) fn new() -> Vscsi {
        Vscsi { version: None }
    }

    pub(crate) fn record(&mut self, input: &mut Input, page_bytes: u32) -> Result<Option<Run>, TraceError> {
        let position = Position::Byte(input.position());
        let version = match self.version {
            Some(version) => version,
            None => *self.version.insert(version_of(input)?),
        };
        let fields = match version {
            Version::One => input.record::<V1_BYTES>()?.map(|r| (version.is_of(&r), Fields::of(version, &r))),
            Version::Two => input.record::<V2_BYTES>()?.map(|r| (version.is_of(&r), Fields::of(version, &r))),
        };
        let Some((is_same_version, fields)) = fields else { return Ok(None) };
        let wrong = |kind, reason: String| Err(input.error(kind, position, reason));
        if !is_same_version {
            let reason = "a record of another version than those before it".to_owned();
            return wrong(TraceErrorKind::Damaged, reason);
        }
        let Some(op) = op(fields.command) else {
            let reason =
                format!("operation code {:#04x} is neither a SCSI read nor a SCSI write", fields.command);
            return wrong(TraceErrorKind::Damaged, reason);
        };
        let Some(time_ns) = fields.time_us.checked_mul(1_000) else {
            let reason =
                format!("a time of {} microseconds does not fit 64 bits of nanoseconds", fields.time_us);
            return wrong(TraceErrorKind::Damaged, reason);
        };
        let begin = u128::from(fields.block) * u128::from(SECTOR_BYTES);
        let end = begin + u128::from(fields.length_bytes);
        let page = u128::from(page_bytes);
        // A request for no bytes touches no page.
        let (first, pages) = (begin / page, if end == begin { 0 } else { end.div_ceil(page) - begin / page });
        let (Ok(first), Ok(pages), Ok(_)) =
            (u64::try_from(first), u64::try_from(pages), u64::try_from(end.div_ceil(page)))
        else {
            let reason = format!("block {} lies past the largest page number", fields.block);
            return wrong(TraceErrorKind::Damaged, reason);
        };
        Ok(Some(Run::pages(Request { time_ns: Some(time_ns), ..Request::of(op, first) }, pages)))
    }
}

/// The version that the first record is of.
fn version_of(input: &mut Input) -> Result<Version, TraceError> {
    let position = Position::Byte(input.position());
    let head = input.peek(V2_BYTES)?;
    let found = Version::ALL.into_iter().find(|version| version.is_of(head));
    let there = head.len();
    found.ok_or_else(|| {
        if there < V1_BYTES {
            let reason = format!("the trace ends inside its first record, after {there} bytes");
            return input.error(TraceErrorKind::Truncated, position, reason);
        }
        let reason = "no version 1 or 2 where a vscsi record has it";
        input.error(TraceErrorKind::WrongFormat, position, reason)
    })
}

/// A record of version 1 for a page of a multiple of 512 bytes. Without a time it is at 0.
pub(crate) fn encode(request: &Request, page_bytes: u32, serial: u64) -> Result<[u8; V1_BYTES], EncodeError> {
    let sectors = u64::from(page_bytes / SECTOR_BYTES);
    let block = request.page.checked_mul(sectors).filter(|block| block.checked_add(sectors).is_some());
    let Some(block) = block else {
        return Err(EncodeError::Invalid(format!("vscsi has no block number for page {}", request.page)));
    };
    // The forms with 16 bytes are those whose block numbers have 64 bits.
    let command: u16 = match (request.op, u32::try_from(block).is_ok()) {
        (Op::Write, true) => 0x2A,
        (Op::Write, false) => 0x8A,
        (_, true) => 0x28,
        (_, false) => 0x88,
    };
    let mut record = [0; V1_BYTES];
    record[0..4].copy_from_slice(&(serial as u32).to_le_bytes());
    record[4..8].copy_from_slice(&page_bytes.to_le_bytes());
    record[8..12].copy_from_slice(&1u32.to_le_bytes());
    record[12..14].copy_from_slice(&command.to_le_bytes());
    record[15] = 1;
    record[16..24].copy_from_slice(&block.to_le_bytes());
    record[24..32].copy_from_slice(&(request.time_ns.unwrap_or(0) / 1_000).to_le_bytes());
    Ok(record)
}

struct Fields {
    command: u16,
    length_bytes: u32,
    block: u64,
    time_us: u64,
}

impl Fields {
    /// The fields of a record of its version's length.
    fn of(version: Version, record: &[u8]) -> Fields {
        let (length, command) = [(4, 12), (8, 0)][version as usize];
        Fields {
            command: u16::from_le_bytes(bytes_at(record, command)),
            length_bytes: u32::from_le_bytes(bytes_at(record, length)),
            block: u64::from_le_bytes(bytes_at(record, 16)),
            time_us: u64::from_le_bytes(bytes_at(record, 24)),
        }
    }
}

fn bytes_at<const N: usize>(record: &[u8], at: usize) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&record[at..at + N]);
    bytes
}

/// READ and WRITE in their four lengths, WRITE AND VERIFY and WRITE SAME (SCSI Block Commands, section 5).
fn op(command: u16) -> Option<Op> {
    match command {
        0x08 | 0x28 | 0x88 | 0xA8 => Some(Op::Read),
        0x0A | 0x2A | 0x8A | 0xAA | 0x2E | 0x8E | 0xAE | 0x41 | 0x93 => Some(Op::Write),
        _ => None,
    }
}
