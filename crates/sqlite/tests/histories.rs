//! A database, its sidecar, its logs and its flash that were put back from different moments: what a user
//! meets.

#![allow(clippy::unwrap_used)]

mod support;

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::Command;

use rusqlite::Connection;
use support::{Folder, check, copy_folder, copy_over, count, flags, journal_mode, open, register, uri};

/// Puts one of the four back from a copy of the folder.
fn put_back(copy_of: &Path, folder: &Folder, name: &str) {
    let (from, to) = (copy_of.join(name), folder.file(name));
    if to.is_dir() {
        fs::remove_dir_all(&to).unwrap();
    }
    if from.is_dir() {
        copy_folder(&from, &to);
    } else {
        fs::copy(from, to).unwrap();
    }
}

/// Fills the database in `journal_mode`, and dies in the middle of a transaction whose pages are in its log.
#[test]
#[ignore = "is run by the other tests in a process of its own"]
fn child_that_dies() {
    let [database, flash, number] = ["DATABASE", "FLASH", "NUMBER"]
        .map(|name| std::env::var(format!("MEZZANINE_HISTORY_{name}")).unwrap());
    register();
    #[cfg(feature = "planted")]
    if std::env::var_os("MEZZANINE_HISTORY_UNNAMED").is_some() {
        mezzanine_engine::planted::set(Some(mezzanine_engine::planted::Bug::LogUnnamed));
    }
    let db = Connection::open_with_flags(uri(database.as_ref(), flash.as_ref(), ""), flags()).unwrap();
    db.execute_batch("PRAGMA cache_size = 5; PRAGMA cache_spill = 5").unwrap();
    journal_mode(&db, &std::env::var("MEZZANINE_HISTORY_JOURNAL").unwrap_or("delete".to_owned()));
    db.execute_batch("CREATE TABLE IF NOT EXISTS t (a INTEGER PRIMARY KEY, n, b)").unwrap();
    db.execute_batch(&format!(
        "WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 200)
         INSERT OR REPLACE INTO t SELECT i, {number}, randomblob(900) FROM n;
         BEGIN;
         UPDATE t SET n = -1, b = randomblob(900)"
    ))
    .unwrap();
    // No destructor, no rollback: as if killed.
    std::process::abort();
}

fn die(folder: &Folder, number: u32) {
    die_with(folder, number, &[]);
}

fn die_with(folder: &Folder, number: u32, more: &[(&str, &str)]) {
    let ended = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "child_that_dies"])
        .envs(more.iter().copied())
        .env("MEZZANINE_HISTORY_DATABASE", folder.file("app.db"))
        .env("MEZZANINE_HISTORY_FLASH", folder.file("flash.mezz"))
        .env("MEZZANINE_HISTORY_NUMBER", number.to_string())
        .output()
        .unwrap();
    assert!(!ended.status.success(), "it must die");
    let left = ["journal", "wal"].iter().any(|log| folder.file("app.db-wal").join(log).exists());
    assert!(left, "{}", String::from_utf8_lossy(&ended.stderr));
}

fn refusal(folder: &Folder) -> String {
    register();
    let uri = uri(&folder.file("app.db"), &folder.file("flash.mezz"), "");
    let opened = Connection::open_with_flags(uri, flags());
    let error = opened.and_then(|db| db.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0)));
    assert!(error.is_err(), "it is accepted");
    mezzanine_sqlite::last_error().unwrap()
}

