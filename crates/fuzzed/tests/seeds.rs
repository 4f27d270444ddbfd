//! The fuzz targets with the bytes of seeds, so that they are tried every day.
#![allow(missing_docs)]

use mezzanine_fuzzed::{group, image, nbd, region, segment, sidecar, superblock, trace, volume};
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
fn nbd_clients() {
    run(nbd, 20_000, 400);
}

#[test]
fn traces() {
    run(trace, 10_000, 300);
}

/// A group whose checksums are right says that its page has the last version but one: recovery believed it,
/// and the tier stopped with an assertion when the next page was forgotten.
#[test]
fn an_image_with_the_last_version_is_refused() {
    const INPUT: &str = "392fc2a20fdc8df614a655e8ae7d56fe44d7c6615c55b2cdf17dd8f113ecd707bb48ffe2202ce74ad073fa39234c9eef54\
         14ecc5ec2e8cae72ca3ebcc5613d3153";
    let digits: Vec<u8> = INPUT.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte =
        |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).expect("digits"), 16).expect("digits");
    let input: Vec<u8> = digits.chunks(2).map(byte).collect();
    image(&input);
}
