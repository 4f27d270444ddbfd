//! A transaction over two databases of a tier is whole after a kill: both have it, or neither.
//!
//! SQLite makes it so by a super-journal, which names the journals of both databases, and each journal names
//! it. A VFS that keeps journals elsewhere must find them by these names, or one half is rolled back and the
//! other is not.
//!
//! `MEZZANINE_ATTACHED_CYCLES` asks for more cycles than the default.

#![allow(clippy::unwrap_used)]

mod support;

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::time::Duration;

use mezzanine_ground::random::Random;
use rusqlite::Connection;
use support::{Folder, check, count, flags, register, uri};

const CYCLES: u64 = 24;
const LIFE_MAX_MS: u64 = 300;

fn open(one: &str, two: &str) -> Connection {
    register();
    let db = Connection::open_with_flags(one, flags()).unwrap();
    let attached = db.execute("ATTACH ?1 AS two", [two]);
    assert!(attached.is_ok(), "{attached:?}: {:?}", mezzanine_sqlite::last_error());
    // Pages are written before the commit, so that there is something to roll back.
    db.execute_batch("PRAGMA cache_size = 5; PRAGMA two.cache_size = 5; PRAGMA cache_spill = 5").unwrap();
    db
}

#[test]
#[ignore = "is run by a_transaction_over_two_databases_is_whole_after_a_kill in a process of its own"]
fn attached_child() {
    let [one, two, mode] =
        ["ONE", "TWO", "MODE"].map(|name| std::env::var(format!("MEZZANINE_ATTACHED_{name}")).unwrap());
    let db = open(&one, &two);
    for schema in ["main", "two"] {
        let now: String =
            db.query_row(&format!("PRAGMA {schema}.journal_mode = {mode}"), [], |r| r.get(0)).unwrap();
        assert_eq!(now, mode);
        db.execute_batch(&format!(
            "CREATE TABLE IF NOT EXISTS {schema}.t (a INTEGER PRIMARY KEY, n, b);
             WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 40)
             INSERT OR IGNORE INTO {schema}.t SELECT i, 0, zeroblob(700) FROM n"
        ))
        .unwrap();
    }
    // Until it is killed.
    for number in 1 + count(&db, "SELECT max(n) FROM t")..=i64::MAX {
        db.execute_batch(&format!(
            "BEGIN;
             UPDATE main.t SET n = {number}, b = randomblob(700);
             UPDATE two.t SET n = {number}, b = randomblob(700);
             COMMIT"
        ))
        .unwrap();
        let _ = std::io::stdout().write_all(format!("\n@{number}\n").as_bytes());
    }
}

/// The transaction that both databases hold, wholly; 0 before the first.
fn both(one: &str, two: &str) -> i64 {
    let db = open(one, two);
    let newest = |schema: &str| {
        if count(&db, &format!("SELECT count(*) FROM {schema}.sqlite_schema")) == 0 {
            return 0;
        }
        let (least, most) = (
            format!("SELECT ifnull(min(n), 0) FROM {schema}.t"),
            format!("SELECT ifnull(max(n), 0) FROM {schema}.t"),
        );
        assert_eq!(count(&db, &least), count(&db, &most), "{schema} holds part of a transaction");
        count(&db, &most)
    };
    let (a, b) = (newest("main"), newest("two"));
    assert_eq!(a, b, "one database has the transaction and the other has not");
    check(&db);
    a
}

#[test]
fn a_transaction_over_two_databases_is_whole_after_a_kill() {
    let cycles = std::env::var("MEZZANINE_ATTACHED_CYCLES").map_or(CYCLES, |value| value.parse().unwrap());
    let mut random = Random::new(std::process::id().into());
    for (number, mode) in ["delete", "persist", "truncate"].into_iter().enumerate() {
        let folder = Folder::new();
        let [one, two] =
            ["one.db", "two.db"].map(|name| uri(&folder.file(name), &folder.file("flash.mezz"), ""));
        let mut last = 0;
        // How long a child lives at most, in ms: longer after each that did not come to a commit, for a busy
        // machine.
        let mut life_max = LIFE_MAX_MS;
        for _ in number as u64 * cycles / 3..(number as u64 + 1) * cycles / 3 {
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args(["--ignored", "--exact", "attached_child", "--nocapture", "--test-threads=1"])
                .env("MEZZANINE_ATTACHED_ONE", &one)
                .env("MEZZANINE_ATTACHED_TWO", &two)
                .env("MEZZANINE_ATTACHED_MODE", mode)
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let out = child.stdout.take().unwrap();
            let reader = std::thread::spawn(move || {
                let lines = BufReader::new(out).lines().map_while(Result::ok);
                lines.filter_map(|line| line.strip_prefix('@')?.parse().ok()).last()
            });
            std::thread::sleep(Duration::from_millis(20 + random.below(life_max)));
            child.kill().unwrap();
            child.wait().unwrap();
            let acknowledged = reader.join().unwrap().unwrap_or(last);
            let found = both(&one, &two);
            assert!(
                found == acknowledged || found == acknowledged + 1,
                "{mode}: {found}, acknowledged {acknowledged}"
            );
            life_max = if found > last { LIFE_MAX_MS } else { life_max * 2 };
            last = found;
        }
        assert!(last > 0, "{mode}: the child never committed");
    }
}
