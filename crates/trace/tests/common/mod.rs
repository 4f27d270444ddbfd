//! What the tests of reading share.
#![allow(dead_code, clippy::unwrap_used)]

use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use mezzanine_trace::{Format, Op, Reader, Request, TraceError, TraceErrorKind};
use mezzanine_workload::Random;

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

/// A directory that is removed again.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> Scratch {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("mezzanine-trace-{}-{count}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Scratch(path)
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The names of all that is in it.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(&self.0)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Requests of all kinds, as they can be in a trace with three relations whose pages are numbers.
pub(crate) fn random_requests(seed: u64, count: usize, timed: bool) -> Vec<Request> {
    let mut random = Random::stream(seed, &[]);
    let mut time_ns = 0;
    (0..count)
        .map(|_| {
            let op = Op::ALL[random.uniform(0, 5) as usize];
            // Numbers of all lengths.
            let mut any = |bits: u32| random.bits() >> (64 - bits) >> random.uniform(0, bits - 1);
            let page = if op.is_mark() { 0 } else { any(64) };
            let client = any(33).checked_sub(1).map(|client| client as u32);
            let transaction = Some(any(64)).filter(|number| number % 5 > 0);
            let relation = Some(any(2) as u32).filter(|relation| *relation > 0 && !op.is_mark());
            time_ns += any(40);
            Request { page, time_ns: timed.then_some(time_ns), op, client, transaction, relation }
        })
        .collect()
}