/// A journal of an older moment would roll the newer database back, page by page.
#[test]
fn a_hot_journal_of_an_earlier_opening_is_refused() {
    let (folder, old) = (Folder::new(), Folder::new());
    die(&folder, 1);
    copy_folder(folder.path(), old.path());
    die(&folder, 2);
    let whole = Folder::new();
    copy_folder(folder.path(), whole.path());
    let refused = || {
        let told = refusal(&folder);
        for part in ["journal", "another moment", "app.db", "put back"] {
            assert!(told.contains(part), "{part:?} is missing in: {told}");
        }
    };
    put_back(old.path(), &folder, "app.db-wal");
    refused();
    // Copied over the present one, and with what that has besides.
    put_back(whole.path(), &folder, "app.db-wal");
    copy_over(&old.path().join("app.db-wal"), &folder.file("app.db-wal"));
    refused();
    // Nothing was changed: with its own journal it goes on.
    put_back(whole.path(), &folder, "app.db-wal");
    let db = open(&folder, "app.db");
    assert_eq!(count(&db, "SELECT count(*) FROM t WHERE n = 2"), 200);
    check(&db);
    drop(db);
    // The same with the comparison left out: the older journal is rolled back over the newer database.
    #[cfg(feature = "planted")]
    {
        for name in ["app.db", "app.db.mezzanine", "flash.mezz"] {
            put_back(whole.path(), &folder, name);
        }
        copy_folder(&old.path().join("app.db-wal"), &folder.file("app.db-wal"));
        mezzanine_engine::planted::set(Some(mezzanine_engine::planted::Bug::LogsUncompared));
        register();
        let uri = uri(&folder.file("app.db"), &folder.file("flash.mezz"), "");
        let right = Connection::open_with_flags(uri, flags())
            .and_then(|db| db.query_row("SELECT count(*) FROM t WHERE n = 2", [], |row| row.get(0)));
        mezzanine_engine::planted::set(None);
        assert_ne!(right, Ok(200), "the planted fault went unnoticed");
    }
}

/// The same where the directory of the logs does not say whose they are.
#[cfg(feature = "planted")]
#[test]
fn a_log_that_nobody_has_named_is_not_told_from_another() {
    let (folder, old) = (Folder::new(), Folder::new());
    let unnamed = [("MEZZANINE_HISTORY_UNNAMED", "yes")];
    die_with(&folder, 1, &unnamed);
    copy_folder(folder.path(), old.path());
    die_with(&folder, 2, &unnamed);
    put_back(old.path(), &folder, "app.db-wal");
    register();
    let uri = uri(&folder.file("app.db"), &folder.file("flash.mezz"), "");
    let right = Connection::open_with_flags(uri, flags())
        .and_then(|db| db.query_row("SELECT count(*) FROM t WHERE n = 2", [], |row| row.get(0)));
    assert_ne!(right, Ok(200), "the planted fault went unnoticed");
}

/// The database is opened once while its sidecar is missing, or damaged, and refused; then the sidecar is put
/// back, as the refusal says. The log beside it had been claimed for that opening, and no longer said of
/// which one it was, so it was refused from then on though every part was the newest.
#[test]
fn a_hot_journal_outlives_an_opening_without_its_sidecar() {
    let folder = Folder::new();
    die(&folder, 1);
    die(&folder, 2);
    let (sidecar, aside) = (folder.file("app.db.mezzanine"), folder.file("aside"));
    fs::rename(&sidecar, &aside).unwrap();
    let told = refusal(&folder);
    assert!(told.contains("sidecar") && told.contains("missing"), "{told}");
    let mut damaged = fs::read(&aside).unwrap();
    damaged[40] ^= 1;
    for _ in 0..3 {
        fs::write(&sidecar, &damaged).unwrap();
        let told = refusal(&folder);
        assert!(told.contains("put back an undamaged copy"), "{told}");
    }
    fs::rename(&aside, &sidecar).unwrap();
    let db = open(&folder, "app.db");
    assert_eq!(count(&db, "SELECT count(*) FROM t WHERE n = 2"), 200);
    check(&db);
    drop(db);
    assert!(!folder.file("app.db-wal").exists(), "nothing is left of the log");
}

/// Opens the database by its plain name and reads it, as a program does whose default VFS this is.
fn read_by_plain_name(folder: &Folder) -> rusqlite::Result<i64> {
    register();
    let db = Connection::open_with_flags_and_vfs(folder.file("app.db"), flags(), c"mezzanine")?;
    db.query_row("SELECT count(*) FROM t WHERE n = 2", [], |row| row.get(0))
}

