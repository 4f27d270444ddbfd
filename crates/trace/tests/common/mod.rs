//! What the tests of reading share.
#![allow(dead_code, clippy::unwrap_used)]

use std::io::Cursor;
use std::path::Path;

use mezzanine_trace::{Format, Op, Reader, Request, TraceError, TraceErrorKind};

/// A reader of these bytes, which errors call `trace`.
pub(crate) fn reader(bytes: &[u8], format: Format) -> Result<Reader, TraceError> {
    Reader::new(Cursor::new(bytes.to_vec()), Path::new("trace"), format, 4096)
}

/// All requests, or the first error.
pub(crate) fn read(bytes: &[u8], format: Format) -> Result<Vec<Request>, TraceError> {
    reader(bytes, format)?.collect()
}

/// The pages, where nothing else matters.
pub(crate) fn pages(bytes: &[u8], format: Format) -> Vec<u64> {
    read(bytes, format).unwrap().iter().map(|request| request.page).collect()
}

/// A request of a format that knows the time.
pub(crate) fn at(time_ns: u64, op: Op, page: u64) -> Request {
    Request { time_ns: Some(time_ns), ..Request::of(op, page) }
}

/// That the bytes are refused, for this reason; the message names the file and has these parts.
pub(crate) fn refused(bytes: &[u8], format: Format, kind: TraceErrorKind, parts: &[&str]) {
    let error = read(bytes, format).expect_err("this is no trace");
    let text = error.to_string();
    assert_eq!(error.kind(), kind, "{text}");
    assert!(text.starts_with("trace: "), "{text}");
    for part in parts {
        assert!(text.contains(part), "{part:?} is missing in {text:?}");
    }
}
