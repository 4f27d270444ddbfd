//! The flash file of a database in use is replaced by pragma.

#![allow(clippy::unwrap_used)]

mod support;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rusqlite::Connection;
use support::{Folder, check, count, flags, journal_mode, open_with, pragma_text, uri};

fn refused(db: &Connection, pragma: &str) -> String {
    let asked: rusqlite::Result<String> = db.query_row(&format!("PRAGMA {pragma}"), [], |row| row.get(0));
    asked.unwrap_err().to_string()
}

fn fill(db: &Connection, from: i64, rows: i64) {
    for row in from..from + rows {
        db.execute("INSERT INTO t VALUES (?1, randomblob(3000))", [row]).unwrap();
    }
}

fn table(folder: &Folder) -> Connection {
    let db = open_with(folder, "app.db", "").unwrap();
    journal_mode(&db, "wal");
    db.execute_batch("CREATE TABLE t (a INTEGER PRIMARY KEY, b BLOB)").unwrap();
    fill(&db, 0, 100);
    db.execute_batch("PRAGMA wal_checkpoint(truncate)").unwrap();
    db
}

/// `PRAGMA mezzanine_replace` with a file of the folder and what follows its path.
fn to(folder: &Folder, name: &str, more: &str) -> String {
    format!("mezzanine_replace = '{}{more}'", folder.file(name).display())
}

#[test]
fn a_flash_file_is_replaced_while_others_read_and_write() {
    let folder = Folder::new();
    let db = table(&folder);
    let old = pragma_text(&db, "mezzanine_replace");
    assert!(old.contains("flash.mezz"), "{old}");
    let (stop, reads) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let db = open_with(&folder, "app.db", "").unwrap();
            while !stop.load(Ordering::Relaxed) {
                assert!(count(&db, "SELECT count(*) FROM t WHERE length(b) = 3000") >= 100);
                reads.fetch_add(1, Ordering::Relaxed);
            }
        });
        let answer = pragma_text(&db, &to(&folder, "second.mezz", ""));
        assert!(
            answer.contains("second.mezz") && answer.contains("flash.mezz is no longer needed"),
            "{answer}"
        );
        fill(&db, 100, 50);
        let answer = pragma_text(&db, &to(&folder, "third.mezz", "?flash_size=12MiB&sync_mode=through"));
        assert!(answer.contains("third.mezz"), "{answer}");
        fill(&db, 150, 50);
        let seen = reads.load(Ordering::Relaxed);
        while reads.load(Ordering::Relaxed) < seen + 3 {
            std::thread::yield_now();
        }
        stop.store(true, Ordering::Relaxed);
    });
    let status = pragma_text(&db, "mezzanine_status");
    assert!(status.contains("third.mezz\n") && status.contains("state Ok\nsync_mode through\n"), "{status}");
    let bytes = std::fs::metadata(folder.file("third.mezz")).unwrap().len();
    assert!((10 << 20..=12 << 20).contains(&bytes), "{bytes}");
    // The program still uses the URI that it was told.
    let again = open_with(&folder, "app.db", "").unwrap();
    assert_eq!(count(&again, "SELECT count(*) FROM t"), 200);
    assert_eq!(pragma_text(&db, "mezzanine_sync_mode = durable"), "durable");
    fill(&db, 200, 50);
    db.execute_batch("PRAGMA wal_checkpoint(truncate)").unwrap();
    check(&db);
    // A file that was replaced is free, as soon as nobody has it in hand any more.
    let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while mezzanine_volume::open_flash(&folder.file("flash.mezz")).is_err() {
        assert!(std::time::Instant::now() < end, "the old flash file is still locked");
        std::thread::yield_now();
    }
    std::fs::remove_file(folder.file("second.mezz")).unwrap();
    drop((db, again));
    // The next opening needs the file that is in use, and says so.
    open_with(&folder, "app.db", "").unwrap_err();
    let message = mezzanine_sqlite::last_error().unwrap();
    assert!(message.contains("third.mezz") && message.contains("another tier"), "{message}");
    let now = uri(&folder.file("app.db"), &folder.file("third.mezz"), "");
    let db = Connection::open_with_flags(now, flags()).unwrap();
    assert_eq!(count(&db, "SELECT count(*) FROM t"), 250);
    check(&db);
}

