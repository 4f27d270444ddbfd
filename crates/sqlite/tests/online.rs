//! Pragmas that change a tier in use.

#![allow(clippy::unwrap_used)]

mod support;

use rusqlite::Connection;
use support::{Folder, check, count, journal_mode, open_with, pragma_text};

/// The message of a pragma that is refused.
fn refused(db: &Connection, pragma: &str) -> String {
    let asked: rusqlite::Result<String> = db.query_row(&format!("PRAGMA {pragma}"), [], |row| row.get(0));
    asked.unwrap_err().to_string()
}

fn fill(db: &Connection, from: i64, rows: i64) {
    for row in from..from + rows {
        db.execute("INSERT INTO t VALUES (?1, randomblob(3000))", [row]).unwrap();
    }
}

#[test]
fn a_tier_is_resized_by_pragma() {
    let folder = Folder::new();
    let db = open_with(&folder, "app.db", "&flash_max_size=16MiB").unwrap();
    journal_mode(&db, "wal");
    db.execute_batch("CREATE TABLE t (a INTEGER PRIMARY KEY, b BLOB); PRAGMA synchronous = normal").unwrap();
    let at_rest = pragma_text(&db, "mezzanine_resize");
    assert!(at_rest.contains("no resize is under way"), "{at_rest}");
    let asked = pragma_text(&db, "mezzanine_resize = '16MiB'");
    assert!(asked.contains("to be 16"), "{asked}");
    assert_eq!(pragma_text(&db, "mezzanine_resize = cancel"), at_rest);
    pragma_text(&db, "mezzanine_resize = '12MiB'");
    let mut rows = 0;
    while !pragma_text(&db, "mezzanine_resize").contains("no resize") {
        fill(&db, rows, 100);
        rows += 100;
        assert!(rows < 50_000, "it never ends: {}", pragma_text(&db, "mezzanine_resize"));
        db.execute_batch("PRAGMA wal_checkpoint(passive)").unwrap();
    }
    assert_ne!(pragma_text(&db, "mezzanine_resize"), at_rest);
    assert_eq!(count(&db, "SELECT count(*) FROM t"), rows);
    check(&db);
    for (value, part) in [
        ("'1TiB'", "formatted for"),
        ("'4KiB'", "at least"),
        ("much", "write a size"),
        ("-1", "write a size"),
        ("0", "write a size"),
    ] {
        let message = refused(&db, &format!("mezzanine_resize = {value}"));
        assert!(message.contains(part), "{value}: {message}");
    }
    check(&db);
}

#[test]
fn a_tier_cannot_be_made_larger_than_its_room() {
    let folder = Folder::new();
    let error = open_with(&folder, "app.db", "&flash_max_size=1MiB").unwrap_err();
    let message = mezzanine_sqlite::last_error().unwrap();
    assert!(message.contains("flash_max_size=1048576") && message.contains("at least"), "{error}: {message}");
}

