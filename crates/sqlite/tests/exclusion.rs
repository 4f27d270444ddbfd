//! Who may not open a database, and what they are told: other processes, and any SQLite without the tier.

#![allow(clippy::unwrap_used)]

mod support;

use std::fs;
use std::process::Command;

use mezzanine_sqlite::{ErrorKind, MezzanineVfs, last_error};
use rusqlite::{Connection, ErrorCode, OpenFlags};
use support::{
    Folder, check, count, flags, journal_mode, open, open_with, register, stock, stock_shell, uri,
};

/// The error log, as SQLite's shells and servers show it.
fn refused(uri: &str) -> (ErrorCode, String) {
    register();
    let failed = Connection::open_with_flags(uri, flags())
        .and_then(|db| db.execute_batch("SELECT * FROM sqlite_schema"));
    match failed {
        Err(rusqlite::Error::SqliteFailure(error, _)) => (error.code, last_error().unwrap_or_default()),
        other => panic!("{uri}: {other:?}"),
    }
}

fn fill(db: &Connection) {
    db.execute_batch(
        "CREATE TABLE IF NOT EXISTS t (a INTEGER PRIMARY KEY, b);
         WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 500)
         INSERT INTO t (b) SELECT randomblob(1500) FROM n;",
    )
    .unwrap();
}

/// A child that holds a database open until it is killed; for the tests of other processes.
#[test]
#[ignore = "is run by other tests in a process of its own"]
fn holder_child() {
    let uri = std::env::var("MEZZANINE_HOLD_URI").expect("other tests set this");
    register();
    let db = Connection::open_with_flags(uri, flags()).unwrap();
    if let Ok(sql) = std::env::var("MEZZANINE_HOLD_SQL") {
        db.execute_batch(&sql).unwrap();
    }
    println!("\n@held");
    std::thread::sleep(std::time::Duration::from_secs(60));
}

struct Held(std::process::Child);

impl Held {
    /// Another process that opens `uri`, carries out `sql` and then only waits.
    fn start(uri: &str, sql: &str) -> Self {
        use std::io::BufRead as _;
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "holder_child", "--nocapture", "--test-threads=1"])
            .env("MEZZANINE_HOLD_URI", uri)
            .env("MEZZANINE_HOLD_SQL", sql)
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = std::io::BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap() == "@held"), "the other process could not open the database");
        Self(child)
    }

    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn a_second_process_is_refused_and_told_who_is_there() {
    let folder = Folder::new();
    let uri = uri(&folder.file("app.db"), &folder.file("flash.mezz"), "");
    let held = Held::start(&uri, "CREATE TABLE t (a); INSERT INTO t VALUES (5)");
    let (code, message) = refused(&uri);
    assert_eq!(code, ErrorCode::DatabaseBusy);
    assert!(message.contains("app.db") && message.contains(&format!("process {}", held.0.id())), "{message}");
    // The same flash file under another database is refused as well, by the flash file.
    let (_, message) = refused(&support::uri(&folder.file("other.db"), &folder.file("flash.mezz"), ""));
    assert!(message.contains("flash.mezz") && message.contains("already open"), "{message}");
    assert!(!folder.file("other.db").exists(), "a refused database was created");
    held.kill();
    let db = Connection::open_with_flags(&uri, flags()).unwrap();
    assert_eq!(count(&db, "SELECT a FROM t"), 5);
}

#[test]
fn an_sqlite_without_the_tier_is_refused_while_the_database_is_open() {
    let folder = Folder::new();
    let db = open(&folder, "app.db");
    fill(&db);
    // In the same process, through SQLite's own VFS.
    let plain =
        Connection::open_with_flags(folder.file("app.db"), OpenFlags::SQLITE_OPEN_READ_WRITE).unwrap();
    plain.busy_timeout(std::time::Duration::ZERO).unwrap();
    let error = plain.query_row("SELECT count(*) FROM t", [], |_| Ok(())).unwrap_err();
    assert_eq!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy));
    // In another process.
    if let Some(shell) = stock_shell() {
        let output = stock(&shell, &folder.file("app.db"), "SELECT count(*) FROM t");
        assert!(!output.status.success());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("locked"), "{said}");
    }
    assert_eq!(count(&db, "SELECT count(*) FROM t"), 500);
}

/// Everything in the folder, by name and contents, but for the flash file.
fn contents(folder: &Folder) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut open = vec![folder.path().to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_none_or(|e| e != "mezz") {
                let target = fs::read_link(&path).map(|target| target.into_os_string().into_encoded_bytes());
                found.push((path.display().to_string(), target.or_else(|_| fs::read(&path)).unwrap()));
            }
        }
    }
    found.sort();
    found
}

