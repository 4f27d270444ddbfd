//! Table-driven drives: a channel that all operations share, and a latency that they spend beside one
//! another.
//!
//! An operation occupies the channel for its cost and takes the pipeline latency on top, so that a lone
//! operation takes its minimum latency, and a deep queue gets the published rate: 1 / cost. Reads and writes
//! share the channel fairly, half each while both have work, each kind in order of arrival; so a page read is
//! not held up by all of a large append. The backlog of each kind is exact; the promise made to an operation
//! counts what is queued when it arrives, so later arrivals of the other kind delay the next operation and
//! not this one.

use super::spec::{CostRule, Figures, TableParameters};
use super::streams::Streams;

/// State of the channel. All zero is an idle drive at time 0.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct TableState {
    /// The backlogs are as of this time; in the future while a flush holds up the queue.
    as_of: u64,
    /// Work in ns that the channel still has to do for reads and for writes.
    reads: u64,
    writes: u64,
    read_streams: Streams,
    write_streams: Streams,
}

impl TableState {
    pub(super) const EMPTY: Self =
        Self { as_of: 0, reads: 0, writes: 0, read_streams: Streams::EMPTY, write_streams: Streams::EMPTY };
}

/// Costs of one direction, in ns.
#[derive(Debug, Clone)]
struct Costs {
    /// Channel time that a random operation takes beside that of its bytes (`Sum`), or at least (`Larger`).
    operation: f64,
    per_byte: f64,
    /// Time beside the channel.
    latency: u64,
    rule: CostRule,
}

impl Costs {
    fn new(iops: f64, mb_per_s: f64, latency_us: f64, request_bytes: u64, rule: CostRule) -> Self {
        let (channel, per_byte) = (1e9 / iops, 1e3 / mb_per_s);
        let operation = match rule {
            CostRule::Sum => channel - per_byte * request_bytes as f64,
            CostRule::Larger => channel,
        };
        Self { operation, per_byte, latency: (latency_us * 1e3 - channel).max(0.0) as u64, rule }
    }

    fn of(&self, len: u64, sequential: bool) -> u64 {
        let bytes = self.per_byte * len as f64;
        let cost = match self.rule {
            CostRule::Sum if sequential => bytes,
            CostRule::Sum => self.operation + bytes,
            CostRule::Larger => self.operation.max(bytes),
        };
        cost.round() as u64
    }
}

#[derive(Debug, Clone)]
pub(super) struct Table {
    read: Costs,
    write: Costs,
    flush: u64,
    flush_drains_queue: bool,
}

/// What became of an operation: completion and channel time in ns, and whether it continued a stream.
pub(super) struct Placed {
    pub(super) completion: u64,
    pub(super) busy: u64,
    pub(super) sequential: bool,
}

impl Table {
    pub(super) fn new(figures: &Figures, parameters: &TableParameters) -> Self {
        let (bytes, rule) = (figures.random_request_bytes, parameters.cost);
        let read = Costs::new(
            figures.read_random_iops,
            figures.read_sequential_mb_per_s,
            parameters.read_latency_us_min,
            bytes,
            rule,
        );
        let write = Costs::new(
            figures.write_random_iops,
            figures.write_sequential_mb_per_s,
            parameters.write_latency_us_min,
            bytes,
            rule,
        );
        let flush = (parameters.flush_us * 1e3) as u64;
        Self { read, write, flush, flush_drains_queue: parameters.flush_drains_queue }
    }

    pub(super) fn read(&self, state: &mut TableState, now: u64, address: u64, len: u64) -> Placed {
        state.advance(now);
        let sequential = state.read_streams.note(address, len);
        let busy = self.read.of(len, sequential);
        state.reads = state.reads.saturating_add(busy);
        let completion = state.promise(now, state.reads, state.writes).saturating_add(self.read.latency);
        Placed { completion, busy, sequential }
    }

    pub(super) fn write(&self, state: &mut TableState, now: u64, address: u64, len: u64) -> Placed {
        state.advance(now);
        let sequential = state.write_streams.note(address, len);
        let busy = self.write.of(len, sequential);
        state.writes = state.writes.saturating_add(busy);
        let completion = state.promise(now, state.writes, state.reads).saturating_add(self.write.latency);
        Placed { completion, busy, sequential }
    }

