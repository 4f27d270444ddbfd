//! A cache that survives its process, and the power of its devices: lives with a crash after each, from a
//! seed.
//!
//! Invariants checked: whatever crashes and whenever, each block that is valid is the same on both devices,
//! as is what is read; a cache that was closed has everything when it is opened again, but for what lies
//! behind its size; the cache's whole-structure rules. Caches are resized all the while.
#![allow(clippy::unwrap_used, missing_docs)]

mod device;

mod devices;

mod life;

#[cfg(feature = "planted")]
#[path = "../world/noticed.rs"]
mod noticed;

#[cfg(feature = "planted")]
mod planted;

use std::num::NonZero;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use mezzanine_ground::random::Random;

use devices::Devices;

/// The rule that was broken, if one was.
type Outcome = Result<(), String>;

/// Crashes tried, unless `MEZZANINE_CUTS` says otherwise.
const CUTS: u64 = 20_000;
/// Lives of one cache.
const LIVES: u64 = 50;

fn number(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

/// What has happened in some lives.
#[derive(Debug, Default)]
struct Sums {
    closed: u64,
    recovered: u64,
    unstable: u64,
    behind_limit: u64,
    named: std::collections::BTreeMap<&'static str, u64>,
}

/// The lives of the devices of a seed.
fn run(seed: u64, sums: &mut Sums) -> Outcome {
    let mut random = Random::new(seed);
    let mut devices = Devices::new(&mut random);
    let (mut value, mut warm) = (1, None);
    for life in 0..LIVES {
        let before = devices.superblock.clone();
        value += 1;
        devices.change(&mut random, value << 8);
        let is_same = devices.superblock == before;
        let end = life::live(&mut devices, &mut random, &mut value, warm.filter(|_| is_same))
            .map_err(|broken| format!("life {life}: {broken}"))?;
        warm = end.closed_with;
        sums.closed += u64::from(warm.is_some());
        sums.recovered += end.recovered;
        sums.unstable += end.unstable;
        sums.behind_limit += end.behind_limit;
        for (name, count) in end.statistics.named() {
            *sums.named.entry(name).or_default() += count;
        }
    }
    Ok(())
}

/// A world in which something never happens says nothing about it.
#[test]
fn everything_happens() {
    let mut sums = Sums::default();
    for seed in 1..=60 {
        run(seed, &mut sums).unwrap();
    }
    let found = [sums.closed, sums.recovered, sums.unstable, sums.behind_limit];
    assert!(found.iter().all(|&count| count > 0), "{sums:?}");
    let needed = [
        "settled",
        "marks",
        "writes_waited",
        "evictions",
        "fragments_emptied",
        "fragments_left",
        "fragments_shrunk",
        "blocks_validated",
        "populations_with_holes",
        "map_failed",
        "backing_flushes_failed",
        "bypass_write_offline",
        "bypass_read_failed",
    ];
    let never: Vec<_> = needed.iter().filter(|name| sums.named[*name] == 0).collect();
    assert!(never.is_empty(), "{never:?} never happened: {sums:#?}");
}

/// On all processors: seeds are lives of devices that have nothing to do with one another.
#[test]
fn no_crash_leaves_anything_stale() {
    let first = number("MEZZANINE_SEED").unwrap_or(1);
    let cuts = number("MEZZANINE_CUTS").unwrap_or(CUTS);
    let (next, crashes, closed) = (AtomicU64::new(first), AtomicU64::new(0), AtomicU64::new(0));
    let lives = || {
        while crashes.load(Relaxed) < cuts {
            let (seed, mut sums) = (next.fetch_add(1, Relaxed), Sums::default());
            if let Err(broken) = run(seed, &mut sums) {
                panic!(
                    "seed {seed}: {broken}; replay with MEZZANINE_SEED={seed} MEZZANINE_CUTS=1 and this test"
                );
            }
            crashes.fetch_add(LIVES - sums.closed, Relaxed);
            closed.fetch_add(sums.closed, Relaxed);
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(lives);
        }
    });
    println!(
        "{} crashes and {} orderly ends, seeds from {first}: nothing stale",
        crashes.into_inner(),
        closed.into_inner()
    );
}
