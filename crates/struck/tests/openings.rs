//! What an opening of a database costs that changes nothing, in calls, and its first change: beside SQLite
//! without a tier.

#![allow(clippy::unwrap_used, unsafe_code)]

mod preload;
#[path = "../../sqlite/tests/support/mod.rs"]
mod support;

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

use preload::{library, of_library};
use rusqlite::Connection;
use support::{Folder, check, count, flags, journal_mode, register};

/// Opens a database, reads, closes; and opens it once more and changes it. Says how many calls that took.
#[test]
#[ignore = "is run by other tests in a process of its own"]
fn child() {
    let Ok(uri) = std::env::var("MEZZANINE_OPENED_URI") else { return };
    register();
    // SAFETY: it has this signature.
    let strike: extern "C" fn(u64, i32, bool) =
        unsafe { std::mem::transmute(of_library(c"mezzanine_strike")) };
    // SAFETY: as above.
    let syncs: extern "C" fn() -> u64 = unsafe { std::mem::transmute(of_library(c"mezzanine_syncs")) };
    strike(0, 0, false);
    let open = || Connection::open_with_flags(&uri, flags()).unwrap();
    let db = open();
    assert_eq!(count(&db, "SELECT count(*) FROM t"), 1);
    drop(db);
    println!("\n@read {}", syncs());
    let db = open();
    assert_eq!(count(&db, "SELECT count(*) FROM t"), 1);
    strike(0, 0, false);
    db.execute_batch("INSERT INTO t VALUES (2)").unwrap();
    println!("\n@first {}", syncs());
    strike(0, 0, false);
    db.execute_batch("INSERT INTO t VALUES (3)").unwrap();
    println!("\n@second {}", syncs());
    drop(db);
}

/// Syncs of an opening that only reads, of the first change of another one, and of the second.
fn syncs(uri: &str, journal: &str) -> HashMap<String, u64> {
    register();
    let db = Connection::open_with_flags(uri, flags()).unwrap();
    journal_mode(&db, journal);
    db.execute_batch("CREATE TABLE t (a); INSERT INTO t VALUES (1)").unwrap();
    drop(db);
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "child", "--nocapture", "--test-threads=1"])
        .env("LD_PRELOAD", library())
        .env("MEZZANINE_OPENED_URI", uri)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let db = Connection::open_with_flags(uri, flags()).unwrap();
    assert_eq!(count(&db, "SELECT count(*) FROM t"), 3);
    check(&db);
    let text = String::from_utf8_lossy(&output.stdout);
    let said = text.lines().filter_map(|line| line.strip_prefix('@')?.split_once(' '));
    said.map(|(what, number)| (what.to_owned(), number.parse().unwrap())).collect()
}

fn uri(database: &Path, parameters: &str) -> String {
    format!("file:{}?{parameters}", database.display())
}

#[test]
fn an_opening_that_changes_nothing_syncs_nothing() {
    for mode in ["durable", "through"] {
        for journal in ["wal", "delete", "truncate", "persist", "memory"] {
            let folder = Folder::in_memory();
            let flash = folder.file("flash.mezz");
            // So large that no group is full meanwhile: a worker that brings one to flash syncs beside the
            // change.
            let tier = format!("vfs=mezzanine&flash={}&flash_size=16MiB&sync_mode={mode}", flash.display());
            let ours = syncs(&uri(&folder.file("app.db"), &tier), journal);
            let stock = syncs(&uri(&folder.file("stock.db"), "vfs=unix"), journal);
            println!("{mode} {journal}: {ours:?}, without a tier {stock:?}");
            assert_eq!(ours["read"], 0, "{mode} {journal}");
            assert_eq!(stock["read"], 0, "{journal}");
            // The superblock, the sidecar, and what its directory says; the changes that follow have paid.
            assert!(ours["first"] <= stock["first"] + 3, "{mode} {journal}");
            assert!(ours["second"] <= stock["second"], "{mode} {journal}");
        }
    }
}
