//! Sizing: how the cache would do if it were smaller or larger, or had fragments of another size, while it is
//! used.
//!
//! For each size there is a *miniature*: the fragment cache itself, without devices and data, which gets
//! those requests that are for a sample of the fragments, and has room for as large a share of them as the
//! cache would have of all (C. A. Waldspurger, T. Saemundsson, I. Ahmad and N. Park, "Cache Modeling and
//! Optimization using Miniature Simulations", ATC 2017, section 3). So there is no second policy: fragment
//! table, CLOCK, list of misses, throttle and copies of writes are the cache's own. A fragment is in the
//! sample if the hash of its number is below a threshold (the same and others, "Efficient MRC Construction
//! with SHARDS", FAST 2015, section 3.1); nearly all requests of a large cache are done with after that.
//!
//! What a miniature counts is of a share of the fragments, so misses and bytes of all are as many times more.
//! Misses of the sample are set against the reads of all, and not against those of the sample: a fragment
//! that many read is in the cache, and whether it is in the sample as well says nothing of misses (FAST 2015,
//! section 3.4, "SHARDS-adj").
//!
//! 1. Memory is computed before start, and never more than was asked for; it depends neither on the cache's
//!    size nor on that of its volumes.
//! 2. A miniature has numbers for more fragments than its engine can keep something of.
//! 3. The same requests at the same times give the same table.
//! 4. No request waits: one that finds the miniatures in use is not noted, and counted.

mod miniature;

mod numbers;

mod pace;

mod sample;

mod table;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::cache::Cache;
use crate::config::ConfigError;
use crate::geometry::Geometry;
use crate::read::{PIECES_MAX, Piece};

use miniature::{Counted, Does, Miniature};
use sample::Sample;

pub use table::{SizingRow, SizingTable};

/// A size that is of interest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizingPoint {
    /// Room for fragments on the cache device, in bytes.
    pub cache_bytes: u64,
    /// Bytes of a fragment: a power of two from [`FRAGMENT_BYTES_MIN`](crate::FRAGMENT_BYTES_MIN) to
    /// [`FRAGMENT_BYTES_MAX`](crate::FRAGMENT_BYTES_MAX).
    pub fragment_bytes: u64,
}

/// What is to be found out, and what that may take.
#[derive(Clone, Debug, PartialEq)]
pub struct SizingConfig {
    /// The sizes.
    pub points: Vec<SizingPoint>,
    /// Most memory in bytes.
    pub memory_bytes: u64,
    /// Largest share of the fragments that is in a sample, above 0 and not above 1: it bounds what is spent
    /// of the processor. Where it would leave fewer than 256 fragments in a miniature there are so many, or
    /// all.
    pub share_max: f64,
    /// The table is of the last one to two times so many seconds.
    pub window_seconds: u64,
}

impl SizingConfig {
    /// Half, the whole, twice and four times the cache's size, and that with the other sizes of fragments;
    /// in a MiB, of a quarter of the fragments at most, over the last one to two hours.
    pub fn of(geometry: &Geometry) -> Self {
        Self {
            points: sample::points(geometry),
            memory_bytes: 1 << 20,
            share_max: 0.25,
            window_seconds: 3600,
        }
    }
}

/// Counts of a moment: the table is of what came after it.
struct Moment {
    at: u64,
    cache: Counted,
    /// In the order of the points.
    miniatures: Vec<Counted>,
}

struct Miniatures {
    all: Vec<Miniature>,
    pieces: Vec<Piece>,
    /// The beginnings of this window and of the one before it; none before the first request.
    windows: Option<[Moment; 2]>,
}

/// What is fed with a cache's requests. [`Cache::with_sizing`] has that done.
pub struct Sizing {
    /// Samples of the sizes of fragments that there are, the largest of each.
    samples: Vec<Sample>,
    miniatures: Mutex<Miniatures>,
    unnoted: AtomicU64,
    memory_bytes: u64,
    window_ns: u64,
}

