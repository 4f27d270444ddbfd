//! `mezz sim run` in virtual time.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Scratch, mezz};
use serde_json::Value;

/// A database of 20,000 pages and a second of simulated time.
const SMALL: [&str; 12] = [
    "sim",
    "run",
    "--pages",
    "20000",
    "--clients",
    "20",
    "--pool",
    "2.5MB",
    "--flash",
    "13MB",
    "--seconds",
    "1",
];

fn run(options: &[&str]) -> Value {
    mezz(&[&SMALL[..], options, &["--json"]].concat()).expect(0).json()
}

#[test]
fn a_run_tells_throughput_latency_hits_and_utilisation() {
    let report = run(&[]);
    assert_eq!(report["setup"]["design"], "face-gsc");
    for (path, least) in [
        ("/throughput/transactions_per_second", 10.0),
        ("/throughput/new_orders_per_minute", 100.0),
        ("/hits/pool_ratio", 0.3),
        ("/hits/tier_ratio", 0.2),
        ("/writes/write_reduction", 0.1),
        ("/flash/write_bytes_mean", 20_000.0),
        ("/flash/write_sequential_share", 0.5),
        ("/flash/old_version_share", 0.01),
        ("/latency/transaction/p99_99_us", 1_000.0),
        ("/latency/disk/mean_us", 1_000.0),
        ("/latency/flash/mean_us", 50.0),
        ("/resources/0/utilisation", 0.05),
        ("/resources/1/queue_mean", 0.05),
        ("/series/0/transactions_per_second", 10.0),
    ] {
        let value =
            report.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("{path}: {report:#}"));
        assert!(value >= least, "{path}: {value}");
    }
    let names: Vec<_> = report["resources"].as_array().unwrap().iter().map(|r| r["name"].clone()).collect();
    assert_eq!(names, ["disk", "flash", "processor", "log"]);
}

#[test]
fn the_same_options_give_the_same_bytes() {
    let text = |options: &[&str]| mezz(&[&SMALL[..], &["--json"], options].concat()).expect(0).stdout;
    let first = text(&[]);
    assert_eq!(text(&[]), first);
    assert_ne!(text(&["--seed", "2"]), first);
}

#[test]
fn people_see_the_same_figures() {
    let options = ["--design", "face-basic", "--series", "--workers", "0", "--pool-policy", "clock"];
    let report = run(&options[..2]);
    assert_eq!(report["setup"]["design"], "face-basic");
    let text = mezz(&[&SMALL[..], &options].concat()).expect(0).stdout;
    for part in [
        "face-basic: 13.0 MB of samsung-840-pro over cheetah-15k-x16",
        "new orders (tpmC)",
        "write reduction",
        "old versions on flash",
        "from flash",
        "p99.99",
        "utilisation",
        "transactions/s",
    ] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
}

#[test]
fn there_are_configurations_without_a_tier() {
    let (disk, flash) = (run(&["--design", "disk"]), run(&["--design", "flash"]));
    assert_eq!((&disk["hits"]["all"]["flash"], &flash["hits"]["all"]["disk"]), (&0.into(), &0.into()));
    let rate = |report: &Value| report["throughput"]["transactions_per_second"].as_f64().unwrap();
    assert!(rate(&flash) > 2.0 * rate(&disk), "{} and {}", rate(&flash), rate(&disk));
}

#[test]
fn a_trace_is_replayed() {
    let scratch = Scratch::new();
    let trace = scratch.file("tpcc.mezztrace");
    let generate =
        ["trace", "generate", &trace, "--shape", "tpcc", "--pages", "20000", "--requests", "60000", "--json"];
    mezz(&generate).expect(0);
    let options = ["--trace", &trace, "--format", "mezzanine", "--warm-up", "0s", "--seconds", "1000"];
    let of = |more: &[&str]| {
        let base = ["sim", "run", "--clients", "20", "--pool", "2.5MB", "--flash", "13MB", "--json"];
        mezz(&[&base[..], &options, more].concat())
    };
    let report = of(&[]).expect(0).json();
    assert_eq!(report["hits"]["all"]["requests"], 60_000);
    assert!(report["throughput"]["transactions"].as_u64().unwrap() > 300, "{report}");
    assert_eq!(report["throughput"]["new_orders_per_minute"], Value::Null);
    of(&["--workload", "tpcc"]).expect(2).complains(&["--workload", "--trace"]);
    std::fs::write(&trace, b"").unwrap();
    of(&[]).expect(3).complains(&["empty"]);
}

