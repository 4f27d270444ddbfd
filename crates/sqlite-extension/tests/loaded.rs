//! The extension in an SQLite that is already there: the stock shell of the machine, and rusqlite's.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rusqlite::{Connection, LoadExtensionGuard, OpenFlags};

/// The library that Cargo has built for this test.
fn library() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let found = tests.parent().unwrap().join("libmezzanine.so");
    assert!(found.exists(), "{} was not built", found.display());
    found
}

fn folder(name: &str) -> PathBuf {
    let base = fs::canonicalize(std::env::temp_dir()).unwrap();
    let path = base.join(format!("mezzanine-extension-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    path
}

fn shell() -> Option<PathBuf> {
    let found =
        ["/usr/bin/sqlite3", "/usr/local/bin/sqlite3"].into_iter().map(PathBuf::from).find(|p| p.exists());
    if found.is_none() {
        eprintln!("SKIPPED: no sqlite3 shell is installed (apt install sqlite3)");
    }
    found
}

/// Feeds a script to the shell, in `folder`.
fn run(shell: &Path, folder: &Path, script: &str) -> Output {
    run_with(shell, folder, script, Stdio::piped())
}

fn run_with(shell: &Path, folder: &Path, script: &str, standard_error: Stdio) -> Output {
    let mut child = Command::new(shell)
        .arg("-batch")
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(standard_error)
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const OPEN: &str = ".open 'file:app.db?vfs=mezzanine&flash=app.mezz&flash_size=8MiB'\n";

#[test]
fn the_stock_shell_loads_it_and_keeps_a_database_on_a_tier() {
    let Some(shell) = shell() else { return };
    let folder = folder("shell");
    let load = format!(".load {}\n", library().display());
    for mode in ["wal", "delete"] {
        let script = format!(
            "{load}{OPEN}PRAGMA journal_mode = {mode};
             CREATE TABLE IF NOT EXISTS t (a, b);
             WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
             INSERT INTO t SELECT i, randomblob(500) FROM n;
             PRAGMA integrity_check;
             PRAGMA mezzanine_status;\n"
        );
        let output = run(&shell, &folder, &script);
        let said = text(&output.stdout);
        assert!(output.status.success(), "{}", text(&output.stderr));
        for part in [mode, "ok", "app.mezz", "state Ok", "sync_mode durable"] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }
    // What is newest is on flash, and an SQLite without the tier is told that there is no database for it.
    let output = run(&shell, &folder, ".open app.db\nSELECT count(*) FROM t;\n");
    assert!(text(&output.stderr).contains("not a database"), "{output:?}");
    // Another process finds it again; then it is drained, and an SQLite without the tier reads it.
    let output =
        run(&shell, &folder, &format!("{load}{OPEN}SELECT count(*) FROM t; PRAGMA mezzanine_drain;\n"));
    assert!(text(&output.stdout).starts_with("4000\ndrained;"), "{output:?}");
    let output = run(&shell, &folder, ".open app.db\nPRAGMA integrity_check; SELECT sum(a) FROM t;\n");
    assert_eq!(text(&output.stdout).split_whitespace().collect::<Vec<_>>(), ["ok", "4002000"], "{output:?}");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn the_stock_shell_is_told_what_is_wrong() {
    let Some(shell) = shell() else { return };
    let folder = folder("wrong");
    let load = format!(".load {}\n", library().display());
    let script = format!("{load}.open 'file:app.db?vfs=mezzanine'\nSELECT 1 FROM sqlite_schema;\n");
    let said = text(&run(&shell, &folder, &script).stderr);
    for part in ["app.db", "no flash file is named", "flash=/path/to/file&flash_size=1GiB"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!folder.join("app.db").exists());
    fs::remove_dir_all(folder).unwrap();
}

/// Whoever shows no log sees what a tier waits for, and the one command that ends it, before a change fails.
#[test]
fn a_database_that_is_missing_is_named_at_the_next_opening_of_its_tier() {
    let Some(shell) = shell() else { return };
    let folder = folder("missing");
    let load = format!(".load {}\n", library().display());
    let gone = OPEN.replace("app.db", "gone.db");
    let make = "CREATE TABLE t (a); INSERT INTO t VALUES (1);\n";
    let output = run(&shell, &folder, &format!("{load}{OPEN}{make}{gone}{make}"));
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(!text(&output.stderr).contains("mezzanine_forget"), "{}", text(&output.stderr));
    fs::remove_file(folder.join("gone.db")).unwrap();
    fs::remove_file(folder.join("gone.db.mezzanine")).unwrap();
    let path = folder.join("gone.db");
    let output = run(&shell, &folder, &format!("{load}{OPEN}SELECT 'rows', count(*) FROM t;\n"));
    let (out, said) = (text(&output.stdout), text(&output.stderr));
    assert!(out.contains("rows|1"), "{out} {said}");
    // Nor does it do harm where nothing can be said: that was an opening that failed once, and a tier that no
    // connection had and none gave back.
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let script = format!("{load}{OPEN}SELECT 'rows', count(*) FROM t;\n");
    let output = run_with(&shell, &folder, &script, full.into());
    assert!(text(&output.stdout).contains("rows|1"), "{output:?}");
    let command = format!("PRAGMA mezzanine_forget = '{}'", path.display());
    assert!(said.contains(&command) && said.contains("nor is its sidecar"), "{said}");
    let script =
        format!("{load}{OPEN}{command};\nINSERT INTO t VALUES (2);\nSELECT 'rows', count(*) FROM t;\n");
    let output = run(&shell, &folder, &script);
    assert!(text(&output.stdout).contains("rows|2"), "{output:?}");
    fs::remove_dir_all(folder).unwrap();
}

/// An SQLite of another version than the machine's, which loads the same library and outlives the connection
/// that loaded it.
#[test]
fn rusqlite_loads_it() {
    let folder = folder("rusqlite");
    let loader = Connection::open_in_memory().unwrap();
    load(&loader);
    load(&loader);
    drop(loader);
    let uri = format!(
        "file:{0}/app.db?vfs=mezzanine&flash={0}/app.mezz&flash_size=8MiB&sync_mode=through",
        folder.display()
    );
    let db = Connection::open_with_flags(uri, OpenFlags::default() | OpenFlags::SQLITE_OPEN_URI).unwrap();
    db.execute_batch("CREATE TABLE t (a); INSERT INTO t VALUES (7)").unwrap();
    let status: String = db.query_row("PRAGMA mezzanine_status", [], |row| row.get(0)).unwrap();
    assert!(status.contains("sync_mode through"), "{status}");
    assert_eq!(db.query_row("SELECT a FROM t", [], |row| row.get::<_, i64>(0)).unwrap(), 7);
    drop(db);
    fs::remove_dir_all(folder).unwrap();
}

#[allow(unsafe_code, reason = "loading a library runs its code")]
fn load(db: &Connection) {
    // SAFETY: the library is the one under test, and nothing else uses this connection meanwhile.
    let _guard = unsafe { LoadExtensionGuard::new(db) }.unwrap();
    // SAFETY: as above.
    unsafe { db.load_extension(library(), None::<&str>) }.unwrap();
}

/// The library must not bring an SQLite of its own, whatever features the rest of the workspace asks for.
#[test]
fn it_contains_no_sqlite() {
    let bytes = fs::read(library()).unwrap();
    for mark in [&b"database disk image is malformed"[..], b"malformed database schema"] {
        assert!(!bytes.windows(mark.len()).any(|window| window == mark), "{}", text(mark));
    }
}
