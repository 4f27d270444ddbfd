//! Replacement alone: requests a second on one core, once pages have small numbers.

use std::hint::black_box;
use std::time::Instant;

use mezzanine_ground::random::Random;
use mezzanine_ground::replacement::Policy;
use mezzanine_sim::policy::{Access, Cache, Distances};

use crate::report::{Outcome, Row, Scale, median};
use crate::timing::ROUNDS;
use crate::workload::zipf_block;

pub(crate) fn run(scale: Scale) -> Outcome {
    let pages = scale.pick(1_000_000, 10_000);
    let frames = pages / 10;
    let mut random = Random::new(1);
    let accesses: Vec<_> = (0..scale.pick(10_000_000, 20_000))
        .map(|_| zipf_block(&mut random, pages))
        .map(|block| Access::read(block as u32))
        .collect();
    // Whatever the policy, a simulator looks up where a page is. So nothing can be faster than that alone.
    let mut frame_of = vec![0u32; pages as usize];
    let limit = millions_a_second(&accesses, || {
        for access in black_box(&accesses) {
            let frame = &mut frame_of[access.page() as usize];
            *frame = frame.wrapping_add(1);
        }
    });
    let row =
        |name: String, figure| Row::new(name, figure, "million/s").beside("a table of pages alone", limit);
    let size = format!("{:.1} M pages, Zipf 0.9", pages as f64 / 1e6);
    let mut rows = Vec::new();
    for policy in Policy::ALL {
        let mut cache = Cache::new(policy.configured(frames, &[])?);
        let figure = millions_a_second(&accesses, || cache.run(&accesses, pages as u32));
        rows.push(row(format!("requests, {policy}, cache of 10 % ({size})"), figure));
    }
    let figure = millions_a_second(&accesses, || {
        let mut distances = Distances::new();
        distances.run(&accesses);
        black_box(distances.counts(frames));
    });
    rows.push(row(format!("requests, lru, all sizes at once ({size})"), figure));
    Ok(rows)
}

/// How fast `work` makes the requests: the median of several rounds, the first of which warms up and does not
/// count.
fn millions_a_second(accesses: &[Access], mut work: impl FnMut()) -> f64 {
    work();
    let round = |_| {
        let start = Instant::now();
        work();
        accesses.len() as f64 / start.elapsed().as_secs_f64() / 1e6
    };
    median((0..ROUNDS).map(round).collect())
}
