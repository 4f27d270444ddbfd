//! Sizing: what it says of other sizes is held against caches of those sizes.
#![allow(clippy::unwrap_used, missing_docs)]

mod replay;
mod traces;

use mezzanine_fragment::{Config, SizingConfig};

#[test]
fn estimates_are_near_what_caches_of_those_sizes_do() {
    let count = std::env::var("COUNT").map_or(600_000, |t| t.parse().unwrap());
    for trace in traces::all(count) {
        let began = std::time::Instant::now();
        let config = Config::new(4 << 30, &[trace.volume_bytes]);
        let mut sizing = SizingConfig::of(&config.geometry().unwrap());
        let end = trace.requests.last().unwrap().at;
        sizing.window_seconds = end / 3_000_000_000;
        let table = replay::estimated(&config, &sizing, &trace);
        println!("{} {:?} {:.3?} {}", trace.name, began.elapsed(), table.hit_ratio, table.memory_bytes);
        let from = end - (table.seconds * 1e9) as u64;
        for (row, point) in table.rows.iter().zip(&sizing.points) {
            let exact = replay::exact(*point, &trace, from);
            println!(
                "{:>6} MiB {:>5} KiB {:.4} {:5} slots {:.3} filled  {:.4} exact {:.4} {:+.4}   {:.3} exact {:.3} GB",
                row.cache_bytes >> 20, row.fragment_bytes >> 10, row.sample_share, row.sample_slots, row.filled,
                row.hit_ratio.unwrap(), exact.hit_ratio, row.hit_ratio.unwrap() - exact.hit_ratio,
                row.written_per_day.unwrap() / 1e9, exact.written_per_day / 1e9,
            );
        }
    }
}
