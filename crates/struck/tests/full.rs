//! A database on a full disk: what can be read without a tier can be read with one, a change is refused as a
//! whole, and with room again everything is as it should be.

#![allow(clippy::unwrap_used, unsafe_code)]

mod preload;
#[path = "../../sqlite/tests/support/mod.rs"]
mod support;

use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Output};

use preload::{library, of_library};
use rusqlite::Connection;
use support::{Folder, check, count, flags, journal_mode, register};

const ROWS: i64 = 50;
const COUNT: &str = "SELECT count(*) FROM t WHERE length(b) = 3000";

/// How the database was left before the disk was full.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Left {
    Closed,
    /// The process was killed after a commit.
    Killed,
    /// It was killed in the middle of a transaction whose pages had left its memory.
    InTransaction,
}

/// Runs a test of this file in a process of its own.
fn run(test: &str, uri: &str, more: &[(&str, String)]) -> Output {
    Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", test, "--nocapture", "--test-threads=1"])
        .env("MEZZANINE_FULL_URI", uri)
        .envs(more.iter().map(|(name, value)| (name, value)))
        .output()
        .unwrap()
}

#[test]
#[ignore = "is run by others in a process of its own"]
fn fill_database() {
    let Ok(uri) = std::env::var("MEZZANINE_FULL_URI") else { return };
    register();
    let db = Connection::open_with_flags(&uri, flags()).unwrap();
    journal_mode(&db, &std::env::var("MEZZANINE_FULL_JOURNAL").unwrap());
    db.execute_batch("CREATE TABLE t (a INTEGER PRIMARY KEY, b)").unwrap();
    for _ in 0..ROWS {
        db.execute_batch("INSERT INTO t (b) VALUES (zeroblob(3000))").unwrap();
    }
    match &*std::env::var("MEZZANINE_FULL_LEFT").unwrap() {
        "Closed" => return,
        "InTransaction" => {
            db.pragma_update(None, "cache_size", 4).unwrap();
            db.execute_batch("BEGIN; UPDATE t SET b = zeroblob(2999)").unwrap();
        }
        _ => {}
    }
    // SAFETY: ends this process.
    unsafe { libc::raise(libc::SIGKILL) };
}

#[test]
#[ignore = "is run by others in a process of its own"]
fn read_and_change() {
    let Ok(uri) = std::env::var("MEZZANINE_FULL_URI") else { return };
    register();
    // SAFETY: it has this signature.
    let fill: extern "C" fn(bool) = unsafe { std::mem::transmute(of_library(c"mezzanine_fill")) };
    fill(true);
    for number in 0..3 {
        let opened = Connection::open_with_flags(&uri, flags());
        let read = opened.as_ref().map(|db| db.query_row(COUNT, [], |row| row.get::<_, i64>(0)));
        match read {
            Ok(Ok(rows)) => println!("\n@read {number} {rows}"),
            Ok(Err(error)) => println!("\n@unread {number} {error}"),
            Err(error) => println!("\n@unread {number} {error}"),
        }
        // Enough to need more of everything.
        let change = "INSERT INTO t (b) SELECT zeroblob(4000) FROM t, t AS u";
        if let Ok(db) = opened {
            println!("\n@change {:?}", db.execute_batch(change).map_err(|error| error.sqlite_error_code()));
        }
    }
    fill(false);
    let db = Connection::open_with_flags(&uri, flags()).unwrap();
    println!("\n@then {}", count(&db, COUNT));
    db.execute_batch("DELETE FROM t WHERE a = 1").unwrap();
    check(&db);
}

/// What the two processes said of a database. The folder is made for it.
fn said(uri: &str, journal: &str, left: Left) -> Vec<String> {
    let words =
        [("MEZZANINE_FULL_JOURNAL", journal.to_owned()), ("MEZZANINE_FULL_LEFT", format!("{left:?}"))];
    let output = run("fill_database", uri, &words);
    match left {
        Left::Closed => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
        _ => assert_eq!(output.status.signal(), Some(libc::SIGKILL)),
    }
    let output = run("read_and_change", uri, &[("LD_PRELOAD", library().to_str().unwrap().to_owned())]);
    assert!(output.status.success(), "{journal} {left:?}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().filter_map(|line| line.strip_prefix('@')).map(str::to_owned).collect()
}

#[test]
fn on_a_full_disk_a_database_can_be_read() {
    for mode in ["durable", "through"] {
        for journal in ["wal", "delete", "truncate", "persist", "memory"] {
            for left in [Left::Closed, Left::Killed, Left::InTransaction] {
                if left == Left::InTransaction && journal == "memory" {
                    // Such a kill is the end of a database, on a tier or not.
                    continue;
                }
                let folder = Folder::in_memory();
                let flash = folder.file("flash.mezz");
                let database = folder.file("app.db");
                let ours = said(
                    &format!(
                        "file:{}?vfs=mezzanine&flash={}&flash_size=640KiB&sync_mode={mode}",
                        database.display(),
                        flash.display()
                    ),
                    journal,
                    left,
                );
                let stock =
                    said(&format!("file:{}?vfs=unix", folder.file("stock.db").display()), journal, left);
                println!("{mode} {journal} {left:?}: {ours:?}, without a tier {stock:?}");
                let reads = |said: &[String]| said.iter().filter(|line| line.starts_with("read")).count();
                assert_eq!(reads(&stock), if journal == "wal" { 0 } else { 3 }, "{journal} {left:?}");
                assert!(reads(&ours) >= reads(&stock), "{mode} {journal} {left:?}");
                let wrong = |line: &&String| {
                    let wanted = format!(" {ROWS}");
                    line.starts_with("read") && !line.ends_with(&wanted) || line.as_str() == "change Ok(())"
                };
                assert_eq!(ours.iter().find(wrong), None, "{mode} {journal} {left:?}");
                assert_eq!(ours.last().unwrap(), &format!("then {ROWS}"));
            }
        }
    }
}
