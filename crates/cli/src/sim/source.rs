//! Where the requests of `mezz sim` come from: a trace in a file, or one without a file. Pages get numbers in
//! the order in which they are met.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use mezzanine_sim::policy::{Access, PAGES_MAX, prod3};
use mezzanine_trace::{Dense, Format, Op, open};

use crate::failure::Failure;
use crate::size::Size;
use crate::trace::{page_bytes, refused};

/// A trace without a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Synthetic {
    Prod3,
}

/// Requests of a synthetic trace, which has no end of its own.
const SYNTHETIC_REQUESTS: u64 = 1_000_000;

/// Bytes for each distinct page that numbering the pages takes.
pub(super) const NUMBERING_BYTES_PER_PAGE: u64 = 40;

/// Where requests come from.
pub(super) enum Source {
    File { path: PathBuf, format: Format, page_bytes: u32, requests: u64 },
    Prod3 { requests: u64 },
}

/// What a trace consists of, once pages have numbers.
pub(super) enum Step {
    /// The page that has the next number.
    Met(u64),
    Made(Access),
}

/// What was read of a trace.
pub(super) struct Extent {
    /// Distinct pages.
    pub(super) pages: u64,
    /// Evictions, commits and checkpoints, which are no requests.
    pub(super) marks: u64,
}

impl Source {
    pub(super) fn synthetic(Synthetic::Prod3: Synthetic, requests: Option<u64>) -> Source {
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

    /// Hands on each page that is met for the first time, and each request.
    pub(super) fn each(&self, mut each: impl FnMut(Step) -> Result<(), Failure>) -> Result<Extent, Failure> {
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
                each(Step::Met(page))?;
            }
            each(Step::Made(if is_write { Access::write(number) } else { Access::read(number) }))
        };
        let mut marks = 0;
        match self {
            Source::Prod3 { requests } => {
                for (page, _) in prod3().zip(0..*requests) {
                    hand_on(page, false)?;
                }
            }
            Source::File { path, format, page_bytes, requests } => {
                let mut left = *requests;
                for request in open(path, *format, *page_bytes).map_err(refused)? {
                    let request = request.map_err(refused)?;
                    match request.op {
                        Op::Read | Op::Write => hand_on(request.page, request.op == Op::Write)?,
                        Op::EvictClean | Op::EvictDirty | Op::Commit | Op::Checkpoint => {
                            marks += 1;
                            continue;
                        }
                    }
                    left -= 1;
                    if left == 0 {
                        break;
                    }
                }
            }
        }
        Ok(Extent { pages: numbers.len() as u64, marks })
    }
}
