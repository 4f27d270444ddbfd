//! `mezz tier` on the flash of a PostgreSQL server: busy while it runs; looked at, checked and kept when it
//! is dead.
//!
//! All of it needs a server; see `pg.rs`.
#![allow(clippy::unwrap_used)]

mod common;

use std::os::unix::fs::FileExt as _;

use common::mezz;
use common::server::{Cluster, build, text};
use serde_json::Value;

/// What is in every row, to find its pages on flash by.
const NEEDLE: &str = "a row that has to be kept";
const ROWS: &str = "20000|200010000|20000";

/// A server that was killed when the newest version of its table was in the tier.
fn dead(name: &str, mode: &str) -> (Cluster, String) {
    let mode = format!("mezzanine.sync_mode={mode}");
    let cluster = Cluster::create(name, &[&mode, "autovacuum=off"]);
    cluster.start();
    cluster.sql("CREATE TABLE t (id integer, ver integer, f text)");
    cluster.sql(&format!(
        "INSERT INTO t SELECT g, 0, '{NEEDLE}' || repeat('x', 100) FROM generate_series(1, 20000) g"
    ));
    cluster.sql("CHECKPOINT");
    cluster.sql("UPDATE t SET ver = 1");
    let path = cluster.sql("SELECT pg_relation_filepath('t')");
    for verb in [&["inspect"][..], &["verify"], &["drain"], &["format"]] {
        let files: &[&str] = if verb == ["drain"] { &[cluster.directory.as_str()] } else { &[] };
        let arguments = [&["tier"], verb, &[cluster.flash.as_str()], files].concat();
        mezz(&arguments).expect(3).complains(&[&cluster.flash, "a database is using the tier"]);
    }
    cluster.kill();
    (cluster, path)
}

fn inspect(cluster: &Cluster) -> Value {
    mezz(&["tier", "inspect", "--json", &cluster.flash]).expect(0).json()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// Damages all copies of the table's pages on flash whose place is asked for by `wanted`; returns what was
/// there.
fn damage(cluster: &Cluster) -> Vec<u8> {
    let before = std::fs::read(&cluster.flash).unwrap();
    let file = std::fs::File::options().write(true).open(&cluster.flash).unwrap();
    let mut at = 0;
    while let Some(found) = before[at..].windows(NEEDLE.len()).position(|window| window == NEEDLE.as_bytes())
    {
        file.write_all_at(b"rot", (at + found) as u64).unwrap();
        // One place in each page will do.
        at = (at + found + 8192).min(before.len());
    }
    assert!(at > 0, "the table is on flash");
    before
}

#[test]
#[ignore = "needs a PostgreSQL build, and makes it if there is none"]
fn a_dead_servers_only_copies_are_shown_checked_and_kept() {
    build();
    let (cluster, path) = dead("tier-durable", "durable");
    let seen = inspect(&cluster);
    let postgresql = &seen["postgresql"];
    assert_eq!((text(&seen, "state"), text(&seen, "sync_mode")), ("open", "durable"));
    assert_eq!(postgresql["system_identifier"].to_string(), cluster.control("Database system identifier"));
    assert_eq!(postgresql["checksums"], true);
    let redo = cluster.control("Latest checkpoint's REDO location");
    assert!(
        [&postgresql["redo"], &postgresql["redo_pending"]].iter().any(|place| **place == redo),
        "{postgresql}"
    );
    assert_eq!(postgresql["timeline"].to_string(), cluster.control("Latest checkpoint's TimeLineID"));
    let relations = postgresql["relations"].as_array().unwrap();
    let sum = |name: &str| relations.iter().map(|relation| number(&relation[name])).sum::<u64>();
    assert_eq!(sum("pages"), number(&seen["recovery"]["pages"]));
    assert_eq!(sum("pages_dirty"), number(&seen["recovery"]["pages_dirty"]));
    assert_eq!(text(&relations[0], "path"), path, "most dirty pages come first");
    assert!(number(&relations[0]["pages_dirty"]) > 300, "{postgresql}");
    let shown = mezz(&["tier", "inspect", &cluster.flash]).expect(0).stdout;
    for part in [&path, "newer than disk", "OUT OF DATE", "mezz pg drain"] {
        assert!(shown.contains(part), "{part} in:\n{shown}");
    }

    let checked = mezz(&["tier", "verify", "--all", "--json", &cluster.flash]).expect(0).json();
    assert_eq!(
        number(&checked["pages_dirty"]) + number(&checked["pages_clean_read"]),
        number(&checked["pages"]),
        "every page is read: {checked}"
    );
    assert_eq!((&checked["pages_dirty_damaged"], &checked["pages_clean_damaged"]), (&0.into(), &0.into()));

    // Nothing destroys what is nowhere else, and nothing here writes to the data directory.
    mezz(&["tier", "drain", &cluster.flash, &cluster.directory])
        .expect(3)
        .complains(&["PostgreSQL cluster", "mezz pg drain --pgdata"]);
    mezz(&["tier", "format", &cluster.flash]).expect(3).complains(&[
        "may be nowhere else",
        "mezz pg drain",
        "nothing was changed",
    ]);
    assert_eq!(inspect(&cluster)["recovery"]["pages_dirty"], seen["recovery"]["pages_dirty"]);

    let before = damage(&cluster);
    mezz(&["tier", "verify", "--all", &cluster.flash]).expect(1).complains(&["damaged", "from a backup"]);
    let found = mezz(&["tier", "verify", "--all", "--json", &cluster.flash]).expect(1);
    if !found.stdout.is_empty() {
        let findings = found.json()["findings"].to_string();
        assert!(findings.contains("block ") && findings.contains(&format!("in file {path}")), "{findings}");
    }
    std::fs::write(&cluster.flash, before).unwrap();

    mezz(&["pg", "drain", "--pgdata", &cluster.directory]).expect(0);
    let seen = inspect(&cluster);
    assert_eq!((text(&seen, "state"), &seen["recovery"]["pages_dirty"]), ("drained", &0.into()));
    assert_eq!(seen["postgresql"]["files"], "complete without this tier");
    mezz(&["tier", "format", &cluster.flash]).expect(0);
    cluster.start();
    assert_eq!(cluster.sql("SELECT count(*), sum(id), sum(ver) FROM t"), ROWS);
}

#[test]
#[ignore = "needs a PostgreSQL build, and makes it if there is none"]
fn a_damaged_tier_of_mode_drained_is_told_to_be_dispensable_and_is() {
    build();
    let (cluster, _) = dead("tier-drained", "drained");
    let seen = inspect(&cluster);
    assert!(number(&seen["recovery"]["pages_dirty"]) > 0, "{seen}");
    assert!(text(&seen["postgresql"], "files").contains("crash recovery"), "{seen}");
    damage(&cluster);
    mezz(&["tier", "verify", &cluster.flash]).expect(1).complains(&["damaged", "nothing is lost"]);
    cluster.take_flash_away();
    cluster.start();
    assert_eq!(cluster.sql("SELECT count(*), sum(id), sum(ver) FROM t"), ROWS);
}
