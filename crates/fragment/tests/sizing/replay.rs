//! A host without devices: requests at their times, and jobs that are done as soon as there are any.

use mezzanine_fragment::{Cache, Config, Next, Sizing, SizingConfig, SizingPoint, SizingTable};

/// A request of the only volume: at a time in ns, of so many bytes at an offset.
#[derive(Clone, Copy, PartialEq)]
pub struct Request {
    pub at: u64,
    pub is_write: bool,
    pub offset: u64,
    pub bytes: u64,
}

/// Requests of a volume of so many bytes.
pub struct Trace {
    pub name: &'static str,
    pub volume_bytes: u64,
    pub requests: Vec<Request>,
}

/// What a cache does: hit ratio, bytes written in a day.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Done {
    pub hit_ratio: f64,
    pub written_per_day: f64,
}

fn jobs(cache: &Cache, now: u64) -> u64 {
    loop {
        match cache.next_population(now) {
            Next::Job(job) => cache.done(job, Ok(())),
            Next::NotBefore(next) => return next.max(now + 1000),
        }
    }
}

/// Replays a trace; `from` is told when the first request from that time on comes.
fn replay(cache: &Cache, trace: &Trace, from: u64, mut begins: impl FnMut()) {
    let (mut due, mut pieces, mut has_begun) = (0, Vec::new(), false);
    for request in &trace.requests {
        while due <= request.at {
            due = jobs(cache, due);
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
pub fn exact(point: SizingPoint, trace: &Trace, from: u64) -> Done {
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
pub fn estimated(config: &Config, sizing: &SizingConfig, trace: &Trace) -> SizingTable {
    let geometry = config.geometry().unwrap();
    let sizing = Sizing::new(&geometry, sizing).unwrap();
    let cache = Cache::heap(geometry).with_sizing(sizing);
    replay(&cache, trace, 0, || ());
    cache.check();
    cache.sizing_table().unwrap()
}
