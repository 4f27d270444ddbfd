//! Sizing: what it says of other sizes is held against caches of those sizes, request by request.
#![allow(clippy::unwrap_used, missing_docs)]

mod replay;
mod traces;

use mezzanine_fragment::{Config, SizingConfig, SizingTable};
use replay::{Done, Trace};

/// Requests of a trace: five minutes.
const REQUESTS: u64 = 600_000;
const CACHE_BYTES: u64 = 4 << 30;

/// Of a cache of 4 GiB, over the last two thirds of the trace: what is said, and what is so.
fn table_and_truth(trace: &Trace, change: impl FnOnce(&mut SizingConfig)) -> (SizingTable, Vec<Done>) {
    let config = Config::new(CACHE_BYTES, &[trace.volume_bytes]);
    let mut sizing = SizingConfig::of(&config.geometry().unwrap());
    let end = trace.requests.last().unwrap().at;
    sizing.window_seconds = end / 3_000_000_000;
    change(&mut sizing);
    let table = replay::estimated(&config, &sizing, trace);
    let from = end - (table.seconds * 1e9).round() as u64;
    let truth = sizing.points.iter().map(|point| replay::exact(*point, trace, from)).collect();
    (table, truth)
}

/// Half, twice and four times the size, and all sizes of fragments: no hit ratio is off by more than 0.02.
#[test]
fn estimates_are_near_what_caches_of_those_sizes_do() {
    let mut largest = 0.0_f64;
    for trace in traces::all(REQUESTS) {
        let (table, truth) = table_and_truth(&trace, |_| ());
        assert!(table.memory_bytes <= 1 << 20 && table.unnoted == 0, "{table:?}");
        assert_eq!(table.rows.len(), 10);
        println!("{}\n{table}", trace.name);
        for (row, exact) in table.rows.iter().zip(&truth) {
            let (hits, written) = (row.hit_ratio.unwrap(), row.written_per_day.unwrap());
            let error = hits - exact.hit_ratio;
            println!(
                "{:>6} MiB {:>5} KiB: hits {hits:.4}, exact {:.4}, {error:+.4}; written {:.2} of exact",
                row.cache_bytes >> 20,
                row.fragment_bytes >> 10,
                exact.hit_ratio,
                written / exact.written_per_day,
            );
            assert!(error.abs() <= 0.02, "{}: {row:?} is off by {error:+.4}", trace.name);
            assert!(row.sample_share < 0.5, "it is a sample: {row:?}");
            largest = largest.max(error.abs());
        }
    }
    println!("the largest error is {largest:.4}");
}

/// A sample of everything is the cache itself: nothing but the sampling is estimated.
#[test]
fn a_sample_of_everything_is_exact() {
    for trace in traces::all(60_000) {
        let trace = Trace { is_timed_exactly: true, ..trace };
        let everything = |sizing: &mut SizingConfig| {
            sizing.share_max = 1.0;
            sizing.memory_bytes = 64 << 20;
        };
        let (table, truth) = table_and_truth(&trace, everything);
        for (row, exact) in table.rows.iter().zip(&truth) {
            assert_eq!(row.sample_share, 1.0);
            let error = row.hit_ratio.unwrap() - exact.hit_ratio;
            assert!(error.abs() < 1e-4, "{}: {row:?} is off by {error:+.5}", trace.name);
            // A population at either end of the time may be counted by one and not by the other.
            let written = row.written_per_day.unwrap() / exact.written_per_day;
            assert!((written - 1.0).abs() < 0.03, "{}: {row:?} is {written} times {exact:?}", trace.name);
        }
    }
}

/// Without a sample of the reads of all, and the correction by what is known of the cache itself, this would
/// be off.
#[test]
fn what_is_known_of_the_cache_itself_is_said() {
    let trace = &traces::all(60_000)[1];
    let (table, _) = table_and_truth(trace, |_| ());
    let own = &table.rows[1];
    assert_eq!((own.cache_bytes, own.fragment_bytes), (CACHE_BYTES, 1 << 20));
    assert!((own.hit_ratio.unwrap() - table.hit_ratio.unwrap()).abs() < 1e-3, "{table:?}");
    let config = Config::new(CACHE_BYTES, &[trace.volume_bytes]);
    let sizing = SizingConfig { window_seconds: 10, ..SizingConfig::of(&config.geometry().unwrap()) };
    let again = || replay::estimated(&config, &sizing, trace);
    assert_eq!(again(), again(), "the same requests give the same table");
}

/// Memory does not depend on what there is to cache.
#[test]
fn a_mebibyte_is_enough_for_any_cache() {
    const TIB: u64 = 1 << 40;
    for (cache_bytes, volume_bytes) in
        [(1 << 30, TIB), (64 << 30, 64 << 30), (TIB, 100 * TIB), (256 * TIB, 1024 * TIB)]
    {
        for fragment_bytes in [1 << 20, 8 << 20] {
            let mut config = Config::new(cache_bytes, &[volume_bytes]);
            config.fragment_bytes = fragment_bytes;
            let geometry = config.geometry().unwrap();
            let sizing = SizingConfig::of(&geometry);
            let memory = mezzanine_fragment::Sizing::new(&geometry, &sizing).unwrap().memory_bytes();
            assert!(memory <= 1 << 20, "{cache_bytes}: {memory}");
        }
    }
    let geometry = Config::new(1 << 30, &[1 << 30]).geometry().unwrap();
    let small = SizingConfig { memory_bytes: 4096, ..SizingConfig::of(&geometry) };
    let refused = mezzanine_fragment::Sizing::new(&geometry, &small).err().unwrap().to_string();
    assert!(
        refused.starts_with("sizing.memory_bytes: 4096 bytes have no room for 10 miniatures"),
        "{refused}"
    );
}
