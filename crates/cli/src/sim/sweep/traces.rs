//! The traces of a sweep: what is in them, and their requests, in memory if there is room.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use mezzanine_sim::policy::{Access, PAGES_MAX, prod3};
use mezzanine_trace::{Dense, Format, Op, open};
use sha2::{Digest, Sha256};

use super::points::hex;
use crate::failure::Failure;
use crate::output;
use crate::size::Size;
use crate::trace::{page_bytes, refused};

/// Requests of a synthetic trace, which has no end of its own.
const SYNTHETIC_REQUESTS: u64 = 1_000_000;

/// Bytes for each distinct page that numbering the pages takes.
const NUMBERING_BYTES_PER_PAGE: u64 = 40;

/// Where requests come from.
pub(super) enum Source {
    File { path: PathBuf, format: Format, page_bytes: u32, requests: u64 },
    Prod3 { requests: u64 },
}

impl Source {
    pub(super) fn prod3(requests: Option<u64>) -> Source {
        Source::Prod3 { requests: requests.unwrap_or(SYNTHETIC_REQUESTS) }
    }

    pub(super) fn file(path: &Path, format: Format, page_size: Size, requests: Option<u64>) -> Source {
        let requests = requests.unwrap_or(u64::MAX);
        Source::File { path: path.to_owned(), format, page_bytes: page_bytes(page_size), requests }
    }

    pub(super) fn name(&self) -> String {
        match self {
            Source::File { path, .. } => path.display().to_string(),
            Source::Prod3 { .. } => "prod3".to_owned(),
        }
    }

    /// What the requests are, whatever the file is called.
    fn identity(&self) -> Result<String, Failure> {
        match self {
            Source::Prod3 { requests } => Ok(format!("prod3, {requests} requests")),
            Source::File { path, format, page_bytes, requests } => {
                let sha256 = sha256(path).map_err(|e| Failure::refused(path.display(), e))?;
                Ok(format!("{sha256}, {format}, pages of {page_bytes}, at most {requests} requests"))
            }
        }
    }

    /// Hands on each page that is met for the first time, in the order of their numbers, and each request.
    fn each(
        &self,
        mut met: impl FnMut(u64),
        mut each: impl FnMut(Access) -> Result<(), Failure>,
    ) -> Result<u64, Failure> {
        let mut numbers = Dense::new();
        let mut hand_on = |page, is_write| {
            if numbers.len() as u64 == u64::from(PAGES_MAX) && numbers.get(page).is_none() {
                let reason = format!("it has more than {PAGES_MAX} distinct pages");
                return Err(
                    Failure::refused(self.name(), reason).next("use larger pages, or fewer --requests")
                );
            }
            let before = numbers.len();
            let number = numbers.number(page);
            if numbers.len() > before {
                met(page);
            }
            each(if is_write { Access::write(number) } else { Access::read(number) })
        };
        match self {
            Source::Prod3 { requests } => {
                for (page, _) in prod3().zip(0..*requests) {
                    hand_on(page, false)?;
                }
            }
            Source::File { path, format, page_bytes, requests } => {
                let reader = open(path, *format, *page_bytes).map_err(refused)?;
                let is_request = |op| matches!(op, Op::Read | Op::Write);
                let wanted =
                    reader.filter(|request| !matches!(request, Ok(request) if !is_request(request.op)));
                for (request, _) in wanted.zip(0..*requests) {
                    let request = request.map_err(refused)?;
                    hand_on(request.page, request.op == Op::Write)?;
                }
            }
        }
        Ok(numbers.len() as u64)
    }
}

fn sha256(path: &Path) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hex(&hash.finalize())),
            read => hash.update(&buffer[..read]),
        }
    }
}

/// A trace of the sweep.
pub(super) struct Trace {
    pub(super) number: usize,
    pub(super) source: Source,
    pub(super) identity: String,
    /// Distinct pages.
    pub(super) pages: u64,
    /// By number: the page.
    pub(super) names: Vec<u64>,
    /// All requests, if there was room for them.
    requests: Option<Vec<Access>>,
}

impl Trace {
    /// Hands on each request, from memory or from the file.
    pub(super) fn each(&self, mut each: impl FnMut(Access)) -> Result<(), Failure> {
        match &self.requests {
            Some(requests) => requests.iter().for_each(|request| each(*request)),
            None => {
                let request = |request| {
                    each(request);
                    Ok(())
                };
                self.source.each(|_| {}, request)?;
            }
        }
        Ok(())
    }

    /// Bytes that whoever reads it takes.
    pub(super) fn reader_bytes(&self) -> u64 {
        if self.requests.is_some() { 0 } else { self.pages * NUMBERING_BYTES_PER_PAGE }
    }
}

/// Bytes of all that is kept in memory.
pub(super) fn held(traces: &[Trace]) -> u64 {
    let bytes = |trace: &Trace| {
        let requests = trace.requests.as_ref().map_or(0, Vec::capacity);
        (requests * size_of::<Access>() + trace.names.capacity() * size_of::<u64>()) as u64
    };
    traces.iter().map(bytes).sum()
}

/// Reads the traces; keeps those for which there is room in `memory` bytes, the first before the later. `check` sees each one before it is
/// read.
pub(super) fn load(
    sources: Vec<Source>,
    memory: u64,
    check: impl Fn(&Trace) -> Result<(), Failure>,
) -> Result<Vec<Trace>, Failure> {
    let mut traces: Vec<Trace> = Vec::new();
    for (number, source) in sources.into_iter().enumerate() {
        let bar = output::spinner(&format!("reading {}", source.name()));
        let identity = source.identity()?;
        let mut trace = Trace { number, source, identity, pages: 0, names: Vec::new(), requests: None };
        check(&trace)?;
        let room = memory.saturating_sub(held(&traces)) / size_of::<Access>() as u64;
        let (mut requests, mut names) = (Some(Vec::new()), Vec::new());
        let request = |request| {
            // A vector that grows has the old and the new one for a moment.
            if requests.as_ref().is_some_and(|kept| kept.len() as u64 >= room / 3) {
                requests = None;
            }
            if let Some(kept) = &mut requests {
                kept.push(request);
            }
            Ok(())
        };
        trace.pages = trace.source.each(|page| names.push(page), request)?;
        names.shrink_to_fit();
        trace.names = names;
        if let Some(kept) = &mut requests {
            kept.shrink_to_fit();
        }
        trace.requests = requests;
        traces.push(trace);
        bar.finish_and_clear();
    }
    Ok(traces)
}
