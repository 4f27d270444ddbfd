//! Clients that are asked one by one, each at a time of the asker's choosing: what a simulation with a clock
//! of its own needs.

use crate::request::Op;

use super::stream::{Source, Step, Steps};

/// What a client does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientStep {
    /// It asks for a page.
    Page {
        /// Which one, from 0.
        page: u32,
        /// Whether it changes it.
        write: bool,
    },
    /// Its transaction ends.
    End {
        /// Which of [`Clients::kinds`] it was.
        kind: u8,
        /// Committed; if not, rolled back.
        committed: bool,
    },
}

/// The clients of a benchmark.
///
/// `zipf` and `uniform` have no transactions: their clients never end one.
pub struct Clients {
    source: Box<dyn Source>,
    steps: Vec<Steps>,
}

impl Clients {
    pub(super) fn new(source: Box<dyn Source>, clients: u32) -> Clients {
        Clients { source, steps: std::iter::repeat_with(Steps::default).take(clients as usize).collect() }
    }

    /// The names of the kinds of transactions.
    pub fn kinds(&self) -> &'static [&'static str] {
        self.source.kinds()
    }

    /// What a client does next.
    ///
    /// # Panics
    /// If there is no client of this number.
    #[inline]
    pub fn next(&mut self, client: u32) -> ClientStep {
        loop {
            let steps = &mut self.steps[client as usize];
            match steps.pop() {
                Some(Step::Page { op, page, .. }) => {
                    return ClientStep::Page { page: page as u32, write: op == Op::Write };
                }
                Some(Step::Commit(kind)) => return ClientStep::End { kind, committed: true },
                Some(Step::RollBack(kind)) => return ClientStep::End { kind, committed: false },
                None => self.source.refill(client, steps),
            }
        }
    }

    /// The page that a client asks for in the step that is `nth` after the next, counted from 0: as far as it
    /// is known already, and if it is a page. For hosts that prepare for it.
    ///
    /// # Panics
    /// If there is no client of this number.
    #[inline]
    pub fn later(&self, client: u32, nth: usize) -> Option<u32> {
        self.steps[client as usize].page(nth).map(|page| page as u32)
    }
}
