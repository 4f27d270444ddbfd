//! `mezz pg drain`: the files of a server that runs, was stopped or was killed are complete without its tier.
//!
//! All of it needs a server; see `pg.rs`.
#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;
use std::time::{Duration, Instant};

use common::mezz;
use common::server::{Cluster, build, text};

/// Rows that do not fit into shared buffers.
const ROWS: &str = "60000|1800030000|60000";

/// A running server in sync mode durable whose newest pages are in the tier.
fn cluster(name: &str, settings: &[&str]) -> Cluster {
    let mut settings = settings.to_vec();
    settings.extend(["mezzanine.sync_mode=durable", "autovacuum=off"]);
    let cluster = Cluster::create(name, &settings);
    cluster.start();
    cluster.sql(
        "CREATE TABLE t AS SELECT g AS id, 0 AS ver, repeat('x', 100) AS f FROM generate_series(1, 60000) g",
    );
    cluster.sql("CHECKPOINT; UPDATE t SET ver = 1");
    cluster.sql("CHECKPOINT");
    cluster
}

/// The rows by the files and the log alone: the tier is taken away, and a server without its library is
/// started.
fn rows_without_tier(cluster: &Cluster) -> String {
    cluster.take_flash_away();
    cluster.configure("shared_preload_libraries = ''");
    cluster.start();
    let rows = cluster.sql("SELECT count(*), sum(id), sum(ver) FROM t");
    mezz(&["pg", "stop", "--pgdata", &cluster.directory]).expect(0);
    rows
}

fn status(cluster: &Cluster, code: i32) -> serde_json::Value {
    mezz(&["pg", "status", "--json", "--pgdata", &cluster.directory]).expect(code).json()
}

fn drain(cluster: &Cluster) -> serde_json::Value {
    mezz(&["pg", "drain", "--json", "--pgdata", &cluster.directory]).expect(0).json()
}

#[test]
#[ignore = "needs a PostgreSQL build, and makes it if there is none"]
fn a_server_that_was_killed_is_drained_and_complete_without_its_tier() {
    build();
    let cluster = cluster("drain-killed", &[]);
    cluster.kill();
    assert_eq!(status(&cluster, 1)["tier"]["files_out_of_date"], true);
    let options = std::fs::read(Path::new(&cluster.directory).join("postmaster.opts")).unwrap();

    // Without its tier nothing can be done, and nothing is.
    let away = cluster.take_flash_away();
    mezz(&["pg", "drain", "--pgdata", &cluster.directory]).expect(3).complains(&[
        "did not come up",
        "is not on",
        "restore a backup",
    ]);
    assert_eq!(status(&cluster, 1)["tier"]["files_out_of_date"], true);
    std::fs::remove_file(&cluster.flash).unwrap();
    std::fs::rename(&away, &cluster.flash).unwrap();

    let drained = drain(&cluster);
    assert_eq!((&drained["running"], &drained["started"]), (&false.into(), &true.into()), "{drained}");
    assert!(drained["pages"].as_u64().unwrap() > 500, "{drained}");
    assert_eq!(
        (text(&drained, "cluster_state"), &drained["files_out_of_date"]),
        ("shut down", &false.into())
    );
    let status = status(&cluster, 1);
    assert_eq!((&status["running"], &status["tier"]["files_out_of_date"]), (&false.into(), &false.into()));
    assert_eq!(status["tier"]["marker"]["only_copies"], false);
    let now = std::fs::read(Path::new(&cluster.directory).join("postmaster.opts")).unwrap();
    assert_eq!(now, options, "the options of the drain are not those of the next start");

    // A second drain has nothing to do, and starts nothing.
    let again = drain(&cluster);
    assert_eq!((&again["started"], &again["pages"]), (&false.into(), &0.into()), "{again}");
    assert_eq!(rows_without_tier(&cluster), ROWS);
}

