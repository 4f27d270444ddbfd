//! Where clients' requests come from: a generator, or a trace that is replayed.
//!
//! A trace is cut into transactions, which are handed out whole, in its order, to whichever client is free.
//! They end with their commit; where the trace names transactions, with the next one of the same client; and
//! where it has neither, after a number of requests.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;

use mezzanine_trace::{ClientStep, Clients, Dense, Format, Op, Reader, Request, open};

use super::setup::Refusal;
use crate::policy::Access;

/// What a client is to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    Request(Access),
    /// Its transaction ends.
    End {
        kind: u8,
        committed: bool,
    },
    /// There is nothing left for it.
    Finished,
}

/// Requests for all clients.
pub(super) enum Source {
    Generated {
        clients: Clients,
        /// For shapes without transactions: requests of each, and how far each client's is and whether it
        /// has written.
        cut: Option<(u32, Vec<(u32, bool)>)>,
    },
    Trace(Box<Replay>),
}

impl Source {
    pub(super) fn generated(clients: Clients, count: u32, requests: Option<u32>) -> Self {
        let cut = requests.map(|requests| (requests.max(1), vec![(0, false); count as usize]));
        Self::Generated { clients, cut }
    }

    pub(super) fn kinds(&self) -> &'static [&'static str] {
        match self {
            Self::Generated { clients, .. } => clients.kinds(),
            Self::Trace(_) => &["transaction"],
        }
    }

    /// What a client does next.
    ///
    /// # Errors
    /// What is wrong with the trace.
    #[inline]
    pub(super) fn next(&mut self, client: u32) -> Result<Next, Refusal> {
        match self {
            Self::Generated { clients, cut } => Ok(generated(clients, cut.as_mut(), client)),
            Self::Trace(replay) => replay.next(client),
        }
    }

    /// The page of a client's request that is `nth` after the next, as far as that is known.
    #[inline]
    pub(super) fn later(&self, client: u32, nth: usize) -> Option<u32> {
        match self {
            Self::Generated { clients, .. } => clients.later(client, nth),
            Self::Trace(replay) => Some(replay.clients[client as usize].accesses.get(nth)?.page()),
        }
    }

    /// Pages that were met so far, and where they lie, if that is not at their numbers.
    pub(super) fn places(&self) -> Option<&[u64]> {
        match self {
            Self::Generated { .. } => None,
            Self::Trace(replay) => Some(&replay.places),
        }
    }
}

#[inline]
fn generated(clients: &mut Clients, cut: Option<&mut (u32, Vec<(u32, bool)>)>, client: u32) -> Next {
    let cut = cut.map(|(most, clients)| (*most, &mut clients[client as usize]));
    if let Some((most, (requests, wrote))) = cut {
        if *requests == most {
            let committed = *wrote;
            (*requests, *wrote) = (0, false);
            return Next::End { kind: 0, committed };
        }
        let step = clients.next(client);
        *requests += 1;
        *wrote |= matches!(step, ClientStep::Page { write: true, .. });
        return next_of(step);
    }
    next_of(clients.next(client))
}

#[inline]
fn next_of(step: ClientStep) -> Next {
    match step {
        ClientStep::Page { page, write: false } => Next::Request(Access::read(page)),
        ClientStep::Page { page, write: true } => Next::Request(Access::write(page)),
        ClientStep::End { kind, committed } => Next::End { kind, committed },
    }
}

/// A trace, and what was read of it.
pub(super) struct Replay {
    reader: Reader,
    /// Requests of a transaction where the trace has none.
    requests: u32,
    numbers: Dense,
    /// By number: the page as the trace names it.
    places: Vec<u64>,
    /// Transactions that have not ended, by the trace's clients.
    open: BTreeMap<u32, Transaction>,
    /// Those that have, in the order in which they did.
    ended: VecDeque<Transaction>,
    /// What each client has before it.
    clients: Vec<Transaction>,
}

/// Requests of a transaction.
#[derive(Debug, Default)]
struct Transaction {
    accesses: VecDeque<Access>,
    /// The trace's number of it.
    number: Option<u64>,
    committed: bool,
    /// It is somebody's, who has to be told of its end.
    begun: bool,
}

/// Requests after which a transaction ends that the trace does not end, so that memory is bounded.
const REQUESTS_MAX: usize = 1 << 20;

impl Replay {
    /// # Errors
    /// Why the trace cannot be read.
    pub(super) fn open(
        path: &Path,
        format: Format,
        page_bytes: u32,
        clients: u32,
        requests: u32,
    ) -> Result<Self, Refusal> {
        let reader = open(path, format, page_bytes).map_err(|error| refusal(&error))?;
        Ok(Self {
            reader,
            requests: requests.max(1),
            numbers: Dense::new(),
            places: Vec::new(),
            open: BTreeMap::new(),
            ended: VecDeque::new(),
            clients: std::iter::repeat_with(Transaction::default).take(clients as usize).collect(),
        })
    }

    fn next(&mut self, client: u32) -> Result<Next, Refusal> {
        let mine = &mut self.clients[client as usize];
        if let Some(access) = mine.accesses.pop_front() {
            return Ok(Next::Request(access));
        }
        if std::mem::take(&mut mine.begun) {
            return Ok(Next::End { kind: 0, committed: mine.committed });
        }
        while self.ended.is_empty() {
            match self.reader.next() {
                Some(request) => self.note(&request.map_err(|error| refusal(&error))?),
                None if self.open.is_empty() => return Ok(Next::Finished),
                None => {
                    let last = std::mem::take(&mut self.open);
                    self.ended.extend(last.into_values().filter(|open| !open.accesses.is_empty()));
                    if self.ended.is_empty() {
                        return Ok(Next::Finished);
                    }
                }
            }
        }
        let mut next = self.ended.pop_front().unwrap_or_default();
        next.begun = true;
        self.clients[client as usize] = next;
        self.next(client)
    }

    fn note(&mut self, request: &Request) {
        let client = request.client.unwrap_or(0);
        let is_anonymous = request.client.is_none() && request.transaction.is_none();
        let limit = if is_anonymous { self.requests as usize } else { REQUESTS_MAX };
        let open = self.open.entry(client).or_default();
        let is_other = open.number != request.transaction && !open.accesses.is_empty();
        if is_other || open.accesses.len() >= limit {
            let mut left = std::mem::take(open);
            // Nobody says of these whether they are committed: they are if they wrote.
            left.committed = is_anonymous && left.accesses.iter().any(|access| access.is_write());
            self.ended.push_back(left);
        }
        let open = self.open.entry(client).or_default();
        open.number = request.transaction;
        match request.op {
            Op::Read | Op::Write => {
                let number = self.numbers.number(request.page);
                if number as usize == self.places.len() {
                    self.places.push(request.page);
                }
                let is_write = request.op == Op::Write;
                let access = if is_write { Access::write(number) } else { Access::read(number) };
                open.accesses.push_back(access);
            }
            Op::Commit => {
                let mut left = std::mem::take(open);
                left.committed = true;
                self.open.remove(&client);
                if !left.accesses.is_empty() {
                    self.ended.push_back(left);
                }
            }
            // Evictions were another pool's, and checkpoints come when this simulation has them.
            Op::EvictClean | Op::EvictDirty | Op::Checkpoint => {}
        }
    }
}

fn refusal(error: &mezzanine_trace::TraceError) -> Refusal {
    Refusal::new("trace", error.to_string(), String::new())
}
