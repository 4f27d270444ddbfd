//! What a modelled drive has done.

use serde::Serialize;

use crate::model::OperationKind;

/// Sums in shared memory, in model time: any bytes are valid.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counters {
    pub(super) reads: Kind,
    pub(super) writes: Kind,
    pub(super) flushes: Kind,
    pub(super) discards: u64,
    pub(super) late_ns: u64,
    /// Model time at which counting began.
    pub(super) began_at: u64,
}

#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Kind {
    count: u64,
    bytes: u64,
    sequential: u64,
    response_ns: u64,
}

impl Counters {
    /// The sums of a kind of operation. Discards are counted where they are entered, without times.
    fn kind(&mut self, kind: OperationKind) -> Option<&mut Kind> {
        match kind {
            OperationKind::Read => Some(&mut self.reads),
            OperationKind::Write => Some(&mut self.writes),
            OperationKind::Flush => Some(&mut self.flushes),
            OperationKind::Discard | OperationKind::Reset | OperationKind::Finish => None,
        }
    }

    /// Counts an operation that was entered.
    pub(super) fn entered(&mut self, kind: OperationKind, len: u64, sequential: bool) {
        let Some(sums) = self.kind(kind) else { return };
        sums.count = sums.count.wrapping_add(1);
        sums.bytes = sums.bytes.wrapping_add(len);
        sums.sequential = sums.sequential.wrapping_add(u64::from(sequential));
    }

    /// Adds the time of an operation whose completion is known.
    pub(super) fn completed(&mut self, kind: OperationKind, response_ns: u64) {
        let Some(sums) = self.kind(kind) else { return };
        sums.response_ns = sums.response_ns.wrapping_add(response_ns);
    }

    pub(super) fn statistics(&self, now: u64, busy_ns: u64, servers: u32) -> Statistics {
        Statistics {
            reads: self.reads.count,
            writes: self.writes.count,
            flushes: self.flushes.count,
            discards: self.discards,
            bytes_read: self.reads.bytes,
            bytes_written: self.writes.bytes,
            sequential_reads: self.reads.sequential,
            sequential_writes: self.writes.sequential,
            read_response_ns: self.reads.response_ns,
            write_response_ns: self.writes.response_ns,
            flush_response_ns: self.flushes.response_ns,
            late_ns: self.late_ns,
            busy_ns,
            elapsed_ns: now.saturating_sub(self.began_at),
            servers,
        }
    }
}

/// What a modelled drive has done for all its users together. All times are model time. What is done at time
/// scale 0 is not counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Statistics {
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Discards.
    pub discards: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Reads that began where a recent one ended.
    pub sequential_reads: u64,
    /// Writes that began where a recent one ended.
    pub sequential_writes: u64,
    /// Sum of the times of reads from entry to completion.
    pub read_response_ns: u64,
    /// Sum of the times of writes from entry to completion.
    pub write_response_ns: u64,
    /// Sum of the times of flushes from entry to completion.
    pub flush_response_ns: u64,
    /// By how much callers were let go after the modelled completion, in total: what the machine added to
    /// the model.
    pub late_ns: u64,
    /// Time that the spindles or channels were busy, added up.
    pub busy_ns: u64,
    /// Time that passed.
    pub elapsed_ns: u64,
    /// Spindles or channels.
    pub servers: u32,
}

impl Statistics {
    /// What was done between an earlier look and this one.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            reads: self.reads.saturating_sub(earlier.reads),
            writes: self.writes.saturating_sub(earlier.writes),
            flushes: self.flushes.saturating_sub(earlier.flushes),
            discards: self.discards.saturating_sub(earlier.discards),
            bytes_read: self.bytes_read.saturating_sub(earlier.bytes_read),
            bytes_written: self.bytes_written.saturating_sub(earlier.bytes_written),
            sequential_reads: self.sequential_reads.saturating_sub(earlier.sequential_reads),
            sequential_writes: self.sequential_writes.saturating_sub(earlier.sequential_writes),
            read_response_ns: self.read_response_ns.saturating_sub(earlier.read_response_ns),
            write_response_ns: self.write_response_ns.saturating_sub(earlier.write_response_ns),
            flush_response_ns: self.flush_response_ns.saturating_sub(earlier.flush_response_ns),
            late_ns: self.late_ns.saturating_sub(earlier.late_ns),
            busy_ns: self.busy_ns.saturating_sub(earlier.busy_ns),
            elapsed_ns: self.elapsed_ns.saturating_sub(earlier.elapsed_ns),
            servers: self.servers,
        }
    }

    /// Reads, writes and flushes.
    pub fn operations(&self) -> u64 {
        self.reads + self.writes + self.flushes
    }

    /// Share of the time that the spindles or channels were busy, 0 to 1.
    pub fn utilisation(&self) -> f64 {
        ratio(self.busy_ns, self.elapsed_ns) / f64::from(self.servers.max(1))
    }

    /// Operations under way on average (Little's law: the times of all operations over the time that passed).
    pub fn queue_depth_mean(&self) -> f64 {
        ratio(self.read_response_ns + self.write_response_ns + self.flush_response_ns, self.elapsed_ns)
    }

    /// Mean time of a write in microseconds.
    pub fn write_response_us_mean(&self) -> f64 {
        ratio(self.write_response_ns, self.writes) / 1e3
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
