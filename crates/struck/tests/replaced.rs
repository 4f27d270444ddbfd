//! A process is killed at each call by which it moves a tier to another flash file, while a transaction of
//! another connection has begun to change the database: there is a hot journal, or a log with frames that
//! count for nothing. Then the database is read through one of the two flash files, whichever of them is
//! asked first, and has what was acknowledged and nothing of that transaction.
//!
//! `MEZZANINE_REPLACED=all` kills at every call, otherwise at one in some;
//! `MEZZANINE_REPLACED=durable,delete,17` at one alone.

#![allow(clippy::unwrap_used, unsafe_code)]

mod preload;
#[path = "../../sqlite/tests/support/mod.rs"]
mod support;

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::Command;

use preload::{library, of_library};
use rusqlite::Connection;
use support::{Folder, check, copy_folder, count, flags, journal_mode, pragma_text, register};

const ROWS: i64 = 120;
/// Of so many calls the process is killed at one, unless at all.
const ONE_IN: u64 = 7;
const FLASH: [&str; 2] = ["old.mezz", "new.mezz"];

fn uri(folder: &Path, mode: &str, flash: &str) -> String {
    let (database, flash) = (folder.join("app.db"), folder.join(flash));
    format!(
        "file:{}?vfs=mezzanine&flash={}&flash_size=640KiB&sync_mode={mode}",
        database.display(),
        flash.display()
    )
}

#[test]
#[ignore = "is run by other tests in a process of its own"]
fn child() {
    let Ok(folder) = std::env::var("MEZZANINE_REPLACED_FOLDER") else { return };
    let [mode, journal, call] =
        ["MODE", "JOURNAL", "CALL"].map(|name| std::env::var(format!("MEZZANINE_REPLACED_{name}")).unwrap());
    register();
    // SAFETY: it has this signature.
    let strike: extern "C" fn(u64, i32, bool) =
        unsafe { std::mem::transmute(of_library(c"mezzanine_strike")) };
    // SAFETY: as above.
    let calls: extern "C" fn() -> u64 = unsafe { std::mem::transmute(of_library(c"mezzanine_calls")) };
    strike(0, 0, false);
    let uri = uri(Path::new(&folder), &mode, FLASH[0]);
    let open = || Connection::open_with_flags(&uri, flags()).unwrap();
    let db = open();
    journal_mode(&db, &journal);
    db.pragma_update(None, "cache_size", 4).unwrap();
    db.execute_batch("CREATE TABLE t (a, b)").unwrap();
    for row in 0..ROWS {
        db.execute("INSERT INTO t VALUES (?1, zeroblob(1500))", [row]).unwrap();
    }
    let other = open();
    assert_eq!(count(&other, "SELECT count(*) FROM t"), ROWS);
    // More than the cache holds: the journal is synced, and pages are in the database.
    db.execute_batch("BEGIN; UPDATE t SET a = -1, b = randomblob(1500)").unwrap();
    strike(call.parse().unwrap(), 0, false);
    let replaced = pragma_text(&other, &format!("mezzanine_replace = '{folder}/{}'", FLASH[1]));
    println!("\n@calls {}", calls());
    assert!(replaced.contains(FLASH[1]), "{replaced}");
    // As after a kill behind the last call.
    std::process::abort();
}

/// Kills at this call, 0 for none. How many there were, if it came to the end.
fn kill(folder: &Path, mode: &str, journal: &str, call: u64) -> Result<Option<u64>, String> {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "child", "--nocapture", "--test-threads=1"])
        .env("LD_PRELOAD", library())
        .env("MEZZANINE_REPLACED_FOLDER", folder)
        .env("MEZZANINE_REPLACED_MODE", mode)
        .env("MEZZANINE_REPLACED_JOURNAL", journal)
        .env("MEZZANINE_REPLACED_CALL", call.to_string())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let calls = text.lines().find_map(|line| line.strip_prefix("@calls ")?.parse().ok());
    match (output.status.signal(), calls) {
        (Some(libc::SIGKILL), None) | (Some(libc::SIGABRT), Some(_)) => Ok(calls),
        _ => Err(format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr))),
    }
}