#[test]
#[ignore = "needs a PostgreSQL build, and makes it if there is none"]
fn a_server_that_kept_its_tier_undrained_at_its_shutdown_is_drained() {
    build();
    let cluster = cluster("drain-stopped", &["mezzanine.drain_on_shutdown=off"]);
    mezz(&["pg", "stop", "--pgdata", &cluster.directory]).expect(0);
    assert_eq!(status(&cluster, 1)["tier"]["files_out_of_date"], true);

    // What is about to be restored is not started for a drain.
    for (file, reason) in [("backup_label", "base backup"), ("recovery.signal", "point in time")] {
        let path = Path::new(&cluster.directory).join(file);
        std::fs::write(&path, "").unwrap();
        mezz(&["pg", "drain", "--pgdata", &cluster.directory]).expect(3).complains(&[reason, file]);
        std::fs::remove_file(&path).unwrap();
    }
    let drained = drain(&cluster);
    assert_eq!(drained["started"], true);
    assert!(drained["pages"].as_u64().unwrap() > 500, "{drained}");
    assert_eq!(rows_without_tier(&cluster), ROWS);
}

/// Stopped with its newest pages on flash; the table `v` has one, with these words in it.
fn with_victim(name: &str) -> (Cluster, String) {
    let cluster = cluster(name, &["mezzanine.drain_on_shutdown=off"]);
    cluster.sql("CREATE TABLE v AS SELECT 'the only' || ' victim' AS a");
    cluster.sql("CHECKPOINT");
    let path = cluster.sql("SELECT pg_relation_filepath('v')");
    mezz(&["pg", "stop", "--pgdata", &cluster.directory]).expect(0);
    (cluster, path)
}

#[test]
#[ignore = "needs a PostgreSQL build, and makes it if there is none"]
fn a_drain_saves_all_but_the_page_that_is_lost_and_names_it() {
    use std::os::unix::fs::FileExt as _;
    build();
    let (cluster, path) = with_victim("drain-lost");
    let bytes = std::fs::read(&cluster.flash).unwrap();
    let found: Vec<usize> =
        (0..bytes.len() - 15).filter(|at| bytes[*at..].starts_with(b"the only victim")).collect();
    assert!(!found.is_empty(), "the page is on flash");
    let flash = std::fs::File::options().write(true).open(&cluster.flash).unwrap();
    for at in found {
        flash.write_all_at(b"rot", at as u64).unwrap();
    }

    // In both forms: what is lost is lost the second time as well.
    let arguments = ["pg", "drain", "--pgdata", &cluster.directory];
    let said = mezz(&arguments).expect(1);
    let said = said.complains(&["1 of its pages could not be written", "mezzanine_give_up"]);
    assert!(
        said.stdout.contains(&format!(
            "lost: only flash had them, and it does not give them back\n  block 0, in file {path}\n"
        )),
        "{}",
        said.stdout
    );
    let drained = mezz(&[&arguments[..], &["--json"]].concat()).expect(1).json();
    let lost = &drained["unsaved"];
    assert_eq!(
        (lost.as_array().unwrap().len(), text(&lost[0], "why"), text(&lost[0], "path"), &lost[0]["block"]),
        (1, "lost", path.as_str(), &0.into()),
        "{drained}"
    );
    assert_eq!(drained["files_out_of_date"], true);

    // One that runs tells how many there are, and of those whose frames were needed which.
    cluster.start();
    mezz(&arguments).expect(3).complains(&["1 pages", "cannot be read", "stop the server"]);
    cluster.sql("SELECT mezzanine_give_up('v', 0)");
    assert!(drain(&cluster)["unsaved"].as_array().unwrap().is_empty());
    cluster.sql("DROP TABLE v");
    mezz(&["pg", "stop", "--pgdata", &cluster.directory]).expect(0);
    assert!(drain(&cluster)["unsaved"].as_array().unwrap().is_empty());
    assert_eq!(rows_without_tier(&cluster), ROWS);
}

#[test]
#[ignore = "needs a PostgreSQL build, and makes it if there is none"]
fn a_drain_saves_all_but_the_pages_of_a_file_that_is_missing_and_names_them() {
    build();
    let (cluster, path) = with_victim("drain-missing");
    let (file, away) = (Path::new(&cluster.directory).join(&path), cluster.file("away"));
    std::fs::rename(&file, &away).unwrap();
    let arguments = ["pg", "drain", "--json", "--pgdata", &cluster.directory];
    let said = mezz(&arguments).expect(1).complains(&["could not be written", "bring them back"]);
    let drained = said.json();
    assert_eq!(
        (text(&drained["unsaved"][0], "why"), text(&drained["unsaved"][0], "path")),
        ("not_taken", path.as_str()),
        "{drained}"
    );
    assert!(drained["pages"].as_u64().unwrap() > 500, "{drained}");
    assert!(!file.exists(), "nothing was made in its place");

    std::fs::rename(&away, &file).unwrap();
    let drained = drain(&cluster);
    assert!(drained["unsaved"].as_array().unwrap().is_empty(), "{drained}");
    assert_eq!(drained["files_out_of_date"], false);
    let rows = rows_without_tier(&cluster);
    assert_eq!(rows, ROWS);
    cluster.start();
    assert_eq!(cluster.sql("SELECT a FROM v"), "the only victim");
}

