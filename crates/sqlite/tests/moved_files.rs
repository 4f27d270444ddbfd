//! A folder is renamed while a tier knows the databases in it, open or closed: what the tier says of them
//! from then on is said beside them as well.

#![allow(clippy::unwrap_used)]

mod support;

use std::fs;
use std::path::Path;

use mezzanine_engine::planted::{Bug, only_with};
use rusqlite::Connection;
use support::{Folder, check, count, flags, journal_mode, pragma_text, register, uri};

fn open(folder: &Folder, database: &Path, more: &str) -> rusqlite::Result<Connection> {
    register();
    Connection::open_with_flags(uri(database, &folder.file("flash.mezz"), more), flags())
}

fn fill(db: &Connection, rows: i64) -> rusqlite::Result<()> {
    db.execute_batch("BEGIN")?;
    for row in 0..rows {
        db.execute("INSERT INTO t VALUES (?1, randomblob(900))", [row])?;
    }
    db.execute_batch("COMMIT")
}

/// Whether a database that was moved is found with as many rows.
fn is_whole(folder: &Folder, database: &Path, rows: i64) -> bool {
    let Ok(db) = open(folder, database, "") else { return false };
    let Ok(found) = db.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0)) else {
        return false;
    };
    check(&db);
    found == rows && db.execute("INSERT INTO t VALUES (1, 1)", []).is_ok()
}

/// One that is closed, on the tier of another one that goes on.
fn closed_and_moved(mode: &str, drained: bool) -> bool {
    let folder = Folder::new();
    let more = format!("&sync_mode={mode}");
    ["a", "b"].iter().for_each(|place| fs::create_dir(folder.file(place)).unwrap());
    let kept = open(&folder, &folder.file("a").join("kept.db"), &more).unwrap();
    kept.execute_batch("CREATE TABLE t (a, b)").unwrap();
    let app = open(&folder, &folder.file("b").join("app.db"), &more).unwrap();
    app.execute_batch("CREATE TABLE t (a, b)").unwrap();
    fill(&app, 100).unwrap();
    app.close().unwrap();
    fs::rename(folder.file("b"), folder.file("moved")).unwrap();
    if drained {
        pragma_text(&kept, "mezzanine_drain");
    }
    // More than the tier has room for: the other one's pages go to disk.
    (0..12).for_each(|_| fill(&kept, 1000).unwrap());
    assert_eq!(count(&kept, "SELECT count(*) FROM t"), 12_000);
    kept.close().unwrap();
    is_whole(&folder, &folder.file("moved").join("app.db"), 100)
}

#[test]
fn a_closed_database_may_move_with_its_folder() {
    for (mode, drained) in [("durable", false), ("durable", true), ("through", false)] {
        let bugs: &[Bug] = if mode == "durable" { &[Bug::MovedSidecarLeft] } else { &[] };
        only_with(bugs, || closed_and_moved(mode, drained));
    }
}

/// One that is open, and only read from then on, which may take pages into the tier; or closed without more.
fn open_and_moved(mode: &str, journal: &str, back: bool) -> bool {
    let folder = Folder::new();
    let more = format!("&sync_mode={mode}");
    let (place, moved) = (folder.file("app"), folder.file("app.old"));
    fs::create_dir(&place).unwrap();
    let app = open(&folder, &place.join("app.db"), &more).unwrap();
    app.execute_batch("CREATE TABLE t (a, b)").unwrap();
    journal_mode(&app, journal);
    fill(&app, 6000).unwrap();
    // Empty, so that pages are read from disk, and with a page that only it has.
    ["off", "on"].iter().for_each(|clean| drop(pragma_text(&app, &format!("mezzanine_admission = {clean}"))));
    app.execute("INSERT INTO t VALUES (1, 1)", []).unwrap();
    app.close().unwrap();

    let app = open(&folder, &place.join("app.db"), &more).unwrap();
    assert_eq!(count(&app, "SELECT count(*) FROM sqlite_schema"), 1);
    fs::rename(&place, &moved).unwrap();
    let _ = app.query_row("SELECT sum(length(b)) FROM t", [], |row| row.get::<_, i64>(0));
    // As SQLite alone, which does not go on where it does not find its journal.
    let _ = app.execute("INSERT INTO t VALUES (1, 1)", []);
    let rows = count(&app, "SELECT count(*) FROM t");
    let _ = app.close();
    if back {
        fs::rename(&moved, &place).unwrap();
    }
    is_whole(&folder, &if back { place } else { moved }.join("app.db"), rows)
}

#[test]
fn an_open_database_may_move_with_its_folder() {
    for journal in ["delete", "wal"] {
        for back in [false, true] {
            assert!(open_and_moved("through", journal, back), "through, {journal}, moved back: {back}");
            assert!(open_and_moved("durable", journal, back), "durable, {journal}, moved back: {back}");
        }
    }
}
