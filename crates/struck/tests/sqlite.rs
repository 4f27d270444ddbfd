//! SQLite on a tier, each call of which that changes a file is struck once: the process is killed there, or
//! the call fails, for want of space or with an error of the device, alone or with all that come after it.
//! Then what was acknowledged is there, a transaction is there as a whole or not at all, and no process has
//! ended in another way than by its kill.
//!
//! `MEZZANINE_STRUCK=all` strikes every call, otherwise one in some; `MEZZANINE_STRUCK=durable,wal,kill,17`
//! one alone.

#![allow(clippy::unwrap_used, unsafe_code)]

mod preload;
#[path = "../../sqlite/tests/support/mod.rs"]
mod support;

use std::collections::HashMap;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use preload::{library, of_library};
use rusqlite::{Connection, params};
use support::{Folder, flags, register};

const TRANSACTIONS: i64 = 8;
const ROWS: i64 = 6;
/// Bytes of a row, and what those of every third have in their place: so many and the last transaction's
/// number.
const BYTES: i64 = 1500;
const LAST: i64 = 1400;
/// That it waits for ever is a finding.
const LONGEST: Duration = Duration::from_secs(120);
/// Of so many calls one is struck, unless all are.
const ONE_IN: u64 = 17;

/// How a call is struck: the name, the error (0 for a kill), and whether all that come after it are, too.
const STROKES: [(&str, i32, bool); 5] = [
    ("kill", 0, false),
    ("EIO", libc::EIO, false),
    ("ENOSPC", libc::ENOSPC, false),
    ("EIO+", libc::EIO, true),
    ("ENOSPC+", libc::ENOSPC, true),
];

fn open(uri: &str) -> rusqlite::Result<Connection> {
    let db = Connection::open_with_flags(uri, flags())?;
    db.pragma_update(None, "cache_size", 4)?;
    Ok(db)
}

fn say(line: &str) {
    println!("\n@{line}");
}

fn transaction(db: &Connection, number: i64) -> rusqlite::Result<()> {
    db.execute_batch("BEGIN")?;
    for row in 0..ROWS {
        db.execute(
            "INSERT INTO t VALUES (?1, ?2, zeroblob(?3))",
            params![number * 100 + row, number, BYTES],
        )?;
    }
    // Every third row tells which transaction was the last.
    db.execute_batch(&format!("UPDATE t SET b = zeroblob({LAST} + {number}) WHERE a % 3 = 0; COMMIT"))
}

fn session(uri: &str, journal: &str, numbers: std::ops::RangeInclusive<i64>) -> rusqlite::Result<()> {
    let db = open(uri)?;
    db.query_row(&format!("PRAGMA journal_mode = {journal}"), [], |_| Ok(()))?;
    db.execute_batch(
        "CREATE TABLE IF NOT EXISTS t (a INTEGER PRIMARY KEY, n, b); CREATE INDEX IF NOT EXISTS i ON t (n)",
    )?;
    for number in numbers {
        match transaction(&db, number) {
            Ok(()) => say(&format!("done {number}")),
            Err(error) => {
                say(&format!("failed {number}: {error}"));
                let _ = db.execute_batch("ROLLBACK");
            }
        }
        if number % 3 == 0 && journal == "wal" {
            let _ = db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        }
    }
    db.close().map_err(|(_, error)| error)
}

/// Two lives of a database; the second begins when the first has closed it.
#[test]
#[ignore = "is run by other tests in a process of its own"]
fn child() {
    let Ok(uri) = std::env::var("MEZZANINE_STRUCK_URI") else { return };
    let [journal, call, stroke] =
        ["JOURNAL", "CALL", "STROKE"].map(|name| std::env::var(format!("MEZZANINE_STRUCK_{name}")).unwrap());
    let (_, error, lasting) = *STROKES.iter().find(|(name, ..)| *name == stroke).unwrap();
    register();
    // SAFETY: it has this signature.
    let strike: extern "C" fn(u64, i32, bool) =
        unsafe { std::mem::transmute(of_library(c"mezzanine_strike")) };
    // SAFETY: as above.
    let calls: extern "C" fn() -> u64 = unsafe { std::mem::transmute(of_library(c"mezzanine_calls")) };
    strike(call.parse().unwrap(), error, lasting);
    let half = TRANSACTIONS / 2;
    for numbers in [1..=half, half + 1..=TRANSACTIONS] {
        if let Err(error) = session(&uri, &journal, numbers) {
            say(&format!("ended: {error}"));
        }
    }
    say(&format!("calls {}", calls()));
}