#[test]
fn what_cannot_take_the_place_of_a_flash_file_is_refused_and_nothing_changes() {
    let folder = Folder::new();
    let db = table(&folder);
    std::fs::write(folder.file("letters"), vec![b'x'; 1 << 20]).unwrap();
    for (file, more, part) in [
        ("letters", "", "not a tier"),
        ("flash.mezz", "", "only one process"),
        ("new.mezz", "?flash_size=much", "10GiB"),
        ("new.mezz", "?flash_max_size=1GiB", "flash_size as well"),
        ("new.mezz", "?page_size=8192", "same page size"),
        ("new.mezz", "?sync_mode=drained", "through, durable"),
        ("new.mezz", "?force=perhaps", "yes, no"),
        ("new.mezz", "?colour=red", "use flash_size"),
        ("missing/new.mezz", "", "No such file"),
    ] {
        let message = refused(&db, &to(&folder, file, more));
        assert!(message.contains(part), "{file}{more}: {message}");
        assert!(!folder.file("new.mezz").exists(), "{file}{more} has left a file");
        assert!(pragma_text(&db, "mezzanine_replace").contains("flash.mezz"));
    }
    assert!(refused(&db, "mezzanine_replace = ''").contains("names no flash file"));
    assert_eq!(std::fs::read(folder.file("letters")).unwrap(), vec![b'x'; 1 << 20]);
    fill(&db, 100, 50);
    check(&db);
    // By force, a file that holds something else.
    pragma_text(&db, &to(&folder, "letters", "?force=yes"));
    fill(&db, 150, 50);
    assert_eq!(count(&db, "SELECT count(*) FROM t"), 200);
    check(&db);
}

/// Was found by trial: the word `force` formatted the database itself.
#[test]
fn what_belongs_to_a_database_is_never_formatted() {
    let refusals = || {
        let folder = Folder::new();
        let db = table(&folder);
        let other = open_other(&folder);
        let plain = Connection::open(folder.file("plain.db")).unwrap();
        journal_mode(&plain, "wal");
        plain.execute_batch("CREATE TABLE t (a)").unwrap();
        // By another process: this one would give back what SQLite has locked.
        for (from, to) in [("plain.db", "copy.db"), ("plain.db-wal", "copy.log")] {
            let copied =
                std::process::Command::new("cp").arg(folder.file(from)).arg(folder.file(to)).status();
            assert!(copied.unwrap().success());
        }
        let all = [
            ("app.db", "is a database that is open here"),
            ("app.db.mezzanine", "has the name of the sidecar"),
            ("app.db-wal/flash.mezz", "is in the log directory"),
            ("copy.log", "holds a write-ahead log"),
            ("copy.db", "holds a database"),
            ("plain.db", "is in use by an SQLite"),
            ("other.mezz", "only one process"),
        ];
        let refused_so = |(file, part): &(&str, &str)| {
            let asked: rusqlite::Result<String> =
                db.query_row(&format!("PRAGMA {}", to(&folder, file, "?force=yes")), [], |row| row.get(0));
            let said = asked.unwrap_or_else(|error| error.to_string());
            let good = said.contains(part) && said.contains(file);
            if !good {
                eprintln!("{file}: {said}");
            }
            good
        };
        let held = all.iter().all(refused_so);
        drop(other);
        // The tier of a database that is closed, and dirty.
        held && refused_so(&("other.mezz", "mezz tier format"))
    };
    use mezzanine_engine::planted::{Bug, only_with};
    only_with(&[Bug::DatabaseTakenForFlash, Bug::ForceFormatsTiers], refusals);
}

/// A database on another tier, which has its newest pages.
fn open_other(folder: &Folder) -> Connection {
    let other = uri(&folder.file("other.db"), &folder.file("other.mezz"), "");
    let db = Connection::open_with_flags(other, flags()).unwrap();
    db.execute_batch("CREATE TABLE t (a); INSERT INTO t VALUES (1)").unwrap();
    db
}

/// Was found by reading: the tier moved to where SQLite looks for a journal, and was gone at the second
/// opening.
#[test]
fn a_tier_does_not_move_to_where_a_log_is_looked_for() {
    let stays = || {
        let folder = Folder::new();
        let (db, place) = (table(&folder), folder.file("app.db-journal"));
        let pragma = format!("PRAGMA {}", to(&folder, "app.db-journal", ""));
        let moved: rusqlite::Result<String> = db.query_row(&pragma, [], |row| row.get(0));
        fill(&db, 100, 50);
        drop(db);
        let flash = if moved.is_ok() { place } else { folder.file("flash.mezz") };
        let rows = || {
            let db = Connection::open_with_flags(uri(&folder.file("app.db"), &flash, ""), flags())?;
            db.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0))
        };
        [rows(), rows()] == [Ok(150), Ok(150)]
    };
    use mezzanine_engine::planted::{Bug, only_with};
    only_with(&[Bug::FlashInPlaceOfLog], stays);
}
