//! Traces of page requests in each format.

use std::io::Cursor;
use std::path::Path;

use mezzanine_trace::{Format, Position, Reader, Request, TraceError, TraceErrorKind};

/// A line of a few bytes may ask for four thousand million pages.
const REQUESTS_MAX: usize = 10_000;

/// Where the header of a trace of ours ends, and the head of its first block.
const HEADER_BYTES: usize = 64;
const HEAD_BYTES: usize = 40;

/// A trace whose format the first byte names, of pages of a size that the second one names, with `data` in
/// it: its bytes, or, for our own format, the records of its only block behind a valid header.
///
/// # Panics
/// If an invariant is broken.
pub fn trace(data: &[u8]) -> bool {
    let (&[format, size, ..], data) = data.split_at(data.len().min(2)) else { return false };
    let formats = Format::all();
    let format = formats[usize::from(format) % formats.len()];
    let page_bytes = [1, 512, 4096, u32::MAX][usize::from(size % 4)];
    let _ = read(data, format, page_bytes);
    if format != Format::Mezzanine {
        return read(data, format, page_bytes).is_ok();
    }
    // A count too large lets all requests come out, and says how many there are.
    let (requests, _) = take(&own(data, size, u32::MAX), format, page_bytes);
    let read = read(&own(data, size, requests.len() as u32), format, page_bytes);
    // Everything but the end, which there is not, was as it should be.
    matches!(read, Err(error) if error.kind() == TraceErrorKind::Truncated)
}

/// All requests up to a limit, if they are such as can be; the same each time.
fn read(bytes: &[u8], format: Format, page_bytes: u32) -> Result<Vec<Request>, TraceError> {
    let (requests, error) = take(bytes, format, page_bytes);
    let (again, _) = take(bytes, format, page_bytes);
    assert_eq!(requests, again);
    let times = requests.windows(2).filter_map(|pair| pair[0].time_ns.zip(pair[1].time_ns));
    assert!(times.into_iter().all(|(before, after)| before <= after), "time goes back");
    for request in &requests {
        assert!(!request.op.is_mark() || (request.page == 0 && request.relation.is_none()), "{request:?}");
    }
    match error {
        None => Ok(requests),
        Some(error) => {
            if let Some(Position::Byte(byte)) = error.position() {
                assert!(byte <= bytes.len() as u64, "{error}");
            }
            Err(error)
        }
    }
}

/// The requests up to a limit, and the error that ends them.
fn take(bytes: &[u8], format: Format, page_bytes: u32) -> (Vec<Request>, Option<TraceError>) {
    let mut requests = Vec::new();
    let mut reader = match Reader::new(Cursor::new(bytes.to_vec()), Path::new("trace"), format, page_bytes) {
        Ok(reader) => reader,
        Err(error) => return (requests, Some(error)),
    };
    while let Some(next) = reader.next() {
        match next {
            Ok(request) if requests.len() < REQUESTS_MAX => {
                let named = reader.page_id(request.page);
                assert!(
                    named.is_none() || request.relation.is_some(),
                    "{request:?} has an id and no relation"
                );
                requests.push(request);
            }
            Ok(_) => break,
            Err(error) => {
                assert!(reader.next().is_none(), "there is more after an error");
                return (requests, Some(error));
            }
        }
    }
    (requests, None)
}

/// A trace of ours with these records in a block that says how many requests they are, and without an end:
/// that would have to repeat what the records come to.
fn own(records: &[u8], how: u8, requests: u32) -> Vec<u8> {
    let mut bytes = b"MEZZTRC1".to_vec();
    // Pages are named in one of three ways or in none, and have times or not.
    for word in [1, 4096, u32::from(how >> 2) % 4, u32::from(how >> 4) % 2] {
        bytes.extend_from_slice(&u32::to_le_bytes(word));
    }
    bytes.resize(HEADER_BYTES - 4, 0);
    let before = crc32c::crc32c(&bytes);
    bytes.extend_from_slice(&before.to_le_bytes());
    let mut head = [0; HEAD_BYTES - 4];
    head[0] = 1;
    head[4..8].copy_from_slice(&(records.len() as u32).to_le_bytes());
    head[8..12].copy_from_slice(&requests.to_le_bytes());
    head[12..16].copy_from_slice(&before.to_le_bytes());
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&head), records);
    bytes.extend_from_slice(&head);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    bytes.extend_from_slice(records);
    bytes
}
