//! `mezz block status`: how the cache would do at other sizes.
#![allow(clippy::unwrap_used)]

mod common;
mod place;

#[allow(dead_code)]
#[path = "../../blockdev/tests/nbd/client.rs"]
mod client;

use std::time::{Duration, Instant};

use client::Client;
use place::{MIB, Place};
use serde_json::{Value, json};

const FRAGMENT: u64 = 128 << 10;

fn sizing(place: &Place) -> Value {
    place.json(&["status", "s"])["cache"]["sizing"].clone()
}

/// Reads a block of each of these fragments.
fn read(disk: &mut Client, fragments: u64) {
    for fragment in 0..fragments {
        disk.read(fragment * FRAGMENT, 4096);
    }
}

#[test]
fn status_says_how_the_cache_would_do_at_other_sizes() {
    let place = Place::new();
    place.disk("disk", 8 * MIB);
    place.mezz(&["create", "cache", "--size", "4MiB", "--fragment", "128KiB", "--backing", "disk"]).expect(0);
    let arguments = ["cache", "--backing", "disk"];
    let attached = place.attach(&arguments);
    let before = sizing(&place);
    assert_eq!((&before["reads"], &before["hit_ratio"]), (&json!(0), &Value::Null));
    assert!(!place.mezz(&["status", "s"]).expect(0).stdout.contains("other sizes, estimated"));
    // As many as the cache has room for, and twice as many as half of it would have.
    let slots = place.counter("slots");
    let mut disk = place.client("disk");
    let (begun, mut reads) = (Instant::now(), 0);
    let row = |table: &Value, at: usize| table["rows"][at]["hit_ratio"].as_f64().unwrap();
    let table = loop {
        for _ in 0..20 {
            read(&mut disk, slots);
            reads += slots;
        }
        let table = sizing(&place);
        assert_eq!(table["reads"], reads);
        let as_it_is = table["hit_ratio"].as_f64().unwrap();
        if as_it_is > 0.9 && (row(&table, 1) - as_it_is).abs() < 0.05 && row(&table, 0) < 0.8 {
            break table;
        }
        assert!(begun.elapsed() < Duration::from_secs(240), "{table}");
    };
    assert_eq!(table["rows"][1]["cache_bytes"], slots * FRAGMENT);
    assert_eq!(table["rows"][0]["cache_bytes"], slots / 2 * FRAGMENT + slots % 2 * FRAGMENT / 2);
    let memory = table["memory_bytes"].as_u64().unwrap();
    assert!(memory > 0 && memory <= MIB, "{memory}");
    // For people.
    let text = place.mezz(&["status", "s"]).expect(0).stdout;
    for part in ["other sizes, estimated from", "as it is", "written GB/day", "to estimate other sizes"] {
        assert!(text.contains(part), "{part}:\n{text}");
    }
    // For Prometheus.
    let text = place.mezz(&["status", "s", "--prometheus"]).expect(0).stdout;
    let labels = format!("{{cache_bytes=\"{}\",fragment_bytes=\"{FRAGMENT}\"}} ", slots * FRAGMENT);
    for name in ["hit_ratio", "written_bytes_per_day", "filled_ratio"] {
        let name = format!("mezz_block_sizing_{name}{labels}");
        let value = text.lines().find_map(|line| line.strip_prefix(&name)?.parse::<f64>().ok());
        assert!(value.is_some_and(|value| value > 0.0), "{name}:\n{text}");
    }
    assert!(text.contains(&format!("mezz_block_sizing_memory_bytes {memory}\n")), "{text}");
    drop(disk);
    attached.signal("-TERM");
    let (said, _) = attached.end();
    assert_eq!(said["cache"]["sizing"]["reads"], reads, "also at the end");
    // The cache goes on, and its estimates begin anew.
    let attached = place.attach(&arguments);
    assert_eq!(place.counter("slots_used"), slots);
    assert_eq!(sizing(&place)["reads"], 0);
    attached.signal("-TERM");
    attached.end();
    // Where nothing is populated, no size would have anything.
    let _attached = place.attach(&[&arguments[..], &["--population-workers", "0"]].concat());
    assert_eq!(sizing(&place), Value::Null);
}
