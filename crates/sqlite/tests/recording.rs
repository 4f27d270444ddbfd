//! A recording of databases has their transactions, whatever their journal mode.

#![allow(clippy::unwrap_used)]

mod support;

use std::path::Path;

use mezzanine_trace::{Format, Op, Request};
use rusqlite::Connection;
use support::{Folder, count, journal_mode, open, open_with, pragma_text};

fn requests(path: &Path) -> Vec<Request> {
    mezzanine_trace::open(path, Format::Mezzanine, 1).unwrap().map(|request| request.unwrap()).collect()
}

fn count_of(requests: &[Request], op: Op) -> usize {
    requests.iter().filter(|request| request.op == op).count()
}

fn insert(db: &Connection, rows: i64) {
    for row in 0..rows {
        db.execute("INSERT INTO t (b) VALUES (randomblob(?1))", [row * 100]).unwrap();
    }
}

#[test]
fn a_pragma_records_the_transactions_of_each_journal_mode() {
    for mode in ["wal", "delete", "truncate", "persist"] {
        let folder = Folder::new();
        let db = open(&folder, "app.db");
        journal_mode(&db, mode);
        db.execute_batch("CREATE TABLE t (a INTEGER PRIMARY KEY, b BLOB)").unwrap();
        let trace = folder.file("app.mezztrace");
        assert_eq!(pragma_text(&db, "mezzanine_trace"), "nothing is recorded");
        let started = pragma_text(&db, &format!("mezzanine_trace = '{}'", trace.display()));
        assert_eq!(started, format!("recording to {}", trace.display()));
        assert_eq!(pragma_text(&db, "mezzanine_trace"), started);
        insert(&db, 20);
        let other = open(&folder, "app.db");
        assert_eq!(count(&other, "SELECT count(*) FROM t"), 20);
        insert(&other, 5);
        if mode == "wal" {
            db.execute_batch("PRAGMA wal_checkpoint(truncate)").unwrap();
        }
        let told = pragma_text(&db, "mezzanine_trace = off");
        insert(&db, 3);
        let requests = requests(&trace);
        assert!(told.starts_with(&format!("recorded {} requests", requests.len())), "{told}");
        assert_eq!(count_of(&requests, Op::Commit), 25, "{mode}");
        assert_eq!(count_of(&requests, Op::Checkpoint), usize::from(mode == "wal"), "{mode}");
        let mut clients: Vec<_> = requests.iter().filter_map(|request| request.client).collect();
        clients.sort_unstable();
        clients.dedup();
        if mode != "wal" {
            assert_eq!(clients.len(), 2, "{mode}: two connections");
        } else {
            let first_write = requests.iter().position(|request| request.op == Op::Write).unwrap();
            assert_eq!(
                count_of(&requests[..first_write], Op::Commit),
                25,
                "pages are written by the checkpoint"
            );
        }
    }
}

#[test]
fn what_a_pragma_cannot_record_is_refused() {
    let folder = Folder::new();
    let db = open(&folder, "app.db");
    let refused = |value: &str| {
        let asked: rusqlite::Result<String> =
            db.query_row(&format!("PRAGMA mezzanine_trace = {value}"), [], |row| row.get(0));
        asked.unwrap_err().to_string()
    };
    assert!(refused("off").contains("nothing is recorded"));
    assert!(refused("''").contains("give the path"));
    assert!(refused("'/no/such/place/trace'").contains("/no/such/place/trace"));
    let trace = folder.file("trace");
    std::fs::write(&trace, "something else").unwrap();
    assert!(refused(&format!("'{}'", trace.display())).contains("nothing was overwritten"));
    assert_eq!(std::fs::read(&trace).unwrap(), b"something else");
}

#[test]
fn a_uri_records_from_the_opening_of_the_tier_to_its_closing() {
    let folder = Folder::new();
    let trace = folder.file("app.mezztrace");
    let parameter = format!("&trace={}", trace.display());
    let db = open_with(&folder, "app.db", &parameter).unwrap();
    db.execute_batch("CREATE TABLE t (a INTEGER PRIMARY KEY, b BLOB)").unwrap();
    insert(&db, 10);
    // A second database of the tier, and a second connection with the same URI.
    let second = open_with(&folder, "second.db", &parameter).unwrap();
    second.execute_batch("CREATE TABLE s (a)").unwrap();
    let third = open_with(&folder, "app.db", &parameter).unwrap();
    drop((db, second));
    assert!(!trace.exists());
    drop(third);
    let mut reader = mezzanine_trace::open(&trace, Format::Mezzanine, 1).unwrap();
    let requests: Vec<Request> = reader.by_ref().map(|request| request.unwrap()).collect();
    assert_eq!(count_of(&requests, Op::Commit), 12);
    let names: Vec<_> = reader.relations().iter().map(|relation| relation.name().to_owned()).collect();
    let file = |name: &str| folder.file(name).display().to_string();
    assert_eq!(names, [file("app.db"), file("second.db")]);
    let error = open_with(&folder, "app.db", &parameter).unwrap_err();
    let said = mezzanine_sqlite::last_error().unwrap();
    assert!(said.contains("nothing was overwritten") && said.contains("app.mezztrace"), "{error}: {said}");
    // A directory takes one trace after the other.
    let directory = folder.file("traces");
    std::fs::create_dir(&directory).unwrap();
    for _ in 0..2 {
        let db = open_with(&folder, "app.db", &format!("&trace={}", directory.display())).unwrap();
        insert(&db, 1);
    }
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 2);
}
