//! The traces of a sweep: what is in them, and their requests, in memory if there is room.

use mezzanine_sim::policy::Access;

use super::super::source::{NUMBERING_BYTES_PER_PAGE, Source, Step};
use crate::checksum::sha256_of;
use crate::failure::Failure;
use crate::output;

/// What a trace's requests are, whatever its file is called.
fn identity(source: &Source) -> Result<String, Failure> {
    match source {
        Source::Prod3 { requests } => Ok(format!("prod3, {requests} requests")),
        Source::File { path, format, page_bytes, requests } => {
            let sha256 = sha256_of(path).map_err(|e| Failure::refused(path.display(), e))?;
            Ok(format!("{sha256}, {format}, pages of {page_bytes}, at most {requests} requests"))
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
                self.source.each(|step| {
                    if let Step::Made(request) = step {
                        each(request);
                    }
                    Ok(())
                })?;
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

/// Reads the traces; keeps those for which there is room in `memory` bytes, the first before the later.
/// `check` sees each one before it is read.
pub(super) fn load(
    sources: Vec<Source>,
    memory: u64,
    check: impl Fn(&Trace) -> Result<(), Failure>,
) -> Result<Vec<Trace>, Failure> {
    let mut traces: Vec<Trace> = Vec::new();
    for (number, source) in sources.into_iter().enumerate() {
        let bar = output::spinner(&format!("reading {}", source.name()));
        let identity = identity(&source)?;
        let mut trace = Trace { number, source, identity, pages: 0, names: Vec::new(), requests: None };
        check(&trace)?;
        let room = memory.saturating_sub(held(&traces)) / size_of::<Access>() as u64;
        let (mut requests, mut names) = (Some(Vec::new()), Vec::new());
        let extent = trace.source.each(|step| {
            let request = match step {
                Step::Met(page) => {
                    names.push(page);
                    return Ok(());
                }
                Step::Made(request) => request,
            };
            // A vector that grows has the old and the new one for a moment.
            if requests.as_ref().is_some_and(|kept| kept.len() as u64 >= room / 3) {
                requests = None;
            }
            if let Some(kept) = &mut requests {
                kept.push(request);
            }
            Ok(())
        })?;
        trace.pages = extent.pages;
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