#[test]
#[ignore = "needs a PostgreSQL build, and makes it if there is none"]
fn a_running_server_is_drained_and_goes_on() {
    build();
    let cluster = cluster("drain-running", &[]);
    let drained = drain(&cluster);
    assert_eq!((&drained["running"], &drained["started"]), (&true.into(), &false.into()), "{drained}");
    assert!(drained["pages"].as_u64().unwrap() > 500, "{drained}");
    // The log of a running server goes on, and so may its tier.
    assert_eq!(drained["files_out_of_date"], true);
    assert_eq!(cluster.sql("SELECT count(*), sum(id), sum(ver) FROM t"), ROWS);
    cluster.sql("DROP EXTENSION mezzanine");
    mezz(&["pg", "drain", "--pgdata", &cluster.directory])
        .expect(3)
        .complains(&["cannot drain", "CREATE EXTENSION mezzanine"]);

    // One that was killed is drained without the extension, too; how many pages there were, nobody can ask.
    cluster.kill();
    let drained = drain(&cluster);
    assert_eq!((&drained["pages"], &drained["files_out_of_date"]), (&serde_json::Value::Null, &false.into()));
    assert!(text(&drained, "pages_unknown").contains("pg_stat_mezzanine"), "{drained}");
    assert_eq!(rows_without_tier(&cluster), ROWS);
}

#[test]
#[ignore = "needs a PostgreSQL build, and makes it if there is none"]
fn a_server_that_never_had_a_tier_has_nothing_to_drain() {
    build();
    let cluster = Cluster::without_tier("drain-none");
    let refused = |reason: &str| {
        mezz(&["pg", "drain", "--pgdata", &cluster.directory])
            .expect(3)
            .complains(&[&cluster.directory, reason]);
    };
    refused("no tier was ever used with it");
    cluster.start();
    refused("cannot drain the tier");
}

#[test]
#[ignore = "needs a PostgreSQL build, and makes it if there is none"]
fn a_standby_that_was_killed_is_drained_and_stays_one() {
    build();
    let primary = cluster("drain-primary", &[]);
    let standby = primary.standby("drain-standby");
    primary.sql("UPDATE t SET ver = 2");
    let end = primary.sql("SELECT pg_current_wal_insert_lsn()");
    let caught_up = format!("SELECT pg_last_wal_replay_lsn() >= '{end}'");
    let until = Instant::now() + Duration::from_secs(60);
    while standby.sql(&caught_up) != "t" {
        assert!(Instant::now() < until, "the standby does not follow");
        std::thread::sleep(Duration::from_millis(50));
    }
    standby.kill();
    assert_eq!(status(&standby, 1)["tier"]["files_out_of_date"], true);
    let drained = drain(&standby);
    assert_eq!(
        (&drained["started"], &drained["files_out_of_date"]),
        (&true.into(), &false.into()),
        "{drained}"
    );
    assert_eq!(text(&drained, "cluster_state"), "shut down in recovery");
    assert!(drained["pages"].as_u64().unwrap() > 500, "{drained}");
    // It follows again, and is complete without its tier.
    primary.sql("UPDATE t SET ver = 3 WHERE id = 1");
    standby.take_flash_away();
    standby.configure("shared_preload_libraries = ''");
    standby.start();
    while standby.sql("SELECT count(*), sum(id), sum(ver), pg_is_in_recovery() FROM t")
        != "60000|1800030000|120001|t"
    {
        assert!(Instant::now() < until + Duration::from_secs(60), "the standby does not follow any more");
        std::thread::sleep(Duration::from_millis(50));
    }
}
