//! `mezz trace record --pgdata`: a server's trace has the pages, transactions and marks of what it did.
//!
//! All of it needs a server; see `pg.rs`.
#![allow(clippy::unwrap_used)]

mod common;

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::server::{Cluster, build};
use common::{Scratch, mezz};
use mezzanine_trace::{Format, Op, Request, open};

/// Begins to record for many seconds, and waits until the server does.
fn begin(cluster: &Cluster, output: &str) -> std::process::Child {
    let child = Command::new(env!("CARGO_BIN_EXE_mezz"))
        .args(["trace", "record", output, "--pgdata", &cluster.directory, "--seconds", "600", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let started = Instant::now();
    while cluster.sql("SELECT count(*) FROM pg_ls_dir('.') WHERE pg_ls_dir LIKE 'mezzanine.trace.%'") == "0" {
        assert!(started.elapsed() < Duration::from_secs(60), "it does not begin");
        std::thread::sleep(Duration::from_millis(20));
    }
    child
}

fn end(child: std::process::Child) -> serde_json::Value {
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
#[ignore = "needs a PostgreSQL build, and makes it if there is none"]
fn a_trace_of_a_server_has_its_pages_its_commits_and_its_checkpoints() {
    build();
    let cluster =
        Cluster::create("trace", &["autovacuum=off", "checkpoint_timeout=1h", "bgwriter_lru_maxpages=0"]);
    cluster.start();
    // Three times as large as shared buffers, and not extended while it is recorded.
    cluster.sql(
        "CREATE TABLE t AS SELECT g AS id, 0 AS ver, repeat('x', 400) AS f FROM generate_series(1, 6000) g",
    );
    cluster.sql("VACUUM (FREEZE, ANALYZE) t");
    let pages: usize = cluster.sql("SELECT relpages FROM pg_class WHERE relname = 't'").parse().unwrap();
    assert!(pages > 300, "{pages}");
    mezz(&["pg", "stop", "--pgdata", &cluster.directory]).expect(0);
    cluster.start();

    let scratch = Scratch::new();
    let trace = scratch.file("pg.mezztrace");
    let recording = begin(&cluster, &trace);
    mezz(&["trace", "record", &scratch.file("second"), "--pgdata", &cluster.directory, "--seconds", "1"])
        .expect(3)
        .complains(&["recorded already", "mezzanine_trace_stop"]);
    assert_eq!(cluster.sql("SET max_parallel_workers_per_gather = 0; SELECT count(*) FROM t"), "6000");
    for ver in 1..=5 {
        cluster.sql(&format!("UPDATE t SET ver = {ver} WHERE id = {ver}"));
    }
    cluster.sql("BEGIN; UPDATE t SET ver = 9 WHERE id = 9; ROLLBACK");
    cluster.sql("CHECKPOINT");
    // What was changed leaves shared buffers.
    cluster.sql("SET max_parallel_workers_per_gather = 0; UPDATE t SET ver = 100; SELECT count(*) FROM t");
    let said = end(recording);
    assert_eq!((&said["lost"], &said["tiers"]), (&0.into(), &serde_json::Value::Null));
    assert_eq!(said["commits"], 6, "{said}");
    assert_eq!(said["checkpoints"], 1, "{said}");

    let info = mezz(&["trace", "info", &trace, "--json"]).expect(0).json();
    assert_eq!((&info["naming"], &info["page_bytes"]), (&"postgres".into(), &8192.into()));
    for field in
        ["reads", "writes", "evictions_clean", "evictions_dirty", "commits", "checkpoints", "file_bytes"]
    {
        assert_eq!(info[field], said[field], "{field}");
    }
    let mut reader = open(trace.as_ref(), Format::Mezzanine, 1).unwrap();
    let requests: Vec<Request> = reader.by_ref().map(|request| request.unwrap()).collect();
    let table = reader.relations().iter().position(|it| it.name() == "postgres: table public.t").unwrap();
    let table = u32::try_from(table + 1).unwrap();
    let blocks = |op: Op, requests: &[Request]| {
        let mine = requests.iter().filter(|request| request.op == op && request.relation == Some(table));
        let mut blocks: Vec<u32> =
            mine.map(|request| reader.page_id(request.page).unwrap().relation_parts()[4]).collect();
        blocks.sort_unstable();
        blocks
    };
    // Until the first commit the table was read once, block by block, and nothing of it was written.
    let first = requests.iter().position(|request| request.op == Op::Commit).unwrap();
    let mut read = blocks(Op::Read, &requests[..first]);
    read.dedup();
    assert_eq!(read, (0..pages as u32).collect::<Vec<_>>());
    assert!(blocks(Op::Write, &requests[..first]).is_empty());
    assert!(!blocks(Op::EvictClean, &requests).is_empty());
    // The checkpoint wrote what five transactions had changed and nothing gave up before; the last one
    // changed more than fits.
    let checkpoint = requests.iter().position(|request| request.op == Op::Checkpoint).unwrap();
    assert!(!blocks(Op::Write, &requests[..checkpoint]).is_empty());
    assert!(blocks(Op::EvictDirty, &requests[checkpoint..]).len() > pages / 2);
    let numbers: Vec<u64> = requests
        .iter()
        .filter(|request| request.op == Op::Commit)
        .map(|it| it.transaction.unwrap())
        .collect();
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");
    let run = ["sim", "run", "--policy-only", "--trace", &trace, "--format", "mezzanine", "--design", "lru"];
    let run = mezz(&[&run[..], &["--frames", "200", "--json"]].concat()).expect(0).json();
    assert_eq!(
        run["requests"].as_u64(),
        Some(said["reads"].as_u64().unwrap() + said["writes"].as_u64().unwrap())
    );
    // Nothing of it stays in the data directory.
    assert_eq!(
        cluster.sql("SELECT count(*) FROM pg_ls_dir('.') WHERE pg_ls_dir LIKE 'mezzanine.trace.%'"),
        "0"
    );

    // Some seconds, and where it cannot be done.
    let short = scratch.file("short");
    let record = ["trace", "record", &short, "--pgdata", &cluster.directory, "--seconds", "1"];
    let (writer, recorded) = std::thread::scope(|scope| {
        let recorded = scope.spawn(|| mezz(&record).expect(0).stdout);
        std::thread::sleep(Duration::from_millis(500));
        (cluster.sql("UPDATE t SET ver = 7 WHERE id = 7"), recorded.join().unwrap())
    });
    assert!(writer.is_empty() && recorded.contains("commits"), "{recorded}");
    mezz(&["pg", "stop", "--pgdata", &cluster.directory]).expect(0);
    mezz(&[&record[..], &["--overwrite"]].concat()).expect(3).complains(&["not running", "mezz pg start"]);
}