fn files_of(folder: &Folder) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let logs = fs::read_dir(folder.file("app.db-wal")).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = logs.chain([folder.file("app.db")]).collect();
    files.sort();
    let contents = |path: &Path| {
        let target = fs::read_link(path).map(|target| target.as_os_str().as_bytes().to_vec());
        target.or_else(|_| fs::read(path)).unwrap()
    };
    files.into_iter().map(|path| (path.clone(), contents(&path))).collect()
}

/// A killed database whose newest pages are in the tier. Its plain name leads there by its sidecar; without
/// one that can be read it is refused, and nothing of it is changed.
fn is_refused_by_plain_name_without_sidecar(journal: &str) -> bool {
    let folder = Folder::new();
    let journal = [("MEZZANINE_HISTORY_JOURNAL", journal)];
    die_with(&folder, 1, &journal);
    die_with(&folder, 2, &journal);
    let sidecar = folder.file("app.db.mezzanine");
    let whole = fs::read(&sidecar).unwrap();
    let damaged = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        Some(bytes)
    };
    let before = files_of(&folder);
    // It is missing, its contents are damaged, or what it is is.
    for wrong in [None, damaged(40), damaged(0)] {
        match wrong {
            Some(bytes) => fs::write(&sidecar, bytes).unwrap(),
            None => fs::remove_file(&sidecar).unwrap(),
        }
        let read = read_by_plain_name(&folder);
        if read.is_ok() || files_of(&folder) != before {
            return false;
        }
        let told = mezzanine_sqlite::last_error().unwrap_or_default();
        assert!(told.contains("no sidecar") && told.contains("app.db"), "{told}");
    }
    fs::write(&sidecar, &whole).unwrap();
    read_by_plain_name(&folder) == Ok(200)
}

#[test]
fn a_killed_database_without_its_sidecar_is_refused_by_its_plain_name() {
    for journal in ["delete", "wal"] {
        assert!(is_refused_by_plain_name_without_sidecar(journal), "{journal}");
        #[cfg(feature = "planted")]
        {
            mezzanine_engine::planted::set(Some(mezzanine_engine::planted::Bug::GuardedOpenedPlain));
            let refused = std::panic::catch_unwind(|| is_refused_by_plain_name_without_sidecar(journal));
            mezzanine_engine::planted::set(None);
            assert!(!refused.unwrap_or(false), "{journal}: the planted fault went unnoticed");
        }
    }
}

/// A full disk leaves the half of a note beside a log. The log directory goes all the same when no log is
/// left, or a stock SQLite would be kept from a database that needs no tier.
#[test]
fn half_a_note_beside_a_log_does_not_keep_its_directory() {
    let folder = Folder::new();
    die(&folder, 1);
    let db = open(&folder, "app.db");
    check(&db);
    fs::write(folder.file("app.db-wal").join("opening.new"), "").unwrap();
    drop(db);
    assert!(!folder.file("app.db-wal").exists());
}

/// A database `app.db` as a stock SQLite left it that was killed: what it had in its log is in no page on
/// disk, or in pages that have to be rolled back.
fn killed_stock(folder: &Folder, journal: &str) {
    let at = Folder::new();
    let db = Connection::open(at.file("app.db")).unwrap();
    journal_mode(&db, journal);
    db.execute_batch(
        "PRAGMA cache_size = 5; PRAGMA cache_spill = 5; PRAGMA wal_autocheckpoint = 0;
         CREATE TABLE t (a INTEGER PRIMARY KEY, n, b);
         WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 200)
         INSERT INTO t SELECT i, 7, randomblob(900) FROM n",
    )
    .unwrap();
    if journal == "delete" {
        db.execute_batch("BEGIN; UPDATE t SET n = -1, b = randomblob(900)").unwrap();
    }
    // The index of a write-ahead log is no part of what a killed process leaves for another machine.
    for name in ["app.db", log_of(journal)] {
        fs::copy(at.file(name), folder.file(name)).unwrap();
    }
}

fn log_of(journal: &str) -> &'static str {
    if journal == "wal" { "app.db-wal" } else { "app.db-journal" }
}

/// What a stock SQLite has of the rows.
fn rows_without_a_tier(folder: &Folder) -> rusqlite::Result<i64> {
    let db = Connection::open(folder.file("app.db"))?;
    db.query_row("SELECT count(*) FROM t WHERE n = 7", [], |row| row.get(0))
}