    pub(super) fn flush(&self, state: &mut TableState, now: u64) -> Placed {
        state.advance(now);
        let (reads, writes) = (state.reads, state.writes);
        if !self.flush_drains_queue {
            let completion = state.promise(now, writes, reads).saturating_add(self.flush);
            return Placed { completion, busy: 0, sequential: false };
        }
        let start = state.as_of.max(now).saturating_add(reads).saturating_add(writes);
        state.as_of = start.saturating_add(self.flush);
        (state.reads, state.writes) = (0, 0);
        Placed { completion: state.as_of, busy: self.flush, sequential: false }
    }
}

impl TableState {
    /// Lets the channel work until `now`.
    fn advance(&mut self, now: u64) {
        let Some(elapsed) = now.checked_sub(self.as_of) else { return };
        self.as_of = now;
        let shared = self.reads.min(self.writes);
        if elapsed < shared.saturating_mul(2) {
            self.reads -= elapsed / 2;
            self.writes -= elapsed - elapsed / 2;
        } else {
            let rest = elapsed - shared * 2;
            self.reads = (self.reads - shared).saturating_sub(rest);
            self.writes = (self.writes - shared).saturating_sub(rest);
        }
    }

    /// When a kind with `mine` work in front of it, its own included, is done, if the other kind gets no
    /// more.
    fn promise(&self, now: u64, mine: u64, other: u64) -> u64 {
        self.as_of.max(now).saturating_add(mine).saturating_add(mine.min(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(cost: CostRule) -> Table {
        let figures = Figures {
            read_random_iops: 50_000.0,
            write_random_iops: 10_000.0,
            read_sequential_mb_per_s: 500.0,
            write_sequential_mb_per_s: 400.0,
            random_request_bytes: 4096,
            sequential_request_bytes: 131_072,
            queue_depth: 32,
        };
        let parameters = TableParameters {
            read_latency_us_min: 100.0,
            write_latency_us_min: 30.0,
            flush_us: 1000.0,
            flush_drains_queue: true,
            cost,
        };
        Table::new(&figures, &parameters)
    }

    #[test]
    fn a_lone_operation_takes_its_minimum_latency() {
        let mut state = TableState::EMPTY;
        let placed = table(CostRule::Sum).read(&mut state, 1_000_000, 1 << 30, 4096);
        assert_eq!(placed.completion, 1_100_000);
        assert_eq!(placed.busy, 20_000);
        assert!(!placed.sequential);
    }

    #[test]
    fn a_page_read_is_not_held_up_by_all_of_a_large_append() {
        let (table, mut state) = (table(CostRule::Sum), TableState::EMPTY);
        table.write(&mut state, 0, 0, 1 << 20);
        let append = table.write(&mut state, 0, 1 << 20, 1 << 20);
        assert!(append.sequential && append.completion > 5_000_000);
        let read = table.read(&mut state, 0, 1 << 30, 4096);
        assert_eq!(read.completion, 2 * 20_000 + 80_000);
    }

    #[test]
    fn a_draining_flush_waits_for_everything_and_holds_up_everything() {
        let (table, mut state) = (table(CostRule::Sum), TableState::EMPTY);
        let read = table.read(&mut state, 0, 1 << 30, 4096);
        let write = table.write(&mut state, 0, 1 << 20, 4096);
        let flush = table.flush(&mut state, 0);
        assert_eq!(flush.completion, read.busy + write.busy + 1_000_000);
        let after = table.read(&mut state, 0, 1 << 31, 4096);
        assert_eq!(after.completion, flush.completion + 100_000);
    }

    #[test]
    fn mixed_work_never_exceeds_the_channel() {
        // Two closed loops, one of reads and one of large writes: the busy time may not exceed the time that
        // passes.
        let (table, mut state) = (table(CostRule::Sum), TableState::EMPTY);
        let (mut reads, mut writes) = ([0_u64; 16], [0_u64; 2]);
        let (mut busy, mut address, mut end) = (0, 0, 0);
        for step in 0..20_000_u64 {
            let read = reads.iter_mut().min().expect("there are clients");
            let write = writes.iter_mut().min().expect("there are clients");
            let placed = if *read <= *write {
                end = *read;
                let placed = table.read(&mut state, *read, (step * 7919) << 13, 4096);
                *read = placed.completion;
                placed
            } else {
                end = *write;
                address += 1 << 18;
                let placed = table.write(&mut state, *write, address, 1 << 18);
                *write = placed.completion;
                placed
            };
            busy += placed.busy;
        }
        let share = busy as f64 / end as f64;
        assert!((0.97..1.01).contains(&share), "the channel was busy for {share} of the time");
    }
}
