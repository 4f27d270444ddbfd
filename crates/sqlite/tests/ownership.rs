//! What is made beside a database is for those that the database is for.

#![allow(clippy::unwrap_used)]

mod support;

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rusqlite::{Connection, OpenFlags};
use support::{Folder, count, flags, register, uri};

/// The user of a service, who is not root.
const SERVICE: u32 = 65_534;

/// Whether this process may give files away; the tests that need it are skipped where it may not.
fn is_root() -> bool {
    let root = fs::metadata("/proc/self").unwrap().uid() == 0;
    if !root {
        eprintln!("SKIPPED: only root can give files to another user");
    }
    root
}

/// The service, which opens the database, changes it and closes it.
#[test]
#[ignore = "is run by other tests in a process of its own"]
fn service() {
    let uri = std::env::var("MEZZANINE_SERVICE_URI").expect("other tests set this");
    let does = std::env::var("MEZZANINE_SERVICE_DOES").unwrap();
    register();
    #[cfg(feature = "planted")]
    if std::env::var("MEZZANINE_PLANT").is_ok() {
        mezzanine_engine::planted::set(Some(mezzanine_engine::planted::Bug::WalReadBesideWriters));
    }
    let flags = if uri.contains("mode=ro") {
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI
    } else {
        flags()
    };
    let db = Connection::open_with_flags(uri, flags)
        .unwrap_or_else(|error| panic!("{error}: {:?}", mezzanine_sqlite::last_error()));
    match does.as_str() {
        "read twice" => {
            // While another database keeps the tier.
            let at = std::env::var("MEZZANINE_SERVICE_URI").unwrap();
            let kept = Connection::open_with_flags(at.replace("app.db", "kept.db"), flags).unwrap();
            db.close().unwrap();
            let again = Connection::open_with_flags(at, flags).unwrap();
            assert_eq!(count(&again, "SELECT sum(a) FROM t"), 7);
            kept.close().unwrap();
        }
        "read" => assert_eq!(count(&db, "SELECT sum(a) FROM t"), 7),
        sql => db.execute_batch(sql).unwrap(),
    }
}

fn service_changes(folder: &Folder, uri: &str) -> Result<(), String> {
    service_does(folder, uri, "INSERT INTO t VALUES (1)", false)
}

fn service_does(folder: &Folder, uri: &str, what: &str, planted: bool) -> Result<(), String> {
    // Where the service may look for it.
    let program = folder.file("service");
    // By another process: one that another thread starts meanwhile would have a copy of a descriptor that
    // writes it, and a program that is written cannot be run.
    let own = std::env::current_exe().unwrap();
    assert!(Command::new("install").args(["-m", "755"]).args([&own, &program]).status().unwrap().success());
    let mut command = Command::new(program);
    if planted {
        command.env("MEZZANINE_PLANT", "yes");
    }
    let output = command
        .args(["--ignored", "--exact", "service", "--test-threads=1"])
        .env("MEZZANINE_SERVICE_URI", uri)
        .env("MEZZANINE_SERVICE_DOES", what)
        .uid(SERVICE)
        .gid(SERVICE)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    if output.status.success() { Ok(()) } else { Err(said) }
}

/// What is there beside the database and its flash file, and whose it is.
fn whose(folder: &Folder) -> Vec<(String, u32, u32)> {
    let mut found = Vec::new();
    let mut open = vec![folder.path().to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).unwrap().flatten() {
            let metadata = entry.metadata().unwrap();
            let name = entry.path().strip_prefix(folder.path()).unwrap().display().to_string();
            // A link has no mode of its own.
            let mode = if metadata.is_symlink() { 0o640 } else { metadata.mode() & 0o777 };
            found.push((name, metadata.uid(), mode));
            if metadata.is_dir() {
                open.push(entry.path());
            }
        }
    }
    found.sort();
    found
}