/// A program that was killed left a hot log. It was then opened through a tier whose places for files were
/// all taken, and refused with the words that nothing was changed: but its log stood in the directory of the
/// tier's logs from then on, and the stock SQLite said "unable to open database file", though no page of it
/// was in any tier. So with everything else that refuses a database, here a sidecar that is damaged.
#[test]
fn a_refused_database_has_its_log_back() {
    for journal in ["wal", "delete"] {
        let folder = Folder::new();
        let others: Vec<Connection> = (0..11).map(|number| open(&folder, &format!("{number}.db"))).collect();
        killed_stock(&folder, journal);
        let log = fs::read(folder.file(log_of(journal))).unwrap();
        let as_it_was = |folder: &Folder| {
            assert_eq!(fs::read(folder.file(log_of(journal))).unwrap(), log, "{journal}");
            assert_eq!(folder.file("app.db-wal").is_file(), journal == "wal", "{journal}");
            assert!(!folder.file("app.db-wal.new").exists(), "{journal}");
        };
        let told = refusal(&folder);
        assert!(told.contains("11"), "{told}");
        as_it_was(&folder);
        let sidecar = folder.file("app.db.mezzanine");
        fs::write(&sidecar, "no sidecar").unwrap();
        // An attempt that died half-way leaves this; it is in nobody's way.
        if journal == "wal" {
            fs::create_dir(folder.file("app.db-wal.new")).unwrap();
        }
        let told = refusal(&folder);
        assert!(told.contains("app.db.mezzanine"), "{told}");
        as_it_was(&folder);
        #[cfg(feature = "planted")]
        {
            let twin = Folder::new();
            for name in ["app.db", log_of(journal), "app.db.mezzanine"] {
                fs::copy(folder.file(name), twin.file(name)).unwrap();
            }
            mezzanine_engine::planted::set(Some(mezzanine_engine::planted::Bug::RefusedLogKept));
            let told = refusal(&twin);
            mezzanine_engine::planted::set(None);
            assert!(told.contains("app.db.mezzanine"), "{journal}: {told}");
            let rows = rows_without_a_tier(&twin);
            assert_ne!(rows, Ok(200), "the planted fault went unnoticed: {journal}, {told}");
        }
        fs::remove_file(&sidecar).unwrap();
        assert_eq!(rows_without_a_tier(&folder), Ok(200), "{journal}");
        drop(others);
    }
}

/// What a process leaves that dies when it has taken a killed program's log into the tier's directory and has
/// been neither given the database nor refused: with the file where the log's name was, and without.
fn died_taking_the_log(folder: &Folder, journal: &str, half_way: bool) {
    let directory = folder.file("app.db-wal");
    if journal == "wal" {
        fs::rename(&directory, folder.file("app.db-wal.new")).unwrap();
        fs::create_dir(&directory).unwrap();
        fs::hard_link(folder.file("app.db-wal.new"), directory.join("wal")).unwrap();
        if !half_way {
            fs::remove_file(folder.file("app.db-wal.new")).unwrap();
        }
    } else {
        fs::create_dir(&directory).unwrap();
        if !half_way {
            fs::rename(folder.file("app.db-journal"), directory.join("journal")).unwrap();
        }
    }
    if !half_way {
        fs::write(directory.join("README"), "whose it is").unwrap();
    }
}

