//! Three-tier caches carried out, under each trace once. They are run at the published size, which takes
//! seconds, and are not kept in a file.

use std::num::NonZero;

use super::report::Stream;
use super::threads::each;
use super::three_tier::approaches;
use crate::three_tier::{BufferTrace, Compared, Until, compare};

/// What came out so far.
#[derive(Debug)]
pub(super) struct Comparisons {
    done: Vec<(BufferTrace, Compared)>,
    /// How long each goes on.
    pub(super) until: Until,
}

impl Default for Comparisons {
    fn default() -> Self {
        Self { done: Vec::new(), until: Until::PUBLISHED }
    }
}

impl Comparisons {
    /// What came of the approaches under a trace.
    ///
    /// # Panics
    /// If they were not compared under it.
    pub(super) fn of(&self, trace: BufferTrace) -> &Compared {
        let found = self.done.iter().find(|(known, _)| *known == trace);
        &found.unwrap_or_else(|| panic!("{trace:?} is not among the traces that were declared")).1
    }

    pub(super) fn missing(&self, traces: &[BufferTrace]) -> Vec<BufferTrace> {
        let is_missing = |trace: &BufferTrace| self.done.iter().all(|(known, _)| known != trace);
        traces.iter().copied().filter(is_missing).collect()
    }

    /// Compares the approaches under those of the traces that are missing, so many at a time; `done` is
    /// called after each.
    pub(super) fn run(
        &mut self,
        traces: &[BufferTrace],
        seed: u64,
        threads: NonZero<usize>,
        done: &(dyn Fn() + Sync),
    ) {
        let until = self.until;
        let compared = each(self.missing(traces), threads, |trace| {
            let compared = compare(trace, seed, &approaches(trace), until);
            done();
            compared.map(|compared| (trace, compared))
        });
        self.done.extend(compared.expect("the published sizes can be"));
    }

    /// What stood for these traces.
    pub(super) fn streams(&self, traces: &[BufferTrace], seed: u64) -> Vec<Stream> {
        let stream = |trace: &BufferTrace| {
            let compared = self.of(*trace);
            Stream {
                trace: trace.name(),
                seed,
                references: compared.references,
                distinct_pages: compared.distinct_pages,
                requests: compared.requests,
            }
        };
        traces.iter().map(stream).collect()
    }
}