fn database_of_service(folder: &Folder, mode: u32) -> String {
    let path = folder.file("app.db");
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE t (a)").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    chown(&path, Some(SERVICE), Some(SERVICE)).unwrap();
    chown(folder.path(), Some(SERVICE), Some(SERVICE)).unwrap();
    uri(&path, &folder.file("flash.mezz"), "")
}

/// Was found by trial: a database that root had opened once could not be opened by its service any more.
#[test]
fn what_root_makes_beside_a_database_is_its_services() {
    if !is_root() {
        return;
    }
    register();
    let good = || {
        let folder = Folder::new();
        let uri = database_of_service(&folder, 0o640);
        let db = Connection::open_with_flags(&uri, flags()).unwrap();
        db.execute_batch("PRAGMA journal_mode = wal; INSERT INTO t VALUES (1)").unwrap();
        let found = whose(&folder);
        assert!(found.len() >= 6, "{found:?}");
        let directory = |name: &str| name == "app.db-wal";
        let is_services = found.iter().all(|(name, user, mode)| {
            *user == SERVICE && *mode == if directory(name) { 0o750 } else { 0o640 }
        });
        drop(db);
        is_services && service_changes(&folder, &uri).is_ok() && service_changes(&folder, &uri).is_ok()
    };
    mezzanine_engine::planted::only_with(&[mezzanine_engine::planted::Bug::SidecarOfItsMaker], good);
}

/// Was found by trial: root's connection to a file without a write bit wrote, and failed later.
#[test]
fn root_writes_a_database_that_nobody_else_may() {
    if !is_root() {
        return;
    }
    let folder = Folder::new();
    let uri = database_of_service(&folder, 0o444);
    register();
    for number in 1..3 {
        let db = Connection::open_with_flags(&uri, flags()).unwrap();
        db.execute_batch("INSERT INTO t VALUES (1)").unwrap();
        support::pragma_text(&db, "mezzanine_drain");
        db.close().unwrap();
        let plain =
            Connection::open_with_flags(folder.file("app.db"), OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
        assert_eq!(count(&plain, "SELECT count(*) FROM t"), number);
    }
}

/// Was found by trial: beside an SQLite that wrote it in WAL mode, a reader who may not write saw pages of
/// two moments.
#[test]
fn who_may_not_write_reads_in_rollback_mode_and_is_refused_in_wal_mode() {
    if !is_root() {
        return;
    }
    register();
    for (journal, planted) in [("delete", false), ("wal", false), ("wal", true)] {
        if planted && !cfg!(feature = "planted") {
            continue;
        }
        let folder = Folder::new();
        let path = folder.file("app.db");
        let db = Connection::open(&path).unwrap();
        support::journal_mode(&db, journal);
        db.execute_batch("CREATE TABLE t (a); INSERT INTO t VALUES (7)").unwrap();
        drop(db);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
        chown(folder.path(), Some(SERVICE), Some(SERVICE)).unwrap();
        let uri = uri(&path, &folder.file("flash.mezz"), "&sync_mode=through");
        let read = service_does(&folder, &uri, "read", planted);
        assert_eq!(read.is_ok(), journal == "delete" || planted, "{read:?}");
        if let Err(said) = read {
            assert!(said.contains("app.db") && said.contains("may write it"), "{said}");
        }
    }
}

/// Who may not write finds the journal of a stock SQLite that was killed where that has it, and is refused as
/// by SQLite alone: half of the transaction is in the file.
#[test]
fn who_may_not_write_reads_no_half_of_a_transaction() {
    if !is_root() {
        return;
    }
    register();
    let (folder, killed) = (Folder::new(), Folder::new());
    let db = Connection::open(killed.file("app.db")).unwrap();
    db.execute_batch(
        "PRAGMA cache_size = 5; PRAGMA cache_spill = 5;
         CREATE TABLE t (a, b);
         WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 200)
         INSERT INTO t SELECT 0, zeroblob(900) FROM n;
         BEGIN; UPDATE t SET a = 7, b = zeroblob(900)",
    )
    .unwrap();
    for name in ["app.db", "app.db-journal"] {
        fs::copy(killed.file(name), folder.file(name)).unwrap();
    }
    let path = folder.file("app.db");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    chown(folder.path(), Some(SERVICE), Some(SERVICE)).unwrap();
    let uri = uri(&path, &folder.file("flash.mezz"), "&sync_mode=through");
    let said = service_does(&folder, &uri, "SELECT sum(a) FROM t", false).unwrap_err();
    assert!(said.contains("readonly"), "{said}");
}