#[test]
fn senseless_wishes_are_refused_with_what_there_is() {
    for (options, code, words) in [
        (&["--design", "mru"][..], 2, &["--design", "mru", "disk, flash, face-basic"][..]),
        (&["--flash", "100kB"], 2, &["--flash", "too few", "bytes or more"]),
        (&["--pool", "1kB"], 2, &["--pool", "20 clients", "bytes or more"]),
        (&["--flash-condition", "filled"], 2, &["--flash-condition", "samsung-840-pro", "[ssd]"]),
        (&["--flash-condition", "dirty"], 2, &["'dirty'", "steady"]),
        (&["--flash-state", "drive"], 2, &["--flash-state", "samsung-840-pro", "[ssd]"]),
        (&["--flash-model", "ssd-a", "--flash-state", "/no/such/drive"], 2, &["/no/such/drive", "no folder"]),
        (
            &["--flash-model", "ssd-a", "--flash-state", "Cargo.toml"],
            3,
            &["Cargo.toml", "no state of a drive"],
        ),
        (&["--flash-model", "floppy"], 2, &["floppy", "samsung-840-pro"]),
        (&["--page-size", "5000B"], 2, &["--page-size", "power of two"]),
        (&["--seconds", "0", "--design", "disk"], 2, &["--seconds", "use 0.001"]),
        (&["--warm-up", "long"], 2, &["'long'", "90s"]),
        (&["--workload", "zipf", "--exponent", "11"], 2, &["--workload", "0 to 10"]),
        (&["--workload", "tpce", "--exponent", "1"], 2, &["--exponent", "zipf"]),
        (&["--write-share", "0.5"], 2, &["--write-share", "uniform"]),
        (&["--survivors-max", "64"], 2, &["--survivors-max", "use "]),
        (&["--design", "face-gr", "--survivors-max", "6"], 2, &["--survivors-max", "face-gr"]),
        (&["--log-us", "10", "--log-model", "nvme-local"], 2, &["--log-us", "--log-model"]),
        (&["--requests", "9"], 2, &["--requests", "--policy-only"]),
        (&["--policy-only", "--design", "lru", "--frames", "9"], 2, &["--policy-only", "--clients"]),
        (&["--pool", "8TB"], 3, &["memory: ", "smaller"]),
    ] {
        mezz(&[&["sim", "run", "--clients", "20"], options].concat()).expect(code).complains(words);
    }
}

#[test]
fn a_drive_goes_on_as_an_earlier_run_left_it() {
    let scratch = Scratch::new();
    let (model, state) = (scratch.file("small.toml"), scratch.file("state"));
    let text = include_str!("../../device/models/durassd.toml")
        .replacen("capacity_bytes = 480_000_000_000", "capacity_bytes = 2_048_000_000", 1)
        .replacen("blocks_per_plane = 2048", "blocks_per_plane = 24", 1);
    std::fs::write(&model, text).unwrap();
    let run_on =
        |more: &[&str]| run(&[&["--flash-model", &model, "--flash-state", &state][..], more].concat());
    run_on(&["--flash-condition", "filled"]);
    let first = std::fs::read(&state).unwrap();
    let second_run = run_on(&[]);
    let second = std::fs::read(&state).unwrap();
    assert!(first != second, "the second run has left no trace");
    // Of the same state the same run, of another one another.
    std::fs::write(&state, &first).unwrap();
    assert_eq!(run_on(&[]), second_run);
    assert!(run_on(&[]) != second_run, "a run does not see what the one before has written");
    let fresh = run(&["--flash-model", &model]);
    assert!(fresh != second_run, "a run does not see in what condition the drive is");
}
