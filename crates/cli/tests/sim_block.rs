//! `mezz sim block`.
#![allow(clippy::unwrap_used)]

mod common;

use common::mezz;
use serde_json::Value;

const SHORT: [&str; 6] = ["--volume", "16MiB", "--cache-size", "32MiB", "--seconds", "4"];

fn run(options: &[&str]) -> Value {
    mezz(&[&["sim", "block", "--json", "--interval", "1"], &SHORT[..], options].concat()).expect(0).json()
}

#[test]
fn all_caches_run_and_the_same_options_give_the_same_figures() {
    let outcome = run(&[]);
    let caches = outcome["caches"].as_array().unwrap();
    let names: Vec<_> = caches.iter().map(|cache| cache["cache"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        ["none", "sce", "flashcache-fifo", "flashcache-lru", "enhanceio", "bcache", "dm-cache"]
    );
    let iops = |number: usize| caches[number]["series"][3]["iops"].as_f64().unwrap();
    assert!((391.0..392.0).contains(&iops(0)), "{}", iops(0));
    assert!((1..7).all(|number| iops(number) > iops(0)));
    assert_eq!(outcome, run(&[]));
}

#[test]
fn options_of_the_fragment_cache_are_heeded() {
    let slow = ["--cache", "sce", "--stages", "1:0:0:3000,1:0:0:3000,1:0:0:3000"];
    let populated = |options: &[&str]| run(options)["caches"][0]["whole"]["populated_mib"].as_f64().unwrap();
    assert!((1.0..=2.0).contains(&populated(&slow)));
    assert_eq!(populated(&["--cache", "sce"]), 16.0);
    let halves = ["--cache", "sce", "--fragment", "128KiB", "--stages", "1:0:0:1000,1:0:0:1000,1:0:0:1000"];
    assert!(populated(&halves) < 1.0);
    let around = ["--cache", "sce", "--write-share", "0.3", "--writes", "around"];
    assert_eq!(run(&around)["caches"][0]["whole"]["followed_mib"], 0.0);
}

#[test]
fn options_that_cannot_be_are_named() {
    let refused = |options: &[&str]| mezz(&[&["sim", "block"], options].concat()).expect(2).stderr;
    assert!(refused(&["--cache", "zfs"]).contains("flashcache-lru"));
    assert!(refused(&["--backing", "2500:x"]).contains("a depth of 'x'"));
    assert!(refused(&["--backing", "floppy"]).contains("cheetah-15k"));
    assert!(refused(&["--stages", "8:35:10"]).contains("WORKERS:MISS:FREE:PERIOD"));
    assert!(refused(&["--request", "5000B"]).contains("--request"));
    assert!(refused(&["--cache", "sce", "--fragment", "3MiB"]).contains("--fragment"));
}

/// What the fragment cache says of other sizes, and what those do.
#[test]
fn other_sizes_are_said_and_run() {
    let options = ["--sizing", "--backing", "500:32", "--load", "regions", "--volume", "256MiB"];
    let of_sizes = ["--cache-size", "64MiB", "--seconds", "30"];
    let outcome = mezz(&[&["sim", "block", "--json"], &options[..], &of_sizes].concat()).expect(0).json();
    let rows = outcome["rows"].as_array().unwrap();
    let mebibytes: Vec<_> =
        rows.iter().map(|row| row["estimate"]["cache_bytes"].as_u64().unwrap() >> 20).collect();
    assert_eq!(mebibytes, [32, 64, 128, 256, 64, 64, 64, 64, 64, 64]);
    for row in rows {
        let said = 100.0 * row["estimate"]["hit_ratio"].as_f64().unwrap();
        let run = row["run"]["read_hit_percent"].as_f64().unwrap();
        assert!((said - run).abs() < 10.0, "{row}");
    }
    let table = mezz(&[&["sim", "block"], &options[..], &of_sizes].concat()).expect(0).stdout;
    assert!(table.lines().count() == 13 && table.contains("written GB/day"), "{table}");
    assert!(mezz(&["sim", "block", "--sizing", "--cache", "sce"]).expect(2).stderr.contains("--sizing"));
}
