//! Where the requests of `mezz sim run` and `mezz sim mrc` come from, and what memory they meet.

use std::path::PathBuf;

use clap::Args;
use mezzanine_sim::policy::{Counts, Curve, Setting};
use mezzanine_trace::Format;
use serde::Serialize;

use super::source::{Extent, NUMBERING_BYTES_PER_PAGE, Source, Step, Synthetic};
use crate::failure::Failure;
use crate::machine::memory_available;
use crate::output;
use crate::size::Size;
use crate::trace::{page_bytes, page_size};

#[derive(Debug, Args)]
pub(super) struct RequestArgs {
    /// The trace.
    #[arg(long, value_name = "FILE", requires = "format")]
    trace: Option<PathBuf>,

    /// Format of the trace: plain, lis, oracle-general, vscsi or mezzanine.
    #[arg(long, value_name = "NAME", requires = "trace", conflicts_with = "synthetic")]
    format: Option<Format>,

    /// Size of a page; larger requests of the trace become several. Formats that count in pages do not use
    /// it.
    #[arg(long, value_name = "SIZE", default_value = "4KiB", value_parser = page_size, conflicts_with = "synthetic")]
    page_size: Size,

    /// A trace without a file: prod3 has pages of very different popularity, and no other pattern.
    #[arg(long, value_name = "NAME", conflicts_with = "trace")]
    synthetic: Option<Synthetic>,

    /// End after so many requests (default: all of a trace, 1,000,000 of a synthetic one).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    requests: Option<u64>,
}

/// What was read.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Seen {
    /// The file, or the name of the synthetic trace.
    trace: String,
    /// Different pages that were requested.
    pub(super) distinct_pages: u64,
    /// Evictions, commits and checkpoints in the trace, which are no requests.
    pub(super) marks: u64,
}

/// Distinct pages from which on it is looked whether there is memory for twice as many.
const PAGES_LOOKED_AT_FIRST: u64 = 1 << 20;
/// From which need on the user is told of it.
const MEMORY_WORTH_A_WORD: u64 = 1 << 30;

impl RequestArgs {
    /// The trace, if there is one, and its format.
    pub(super) fn trace(&self) -> Option<(&PathBuf, Format)> {
        Some((self.trace.as_ref()?, self.format?))
    }

    /// The size of a page in bytes.
    pub(super) fn page_bytes(&self) -> u32 {
        page_bytes(self.page_size)
    }

    /// The option that has a meaning only where every request is counted, if one was given.
    pub(super) fn counting_option(&self) -> Option<&'static str> {
        self.synthetic.map(|_| "--synthetic").or(self.requests.map(|_| "--requests"))
    }

    /// How many distinct pages the requests have.
    pub(super) fn distinct_pages(&self) -> Result<u64, Failure> {
        let bar = output::spinner("counting pages");
        let seen = self.each(|_| Ok(()));
        bar.finish_and_clear();
        Ok(seen?.distinct_pages)
    }

    /// Makes the requests to the caches of a curve.
    pub(super) fn make(&self, points: Vec<Setting>) -> Result<(Seen, Vec<Counted>), Failure> {
        let need = Curve::bytes(&points, 0);
        check_memory(need, "the caches")?;
        if need >= MEMORY_WORTH_A_WORD {
            output::note(&format!("the caches take {} of memory", Size(need)));
        }
        let growth = |pages| Curve::bytes(&points, pages) - need + pages * NUMBERING_BYTES_PER_PAGE;
        let mut looked_at = PAGES_LOOKED_AT_FIRST;
        let mut curve = Curve::new(points.clone());
        let bar = output::spinner("making requests");
        let mut pages = 0;
        let seen = self.each(|step| {
            match step {
                Step::Met(page) => {
                    pages += 1;
                    if pages > looked_at {
                        let more = growth(2 * pages) - growth(pages);
                        check_memory(more, "twice as many pages as were met so far")?;
                        looked_at = 2 * pages;
                    }
                    curve.meet(page);
                }
                Step::Made(access) => curve.request(access),
            }
            Ok(())
        });
        bar.finish_and_clear();
        Ok((seen?, curve.finish()))
    }

    /// Hands on each page that is met for the first time, and each request.
    fn each(&self, each: impl FnMut(Step) -> Result<(), Failure>) -> Result<Seen, Failure> {
        let source = match (&self.trace, self.format, self.synthetic) {
            (Some(path), Some(format), _) => Source::file(path, format, self.page_size, self.requests),
            (_, _, Some(synthetic)) => Source::synthetic(synthetic, self.requests),
            _ => {
                let reason = "required: there is nothing to make requests from";
                return Err(Failure::usage("--trace", reason)
                    .next("name a trace with --trace FILE --format NAME, or use --synthetic prod3"));
            }
        };
        let Extent { pages, marks } = source.each(each)?;
        Ok(Seen { trace: source.name(), distinct_pages: pages, marks })
    }
}

/// A point of a curve and what was counted there.
pub(super) type Counted = (Setting, Counts);

/// Refuses what the machine has no memory for.
fn check_memory(need: u64, what: &str) -> Result<(), Failure> {
    match memory_available() {
        Some(available) if need > available => {
            let reason =
                format!("needs {} for {what}, and the machine has {} left", Size(need), Size(available));
            Err(Failure::refused("memory", reason)
                .next("use fewer frames, fewer sizes at once or a smaller --history"))
        }
        _ => Ok(()),
    }
}