/// A crash leaves a journal or a write-ahead log behind. A stock SQLite would play it back before it ever
/// looks at the header: over old pages, and then delete it.
#[test]
fn an_sqlite_without_the_tier_touches_nothing_after_a_crash() {
    let Some(shell) = stock_shell() else { return };
    for (mode, unfinished) in
        [("wal", "wal"), ("delete", "journal"), ("persist", "journal"), ("truncate", "journal")]
    {
        let folder = Folder::new();
        let uri = uri(&folder.file("app.db"), &folder.file("flash.mezz"), "");
        let sql = format!(
            "PRAGMA journal_mode = {mode}; PRAGMA cache_size = 5; PRAGMA cache_spill = 5; CREATE TABLE t (a, b);
             WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 300)
             INSERT INTO t SELECT i, randomblob(900) FROM n;
             BEGIN; UPDATE t SET a = -a, b = randomblob(900);"
        );
        Held::start(&uri, &sql).kill();
        assert!(folder.file("app.db-wal").join(unfinished).exists(), "{mode}: the crash left no log");
        let before = contents(&folder);
        for statement in
            ["SELECT count(*) FROM t", "PRAGMA journal_mode = delete", "CREATE TABLE x (a)", "VACUUM"]
        {
            let output = stock(&shell, &folder.file("app.db"), statement);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(!output.status.success(), "{mode}: {statement} succeeded");
            assert!(said.contains("unable to open") || said.contains("not a database"), "{mode}: {said}");
        }
        assert!(before == contents(&folder), "{mode}: the stock SQLite changed something");
        let db = open(&folder, "app.db");
        check(&db);
        assert_eq!(count(&db, "SELECT count(*) FROM t WHERE a > 0"), 300, "{mode}");
    }
}

#[test]
fn logs_that_a_stock_sqlite_left_are_taken_over() {
    let Some(shell) = stock_shell() else { return };
    for mode in ["wal", "delete"] {
        let folder = Folder::new();
        let database = folder.file("app.db");
        // Stop the shell in the middle, with a log that holds a transaction: committed in WAL mode, to be
        // rolled back otherwise.
        let script = format!(
            "PRAGMA journal_mode = {mode}; PRAGMA cache_size = 5; PRAGMA cache_spill = 5; CREATE TABLE t (a, b);
             WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 300)
             INSERT INTO t SELECT i, randomblob(900) FROM n;
             BEGIN; UPDATE t SET a = -a, b = randomblob(900);\n.shell kill -9 $PPID\n"
        );
        fs::write(folder.file("script.sql"), script).unwrap();
        let input = fs::File::open(folder.file("script.sql")).unwrap();
        let status = Command::new(&shell).arg("-batch").arg(&database).stdin(input).output().unwrap().status;
        assert!(!status.success(), "the shell was to be killed");
        let log = if mode == "wal" { "app.db-wal" } else { "app.db-journal" };
        assert!(fs::metadata(folder.file(log)).unwrap().len() > 0);
        let db = open(&folder, "app.db");
        check(&db);
        assert_eq!(count(&db, "SELECT count(*) FROM t WHERE a > 0"), 300, "{mode}");
        assert!(folder.file("app.db-wal").is_dir() && !folder.file("app.db-journal").exists());
    }
}

#[test]
fn two_journals_are_refused_and_both_kept() {
    let folder = Folder::new();
    drop(open(&folder, "app.db"));
    fs::create_dir(folder.file("app.db-wal")).unwrap();
    fs::write(folder.file("app.db-wal/journal"), b"one").unwrap();
    fs::write(folder.file("app.db-journal"), b"two").unwrap();
    let (_, message) = refused(&uri(&folder.file("app.db"), &folder.file("flash.mezz"), ""));
    assert!(message.contains("app.db-journal") && message.contains("only one of them"), "{message}");
    assert_eq!(fs::read(folder.file("app.db-wal/journal")).unwrap(), b"one");
    assert_eq!(fs::read(folder.file("app.db-journal")).unwrap(), b"two");
}

#[test]
fn what_is_missing_or_misspelt_is_named() {
    let folder = Folder::new();
    let path = folder.file("app.db");
    for (uri, parts) in [
        (format!("file:{}?vfs=mezzanine", path.display()), ["app.db", "no flash file", "flash="]),
        (uri(&path, &folder.file("no/such/flash"), ""), ["no/such/flash", "does not exist", "cannot open"]),
        (
            format!("file:{}?vfs=mezzanine&flash={}/f", path.display(), folder.path().display()),
            ["/f", "does not exist", "flash_size"],
        ),
        (
            format!(
                "file:{}?vfs=mezzanine&flash={}/f&flash_size=1KiB",
                path.display(),
                folder.path().display()
            ),
            ["flash_size=1024", "at least", "or more"],
        ),
        (uri(&path, &folder.file("f"), "&design=lru-3"), ["design=lru-3", "no such choice", "face-gsc"]),
        (
            uri(&path, &folder.file("f"), "&sync_mode=drained"),
            ["sync_mode=drained", "no such choice", "durable"],
        ),
    ] {
        let (code, message) = refused(&uri);
        assert_eq!(code, ErrorCode::CannotOpen, "{message}");
        for part in parts {
            assert!(message.contains(part), "{part}: {message}");
        }
        assert!(!path.exists(), "a refused database was created");
    }
}

