//! An SQLite without the tier in the same process: what it has locked stays locked, whatever the tier opens
//! and closes.

#![allow(clippy::unwrap_used)]

mod support;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use mezzanine_sqlite::last_error;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use support::{Folder, check, count, flags, journal_mode, open, register, uri};

fn stock(path: &Path) -> Connection {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    let db = Connection::open_with_flags_and_vfs(path, flags, "unix").unwrap();
    db.busy_timeout(Duration::ZERO).unwrap();
    db
}

/// Another process without a tier that writes; whether it could.
fn another_process_writes(path: &Path) -> bool {
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "writing_process", "--test-threads=1"])
        .env("MEZZANINE_STOCK_DATABASE", path)
        .output()
        .unwrap();
    status.status.success()
}

#[test]
#[ignore = "is run by other tests in a process of its own"]
fn writing_process() {
    let path = std::env::var("MEZZANINE_STOCK_DATABASE").expect("other tests set this");
    stock(Path::new(&path)).execute_batch("INSERT INTO t VALUES (1000)").unwrap();
}

fn refused(folder: &Folder, database: &str) {
    register();
    let uri = uri(&folder.file(database), &folder.file("flash.mezz"), "");
    let error = Connection::open_with_flags(uri, flags()).unwrap_err();
    assert_eq!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy), "{error}");
    assert!(last_error().unwrap().contains("in use by"), "{:?}", last_error());
}

/// Was found by trial: a refused opening closed its descriptor, and with it gave back the locks of an open
/// transaction, into which another process then wrote.
#[test]
fn a_refused_opening_leaves_the_locks_of_a_transaction() {
    let folder = Folder::new();
    let path = folder.file("app.db");
    let db = stock(&path);
    db.execute_batch("CREATE TABLE t (a); BEGIN IMMEDIATE; INSERT INTO t VALUES (1)").unwrap();
    for _ in 0..3 {
        refused(&folder, "app.db");
        assert!(!another_process_writes(&path), "another process wrote inside a transaction");
    }
    db.execute_batch("COMMIT").unwrap();
    assert!(another_process_writes(&path));
    check(&db);
    assert_eq!(count(&db, "SELECT sum(a) FROM t"), 1001);
    drop(db);
    let db = open(&folder, "app.db");
    assert_eq!(count(&db, "SELECT sum(a) FROM t"), 1001);
}

/// Was found by trial: the second opening succeeded beside a connection in WAL mode, whose commits were lost.
#[test]
fn a_connection_in_wal_mode_keeps_the_tier_away_however_often_it_is_asked_for() {
    let folder = Folder::new();
    let db = stock(&folder.file("app.db"));
    journal_mode(&db, "wal");
    db.execute_batch("CREATE TABLE t (a)").unwrap();
    for number in 0..50 {
        refused(&folder, "app.db");
        db.execute("INSERT INTO t VALUES (?1)", [number]).unwrap();
    }
    drop(db);
    let db = open(&folder, "app.db");
    assert_eq!(count(&db, "SELECT count(*) FROM t"), 50);
}

/// A database that nobody has named here is opened because its pages are in the tier.
#[test]
fn a_database_that_a_tier_brings_along_is_no_exception() {
    let folder = Folder::new();
    {
        let (one, other) = (open(&folder, "one.db"), open(&folder, "other.db"));
        one.execute_batch("CREATE TABLE t (a)").unwrap();
        other.execute_batch("CREATE TABLE t (a)").unwrap();
        support::pragma_text(&one, "mezzanine_drain");
    }
    let other = stock(&folder.file("other.db"));
    other.execute_batch("BEGIN IMMEDIATE; INSERT INTO t VALUES (1)").unwrap();
    let one = open(&folder, "one.db");
    one.execute_batch("INSERT INTO t VALUES (2)").unwrap();
    assert!(!another_process_writes(&folder.file("other.db")));
    other.execute_batch("COMMIT").unwrap();
    check(&other);
}

/// And what was opened is closed while it is locked, so that no lock of another connection goes with it.
#[test]
fn an_opening_that_ends_leaves_the_locks_of_whoever_comes_next() {
    let folder = Folder::new();
    let path = folder.file("app.db");
    for _ in 0..20 {
        let ours = open(&folder, "app.db");
        ours.execute_batch("CREATE TABLE IF NOT EXISTS t (a)").unwrap();
        support::pragma_text(&ours, "mezzanine_drain");
        let next = stock(&path);
        let waiting = std::thread::spawn(move || {
            next.busy_timeout(Duration::from_secs(20)).unwrap();
            // "unable to open database file" as long as the log directory stands.
            while next.execute_batch("BEGIN IMMEDIATE; INSERT INTO t VALUES (1)").is_err() {}
            next
        });
        drop(ours);
        let next = waiting.join().unwrap();
        assert!(!another_process_writes(&path));
        next.execute_batch("COMMIT").unwrap();
    }
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let open = descriptors.filter(|it| std::fs::read_link(it.path()).is_ok_and(|to| to == path)).count();
    // One that could not be closed is the next one's; it is open once more past the page cache.
    assert!(open <= 2, "{open} descriptors of the database are open");
}

/// Whether a database can be opened whose lock another one gives back after a time: as the process does that
/// is to become another program, and has a copy of a descriptor which is closed here.
fn opens_beside_a_lock_that_goes(after: Duration) -> bool {
    let folder = Folder::new();
    let other = stock(&folder.file("app.db"));
    other.execute_batch("CREATE TABLE t (a); BEGIN IMMEDIATE").unwrap();
    let gone = std::thread::spawn(move || {
        std::thread::sleep(after);
        other.execute_batch("COMMIT").unwrap();
        other
    });
    let opened = support::open_with(&folder, "app.db", "")
        .is_ok_and(|db| db.query_row("SELECT count(*) FROM t", [], |_| Ok(())).is_ok());
    drop(gone.join().unwrap());
    opened
}

#[test]
fn a_lock_that_goes_in_a_moment_is_awaited() {
    assert!(opens_beside_a_lock_that_goes(Duration::from_millis(10)));
}

#[cfg(feature = "planted")]
#[test]
fn without_waiting_a_lock_that_goes_is_an_error() {
    mezzanine_engine::planted::set(Some(mezzanine_engine::planted::Bug::ClosingHurried));
    let opened = opens_beside_a_lock_that_goes(Duration::from_millis(40));
    mezzanine_engine::planted::set(None);
    assert!(!opened);
}

#[cfg(feature = "planted")]
#[test]
fn without_keeping_descriptors_open_locks_go() {
    let folder = Folder::new();
    let path = folder.file("app.db");
    let db = stock(&path);
    db.execute_batch("CREATE TABLE t (a); BEGIN IMMEDIATE; INSERT INTO t VALUES (1)").unwrap();
    mezzanine_engine::planted::set(Some(mezzanine_engine::planted::Bug::DatabaseClosedAtOnce));
    refused(&folder, "app.db");
    mezzanine_engine::planted::set(None);
    assert!(another_process_writes(&path));
}