/// Was found by trial: the second opening made a log directory that nobody removed, and no SQLite without the
/// tier could open the database.
#[test]
fn nothing_is_left_beside_a_database_that_was_only_read() {
    if !is_root() {
        return;
    }
    let folder = Folder::new();
    let path = folder.file("app.db");
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE t (a); INSERT INTO t VALUES (7)").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    chown(folder.path(), Some(SERVICE), Some(SERVICE)).unwrap();
    let uri = uri(&path, &folder.file("flash.mezz"), "");
    assert_eq!(service_does(&folder, &uri, "read twice", false), Ok(()));
    assert!(!folder.file("app.db-wal").exists());
    assert_eq!(count(&Connection::open(&path).unwrap(), "SELECT a FROM t"), 7);
}

/// Was found by trial: a database that a user may only read, in a folder that he may not write, could not be
/// opened in `durable`.
#[test]
fn who_may_write_nothing_reads_without_a_tier() {
    if !is_root() {
        return;
    }
    register();
    for journal in ["delete", "wal"] {
        let folder = Folder::new();
        for name in ["data", "flash"] {
            fs::create_dir(folder.file(name)).unwrap();
        }
        chown(folder.file("flash"), Some(SERVICE), Some(SERVICE)).unwrap();
        let path = folder.file("data").join("app.db");
        let db = Connection::open(&path).unwrap();
        support::journal_mode(&db, journal);
        db.execute_batch("CREATE TABLE t (a); INSERT INTO t VALUES (7)").unwrap();
        if journal == "delete" {
            drop(db);
        }
        let uri = uri(&path, &folder.file("flash").join("app.mezz"), "");
        // In WAL mode SQLite itself needs the files beside it, which are there as long as somebody has it
        // open.
        assert_eq!(service_does(&folder, &format!("{uri}&mode=ro"), "read", false), Ok(()), "{journal}");
        assert!(!folder.file("data").join("app.db.mezzanine").exists());
        let written = service_does(&folder, &uri, "INSERT INTO t VALUES (1)", false).unwrap_err();
        assert!(written.contains("readonly"), "{written}");
    }
}

/// Was found by trial: two flash files whose names are no text were one to the registry.
#[test]
fn names_of_flash_files_are_bytes() {
    register();
    let folder = Folder::new();
    let open = |database: &str, byte: u8| {
        let percent = format!("{}/flash-%{byte:02X}.mezz", folder.path().display());
        let uri =
            format!("file:{}?vfs=mezzanine&flash={percent}&flash_size=8MiB", folder.file(database).display());
        let db = Connection::open_with_flags(uri, flags())
            .unwrap_or_else(|error| panic!("{error}: {:?}", mezzanine_sqlite::last_error()));
        db.execute_batch("CREATE TABLE t (a)").unwrap();
        db
    };
    let (_one, _other) = (open("one.db", 0xfe), open("other.db", 0xff));
    let names = fs::read_dir(folder.path()).unwrap().flatten().map(|entry| entry.file_name());
    let flash: Vec<_> = names.filter(|name| name.as_bytes().starts_with(b"flash-")).collect();
    assert_eq!(flash.len(), 2, "{flash:?}");
    assert!(flash.iter().all(|name| matches!(name.as_bytes()[6], 0xfe | 0xff)), "{flash:?}");
}