fn uri(folder: &Folder, mode: &str) -> String {
    let (database, flash) = (folder.file("app.db"), folder.file("flash.mezz"));
    format!(
        "file:{}?vfs=mezzanine&flash={}&flash_size=640KiB&sync_mode={mode}",
        database.display(),
        flash.display()
    )
}

fn strike(uri: &str, journal: &str, call: u64, stroke: &str) -> Output {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "child", "--nocapture", "--test-threads=1"])
        .env("LD_PRELOAD", library())
        .env("MEZZANINE_STRUCK_URI", uri)
        .env("MEZZANINE_STRUCK_JOURNAL", journal)
        .env("MEZZANINE_STRUCK_CALL", call.to_string())
        .env("MEZZANINE_STRUCK_STROKE", stroke)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // What it says finds room in the pipes.
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begun.elapsed() > LONGEST {
            child.kill().unwrap();
            let output = child.wait_with_output().unwrap();
            panic!(
                "it does not come to its end: call {call} of {uri} in {journal}, {stroke}: {:?}",
                said(&output)
            );
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    child.wait_with_output().unwrap()
}

/// What the child has said, by the first word.
fn said(output: &Output) -> Vec<(String, String)> {
    let text = String::from_utf8_lossy(&output.stdout);
    let lines = text.lines().filter_map(|line| line.strip_prefix('@'));
    lines
        .filter_map(|line| line.split_once(' '))
        .map(|(word, rest)| (word.to_owned(), rest.to_owned()))
        .collect()
}

/// Looks at what is left: why it is wrong, if it is.
fn look(uri: &str, said: &[(String, String)]) -> Result<(), String> {
    register();
    let failed =
        |error: rusqlite::Error| format!("{error}: {}", mezzanine_sqlite::last_error().unwrap_or_default());
    let db = open(uri).map_err(failed)?;
    let check: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).map_err(failed)?;
    if check != "ok" {
        return Err(check);
    }
    let tables: i64 = db
        .query_row("SELECT count(*) FROM sqlite_schema WHERE name = 't'", [], |row| row.get(0))
        .map_err(failed)?;
    let mut found = HashMap::new();
    if tables > 0 {
        let mut statement = db.prepare("SELECT n, count(*) FROM t GROUP BY n").map_err(failed)?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).map_err(failed)?;
        found = rows.collect::<Result<HashMap<i64, i64>, _>>().map_err(failed)?;
    }
    if let Some((number, rows)) = found.iter().find(|(_, rows)| **rows != ROWS) {
        return Err(format!("transaction {number} has {rows} of {ROWS} rows"));
    }
    if let Some(last) = found.keys().max() {
        let old = "SELECT count(*) FROM t WHERE length(b) != iif(a % 3 = 0, ?1, ?2)";
        let old: i64 = db.query_row(old, params![LAST + last, BYTES], |row| row.get(0)).map_err(failed)?;
        if old > 0 {
            return Err(format!("{old} rows are not as transaction {last} left them"));
        }
    }
    let done =
        said.iter().filter(|(word, _)| word == "done").map(|(_, number)| number.parse::<i64>().unwrap());
    match done.into_iter().find(|number| !found.contains_key(number)) {
        Some(lost) => Err(format!("transaction {lost} was acknowledged and is gone")),
        None => Ok(()),
    }
}

