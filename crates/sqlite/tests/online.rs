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
