//! What `mezz-bench` says before it measures anything.
#![allow(clippy::unwrap_used)]

use std::process::{Command, Output};

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_mezz-bench")).args(arguments).output().unwrap()
}

#[test]
fn a_missing_folder_is_named_before_anything_runs() {
    let done = bench(&["all", "--directory", "/no/such/folder"]);
    let said = String::from_utf8(done.stderr).unwrap();
    assert_eq!(done.status.code(), Some(2), "{said}");
    assert!(said.contains("/no/such/folder") && said.contains("--directory"), "{said}");
    assert!(done.stdout.is_empty());
}

#[test]
fn a_frame_of_a_large_tier_takes_at_most_48_bytes() {
    let done = bench(&["memory", "--json"]);
    assert!(done.status.success());
    let rows = String::from_utf8(done.stdout).unwrap();
    let rows: Vec<serde_json::Value> = rows.lines().map(|row| serde_json::from_str(row).unwrap()).collect();
    for pages in ["100 GiB, 4 KiB pages", "100 GiB, 8 KiB pages"] {
        let name = format!("memory per frame, staging apart: {pages}");
        let row = rows.iter().find(|row| row["name"] == *name).unwrap();
        // The paper's directory entry of 32 bytes is in it.
        let bytes = row["value"].as_f64().unwrap();
        assert!((32.0..=48.0).contains(&bytes), "{name}: {bytes}");
    }
}
