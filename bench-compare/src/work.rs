//! The requests, which both systems get.

use std::sync::atomic::{AtomicU64, Ordering};

use mezzanine_trace::{Generate, Op, Shape};

use crate::{Options, PAGE, Workload};

/// Requests that a thread takes at once.
const CHUNK: u64 = 64;

const WRITE: u32 = 1 << 31;

pub struct Work {
    requests: Vec<u32>,
    warm_up: u64,
}

/// One request.
#[derive(Debug, Clone, Copy)]
pub struct Request {
    pub page: u32,
    pub is_write: bool,
}

/// What threads have counted.
#[derive(Debug, Clone, Copy, Default)]
pub struct Progress {
    pub requests: u64,
    pub memory_hits: u64,
    pub flash_hits: u64,
    /// Pages that were older than the newest write.
    pub stale: u64,
}

impl Progress {
    /// Hits in memory and on flash, as a share of the requests.
    pub fn hit_ratio(&self) -> f64 {
        (self.memory_hits + self.flash_hits) as f64 / self.requests.max(1) as f64
    }

    pub fn add(&mut self, other: &Progress) {
        self.requests += other.requests;
        self.memory_hits += other.memory_hits;
        self.flash_hits += other.flash_hits;
        self.stale += other.stale;
    }
}

impl Work {
    pub fn generate(options: &Options) -> Result<Work, String> {
        let count = options.warm_up + options.requests;
        let shape = match options.workload {
            Workload::Zipf => Shape::Zipf,
            Workload::Tpcc => Shape::Tpcc,
        };
        let mut parameters = Generate::new(shape, options.pages, count, options.seed);
        parameters.page_bytes = PAGE as u32;
        if options.workload == Workload::Zipf {
            (parameters.exponent, parameters.write_share) = (0.9, 0.0);
        }
        let share = if options.workload == Workload::Tpcc { options.write_share } else { 0.0 };
        // Which requests write follows from their place: splitmix64 of it.
        let writes = |nth: u64| {
            (mix(nth ^ options.seed << 40) >> 11) as f64 / (1u64 << 53) as f64 <= share && share > 0.0
        };
        let requests = parameters
            .generate()?
            .filter(|request| matches!(request.op, Op::Read | Op::Write))
            .zip(0..)
            .map(|(request, nth)| request.page as u32 | if writes(nth) { WRITE } else { 0 })
            .collect();
        Ok(Work { requests, warm_up: options.warm_up })
    }

    /// The requests before it is measured, and those after, each to be taken by any number of threads.
    pub fn parts(&self) -> [Part<'_>; 2] {
        let (warm_up, measured) = self.requests.split_at(self.warm_up as usize);
        [
            Part { requests: warm_up, next: AtomicU64::new(0) },
            Part { requests: measured, next: AtomicU64::new(0) },
        ]
    }
}

/// Requests that threads take in turn.
pub struct Part<'w> {
    requests: &'w [u32],
    next: AtomicU64,
}

impl<'w> Part<'w> {
    /// The next few requests; empty at the end.
    pub fn take(&self) -> impl Iterator<Item = Request> + use<'w> {
        let from = self.next.fetch_add(CHUNK, Ordering::Relaxed).min(self.requests.len() as u64);
        let upto = (from + CHUNK).min(self.requests.len() as u64);
        let chunk = &self.requests[from as usize..upto as usize];
        chunk.iter().map(|word| Request { page: word & !WRITE, is_write: word & WRITE != 0 })
    }
}

fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