#[test]
fn a_missing_tier_that_a_database_needs_is_not_replaced_by_a_new_one() {
    let folder = Folder::new();
    let flash = folder.file("flash.mezz");
    fill(&open(&folder, "app.db"));
    fs::rename(&flash, folder.file("elsewhere")).unwrap();
    let (code, message) = refused(&uri(&folder.file("app.db"), &flash, ""));
    assert_eq!(code, ErrorCode::CannotOpen, "{message}");
    for part in ["flash.mezz", "does not exist", "newest pages", "put that flash file back"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert!(!flash.exists(), "a new tier took the place of the one that is needed");
    fs::rename(folder.file("elsewhere"), &flash).unwrap();
    assert_eq!(count(&open(&folder, "app.db"), "SELECT count(*) FROM t"), 500);
}

#[test]
fn a_flash_file_that_is_something_else_is_left_alone() {
    let folder = Folder::new();
    let letter = b"Dear reader, this is no tier. ".repeat(1000);
    fs::write(folder.file("flash.mezz"), &letter).unwrap();
    let (_, message) = refused(&uri(&folder.file("app.db"), &folder.file("flash.mezz"), ""));
    assert!(message.contains("flash.mezz"), "{message}");
    assert_eq!(fs::read(folder.file("flash.mezz")).unwrap(), letter);
}

#[test]
fn a_second_name_of_an_open_database_is_refused() {
    let folder = Folder::new();
    let db = open(&folder, "app.db");
    fill(&db);
    fs::hard_link(folder.file("app.db"), folder.file("alias.db")).unwrap();
    let (_, message) = refused(&uri(&folder.file("alias.db"), &folder.file("flash.mezz"), ""));
    assert!(message.contains("app.db") && message.contains("open it by that name"), "{message}");
    let (_, message) = refused(&uri(&folder.file("app.db"), &folder.file("second.mezz"), ""));
    assert!(message.contains("name the same flash file"), "{message}");
}

#[test]
fn vfs_names_are_taken_once() {
    register();
    let error = MezzanineVfs::builder("mezzanine").register().err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Register);
    assert!(MezzanineVfs::builder("").register().is_err());
}

/// After a close in order there are no logs; the header guard of the volume keeps an SQLite without the tier
/// away.
#[test]
fn an_sqlite_without_the_tier_is_refused_while_the_newest_pages_are_on_flash() {
    let Some(shell) = stock_shell() else { return };
    for mode in ["delete", "wal"] {
        let folder = Folder::new();
        let db = open(&folder, "app.db");
        journal_mode(&db, mode);
        fill(&db);
        drop(db);
        assert!(!folder.file("app.db-wal").exists());
        let before = contents(&folder);
        for statement in
            ["SELECT count(*) FROM t", "PRAGMA journal_mode = delete", "CREATE TABLE x (a)", "VACUUM"]
        {
            let output = stock(&shell, &folder.file("app.db"), statement);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(
                !output.status.success() && said.contains("not a database"),
                "{mode}: {statement}: {output:?}"
            );
        }
        assert!(before == contents(&folder), "{mode}: the stock SQLite changed something");
        assert_eq!(count(&open(&folder, "app.db"), "SELECT count(*) FROM t"), 500);
    }
}

/// With `through` the disk is always current: an SQLite without the tier may read and even write, and the
/// tier notices.
#[test]
fn with_through_the_file_is_an_ordinary_database_as_soon_as_it_is_closed() {
    let Some(shell) = stock_shell() else { return };
    let folder = Folder::new();
    let db = open_with(&folder, "app.db", "&sync_mode=through").unwrap();
    fill(&db);
    drop(db);
    let statement = "INSERT INTO t VALUES (9999, 'behind the tier'); SELECT count(*) FROM t";
    let output = stock(&shell, &folder.file("app.db"), statement);
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "501", "{output:?}");
    let db = open_with(&folder, "app.db", "&sync_mode=through").unwrap();
    check(&db);
    assert_eq!(count(&db, "SELECT count(*) FROM t WHERE b = 'behind the tier'"), 1);
}

#[test]
fn after_a_drained_close_the_file_is_an_ordinary_database() {
    let Some(shell) = stock_shell() else { return };
    for mode in ["delete", "wal"] {
        let folder = Folder::new();
        let db = open_with(&folder, "app.db", "").unwrap();
        journal_mode(&db, mode);
        fill(&db);
        db.execute_batch("PRAGMA mezzanine_drain").unwrap();
        let expected = count(&db, "SELECT sum(length(b)) + sum(a) FROM t");
        drop(db);
        let output = stock(
            &shell,
            &folder.file("app.db"),
            "PRAGMA integrity_check; SELECT sum(length(b)) + sum(a) FROM t",
        );
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(said.split_whitespace().collect::<Vec<_>>(), ["ok", &expected.to_string()], "{output:?}");
    }
}
