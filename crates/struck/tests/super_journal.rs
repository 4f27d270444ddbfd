//! Transactions of several databases on tiers, through a connection whose first database is on none: SQLite
//! commits them by the removal of a super-journal, through the VFS of that first one. The process is killed
//! at calls that change a file: one in some, with `MEZZANINE_STRUCK=all` at each.

#![allow(clippy::unwrap_used, unsafe_code)]

mod preload;
#[path = "../../sqlite/tests/support/mod.rs"]
mod support;

use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;

use preload::{library, of_library};
use rusqlite::Connection;
use support::{Folder, flags, register, uri};

/// Databases on tiers, and how they sync.
const DATABASES: [(&str, &str); 3] = [("one", "NORMAL"), ("two", "NORMAL"), ("three", "OFF")];
/// A page each. They fit into one group of a tier, so that no worker brings them to flash meanwhile.
const ROWS: i64 = 20;

fn uri_of(folder: &Folder, name: &str) -> String {
    uri(&folder.file(&format!("{name}.db")), &folder.file(&format!("{name}.mezz")), "")
}

/// Changes every row of all of them in one transaction; killed at the call that it is told.
#[test]
#[ignore = "is run by other tests in a process of its own"]
fn child() {
    let Ok(folder) = std::env::var("MEZZANINE_SUPER_FOLDER") else { return };
    let call: u64 = std::env::var("MEZZANINE_SUPER_CALL").unwrap().parse().unwrap();
    register();
    #[cfg(feature = "planted")]
    if std::env::var("MEZZANINE_PLANT").is_ok_and(|plant| !plant.is_empty()) {
        mezzanine_engine::planted::set(Some(mezzanine_engine::planted::Bug::SuperJournalUnseen));
    }
    let first = Connection::open_with_flags(format!("file:{folder}/first.db?vfs=unix"), flags()).unwrap();
    for (name, synchronous) in DATABASES {
        let (path, flash) = (format!("{folder}/{name}.db"), format!("{folder}/{name}.mezz"));
        let uri = uri(path.as_ref(), flash.as_ref(), "");
        first.execute("ATTACH ?1 AS ?2", [uri.as_str(), name]).unwrap();
        first.execute_batch(&format!("PRAGMA {name}.synchronous = {synchronous}")).unwrap();
    }
    let change = |v| {
        let update = |(name, _)| format!("UPDATE {name}.t SET v = {v}, x = randomblob(3000);");
        let all: String = DATABASES.map(update).concat();
        first.execute_batch(&format!("BEGIN; {all} COMMIT")).unwrap();
    };
    change(2);
    // SAFETY: it has this signature.
    let strike: extern "C" fn(u64, i32, bool) =
        unsafe { std::mem::transmute(of_library(c"mezzanine_strike")) };
    strike(call, 0, false);
    change(3);
    // What comes now is another life's.
    strike(0, 0, false);
}

/// What is wrong after a kill at this call; `None` if the process came to its end before.
fn after_kill(call: u64, plant: &str) -> Option<Vec<String>> {
    register();
    let folder = Folder::in_memory();
    for (name, _) in DATABASES {
        let db = Connection::open_with_flags(uri_of(&folder, name), flags()).unwrap();
        db.execute_batch("CREATE TABLE t (a INTEGER PRIMARY KEY, v, x)").unwrap();
        for a in 0..ROWS {
            db.execute("INSERT INTO t VALUES (?1, 1, zeroblob(3000))", [a]).unwrap();
        }
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "child", "--nocapture", "--test-threads=1"])
        .env("LD_PRELOAD", library())
        .env("MEZZANINE_SUPER_FOLDER", folder.path())
        .env("MEZZANINE_SUPER_CALL", call.to_string())
        .env("MEZZANINE_PLANT", plant)
        .output()
        .unwrap();
    if output.status.success() {
        return None;
    }
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(libc::SIGKILL), "call {call}: {said}");
    let mut wrong = Vec::new();
    let mut found = Vec::new();
    for (name, _) in DATABASES {
        let db = Connection::open_with_flags(uri_of(&folder, name), flags()).unwrap();
        let integrity = db.query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0));
        let versions: rusqlite::Result<(i64, i64, i64)> =
            db.query_row("SELECT min(v), max(v), count(*) FROM t", [], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            });
        let whole = versions.as_ref().is_ok_and(|(least, most, rows)| least == most && *rows == ROWS);
        if integrity.as_deref() != Ok("ok") || !whole {
            wrong.push(format!("call {call}: {name}: {integrity:?}, {versions:?}"));
        }
        found.extend(versions.map(|(version, ..)| version));
    }
    if found.windows(2).any(|two| two[0] != two[1]) {
        wrong.push(format!("call {call}: not in all of them: {found:?}"));
    }
    Some(wrong)
}

/// Was found by trial: with `synchronous = OFF` pages were in the process's memory alone when the
/// super-journal went, and the database was malformed, or had not what the others had.
#[test]
fn a_database_is_whole_when_a_super_journal_of_another_vfs_is_gone() {
    let all = std::env::var("MEZZANINE_STRUCK").is_ok_and(|struck| struck == "all");
    let calls = (1..).step_by(if all { 1 } else { 5 });
    let killed: Vec<Vec<String>> = calls.map_while(|call| after_kill(call, "")).collect();
    assert!(killed.len() > 5, "{}", killed.len());
    let wrong = killed.concat();
    assert!(wrong.is_empty(), "{wrong:#?}");
    #[cfg(feature = "planted")]
    assert!(
        (1..).map_while(|call| after_kill(call, "SuperJournalUnseen")).any(|wrong| !wrong.is_empty()),
        "the planted fault went unnoticed"
    );
}
