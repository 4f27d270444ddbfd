//! What the driver for SQLite promises: options take effect, readers run beside the writer, conflicts are
//! conflicts.
#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used)]

mod support;

use mezzanine_workload::sqlite::{JournalMode, SqliteDatabase, SqliteOptions, Synchronous};
use mezzanine_workload::{Access, Database, ErrorKind, Scale, Session, Statement, Value, load};
use rusqlite::Connection;
use support::{Kind, TestDatabase};

const READ: Statement = Statement { name: "READ", sql: "SELECT w_ytd FROM warehouse WHERE w_id = 1" };
const WRITE: Statement =
    Statement { name: "WRITE", sql: "UPDATE warehouse SET w_ytd = w_ytd + 1 WHERE w_id = 1" };

fn read(session: &mut dyn Session) -> i64 {
    let mut found = 0;
    session
        .query(READ, &[], &mut |row| {
            found = row.int(0)?;
            Ok(())
        })
        .unwrap();
    found
}

fn pragma(session: &mut dyn Session, sql: &'static str) -> String {
    let mut found = String::new();
    session
        .query(Statement { name: "PRAGMA", sql }, &[], &mut |row| {
            found = match row.value(0)? {
                Value::Text(text) => text.to_owned(),
                Value::Int(number) => number.to_string(),
                Value::Null => "NULL".to_owned(),
            };
            Ok(())
        })
        .unwrap();
    found
}

#[test]
fn options_hold_in_every_session_and_after_loading() {
    let database = TestDatabase::empty(Kind::WalFile);
    load(&database.database, Scale::tiny(1), 1, &|_| {}).unwrap();
    let mut session = database.session();
    for (sql, expected) in [
        ("PRAGMA page_size", "4096"),
        ("PRAGMA cache_size", "-256"),
        ("PRAGMA journal_mode", "wal"),
        ("PRAGMA synchronous", "0"),
        ("PRAGMA wal_autocheckpoint", "100"),
        ("PRAGMA integrity_check", "ok"),
    ] {
        assert_eq!(pragma(session.as_mut(), sql), expected, "{sql}");
    }
}

#[test]
fn the_loading_session_gets_its_options_back() {
    let database = TestDatabase::empty(Kind::WalFile);
    let mut session = database.session();
    session.begin_load().unwrap();
    assert_eq!(pragma(session.as_mut(), "PRAGMA journal_mode"), "memory");
    session.end_load().unwrap();
    assert_eq!(pragma(session.as_mut(), "PRAGMA journal_mode"), "wal");
    assert_eq!(pragma(session.as_mut(), "PRAGMA cache_size"), "-256");
    assert_eq!(pragma(session.as_mut(), "PRAGMA synchronous"), "0");
}

#[test]
fn with_a_write_ahead_log_a_reader_keeps_its_snapshot_beside_the_writer() {
    let database = TestDatabase::loaded(Kind::WalFile, Scale::tiny(1), 1);
    let (mut reader, mut writer) = (database.session(), database.session());
    reader.begin(Access::ReadOnly).unwrap();
    let before = read(reader.as_mut());
    writer.begin(Access::ReadWrite).unwrap();
    writer.execute(WRITE, &[]).unwrap();
    writer.commit().unwrap();
    assert_eq!(read(reader.as_mut()), before);
    reader.commit().unwrap();
    assert_eq!(read(reader.as_mut()), before + 1);
}

#[test]
fn writing_from_an_old_snapshot_is_a_conflict_and_nothing_else_is() {
    let database = TestDatabase::loaded(Kind::WalFile, Scale::tiny(1), 1);
    let (mut late, mut writer) = (database.session(), database.session());
    late.begin(Access::ReadOnly).unwrap();
    read(late.as_mut());
    writer.begin(Access::ReadWrite).unwrap();
    writer.execute(WRITE, &[]).unwrap();
    writer.commit().unwrap();
    // SQLITE_BUSY_SNAPSHOT
    let error = late.execute(WRITE, &[]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert!(error.is_retryable());
    late.rollback().unwrap();

    let wrong = Statement { name: "WRONG", sql: "UPDATE warehouse SET w_id = NULL" };
    let error = writer.execute(wrong, &[]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Database, "{error}");
    assert!(!error.is_retryable());
}

#[test]
fn a_session_that_is_dropped_in_a_transaction_lets_the_next_writer_in() {
    let database = TestDatabase::loaded(Kind::RollbackFile, Scale::tiny(1), 1);
    let mut writer = database.session();
    writer.begin(Access::ReadWrite).unwrap();
    writer.execute(WRITE, &[]).unwrap();
    drop(writer);
    let mut next = database.session();
    let before = read(next.as_mut());
    next.begin(Access::ReadWrite).unwrap();
    next.execute(WRITE, &[]).unwrap();
    next.commit().unwrap();
    assert_eq!((before, read(next.as_mut())), (300_000, 300_001));
}

#[test]
fn rolling_back_twice_or_nothing_is_no_error_and_frees_the_turn_once() {
    let database = TestDatabase::loaded(Kind::Memory, Scale::tiny(1), 1);
    let mut session = database.session();
    session.rollback().unwrap();
    session.begin(Access::ReadWrite).unwrap();
    session.rollback().unwrap();
    session.rollback().unwrap();
    session.begin(Access::ReadWrite).unwrap();
    session.commit().unwrap();
}

#[test]
fn a_factory_makes_the_connections() {
    let anchor = Connection::open("file:/factory-test?vfs=memdb").unwrap();
    let options = SqliteOptions {
        journal_mode: JournalMode::Memory,
        synchronous: Synchronous::Off,
        ..SqliteOptions::default()
    };
    let database =
        SqliteDatabase::with_factory("factory", || Connection::open("file:/factory-test?vfs=memdb"), options);
    load(&database, Scale::tiny(1), 1, &|_| {}).unwrap();
    let customers: i64 = anchor.query_row("SELECT COUNT(*) FROM customer", [], |row| row.get(0)).unwrap();
    assert_eq!(customers, 300);
}

#[test]
fn what_cannot_be_opened_or_set_is_refused_with_its_name() {
    let open = |path: &str, vfs, options| {
        let database = SqliteDatabase::new(path, vfs, options);
        let error = database.open_session().err().unwrap();
        (error.kind(), error.to_string())
    };
    let (kind, message) = open("/nonexistent/tpcc.db", None, SqliteOptions::default());
    assert_eq!(kind, ErrorKind::Database);
    assert!(message.contains("/nonexistent/tpcc.db"), "{message}");
    let (_, message) = open(":memory:", Some("no-such-vfs"), SqliteOptions::default());
    assert!(message.contains("no such vfs"), "{message}");
    let options = SqliteOptions { page_size: Some(5_000), ..SqliteOptions::default() };
    let (kind, message) = open(":memory:", None, options);
    assert_eq!(kind, ErrorKind::Configuration);
    assert!(message.contains("page_size is 5000"), "{message}");
    // A database in memory has no write-ahead log.
    let (kind, message) = open(":memory:", None, SqliteOptions::default());
    assert_eq!(kind, ErrorKind::Configuration);
    assert!(message.contains("journal mode stays memory instead of wal"), "{message}");
}
