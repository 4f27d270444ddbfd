//! With `synchronous = OFF` nothing is promised when power fails, and everything when the process is killed:
//! as with an SQLite without the tier.

#![allow(clippy::unwrap_used)]

mod support;

use std::io::BufRead as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use mezzanine_ground::random::Random;
use rusqlite::Connection;
use support::{Folder, check, count, flags, register, uri};

const MODES: [(&str, &str); 6] = [
    ("delete", "normal"),
    ("truncate", "normal"),
    ("persist", "normal"),
    ("wal", "normal"),
    ("delete", "exclusive"),
    ("wal", "exclusive"),
];

/// Commits one row after the other, and tells of each, until it is killed.
#[test]
#[ignore = "is run by other tests in a process of its own"]
fn committer() {
    let uri = std::env::var("MEZZANINE_OFF_URI").expect("other tests set this");
    register();
    #[cfg(feature = "planted")]
    if std::env::var("MEZZANINE_PLANT").is_ok() {
        mezzanine_engine::planted::set(Some(mezzanine_engine::planted::Bug::PagesKeptBack));
    }
    let db = Connection::open_with_flags(uri, flags()).unwrap();
    let pragma = |text: String| db.query_row(&format!("PRAGMA {text}"), [], |_| Ok(()));
    let of = |name: &str| std::env::var(name).unwrap();
    pragma(format!("locking_mode = {}", of("MEZZANINE_OFF_LOCKING"))).unwrap();
    pragma(format!("journal_mode = {}", of("MEZZANINE_OFF_JOURNAL"))).unwrap();
    db.execute_batch(
        "PRAGMA synchronous = OFF; PRAGMA wal_autocheckpoint = 20; PRAGMA cache_size = 20;
         CREATE TABLE IF NOT EXISTS t (a INTEGER PRIMARY KEY, b); CREATE INDEX IF NOT EXISTS i ON t (b)",
    )
    .unwrap();
    let mut next = count(&db, "SELECT coalesce(max(a), 0) FROM t") + 1;
    loop {
        db.execute("INSERT INTO t VALUES (?1, randomblob(700))", [next]).unwrap();
        // Another page that was there before.
        db.execute("UPDATE t SET b = randomblob(700) WHERE a = abs(random() % ?1)", [next]).unwrap();
        println!("\n@{next}");
        next += 1;
    }
}

/// Commits some rows, and is killed when the last commit has returned.
#[test]
#[ignore = "is run by other tests in a process of its own"]
fn commits_and_is_killed() {
    let uri = std::env::var("MEZZANINE_OFF_URI").expect("other tests set this");
    register();
    let db = Connection::open_with_flags(uri, flags()).unwrap();
    let of = |name: &str| std::env::var(name).unwrap();
    for text in [
        format!("locking_mode = {}", of("MEZZANINE_OFF_LOCKING")),
        format!("journal_mode = {}", of("MEZZANINE_OFF_JOURNAL")),
    ] {
        db.query_row(&format!("PRAGMA {text}"), [], |_| Ok(())).unwrap();
    }
    db.execute_batch("PRAGMA synchronous = OFF; CREATE TABLE IF NOT EXISTS t (a, b)").unwrap();
    for number in 0..20 {
        db.execute("INSERT INTO t VALUES (?1, randomblob(3000))", [number]).unwrap();
    }
    std::process::abort();
}

/// Also where there is no file of a journal whose end could tell of a commit, and where no lock falls.
#[test]
fn what_was_committed_is_there_after_a_kill_in_every_mode() {
    register();
    for journal in ["off", "memory", "delete", "truncate", "persist", "wal"] {
        for locking in ["normal", "exclusive"] {
            let folder = Folder::new();
            let uri = uri(&folder.file("app.db"), &folder.file("flash.mezz"), "");
            for times in 1..3 {
                let output = Command::new(std::env::current_exe().unwrap())
                    .args([
                        "--ignored",
                        "--exact",
                        "commits_and_is_killed",
                        "--nocapture",
                        "--test-threads=1",
                    ])
                    .env("MEZZANINE_OFF_URI", &uri)
                    .env("MEZZANINE_OFF_JOURNAL", journal)
                    .env("MEZZANINE_OFF_LOCKING", locking)
                    .output()
                    .unwrap();
                assert!(!output.status.success());
                let db = Connection::open_with_flags(&uri, flags()).unwrap();
                check(&db);
                assert_eq!(count(&db, "SELECT count(*) FROM t"), 20 * times, "{journal} {locking}");
            }
        }
    }
}

/// Kills a committer some times. What is wrong then, in words.
fn killed(uri: &str, journal: &str, locking: &str, times: u32, planted: bool) -> Result<(), String> {
    let mut random = Random::new(7);
    for time in 0..times {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--ignored", "--exact", "committer", "--nocapture", "--test-threads=1"])
            .env("MEZZANINE_OFF_URI", uri)
            .env("MEZZANINE_OFF_JOURNAL", journal)
            .env("MEZZANINE_OFF_LOCKING", locking)
            .stdout(Stdio::piped());
        if planted {
            command.env("MEZZANINE_PLANT", "yes");
        }
        let mut child = command.spawn().unwrap();
        let said = std::io::BufReader::new(child.stdout.take().unwrap());
        let acknowledged = std::thread::spawn(move || {
            let numbers = said.lines().map_while(Result::ok);
            numbers.filter_map(|line| line.strip_prefix('@')?.parse::<i64>().ok()).last().unwrap_or(0)
        });
        std::thread::sleep(Duration::from_millis(100 + random.below(300)));
        child.kill().unwrap();
        child.wait().unwrap();
        let acknowledged = acknowledged.join().unwrap();
        let db = Connection::open_with_flags(uri, flags())
            .map_err(|error| format!("{error}: {:?}", mezzanine_sqlite::last_error()))?;
        let text = |sql: &str| {
            db.query_row(sql, [], |row| row.get::<_, String>(0)).map_err(|error| error.to_string())
        };
        let checked = text("PRAGMA integrity_check")?;
        if checked != "ok" {
            return Err(format!("after kill {time}: {checked}"));
        }
        let has_table = count(&db, "SELECT count(*) FROM sqlite_schema WHERE name = 't'") == 1;
        let rows = if has_table { count(&db, "SELECT count(*) FROM t") } else { 0 };
        if rows < acknowledged {
            return Err(format!("after kill {time}: {rows} rows of {acknowledged}"));
        }
    }
    Ok(())
}

/// Was found by trial: 28 of 30 kills left a database in DELETE mode malformed, and 26 of 30 in WAL mode.
#[test]
fn a_kill_without_syncs_loses_nothing() {
    register();
    for (journal, locking) in MODES {
        for mode in ["durable", "through"] {
            let folder = Folder::new();
            let uri = uri(&folder.file("app.db"), &folder.file("flash.mezz"), &format!("&sync_mode={mode}"));
            assert_eq!(killed(&uri, journal, locking, 3, false), Ok(()), "{journal} {locking} {mode}");
            let db = Connection::open_with_flags(&uri, flags()).unwrap();
            check(&db);
        }
    }
}

#[cfg(feature = "planted")]
#[test]
fn pages_that_are_kept_back_are_missed() {
    register();
    for journal in ["delete", "wal"] {
        let folder = Folder::new();
        let uri = uri(&folder.file("app.db"), &folder.file("flash.mezz"), "");
        assert!(killed(&uri, journal, "normal", 10, true).is_err(), "{journal}");
    }
}
