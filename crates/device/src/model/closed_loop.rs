//! Clients in virtual time: each has one operation under way and submits the next when that completes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::timing::{Operation, Progress, Ticket, Timing};

/// A closed loop without think time.
#[derive(Debug, Clone, Copy)]
pub struct ClosedLoop {
    /// Operations under way at any time.
    pub clients: usize,
    /// Operations that are not counted, until the queues are as they will stay.
    pub warm_up: u64,
    /// Operations that are counted.
    pub operations: u64,
}

/// What came out of a closed loop.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome {
    /// Completed operations per second of model time.
    pub per_second: f64,
    /// Bytes per second of model time, in 10^6.
    pub mb_per_s: f64,
    /// Mean time of an operation in microseconds.
    pub response_us_mean: f64,
    /// Longest time of an operation in microseconds.
    pub response_us_max: f64,
    /// Share of the time that the spindles or channels were busy.
    pub utilisation: f64,
}

/// Runs a closed loop against a fresh drive. `next` makes the operations, numbered from 0 in order of
/// submission.
pub fn closed_loop(
    timing: &dyn Timing,
    setup: ClosedLoop,
    mut next: impl FnMut(u64) -> Operation,
) -> Outcome {
    let mut state = timing.idle();
    let mut run =
        Run { timing, state: &mut state, heap: BinaryHeap::new(), clients: Vec::new(), submitted: 0 };
    for client in 0..setup.clients {
        run.clients.push(Client { submitted_at: 0, len: 0, ticket: None });
        run.submit(client, 0, &mut next);
    }
    let (mut completed, mut bytes, mut response_sum, mut response_max) = (0_u64, 0_u64, 0_u64, 0_u64);
    let (mut began_at, mut busy_before, mut now) = (0, 0, 0);
    while completed < setup.warm_up + setup.operations {
        let Some(Reverse((time, client))) = run.heap.pop() else { break };
        now = time;
        let Some(ticket) = &mut run.clients[client].ticket else {
            run.submit(client, now, &mut next);
            continue;
        };
        match timing.progress(run.state, now, ticket) {
            Progress::At(at) if at <= now => {}
            Progress::At(at) => {
                run.clients[client].ticket = Some(Ticket::known(at));
                run.heap.push(Reverse((at, client)));
                continue;
            }
            Progress::NotBefore(at) => {
                run.heap.push(Reverse((at, client)));
                continue;
            }
        }
        completed += 1;
        if completed == setup.warm_up {
            (began_at, busy_before) = (now, timing.busy(run.state));
        } else if completed > setup.warm_up {
            let response = now - run.clients[client].submitted_at;
            response_sum += response;
            response_max = response_max.max(response);
            bytes += run.clients[client].len;
        }
        run.submit(client, now, &mut next);
    }
    let seconds = (now - began_at).max(1) as f64 / 1e9;
    let busy = (timing.busy(run.state) - busy_before) as f64 / 1e9;
    Outcome {
        per_second: setup.operations as f64 / seconds,
        mb_per_s: bytes as f64 / 1e6 / seconds,
        response_us_mean: response_sum as f64 / 1e3 / setup.operations.max(1) as f64,
        response_us_max: response_max as f64 / 1e3,
        utilisation: busy / seconds / f64::from(timing.servers()),
    }
}

struct Client {
    submitted_at: u64,
    len: u64,
    ticket: Option<Ticket>,
}

struct Run<'r> {
    timing: &'r dyn Timing,
    state: &'r mut [u64],
    /// When to look at which client next.
    heap: BinaryHeap<Reverse<(u64, usize)>>,
    clients: Vec<Client>,
    submitted: u64,
}

impl Run<'_> {
    fn submit(&mut self, client: usize, now: u64, next: &mut impl FnMut(u64) -> Operation) {
        let operation = next(self.submitted);
        match self.timing.submit(self.state, now, operation) {
            Ok(submitted) => {
                self.submitted += 1;
                let ticket = Some(submitted.ticket);
                self.clients[client] = Client { submitted_at: now, len: operation.len, ticket };
                self.heap.push(Reverse((now, client)));
            }
            Err(full) => {
                self.clients[client].ticket = None;
                self.heap.push(Reverse((full.not_before.max(now + 1), client)));
            }
        }
    }
}
