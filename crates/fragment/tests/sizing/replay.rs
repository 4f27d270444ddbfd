//! A host without devices: requests at their times, and jobs that are done as soon as there are any.

use mezzanine_fragment::{Cache, Config, Next, Sizing, SizingConfig, SizingPoint, SizingTable};

/// A request of the only volume: at a time in ns, of so many bytes at an offset.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct Request {
    pub(crate) at: u64,
    pub(crate) is_write: bool,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

/// Requests of a volume of so many bytes.
pub(crate) struct Trace {
    pub(crate) name: &'static str,
    pub(crate) volume_bytes: u64,
    pub(crate) requests: Vec<Request>,
    /// Whether the cache is told of the time before each request, and not only when there may be a job.
    pub(crate) is_timed_exactly: bool,
}

/// What a cache does: hit ratio, bytes written in a day.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Done {
    pub(crate) hit_ratio: f64,
    pub(crate) written_per_day: f64,
}

fn jobs(cache: &Cache, now: u64) -> u64 {
    loop {
        match cache.next_population(now) {
            Next::Job(job) => cache.done(job, Ok(())),
            Next::NotBefore(next) => return next.max(now + 1000),
        }
    }
}

/// Replays a trace; `begins` is called when the first request from a time on comes.
fn replay(cache: &Cache, trace: &Trace, from: u64, mut begins: impl FnMut()) {
    let (mut due, mut pieces, mut has_begun) = (0, Vec::new(), false);
    for request in &trace.requests {
        while due <= request.at {
            due = jobs(cache, due);
        }
        if trace.is_timed_exactly {
            // There is nothing to do, but the cache knows what time it is.
            due = jobs(cache, request.at);
        }
        if request.at >= from && !has_begun {
            has_begun = true;
            begins();
        }
        if request.is_write {
            let write = cache.write_begin_hollow(0, request.offset, request.bytes).unwrap();
            cache.write_end(write, Ok(()));
            while let Next::Job(copy) = cache.next_copy() {
                cache.done(copy, Ok(()));
            }
        } else {
            cache.read(0, request.offset, request.bytes, &mut pieces).unwrap();
        }
    }
}

/// What a cache really does from a time on.
pub(crate) fn exact(point: SizingPoint, trace: &Trace, from: u64) -> Done {
    let mut config = Config::new(point.cache_bytes, &[trace.volume_bytes]);
    config.fragment_bytes = point.fragment_bytes;
    let cache = Cache::heap(config.geometry().unwrap());
    let mut before = cache.statistics();
    replay(&cache, trace, from, || before = cache.statistics());
    let after = cache.statistics();
    let reads = after.reads() - before.reads();
    let seconds = (trace.requests.last().unwrap().at - from) as f64 / 1e9;
    let written = (after.cache_bytes_written() - before.cache_bytes_written()) as f64;
    Done {
        hit_ratio: (after.reads_hit - before.reads_hit) as f64 / reads as f64,
        written_per_day: written * 86_400.0 / seconds,
    }
}

/// What is said while a cache is used.
pub(crate) fn estimated(config: &Config, sizing: &SizingConfig, trace: &Trace) -> SizingTable {
    let geometry = config.geometry().unwrap();
    let sizing = Sizing::new(&geometry, sizing).unwrap();
    let cache = Cache::heap(geometry).with_sizing(sizing);
    replay(&cache, trace, 0, || ());
    cache.check();
    cache.sizing_table().unwrap()
}
