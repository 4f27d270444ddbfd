//! The other databases of a tier: as long as one that may have pages there is not attached, none is changed.

#![allow(clippy::unwrap_used)]

mod support;

use mezzanine_engine::planted::{Bug, only_with};
use rusqlite::{Connection, OpenFlags};
use support::{Folder, count, open, pragma_text};

/// Two databases whose tier is closed, and knows both.
fn two_databases() -> Folder {
    let folder = Folder::new();
    let app = open(&folder, "app.db");
    let other = open(&folder, "other.db");
    app.execute_batch("CREATE TABLE t (a)").unwrap();
    other.execute_batch("CREATE TABLE t (a)").unwrap();
    // What the disk has is the newest then, and another SQLite can read it.
    pragma_text(&app, "mezzanine_admission = off");
    drop((other, app));
    folder
}

/// What an SQLite without the tier that reads another database lets the first connection do, while it reads
/// and afterwards.
fn beside_a_reader(change: impl Fn(&Connection) -> Result<(), rusqlite::Error>) -> (bool, bool) {
    let folder = two_databases();
    let read_only = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let reader = Connection::open_with_flags_and_vfs(folder.file("other.db"), read_only, "unix").unwrap();
    reader.execute_batch("BEGIN").unwrap();
    assert_eq!(count(&reader, "SELECT count(*) FROM t"), 0);
    let app = open(&folder, "app.db");
    let meanwhile = change(&app).is_ok();
    drop(reader);
    let afterwards = change(&app);
    if let Err(error) = &afterwards {
        println!("{error}: {:?}", mezzanine_sqlite::last_error());
    }
    (meanwhile, afterwards.is_ok())
}

/// Was found by trial (SQLite alone has no such thing, since a database knows no other): a lock that passed when a tier was opened kept its databases from being changed as long
/// as the process had it open.
#[test]
fn a_lock_that_passes_is_no_reason_for_ever() {
    only_with(&[Bug::OthersSoughtOnce], || {
        let (meanwhile, afterwards) = beside_a_reader(|app| app.execute_batch("INSERT INTO t VALUES (1)"));
        assert!(!meanwhile);
        afterwards
    });
}

/// The same of what a pragma asks for.
#[test]
fn nor_for_what_is_asked_of_the_tier() {
    only_with(&[Bug::OthersSoughtOnce], || {
        let drain = |app: &Connection| app.query_row("PRAGMA mezzanine_drain", [], |_| Ok(()));
        let (meanwhile, afterwards) = beside_a_reader(drain);
        assert!(!meanwhile);
        afterwards
    });
}

/// A database that is put back is one of the tier again, without anything being closed.
#[test]
fn a_database_that_comes_back_is_taken_up() {
    only_with(&[Bug::OthersSoughtOnce], || {
        let folder = two_databases();
        let parts = ["other.db", "other.db.mezzanine"];
        let away = |name: &str| folder.file(&format!("away-{name}"));
        parts.iter().for_each(|name| std::fs::rename(folder.file(name), away(name)).unwrap());
        let app = open(&folder, "app.db");
        app.execute_batch("INSERT INTO t VALUES (1)").unwrap_err();
        parts.iter().for_each(|name| std::fs::rename(away(name), folder.file(name)).unwrap());
        app.execute_batch("INSERT INTO t VALUES (2)").is_ok()
    });
}
