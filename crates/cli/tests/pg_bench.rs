//! `mezz pg bench`: what it refuses, and a tiny run on a server with the tier, if `MEZZANINE_TEST_PG_TIER`
//! names one (`./test` does).
#![allow(clippy::unwrap_used)]

mod common;

use std::path::PathBuf;

use common::{Scratch, mezz};

/// A build with the extension of this checkout.
fn server() -> Option<PathBuf> {
    let Some(prefix) = std::env::var_os("MEZZANINE_TEST_PG_TIER").map(PathBuf::from) else {
        eprintln!(
            "SKIPPED: MEZZANINE_TEST_PG_TIER does not name a PostgreSQL with the tier, as `mezz pg build` makes one"
        );
        return None;
    };
    assert!(prefix.join("bin/postgres").is_file(), "{} has no bin/postgres", prefix.display());
    Some(prefix)
}

#[test]
fn what_cannot_be_measured_is_refused_before_anything_is_made() {
    let scratch = Scratch::new();
    let directory = scratch.0.join("work");
    let directory = directory.to_str().unwrap();
    mezz(&["pg", "bench", "--disk-model", "drum", "--directory", directory])
        .expect(3)
        .complains(&["drum", "mezz device list"]);
    mezz(&["pg", "bench", "--postgres", "/no/such/place", "--directory", directory])
        .expect(3)
        .complains(&["/no/such/place", "mezz pg build"]);
    assert!(!std::path::Path::new(directory).exists());
}

#[test]
fn a_tiny_run_kills_every_server_and_finds_it_whole() {
    let Some(server) = server() else { return };
    // Where the server's user can get to, which is another one if root runs this.
    let directory = std::env::temp_dir().join(format!("mezz-bench-{}", std::process::id()));
    let done = mezz(&[
        "pg",
        "bench",
        "--json",
        "--tiny",
        "--warehouses",
        "2",
        "--clients",
        "4",
        "--seconds",
        "2",
        "--restart-after",
        "1",
        "--run",
        "disk",
        "--run",
        "durable",
        "--flash-share",
        "1",
        "--time-scale",
        "1",
        "--postgres",
        server.to_str().unwrap(),
        "--directory",
        directory.to_str().unwrap(),
    ])
    .expect(0);
    let result = done.json();
    let rows = result["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    for row in rows {
        assert_eq!(
            (&row["consistent"], row["violations"].as_array().unwrap().len()),
            (&true.into(), 0),
            "{row}"
        );
        assert!(row["acknowledged_commits"].as_u64().unwrap() > 0, "{row}");
        assert!(
            row["new_orders"].as_u64().unwrap() > 0 && row["restart_seconds"].as_f64().unwrap() > 0.0,
            "{row}"
        );
        // The models took part: reads came from a disk that takes time.
        assert_eq!(row["drives"][0]["role"], "data", "{row}");
    }
    let (disk, tier) = (&rows[0], &rows[1]);
    assert_eq!((&disk["run"], &disk["tier"]), (&"disk".into(), &serde_json::Value::Null));
    assert!(disk["drives"][0]["reads"].as_u64().unwrap() > 0, "{disk}");
    assert!(
        tier["tier"]["hit_ratio"].as_f64().unwrap() > 0.1
            && tier["queue_wraps_before"].as_f64().unwrap() >= 2.0
    );
    // Nothing is left behind.
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);
    std::fs::remove_dir(&directory).unwrap();
}
