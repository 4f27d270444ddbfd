//! A modelled drive under loads, in virtual time: figures do not depend on the machine.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::Duration;

use mezzanine_device::model::{Operation, OperationKind, Progress, Ticket, Timing};

use super::{Client, Load, Observer, Step, Tally};

/// Size of the writes that fill what is measured.
pub const FILL_BYTES: u64 = 1 << 20;

/// A modelled drive with its state and its clock.
#[derive(Clone)]
pub struct VirtualDrive {
    timing: Arc<dyn Timing>,
    state: Box<[u64]>,
    now: u64,
    /// Whether it carries writes through its cache by itself; for others the host flushes after them.
    has_fua: bool,
}

/// What a client waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doing {
    Read,
    Write,
    /// A write that the host makes durable by a flush.
    WriteToFlush,
    Fsync,
}

/// A client under way.
struct Runner {
    client: Client,
    doing: Option<Doing>,
    operation: Operation,
    since: u64,
    ticket: Option<Ticket>,
}

impl VirtualDrive {
    /// A drive that was never used.
    pub fn new(timing: Arc<dyn Timing>, has_fua: bool) -> Self {
        Self { state: timing.idle(), timing, now: 0, has_fua }
    }

    /// Writes the first `span_bytes`, from the beginning on, and flushes; `filled` is told the bytes.
    pub fn fill(&mut self, span_bytes: u64, filled: &mut dyn FnMut(u64)) {
        let mut offset = 0;
        while offset < span_bytes {
            let len = FILL_BYTES.min(span_bytes - offset);
            let operation = self.timing.operation(OperationKind::Write, offset, len);
            self.carry_out(operation);
            offset += len;
            filled(offset);
        }
        self.settle(Duration::from_secs(1));
    }

    /// Empties the write cache, so that no load pays for the one before: flushes, and then does nothing for a
    /// while, since not every flush empties it.
    pub fn settle(&mut self, rest: Duration) {
        self.carry_out(Operation::FLUSH);
        self.now += rest.as_nanos() as u64;
    }

    /// Lets time go by until an operation that is alone is complete.
    fn carry_out(&mut self, operation: Operation) {
        let mut ticket = loop {
            match self.timing.submit(&mut self.state, self.now, operation) {
                Ok(submitted) => break submitted.ticket,
                Err(full) => self.now = full.not_before.max(self.now + 1),
            }
        };
        loop {
            match self.timing.progress(&mut self.state, self.now, &mut ticket) {
                Progress::At(at) => {
                    self.now = self.now.max(at);
                    return;
                }
                Progress::NotBefore(at) => self.now = at.max(self.now + 1),
            }
        }
    }

    /// Runs a load over the first `span_bytes` for this time, up to the ends of rounds; before, for as long
    /// without the observer, if it warms up. Returns how long it took.
    pub fn run(
        &mut self,
        load: Load,
        span_bytes: u64,
        time: Duration,
        seed: u64,
        observer: &mut dyn Observer,
    ) -> Duration {
        if load.warm_up {
            self.run_once(load, span_bytes, time, !seed, &mut Tally::default());
        }
        self.run_once(load, span_bytes, time, seed, observer)
    }

    fn run_once(
        &mut self,
        load: Load,
        span_bytes: u64,
        time: Duration,
        seed: u64,
        observer: &mut dyn Observer,
    ) -> Duration {
        let began = self.now;
        let until = began.saturating_add(time.as_nanos() as u64);
        let mut look: BinaryHeap<_> = (0..load.clients).map(|client| Reverse((began, client))).collect();
        let mut runners: Vec<Runner> = (0..load.clients)
            .map(|number| Runner {
                client: load.client(number, span_bytes, seed),
                doing: None,
                operation: Operation::FLUSH,
                since: began,
                ticket: None,
            })
            .collect();
        let mut last = began;
        while let Some(Reverse((at, number))) = look.pop() {
            self.now = self.now.max(at);
            let runner = &mut runners[number];
            if let Some(next) = self.advance(runner, load, until, &mut last, observer) {
                look.push(Reverse((next, number)));
            }
        }
        Duration::from_nanos(last - began)
    }

    /// Carries one client on. Returns when to look at it again, if at all.
    fn advance(
        &mut self,
        runner: &mut Runner,
        load: Load,
        until: u64,
        last: &mut u64,
        observer: &mut dyn Observer,
    ) -> Option<u64> {
        let now = self.now;
        if let Some(ticket) = &mut runner.ticket {
            match self.timing.progress(&mut self.state, now, ticket) {
                Progress::At(at) if at <= now => {
                    runner.ticket = None;
                    self.completed(runner, last, observer);
                    return Some(now);
                }
                Progress::At(at) => {
                    *ticket = Ticket::known(at);
                    return Some(at);
                }
                Progress::NotBefore(at) => return Some(at.max(now + 1)),
            }
        }
        if runner.doing.is_none() {
            if runner.client.is_over() || (now >= until && runner.client.may_end()) {
                return None;
            }
            let step = runner.client.step();
            if let Step::Rest(time) = step {
                *last = (*last).max(now + time.as_nanos() as u64);
                return Some(now + time.as_nanos() as u64);
            }
            self.begin(runner, load, step);
        }
        match self.timing.submit(&mut self.state, now, runner.operation) {
            Ok(submitted) => {
                runner.ticket = Some(submitted.ticket);
                Some(now)
            }
            Err(full) => Some(full.not_before.max(now + 1)),
        }
    }

    fn begin(&self, runner: &mut Runner, load: Load, step: Step) {
        let operation = |kind, offset| self.timing.operation(kind, offset, load.request_bytes);
        let (doing, operation) = match step {
            Step::Read(offset) => (Doing::Read, operation(OperationKind::Read, offset)),
            Step::Write(offset) => (Doing::Write, operation(OperationKind::Write, offset)),
            Step::WriteThrough(offset) => {
                let doing = if self.has_fua { Doing::Write } else { Doing::WriteToFlush };
                (doing, Operation { through: true, ..operation(OperationKind::Write, offset) })
            }
            Step::Fsync | Step::Rest(_) => (Doing::Fsync, Operation::FLUSH),
        };
        (runner.doing, runner.operation, runner.since) = (Some(doing), operation, self.now);
    }

    fn completed(&self, runner: &mut Runner, last: &mut u64, observer: &mut dyn Observer) {
        let took = Duration::from_nanos(self.now - runner.since);
        match runner.doing {
            Some(Doing::WriteToFlush) => {
                // The request goes on with its flush.
                (runner.doing, runner.operation) = (Some(Doing::Write), Operation::FLUSH);
                return;
            }
            Some(Doing::Read) => observer.read(took),
            Some(Doing::Write) => observer.write(took),
            Some(Doing::Fsync) => observer.fsync(took),
            None => {}
        }
        runner.doing = None;
        *last = (*last).max(self.now);
    }
}
