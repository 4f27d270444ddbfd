//! What a run measured.

use std::time::{Duration, Instant};

use crate::histogram::Histogram;
use crate::population::Population;
use crate::request::TransactionType;

/// The transactions of one type in the measured interval.
#[derive(Clone, Debug, Default)]
pub struct TypeReport {
    /// Committed.
    pub committed: u64,
    /// New-Orders rolled back since their last item does not exist: one in a hundred, as the specification
    /// has it. They count neither as committed nor in the latencies.
    pub rolled_back: u64,
    /// Attempts that another transaction was in the way of, and that were run again.
    pub retries: u64,
    /// From the first attempt's begin to the commit's return.
    pub latency: Histogram,
}

impl TypeReport {
    fn merge(&mut self, other: &TypeReport) {
        self.committed += other.committed;
        self.rolled_back += other.rolled_back;
        self.retries += other.retries;
        self.latency.merge(&other.latency);
    }
}

/// What a run measured.
#[derive(Clone, Debug)]
pub struct RunReport {
    /// The population that it ran on, which says whether the scale is the standard one.
    pub population: Population,
    /// Clients.
    pub clients: u32,
    /// What the requests were made from.
    pub seed: u64,
    /// How long clients ran before the measured interval.
    pub warm_up: Duration,
    /// The measured interval.
    pub elapsed: Duration,
    /// Transactions committed before the measured interval.
    pub warm_up_transactions: u64,
    /// By type, in the order of [`TransactionType::ALL`].
    pub types: [TypeReport; 5],
    /// Commits by type in each second of the measured interval; the last second may be cut short.
    pub seconds: Vec<[u64; 5]>,
    /// Districts that a Delivery found nothing to deliver in.
    pub deliveries_skipped: u64,
}

impl RunReport {
    /// The transactions of a type.
    pub fn of(&self, kind: TransactionType) -> &TypeReport {
        &self.types[kind.index()]
    }

    /// Committed transactions of all types.
    pub fn committed(&self) -> u64 {
        self.types.iter().map(|report| report.committed).sum()
    }

    /// Attempts of all types that were run again.
    pub fn retries(&self) -> u64 {
        self.types.iter().map(|report| report.retries).sum()
    }

    /// Committed New-Orders per minute of the measured interval.
    ///
    /// It has the definition of tpmC but for the rolled back New-Orders, which are left out. It is no tpmC:
    /// that is an audited figure, with think times, response time limits and a two-hour run.
    pub fn new_orders_per_minute(&self) -> f64 {
        60.0 * self.per_second(self.of(TransactionType::NewOrder).committed)
    }

    /// Committed transactions of all types per second.
    pub fn transactions_per_second(&self) -> f64 {
        self.per_second(self.committed())
    }

    /// Nothing per second when the run was stopped before it measured.
    fn per_second(&self, count: u64) -> f64 {
        if self.elapsed.is_zero() { 0.0 } else { count as f64 / self.elapsed.as_secs_f64() }
    }
}

/// What one client counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClientReport {
    pub(crate) types: [TypeReport; 5],
    pub(crate) seconds: Vec<[u64; 5]>,
    pub(crate) deliveries_skipped: u64,
    /// When the last transaction of the measured interval ended.
    pub(crate) last_end: Option<Instant>,
}

impl ClientReport {
    pub(crate) fn committed(&mut self, kind: TransactionType, since_start: Duration, latency: Duration) {
        let report = &mut self.types[kind.index()];
        report.committed += 1;
        report.latency.record(latency);
        let second = since_start.as_secs() as usize;
        if self.seconds.len() <= second {
            self.seconds.resize(second + 1, [0; 5]);
        }
        self.seconds[second][kind.index()] += 1;
    }

    pub(crate) fn merge(&mut self, other: &ClientReport) {
        for (mine, theirs) in self.types.iter_mut().zip(&other.types) {
            mine.merge(theirs);
        }
        if self.seconds.len() < other.seconds.len() {
            self.seconds.resize(other.seconds.len(), [0; 5]);
        }
        for (mine, theirs) in self.seconds.iter_mut().zip(&other.seconds) {
            for (mine, theirs) in mine.iter_mut().zip(theirs) {
                *mine += theirs;
            }
        }
        self.deliveries_skipped += other.deliveries_skipped;
        self.last_end = self.last_end.max(other.last_end);
    }
}
