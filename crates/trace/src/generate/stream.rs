//! Clients that work at the same time: each has steps before it, and takes some of them when it is its turn.

use std::collections::VecDeque;

use mezzanine_workload::Random;

use crate::request::{Op, Request};

/// Where steps come from.
pub(super) trait Source {
    /// The most requests that a client makes before another has its turn.
    fn turn_max(&self) -> u32;

    /// Appends a step or more of this client: a transaction, or a piece of one that is long.
    fn refill(&mut self, client: u32, steps: &mut Steps);

    /// The names of the kinds of transactions.
    fn kinds(&self) -> &'static [&'static str] {
        &["transaction"]
    }
}

/// What a client is about to do.
#[derive(Debug, Default)]
pub(super) struct Steps {
    queue: VecDeque<Step>,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    Page {
        op: Op,
        relation: u32,
        page: u64,
    },
    /// A transaction of this kind ends.
    Commit(u8),
    RollBack(u8),
}

impl Steps {
    pub(super) fn read(&mut self, relation: u32, page: u64) {
        self.queue.push_back(Step::Page { op: Op::Read, relation, page });
    }

    pub(super) fn write(&mut self, relation: u32, page: u64) {
        self.queue.push_back(Step::Page { op: Op::Write, relation, page });
    }

    /// The transaction ends with a mark; the only kind that its source has.
    pub(super) fn commit(&mut self) {
        self.commit_kind(0);
    }

    /// The transaction ends with a mark. Kinds are numbered as their source names them.
    pub(super) fn commit_kind(&mut self, kind: u8) {
        self.queue.push_back(Step::Commit(kind));
    }

    /// The transaction ends without a mark.
    pub(super) fn roll_back(&mut self, kind: u8) {
        self.queue.push_back(Step::RollBack(kind));
    }

    /// The page of the step that is `nth` in the queue, counted from 0, if it has one.
    #[inline]
    pub(super) fn page(&self, nth: usize) -> Option<u64> {
        match self.queue.get(nth)? {
            Step::Page { page, .. } => Some(*page),
            Step::Commit(_) | Step::RollBack(_) => None,
        }
    }

    /// Takes the next step.
    pub(super) fn pop(&mut self) -> Option<Step> {
        self.queue.pop_front()
    }
}

#[derive(Debug, Default)]
struct Client {
    steps: Steps,
    /// The transaction that it is in.
    transaction: Option<u64>,
}

pub(super) struct Stream {
    source: Box<dyn Source>,
    clients: Vec<Client>,
    /// Whether there are clients and transactions at all.
    is_benchmark: bool,
    random: Random,
    turn: u32,
    turn_left: u32,
    transactions: u64,
}

impl Stream {
    /// A stream of so many clients; `None` for requests that are nobody's.
    pub(super) fn new(source: Box<dyn Source>, clients: Option<u32>, random: Random) -> Stream {
        let clients_or_one = clients.unwrap_or(1) as usize;
        Stream {
            source,
            clients: std::iter::repeat_with(Client::default).take(clients_or_one).collect(),
            is_benchmark: clients.is_some(),
            random,
            turn: 0,
            turn_left: 0,
            transactions: 0,
        }
    }

    pub(super) fn next_request(&mut self) -> Request {
        loop {
            if self.turn_left == 0 {
                self.turn = self.random.uniform(0, self.clients.len() as u32 - 1);
                self.turn_left = self.random.uniform(1, self.source.turn_max());
            }
            let client = &mut self.clients[self.turn as usize];
            let Some(step) = client.steps.pop() else {
                self.source.refill(self.turn, &mut client.steps);
                continue;
            };
            let (op, relation, page) = match step {
                Step::Page { op, relation, page } => (op, relation, page),
                Step::Commit(_) => (Op::Commit, 0, 0),
                Step::RollBack(_) => {
                    client.transaction = None;
                    continue;
                }
            };
            let mut request = Request::of(op, page);
            request.relation = (relation != 0).then_some(relation);
            if self.is_benchmark {
                let transactions = &mut self.transactions;
                let transaction = *client.transaction.get_or_insert_with(|| {
                    *transactions += 1;
                    *transactions
                });
                (request.client, request.transaction) = (Some(self.turn), Some(transaction));
            }
            if op.is_mark() {
                client.transaction = None;
            } else {
                self.turn_left -= 1;
            }
            return request;
        }
    }
}