/// The next attempt found the directory, took the log in it for one of the tier's, and left it there when
/// the database was refused: again the stock SQLite could not open what no tier had a page of.
#[test]
fn a_refused_database_has_its_log_back_after_an_attempt_that_died() {
    for (journal, half_way) in [("wal", false), ("wal", true), ("delete", false), ("delete", true)] {
        let folder = Folder::new();
        let others: Vec<Connection> = (0..11).map(|number| open(&folder, &format!("{number}.db"))).collect();
        killed_stock(&folder, journal);
        let log = fs::read(folder.file(log_of(journal))).unwrap();
        died_taking_the_log(&folder, journal, half_way);
        #[cfg(feature = "planted")]
        if !half_way {
            let twin = Folder::new();
            fs::copy(folder.file("app.db"), twin.file("app.db")).unwrap();
            copy_folder(&folder.file("app.db-wal"), &twin.file("app.db-wal"));
            fs::write(twin.file("app.db.mezzanine"), "no sidecar").unwrap();
            mezzanine_engine::planted::set(Some(mezzanine_engine::planted::Bug::DeadAttemptsLogKept));
            refusal(&twin);
            mezzanine_engine::planted::set(None);
            assert!(rows_without_a_tier(&twin).is_err(), "the planted fault went unnoticed");
        }
        let told = refusal(&folder);
        assert!(told.contains("11"), "{told}");
        assert_eq!(fs::read(folder.file(log_of(journal))).unwrap(), log, "{journal}, {half_way}");
        assert!(!folder.file("app.db-wal.new").exists() && !folder.file("app.db-wal").is_dir());
        assert_eq!(rows_without_a_tier(&folder), Ok(200), "{journal}, {half_way}");
        drop(others);
    }
}

#[test]
fn a_database_and_its_sidecar_of_an_earlier_moment_are_refused_with_the_newer_flash() {
    let (folder, old) = (Folder::new(), Folder::new());
    die(&folder, 1);
    copy_folder(folder.path(), old.path());
    die(&folder, 2);
    for name in ["app.db", "app.db.mezzanine", "app.db-wal"] {
        put_back(old.path(), &folder, name);
    }
    let told = refusal(&folder);
    assert!(told.contains("app.db") && told.contains("is newer than the file"), "{told}");
    assert!(told.contains("put the newest file and sidecar back"), "{told}");
    put_back(old.path(), &folder, "flash.mezz");
    let db = open(&folder, "app.db");
    assert_eq!(count(&db, "SELECT count(*) FROM t WHERE n = 1"), 200);
    check(&db);
}

#[test]
fn the_flash_of_a_copy_that_was_opened_as_well_is_refused() {
    let (folder, elsewhere, twin) = (Folder::new(), Folder::new(), Folder::new());
    die(&folder, 1);
    copy_folder(folder.path(), elsewhere.path());
    die(&folder, 2);
    die(&elsewhere, 3);
    copy_folder(elsewhere.path(), twin.path());
    // Or it would be found at the place that its tier names.
    fs::remove_file(elsewhere.file("app.db")).unwrap();
    put_back(twin.path(), &folder, "flash.mezz");
    let told = refusal(&folder);
    assert!(told.contains("app.db") && told.contains("not together"), "{told}");
    assert!(told.contains("of one copy together"), "{told}");
    for name in ["app.db", "app.db.mezzanine", "app.db-wal"] {
        put_back(twin.path(), &folder, name);
    }
    let db = open(&folder, "app.db");
    assert_eq!(count(&db, "SELECT count(*) FROM t WHERE n = 3"), 200);
    check(&db);
}

/// Was refused with "holds pages of files that are not attached": the tier remembers where its other
/// databases were, and there they are no more.
#[test]
fn a_folder_that_has_another_name_takes_its_tier_along() {
    let folder = Folder::new();
    let place = folder.file("before");
    fs::create_dir(&place).unwrap();
    register();
    let open_in = |place: &Path, name: &str| {
        Connection::open_with_flags(uri(&place.join(name), &place.join("flash.mezz"), ""), flags())
            .unwrap_or_else(|error| panic!("{error}: {:?}", mezzanine_sqlite::last_error()))
    };
    for name in ["a.db", "b.db"] {
        let db = open_in(&place, name);
        db.execute_batch("CREATE TABLE t (a); INSERT INTO t VALUES (1)").unwrap();
    }
    let after = folder.file("after");
    fs::rename(&place, &after).unwrap();
    for name in ["b.db", "a.db", "b.db"] {
        let db = open_in(&after, name);
        db.execute_batch("INSERT INTO t VALUES (1)").unwrap();
        check(&db);
    }
    assert_eq!(count(&open_in(&after, "b.db"), "SELECT count(*) FROM t"), 3);
}