/// Reads the database through these flash files, one after the other, and changes it: it must be had through
/// one.
fn read(folder: &Path, mode: &str, order: [&str; 2]) -> Result<(), String> {
    register();
    let mut why = Vec::new();
    let mut had = 0;
    // What is acknowledged through the first is there through the second, or that is refused.
    let mut wanted = (0..ROWS).sum::<i64>();
    for flash in order {
        let opened = Connection::open_with_flags(uri(folder, mode, flash), flags());
        let sum = |db: &Connection| db.query_row("SELECT sum(a) FROM t", [], |row| row.get::<_, i64>(0));
        match opened.and_then(|db| Ok((sum(&db)?, db))) {
            Ok((sum, db)) => {
                check(&db);
                if sum != wanted {
                    return Err(format!("through {flash} the sum is {sum} and not {wanted}"));
                }
                db.execute_batch("UPDATE t SET a = a + 1, b = zeroblob(1500)").map_err(|error| {
                    format!("{flash}: {error}: {}", mezzanine_sqlite::last_error().unwrap_or_default())
                })?;
                wanted += ROWS;
                had += 1;
            }
            Err(error) => why.push(format!(
                "through {flash}: {error}: {}",
                mezzanine_sqlite::last_error().unwrap_or_default()
            )),
        }
    }
    if had > 0 { Ok(()) } else { Err(why.join("\n")) }
}

fn kill_and_read(mode: &str, journal: &str, call: u64) -> Result<Option<u64>, String> {
    let (folder, copy) = (Folder::in_memory(), Folder::in_memory());
    let failed = |why| format!("MEZZANINE_REPLACED={mode},{journal},{call}: {why}");
    let calls = kill(folder.path(), mode, journal, call).map_err(failed)?;
    let log = folder.file("app.db-wal").join(if journal == "wal" { "wal" } else { "journal" });
    let bytes = std::fs::metadata(&log).map_or(0, |found| found.len());
    assert!(bytes > 10_000, "there is no hot journal, nor a log: {bytes} bytes");
    let [old, new] = FLASH;
    copy_folder(folder.path(), copy.path());
    read(folder.path(), mode, [old, new]).map_err(failed)?;
    copy_folder(copy.path(), folder.path());
    read(folder.path(), mode, [new, old]).map_err(failed)?;
    Ok(calls)
}

/// Was found by trial: after a kill on the way a database with a hot journal could be read through neither.
#[test]
fn after_a_kill_while_a_tier_moves_a_hot_journal_is_rolled_back_through_one_of_the_two() {
    let wanted = std::env::var("MEZZANINE_REPLACED").unwrap_or_default();
    if let [mode, journal, call] = wanted.split(',').collect::<Vec<_>>()[..] {
        kill_and_read(mode, journal, call.parse().unwrap()).unwrap_or_else(|why| panic!("{why}"));
        return;
    }
    let (mut killed, mut wrong) = (0, Vec::new());
    for (mode, journal) in
        [("durable", "delete"), ("durable", "wal"), ("through", "truncate"), ("through", "wal")]
    {
        let calls = kill_and_read(mode, journal, 0).unwrap_or_else(|why| panic!("{why}")).unwrap();
        assert!(calls > 10, "{calls} calls: the library counts too few");
        let every = if wanted == "all" { 1 } else { ONE_IN };
        for call in (1..=calls).step_by(every as usize) {
            match kill_and_read(mode, journal, call) {
                Ok(came_through) => killed += u64::from(came_through.is_none()),
                Err(why) => wrong.push(why),
            }
        }
        println!("{mode}, {journal}: {calls} calls");
    }
    println!("{killed} killed, {} wrong", wrong.len());
    assert!(wrong.is_empty(), "{}", wrong.iter().take(5).cloned().collect::<Vec<_>>().join("\n\n"));
    assert!(killed > 10, "{killed} killed");
}