#[test]
fn the_sync_mode_is_switched_by_pragma_and_stays() {
    let folder = Folder::new();
    let db = open_with(&folder, "app.db", "").unwrap();
    journal_mode(&db, "wal");
    db.execute_batch("CREATE TABLE t (a INTEGER PRIMARY KEY, b BLOB)").unwrap();
    fill(&db, 0, 50);
    assert_eq!(pragma_text(&db, "mezzanine_sync_mode"), "durable");
    assert_eq!(pragma_text(&db, "mezzanine_sync_mode = through"), "through");
    fill(&db, 50, 50);
    db.execute_batch("PRAGMA wal_checkpoint(truncate)").unwrap();
    assert!(pragma_text(&db, "mezzanine_status").contains("sync_mode through\n"));
    // The file is whole without the tier.
    let on_disk = std::fs::read(folder.file("app.db")).unwrap();
    assert!(on_disk.starts_with(b"SQLite format 3"));
    drop(db);
    let db = open_with(&folder, "app.db", "").unwrap();
    assert_eq!(pragma_text(&db, "mezzanine_sync_mode"), "through");
    assert_eq!(pragma_text(&db, "mezzanine_sync_mode = 'durable'"), "durable");
    fill(&db, 100, 50);
    assert_eq!(count(&db, "SELECT count(*) FROM t"), 150);
    check(&db);
    for (value, part) in [("drained", "use one of through, durable"), ("''", "use one of through, durable")] {
        let message = refused(&db, &format!("mezzanine_sync_mode = {value}"));
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn admission_is_stopped_and_resumed_by_pragma() {
    let folder = Folder::new();
    let db = open_with(&folder, "app.db", "").unwrap();
    journal_mode(&db, "wal");
    db.execute_batch("CREATE TABLE t (a INTEGER PRIMARY KEY, b BLOB)").unwrap();
    fill(&db, 0, 50);
    db.execute_batch("PRAGMA wal_checkpoint(truncate)").unwrap();
    assert_eq!(pragma_text(&db, "mezzanine_admission"), "on");
    assert!(pragma_text(&db, "mezzanine_admission = off").starts_with("off: the databases are current"));
    assert!(std::fs::read(folder.file("app.db")).unwrap().starts_with(b"SQLite format 3"));
    fill(&db, 50, 50);
    db.execute_batch("PRAGMA wal_checkpoint(truncate)").unwrap();
    assert!(pragma_text(&db, "mezzanine_status").contains("admission off\n"));
    assert_eq!(pragma_text(&db, "mezzanine_admission = on"), "on");
    fill(&db, 100, 50);
    assert_eq!(count(&db, "SELECT count(*) FROM t"), 150);
    check(&db);
    let message = refused(&db, "mezzanine_admission = maybe");
    assert!(message.contains("use one of on, off"), "{message}");
}

/// How a log is left behind that holds something.
#[derive(Clone, Copy)]
enum LeftBehind {
    NoCheckpoint,
    PersistentLog,
}

/// Whether an SQLite without a tier reads what was committed, once a tier was drained and closed.
fn is_ordinary_once_drained(how: LeftBehind) -> bool {
    let folder = Folder::new();
    let (db, second) =
        (open_with(&folder, "app.db", "").unwrap(), open_with(&folder, "second.db", "").unwrap());
    for db in [&db, &second] {
        journal_mode(db, "wal");
        db.execute_batch("CREATE TABLE t (a); INSERT INTO t VALUES (7)").unwrap();
    }
    match how {
        LeftBehind::NoCheckpoint => {
            db.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).unwrap();
        }
        LeftBehind::PersistentLog => {
            use rusqlite::ffi;
            let mut on: std::ffi::c_int = 1;
            // SAFETY: it is not closed meanwhile.
            let handle = unsafe { db.handle() };
            let operation = ffi::SQLITE_FCNTL_PERSIST_WAL;
            // SAFETY: this operation takes a number.
            let code = unsafe {
                ffi::sqlite3_file_control(handle, c"main".as_ptr(), operation, (&raw mut on).cast())
            };
            assert_eq!(code, ffi::SQLITE_OK);
        }
    }
    assert!(pragma_text(&db, "mezzanine_drain").contains("ordinary databases once they are closed"));
    db.close().unwrap();
    second.close().unwrap();
    ["app.db", "second.db"].iter().all(|name| {
        let stock = Connection::open(folder.file(name)).unwrap();
        stock.query_row("SELECT a FROM t", [], |row| row.get::<_, i64>(0)) == Ok(7)
    })
}

/// Was found by trial: SQLite without the tier was unable to open such a database file.
#[test]
fn drained_databases_are_ordinary_files_whatever_log_is_left() {
    let all = || {
        is_ordinary_once_drained(LeftBehind::NoCheckpoint)
            && is_ordinary_once_drained(LeftBehind::PersistentLog)
    };
    mezzanine_engine::planted::only_with(&[mezzanine_engine::planted::Bug::DrainedLogsKept], all);
}
