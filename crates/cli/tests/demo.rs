//! `mezz demo`, end to end on a population that is far too small to mean anything: load, warm up, measure,
//! kill -9, reopen, check.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Done, Scratch, mezz};
use serde_json::Value;

/// The whole demo in a few seconds: 24 tiny warehouses, modelled drives four times faster than real ones.
fn tiny_demo(scratch: &Scratch, more: &[&str]) -> Done {
    let (directory, report) = (scratch.file("work"), scratch.file("report.html"));
    let fixed = [
        "demo",
        "--tiny",
        "--warehouses",
        "24",
        "--flash-share",
        "0.5",
        "--clients",
        "2",
        "--seconds",
        "2",
        "--time-scale",
        "0.25",
        "--directory",
        &directory,
        "--report",
        &report,
    ];
    mezz(&[&fixed[..], more].concat())
}

fn row<'v>(result: &'v Value, configuration: &str) -> &'v Value {
    let rows = result["rows"].as_array().unwrap();
    rows.iter().find(|row| row["configuration"] == configuration).unwrap()
}

#[test]
fn a_killed_database_is_consistent_in_every_configuration() {
    let scratch = Scratch::new();
    let result = tiny_demo(&scratch, &["--json", "--seed", "5"]).expect(0).json();
    assert_eq!(result["rows"].as_array().unwrap().len(), 3);
    for configuration in ["disk", "face-gsc", "flash"] {
        let row = row(&result, configuration);
        assert_eq!(row["consistent"], true, "{row}");
        assert!(row["transactions_per_minute"].as_f64().unwrap() > 0.0, "{row}");
        assert!(row["restart_seconds"].as_f64().unwrap() > 0.0, "{row}");
        assert!(row["acknowledged_commits"].as_u64().unwrap() > 0, "{row}");
        let has_flash_figures = configuration == "face-gsc";
        for figure in ["flash_hit_ratio", "write_reduction", "flash_write_bytes_mean", "flash_bytes_written"]
        {
            assert_eq!(row[figure].is_number(), has_flash_figures, "{figure} of {row}");
        }
    }
    let tier = row(&result, "face-gsc");
    assert!(tier["queue_wraps_before"].as_f64().unwrap() >= 1.0, "{tier}");
    assert!((0.0..=1.0).contains(&tier["flash_hit_ratio"].as_f64().unwrap()), "{tier}");
    assert_eq!(result["seed"], 5);
    assert_eq!(result["warehouses"], 24);
    assert_eq!(result["time_scale"], 0.25);
    assert!((0.0..=1.0).contains(&result["cpu_busy"].as_f64().unwrap()));
    let report = std::fs::read_to_string(scratch.file("report.html")).unwrap();
    assert!(report.contains("<svg") && report.contains("face-gsc"));
    let left: Vec<_> = std::fs::read_dir(scratch.file("work")).unwrap().collect();
    assert!(left.is_empty(), "the databases are removed: {left:?}");
}

#[test]
fn what_cannot_be_done_is_refused_before_anything_is_spent() {
    let scratch = Scratch::new();
    tiny_demo(&scratch, &["--disk-model", "floppy"]).expect(3).complains(&["floppy", "mezz device list"]);
    assert!(!std::path::Path::new(&scratch.file("work")).exists());
    let directory = scratch.file("huge");
    mezz(&["demo", "--database-size", "5TB", "--directory", &directory]).expect(3).complains(&[
        "free",
        "needed",
        "--directory",
    ]);
    let left: Vec<_> = std::fs::read_dir(&directory).unwrap().collect();
    assert!(left.is_empty());
    mezz(&["demo", "--report", &scratch.file("no/such/report.html"), "--tiny", "--warehouses", "1"])
        .expect(3)
        .complains(&["report.html", "--report"]);
}

#[test]
fn an_interrupted_demo_leaves_nothing_behind() {
    let scratch = Scratch::new();
    let directory = scratch.file("work");
    let arguments = [
        "demo",
        "--tiny",
        "--warehouses",
        "24",
        "--flash-share",
        "0.5",
        "--seconds",
        "60",
        "--time-scale",
        "1",
    ];
    let mut demo = std::process::Command::new(env!("CARGO_BIN_EXE_mezz"))
        .args(arguments)
        .args(["--directory", &directory, "--report", &scratch.file("report.html")])
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let entries = || std::fs::read_dir(&directory).map_or(0, |entries| entries.count());
    let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while entries() == 0 && std::time::Instant::now() < until {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(entries(), 1, "the run has its directory");
    let id = rustix::process::Pid::from_raw(i32::try_from(demo.id()).unwrap()).unwrap();
    rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
    assert_eq!(demo.wait().unwrap().code(), Some(130));
    assert_eq!(entries(), 0);
}