fn strike_and_look(
    mode: &str,
    journal: &str,
    stroke: &str,
    call: u64,
) -> Result<Vec<(String, String)>, String> {
    let folder = Folder::in_memory();
    let uri = uri(&folder, mode);
    let output = strike(&uri, journal, call, stroke);
    let said = said(&output);
    let killed = output.status.signal() == Some(libc::SIGKILL);
    let result = match (output.status.success(), killed && stroke == "kill") {
        (false, false) => Err(format!("it ended with {}", output.status)),
        _ => look(&uri, &said),
    };
    result.map(|()| said.clone()).map_err(|why| {
        let heard = String::from_utf8_lossy(&output.stderr);
        format!("MEZZANINE_STRUCK={mode},{journal},{stroke},{call}: {why}\n{said:?}\n{heard}")
    })
}

/// Whether it came to the call that was to be struck: it was killed there, or went on behind it.
fn was_struck(said: &[(String, String)], call: u64) -> bool {
    said.iter()
        .find(|(word, _)| word == "calls")
        .is_none_or(|(_, calls)| calls.parse::<u64>().unwrap() >= call)
}

#[test]
fn whatever_call_is_struck_nothing_acknowledged_is_lost() {
    let wanted = std::env::var("MEZZANINE_STRUCK").unwrap_or_default();
    if let [mode, journal, stroke, call] = wanted.split(',').collect::<Vec<_>>()[..] {
        let said = strike_and_look(mode, journal, stroke, call.parse().unwrap());
        println!("{:?}", said.unwrap_or_else(|why| panic!("{why}")));
        return;
    }
    let (mut tried, mut struck, mut wrong) = (0, 0, Vec::new());
    for (mode, journal) in
        [("durable", "wal"), ("durable", "delete"), ("through", "wal"), ("through", "persist")]
    {
        let whole = strike_and_look(mode, journal, "kill", 0).unwrap_or_else(|why| panic!("{why}"));
        let calls: u64 = whole.iter().find(|(word, _)| word == "calls").unwrap().1.parse().unwrap();
        assert!(calls > 200, "{calls} calls: the library counts too few");
        assert!(whole.iter().filter(|(word, _)| word == "done").count() as i64 == TRANSACTIONS, "{whole:?}");
        for (nth, (stroke, ..)) in STROKES.into_iter().enumerate() {
            let (first, every) = if wanted == "all" { (1, 1) } else { (1 + nth as u64 * 3, ONE_IN) };
            for call in (first..=calls).step_by(every as usize) {
                tried += 1;
                match strike_and_look(mode, journal, stroke, call) {
                    Ok(said) => struck += u64::from(was_struck(&said, call)),
                    Err(why) => wrong.push(why),
                }
            }
        }
        println!("{mode}, {journal}: {calls} calls");
    }
    println!("{tried} processes, {struck} of them struck, {} wrong", wrong.len());
    // How many calls there are differs a little with what threads do.
    assert!(struck + wrong.len() as u64 >= tried * 9 / 10, "of {tried} only {struck} were struck");
    assert!(wrong.is_empty(), "{}", wrong.iter().take(5).cloned().collect::<Vec<_>>().join("\n\n"));
}

/// A checker that sees nothing proves nothing.
#[test]
fn what_is_missing_is_noticed() {
    let folder = Folder::in_memory();
    let uri = uri(&folder, "durable");
    let mut said = said(&strike(&uri, "wal", 0, "kill"));
    assert_eq!(look(&uri, &said), Ok(()));
    said.push(("done".to_owned(), "99".to_owned()));
    assert!(look(&uri, &said).unwrap_err().contains("99"));
    said.pop();
    let change = |sql: &str| open(&uri).unwrap().execute_batch(sql).unwrap();
    change("UPDATE t SET b = zeroblob(1401) WHERE a = 102");
    assert!(look(&uri, &said).unwrap_err().contains("1 rows are not as transaction 8 left them"));
    change("DELETE FROM t WHERE a = 302");
    assert!(look(&uri, &said).unwrap_err().contains("transaction 3 has 5 of 6 rows"));
}