impl Sizing {
    /// Of a cache of this geometry.
    ///
    /// # Errors
    /// Names the parameter that cannot be used, the reason and what to do.
    pub fn new(geometry: &Geometry, config: &SizingConfig) -> Result<Self, ConfigError> {
        config.check()?;
        let scales = sample::scales(config, geometry)?;
        let mut samples: Vec<Sample> = scales.iter().map(|scale| scale.sample).collect();
        // The largest first of those with fragments of one size.
        samples.sort_by_key(|sample| (sample.shift, std::cmp::Reverse(sample.threshold)));
        samples.dedup_by_key(|sample| sample.shift);
        let memory_bytes = sample::bytes(&scales, geometry.config())?;
        assert!(memory_bytes <= config.memory_bytes, "sizing, invariant 1: {memory_bytes} bytes");
        let all = scales.into_iter().map(|scale| Miniature::new(scale, geometry.config()));
        let all = all.collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            samples,
            miniatures: Mutex::new(Miniatures {
                all,
                pieces: Vec::with_capacity(2 * PIECES_MAX),
                windows: None,
            }),
            unnoted: AtomicU64::new(0),
            memory_bytes,
            window_ns: config.window_seconds.saturating_mul(1_000_000_000),
        })
    }

    /// Bytes of memory that it takes.
    pub fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }

    /// A read of a part of a volume has begun.
    #[inline]
    pub(crate) fn read(&self, cache: &Cache, volume: usize, offset: u64, bytes: u64) {
        if self.samples.iter().any(|sample| sample.touches(volume, offset, bytes)) {
            self.note(cache, Does::Read, (volume, offset, bytes));
        }
    }

    /// A write or discard has.
    #[inline]
    pub(crate) fn changed(&self, cache: &Cache, volume: usize, offset: u64, bytes: u64, discards: bool) {
        if bytes == 0 {
            return;
        }
        // A discard may be of so many fragments that some are in every sample.
        let does = if discards { Does::Discard } else { Does::Write };
        if discards || self.samples.iter().any(|sample| sample.touches(volume, offset, bytes)) {
            self.note(cache, does, (volume, offset, bytes));
        }
    }

    #[cold]
    #[inline(never)]
    fn note(&self, cache: &Cache, does: Does, request: (usize, u64, u64)) {
        let Ok(mut miniatures) = self.miniatures.try_lock() else {
            self.unnoted.fetch_add(1, Relaxed);
            return;
        };
        let now = cache.control().planner.now.get();
        miniatures.move_on(cache, now, self.window_ns);
        let Miniatures { all, pieces, .. } = &mut *miniatures;
        for miniature in all {
            miniature.request(does, request, now, cache, pieces);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Miniatures> {
        self.miniatures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The rules of the miniatures, for tests.
    pub(crate) fn check(&self) {
        self.lock().all.iter().for_each(Miniature::check);
    }
}

impl SizingConfig {
    fn check(&self) -> Result<(), ConfigError> {
        let refused =
            |name, reason: String, advice: &str| Err(ConfigError::new(name, reason, advice.to_owned()));
        if !(self.share_max > 0.0 && self.share_max <= 1.0) {
            let reason = format!("{} is not above 0 and at most 1", self.share_max);
            return refused("sizing.share_max", reason, "use 0.25");
        }
        if self.window_seconds == 0 {
            return refused("sizing.window_seconds", "a window of 0 seconds has no reads".into(), "use 3600");
        }
        if self.points.is_empty() {
            return refused("sizing.points", "there are none".into(), "name a size at least");
        }
        if let Some(point) = self.points.iter().find(|point| !point.fragment_bytes.is_power_of_two()) {
            let reason = format!("fragments of {} bytes are not of a power of two", point.fragment_bytes);
            return refused("sizing.points", reason, "use 1048576");
        }
        if let Some(point) = self.points.iter().find(|point| point.cache_bytes < point.fragment_bytes) {
            let reason = format!("{} bytes have no room for a fragment", point.cache_bytes);
            return refused("sizing.points", reason, "use a larger cache or smaller fragments");
        }
        Ok(())
    }
}

impl Miniatures {
    /// The window moves on when it is over.
    fn move_on(&mut self, cache: &Cache, now: u64, window_ns: u64) {
        let is_over = |windows: &[Moment; 2]| now - windows[1].at >= window_ns;
        if self.windows.as_ref().is_some_and(|windows| !is_over(windows)) {
            return;
        }
        let moment = self.moment(cache, now);
        self.windows = Some(match self.windows.take() {
            Some([_, before]) => [before, moment],
            None => {
                self.all.iter_mut().for_each(|miniature| miniature.begin(cache, now));
                [self.moment(cache, now), moment]
            }
        });
    }

    fn moment(&self, cache: &Cache, at: u64) -> Moment {
        Moment { at, cache: counted(cache), miniatures: self.all.iter().map(Miniature::counted).collect() }
    }
}

fn counted(cache: &Cache) -> Counted {
    let statistics = cache.statistics();
    Counted {
        reads: statistics.reads(),
        misses: statistics.reads_partial + statistics.reads_missed,
        written: statistics.population_bytes_written + statistics.async_bytes_written,
    }
}
