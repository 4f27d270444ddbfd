//! How long requests took, by what served them.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

/// Decimal digits of a latency that are told apart: quantiles are off by less than 1 %.
const DIGITS: u8 = 2;
/// In nanoseconds, more than an hour; longer latencies count as that.
const LONGEST: u64 = 1 << 42;
/// Histograms of each kind, so that threads do not meet at one.
const STRIPES: usize = 8;

/// What a request was, or was served from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// A read that the cache device served all of.
    Cache,
    /// A read that the backing device served all of.
    Backing,
    /// A read that each of the two served a part of.
    Both,
    /// A write.
    Write,
    /// A flush.
    Flush,
    /// A discard.
    Discard,
    /// What a write or discard waited for its mark, of those that did.
    Mark,
}

impl Served {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Cache, Self::Backing, Self::Both, Self::Write, Self::Flush, Self::Discard, Self::Mark];

    /// The name used in output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cache => "read_cache",
            Self::Backing => "read_backing",
            Self::Both => "read_both",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::Discard => "discard",
            Self::Mark => "mark",
        }
    }
}

/// The latencies of one kind of request.
#[derive(Clone)]
pub struct Latency {
    /// Of nanoseconds.
    histogram: Histogram<u64>,
}

impl Latency {
    fn new() -> Self {
        Self { histogram: Histogram::new_with_bounds(1, LONGEST, DIGITS).expect("the bounds are apart") }
    }

    /// How many requests.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Their mean.
    pub fn mean(&self) -> Duration {
        Duration::from_nanos(self.histogram.mean() as u64)
    }

    /// The longest.
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.histogram.max())
    }

    /// What a share of them (0 to 1) stayed within.
    pub fn quantile(&self, share: f64) -> Duration {
        Duration::from_nanos(self.histogram.value_at_quantile(share))
    }

    /// How many took no longer than this.
    pub fn within(&self, limit: Duration) -> u64 {
        let limit = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX).min(LONGEST);
        self.histogram.count_between(0, limit)
    }
}

impl std::fmt::Debug for Latency {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Latency({} of {:?} in the mean)", self.count(), self.mean())
    }
}

type Stripe = Mutex<Vec<Latency>>;

pub(crate) struct Latencies([Stripe; STRIPES]);

thread_local! {
    static STRIPE: Cell<Option<usize>> = const { Cell::new(None) };
}

fn stripe() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    STRIPE.with(|mine| {
        let number = mine.get().unwrap_or_else(|| NEXT.fetch_add(1, Relaxed) % STRIPES);
        mine.set(Some(number));
        number
    })
}

impl Latencies {
    pub(crate) fn new() -> Self {
        Self(std::array::from_fn(|_| Mutex::new(Served::ALL.map(|_| Latency::new()).into())))
    }

    pub(crate) fn record(&self, served: Served, since: Instant) {
        let ns = u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let mut stripe = self.0[stripe()].lock().unwrap_or_else(PoisonError::into_inner);
        stripe[served as usize].histogram.saturating_record(ns);
    }

    pub(crate) fn of(&self, served: Served) -> Latency {
        let mut all = Latency::new();
        for stripe in &self.0 {
            let stripe = stripe.lock().unwrap_or_else(PoisonError::into_inner);
            all.histogram.add(&stripe[served as usize].histogram).expect("all have the same bounds");
        }
        all
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn latencies_of_all_threads_add_up() {
        let latencies = Latencies::new();
        let long_ago = Instant::now().checked_sub(Duration::from_millis(20)).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| latencies.record(Served::Write, long_ago));
            }
        });
        latencies.record(Served::Write, Instant::now());
        let found = latencies.of(Served::Write);
        assert_eq!((found.count(), latencies.of(Served::Cache).count()), (21, 0));
        assert!(found.quantile(0.5) >= Duration::from_millis(19) && found.max() >= found.mean());
        assert_eq!(found.within(Duration::from_millis(10)), 1);
    }
}
