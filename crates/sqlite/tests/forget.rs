//! A database that is gone for good, and the others on its tier.

#![allow(clippy::unwrap_used)]

mod support;

use std::fs;

use rusqlite::Connection;
use support::{Folder, check, count, flags, journal_mode, open, open_with, pragma_text, uri};

fn table(folder: &Folder, name: &str) -> Connection {
    let db = open(folder, name);
    db.execute_batch(
        "CREATE TABLE t (a, b);
         WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 50)
         INSERT INTO t SELECT i, randomblob(2000) FROM n",
    )
    .unwrap();
    db
}

fn gone(folder: &Folder, name: &str) {
    fs::remove_file(folder.file(name)).unwrap();
    fs::remove_file(folder.file(&format!("{name}.mezzanine"))).unwrap();
}

fn refused(db: &Connection, pragma: &str) -> String {
    db.query_row(&format!("PRAGMA {pragma}"), [], |row| row.get::<_, String>(0)).unwrap_err().to_string()
}

/// Was found by trial: with one of its databases removed, those beside it could neither be changed nor
/// drained, and formatting, which was advised, would have lost their pages.
#[test]
fn others_go_on_without_a_database_that_is_gone() {
    let folder = Folder::new();
    drop((table(&folder, "kept.db"), table(&folder, "gone.db"), table(&folder, "third.db")));
    gone(&folder, "gone.db");
    let db = open(&folder, "kept.db");
    let said = db.execute_batch("DELETE FROM t WHERE a > 40").unwrap_err().to_string();
    assert!(!said.is_empty());
    assert!(refused(&db, "mezzanine_drain").contains("gone.db"));
    assert_eq!(
        pragma_text(&db, "mezzanine_forget"),
        format!("the tier waits for {}", folder.file("gone.db").display())
    );
    for (named, part) in [("''", "give the path"), ("'/nowhere.db'", "gone.db"), ("'kept.db'", "gone.db")] {
        let why = refused(&db, &format!("mezzanine_forget = {named}"));
        assert!(why.contains(part), "{why}");
    }
    let told = pragma_text(&db, &format!("mezzanine_forget = '{}'", folder.file("gone.db").display()));
    let pages: u64 = told.split(" with ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    assert!(told.contains("gone.db is forgotten") && (25..60).contains(&pages), "{told}");
    assert_eq!(pragma_text(&db, "mezzanine_forget"), "the tier waits for no file");
    db.execute_batch("DELETE FROM t WHERE a > 40").unwrap();
    // Whoever is killed now comes back to the same.
    let crashed = Folder::new();
    for name in ["kept.db", "kept.db.mezzanine", "third.db", "third.db.mezzanine", "flash.mezz"] {
        fs::copy(folder.file(name), crashed.file(name)).unwrap();
    }
    drop(db);
    for folder in [folder, crashed] {
        let db = open(&folder, "kept.db");
        let third = open(&folder, "third.db");
        check(&third);
        assert_eq!(
            (count(&third, "SELECT count(*) FROM t"), pragma_text(&db, "mezzanine_forget").as_str()),
            (50, "the tier waits for no file")
        );
        db.execute_batch("DELETE FROM t WHERE a > 30").unwrap();
        check(&db);
        // A new one of the same name is another database.
        let again = table(&folder, "gone.db");
        assert_eq!(count(&again, "SELECT count(*) FROM t"), 50);
        pragma_text(&db, "mezzanine_drain");
    }
}

/// Of two that are gone one alone is not enough.
#[test]
fn a_tier_that_waits_for_several_says_so() {
    let folder = Folder::new();
    drop((table(&folder, "kept.db"), table(&folder, "one.db"), table(&folder, "two.db")));
    gone(&folder, "one.db");
    gone(&folder, "two.db");
    let db = open_with(&folder, "kept.db", "").unwrap();
    let why = refused(&db, &format!("mezzanine_forget = '{}'", folder.file("one.db").display()));
    assert!(why.contains("two.db") && why.contains("as well"), "{why}");
    check(&db);
    // By the list in which it says so, it goes on without both.
    let list = pragma_text(&db, "mezzanine_forget").replace("the tier waits for ", "");
    let told = pragma_text(&db, &format!("mezzanine_forget = '{list}'"));
    assert!(told.contains("one.db is forgotten") && told.contains("two.db is forgotten"), "{told}");
    db.execute_batch("DELETE FROM t WHERE a > 40").unwrap();
    check(&db);
}

/// A database is removed with its sidecar while another one keeps the tier, which is then closed. What the
/// other can do at its next opening, and what is said when it cannot.
fn after_removal(mode: &str, journal: &str) {
    let folder = Folder::new();
    let more = format!("&sync_mode={mode}");
    let open = || open_with(&folder, "kept.db", &more).unwrap();
    let kept = open();
    journal_mode(&kept, journal);
    kept.execute_batch("CREATE TABLE t (a, b)").unwrap();
    // More than the tier holds, so that much of it is on disk alone.
    for _ in 0..12 {
        kept.execute_batch(
            "WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 300)
             INSERT INTO t SELECT i, randomblob(3000) FROM n",
        )
        .unwrap();
    }
    let gone_too = open_with(&folder, "gone.db", &more).unwrap();
    gone_too.execute_batch("CREATE TABLE t (a, b); INSERT INTO t VALUES (1, 1)").unwrap();
    gone_too.close().unwrap();
    let sum = count(&kept, "SELECT sum(length(b)) FROM t");
    fs::remove_file(folder.file("gone.db")).unwrap();
    // In `through` there is none yet.
    let _ = fs::remove_file(folder.file("gone.db.mezzanine"));
    kept.close().unwrap();
    // A worker that had looked for the database before it was removed may have put it back.
    let _ = fs::remove_file(folder.file("gone.db.mezzanine"));
    let kept = open();
    for _ in 0..2 {
        assert_eq!(count(&kept, "SELECT sum(length(b)) FROM t"), sum, "{mode} {journal}");
        check(&kept);
    }
    let changed = kept.execute_batch("INSERT INTO t VALUES (0, 0); PRAGMA wal_checkpoint");
    let status = pragma_text(&kept, "mezzanine_status");
    if mode == "through" {
        changed.unwrap();
        assert!(!status.contains("waits_for"), "{status}");
    } else {
        changed.unwrap_err();
        let said = mezzanine_sqlite::last_error().unwrap();
        assert!(said.contains("gone.db") && said.contains("mezz tier forget"), "{said}");
        let line =
            format!("waits_for {} (it is not there, nor is its sidecar)", folder.file("gone.db").display());
        assert!(status.contains(&line), "{status}");
        pragma_text(&kept, &format!("mezzanine_forget = '{}'", folder.file("gone.db").display()));
    }
    kept.execute_batch("DELETE FROM t WHERE a > 100").unwrap();
    check(&kept);
}

#[test]
fn beside_a_database_that_was_removed_others_are_read_and_what_to_do_is_said() {
    for mode in ["durable", "through"] {
        for journal in ["delete", "wal"] {
            after_removal(mode, journal);
        }
    }
}

/// A folder that is away for a while looks like a removal to whoever looks for the database alone.
#[test]
fn a_database_whose_folder_is_away_is_waited_for_and_then_there() {
    let folder = Folder::new();
    fs::create_dir(folder.file("disk")).unwrap();
    drop((table(&folder, "kept.db"), table(&folder, "disk/app.db")));
    fs::rename(folder.file("disk"), folder.file("away")).unwrap();
    for empty in [false, true] {
        if empty {
            // The mount point.
            fs::create_dir(folder.file("disk")).unwrap();
        }
        let kept = open(&folder, "kept.db");
        check(&kept);
        let status = pragma_text(&kept, "mezzanine_status");
        assert!(status.contains("disk/app.db") && status.contains("nor is its folder") != empty, "{status}");
    }
    fs::remove_dir(folder.file("disk")).unwrap();
    fs::rename(folder.file("away"), folder.file("disk")).unwrap();
    let kept = open(&folder, "kept.db");
    kept.execute_batch("DELETE FROM t").unwrap();
    assert_eq!(count(&open(&folder, "disk/app.db"), "SELECT count(*) FROM t"), 50);
}

/// A database that is there, whose sidecar is rotten or away for a moment. Whether it has its rows when that
/// is back.
fn stays(rotten: bool) -> bool {
    let folder = Folder::new();
    drop((table(&folder, "kept.db"), table(&folder, "app.db")));
    let (path, sidecar) = (folder.file("app.db"), folder.file("app.db.mezzanine"));
    let whole = fs::read(&sidecar).unwrap();
    if rotten {
        let mut bytes = whole.clone();
        bytes[60] ^= 1;
        fs::write(&sidecar, bytes).unwrap();
    } else {
        fs::remove_file(&sidecar).unwrap();
    }
    let kept = open(&folder, "kept.db");
    let pragma = format!("PRAGMA mezzanine_forget = '{}'", path.display());
    let forgotten: rusqlite::Result<String> = kept.query_row(&pragma, [], |row| row.get(0));
    drop(kept);
    if let Err(error) = &forgotten {
        let said = error.to_string();
        assert!(said.contains("app.db") && said.contains("it is there"), "{said}");
    }
    fs::write(&sidecar, whole).unwrap();
    let rows = |db: Connection| db.query_row("SELECT count(*) FROM t", [], |row| row.get(0));
    forgotten.is_err() && open_with(&folder, "app.db", "").and_then(rows) == Ok(50)
}

/// Was found by reading: a sidecar that could not be read counted as one that needs nothing.
#[test]
fn a_database_that_is_there_is_not_forgotten_because_its_sidecar_cannot_be_read() {
    for rotten in [true, false] {
        let bugs = [mezzanine_engine::planted::Bug::UnreadSidecarForgotten];
        mezzanine_engine::planted::only_with(&bugs, || stays(rotten));
    }
}

/// To another file system it goes as a copy, and then what was there is removed: for the tier that looks like
/// a database that is gone, file, sidecar and the last name of what it has open.
#[test]
fn a_database_that_was_moved_while_another_kept_the_tier_is_opened_where_it_is() {
    let (folder, elsewhere) = (Folder::new(), Folder::new());
    let kept = table(&folder, "kept.db");
    table(&folder, "app.db").close().unwrap();
    for name in ["app.db", "app.db.mezzanine"] {
        fs::copy(folder.file(name), elsewhere.file(name)).unwrap();
        fs::remove_file(folder.file(name)).unwrap();
    }
    kept.close().unwrap();
    let moved = uri(&elsewhere.file("app.db"), &folder.file("flash.mezz"), "");
    let moved = Connection::open_with_flags(moved, flags()).unwrap();
    assert_eq!(count(&moved, "SELECT count(*) FROM t"), 50);
    let kept = open(&folder, "kept.db");
    moved.execute_batch("DELETE FROM t").unwrap();
    kept.execute_batch("DELETE FROM t").unwrap();
}
