//! The fuzz targets with the bytes of seeds, so that they are tried every day.
#![allow(missing_docs)]

use mezzanine_fuzzed::{group, image, region, segment, sidecar, superblock, trace, volume};
use mezzanine_ground::random::splitmix_sequence;

/// Bytes of a seed: many are small numbers and zeros, because most fields are.
fn bytes(seed: u64, len_max: u64) -> Vec<u8> {
    let mut numbers = splitmix_sequence(seed);
    let mut draw = || numbers.next().expect("a sequence without an end");
    let len = draw() % len_max;
    let plain = draw() % 2 == 0;
    (0..len)
        .map(|_| draw())
        .map(|drawn| if plain || drawn % 4 == 0 { (drawn >> 8) as u8 } else { 0 })
        .collect()
}

/// Runs a target with the bytes of many seeds; some are accepted and some refused.
fn run(target: fn(&[u8]) -> bool, seeds: u64, len_max: u64) {
    let first: u64 = std::env::var("MEZZANINE_FUZZ_SEED").map_or(1, |text| text.parse().expect("a number"));
    let mut accepted = 0;
    for seed in first..first + seeds {
        let input = bytes(seed, len_max);
        match std::panic::catch_unwind(|| target(&input)) {
            Ok(outcome) => accepted += u64::from(outcome),
            Err(panic) => {
                eprintln!("seed {seed}: MEZZANINE_FUZZ_SEED={seed} begins with it");
                std::panic::resume_unwind(panic);
            }
        }
    }
    println!("{accepted} of {seeds} accepted");
    assert!(accepted > 0 && accepted < seeds, "accepted {accepted} of {seeds}");
}

#[test]
fn superblocks() {
    run(superblock, 100_000, 128);
}

#[test]
fn segments() {
    run(segment, 20_000, 600);
}

#[test]
fn groups() {
    run(group, 20_000, 800);
}

#[test]
fn regions() {
    run(region, 2_000, 64);
}

#[test]
fn images() {
    run(image, 10_000, 200);
}

#[test]
fn sidecars() {
    run(sidecar, 20_000, 200);
}

#[test]
fn volumes() {
    run(volume, 3_000, 200);
}

#[test]
fn traces() {
    run(trace, 10_000, 300);
}
