//! SQLite on ext4 on a cached volume whose process is killed with signal 9, again and again: every row that
//! was acknowledged is there, the database is in order, and the cache is warm.
//!
//! Needs root, for a loop device on the file of FUSE, and the programs of [`PROGRAMS`]; skipped without.
#![allow(clippy::unwrap_used)]

mod common;
mod mounting;

#[path = "mounting/cached.rs"]
mod cached;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use cached::{Mounted, json};
use common::Scratch;
use mounting::{missing, run};
use rusqlite::Connection;

const PROGRAMS: [&str; 5] = ["losetup", "mount", "umount", "mke2fs", "e2fsck"];

/// Kills of the process that serves the volume, if there are to be more than usual.
const KILLS: &str = "MEZZANINE_DATABASE_KILLS";
const KILLS_USUAL: u64 = 12;

fn open(folder: &Path) -> Connection {
    let connection = Connection::open(folder.join("db")).unwrap();
    // With a write-ahead log SQLite maps a file, of which a part cannot be read when its device is gone.
    let pragma = "pragma journal_mode = delete; pragma synchronous = extra; pragma cache_size = 20;";
    connection.execute_batch(pragma).unwrap();
    connection
}

/// Rows from here on, each of which the next value says when it was acknowledged, until the device is gone.
fn work(connection: &Connection, next: &AtomicU64) {
    loop {
        let row = next.load(SeqCst);
        let inserted = connection.execute(
            "insert into t values (?1, ?2)",
            (row as i64, row.to_string().repeat(1 + row as usize % 300)),
        );
        if inserted.is_err() {
            return;
        }
        next.store(row + 1, SeqCst);
        // Old rows are read, so that there is something to bring in.
        let old = (row * 7919 % (row + 1)) as i64;
        let read =
            connection.query_row("select length(v) from t where id = ?1", [old], |row| row.get::<_, i64>(0));
        if read.is_err() {
            return;
        }
    }
}

/// Every row that was acknowledged is there as it was written; how many there are.
fn verify(connection: &Connection, acknowledged: u64, what: &str) -> u64 {
    let said: String = connection.query_row("pragma integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(said, "ok", "{what}");
    let mut statement = connection.prepare("select id, v from t order by id").unwrap();
    let rows = statement.query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?))).unwrap();
    let mut count = 0;
    for row in rows {
        let (id, value) = row.unwrap();
        assert_eq!(id as u64, count, "{what}");
        assert!(value == count.to_string().repeat(1 + count as usize % 300), "{what}: row {id}");
        count += 1;
    }
    assert!(count >= acknowledged, "{what}: {count} rows, and {acknowledged} were acknowledged");
    count
}

#[test]
fn sqlite_loses_nothing_and_the_cache_is_warm_when_it_is_killed() {
    if let Some(why) = missing(&PROGRAMS) {
        println!("skipped: {why}");
        return;
    }
    let kills: u64 = std::env::var(KILLS).map_or(KILLS_USUAL, |kills| kills.parse().unwrap());
    let scratch = Scratch::new();
    let disk = scratch.file("disk");
    std::fs::File::create(&disk).unwrap().set_len(48 << 20).unwrap();
    run("mke2fs", &["-q", "-t", "ext4", "-E", "lazy_itable_init=0", "-J", "size=4", "-b", "4096", &disk]);
    json(&scratch, &["create", "cache", "--size", "32MiB", "--fragment", "128KiB", "--backing", "disk"]);
    let next = AtomicU64::new(0);
    let mut warm = Vec::new();
    let mut waited = 0;
    // How much settles between two kills is a matter of how fast the machine is.
    let enough = |warm: &[u64], rows: u64| rows > kills && warm.iter().skip(1).sum::<u64>() > 0;
    let mut kill = 0;
    while kill < kills || !enough(&warm, next.load(SeqCst)) && kill < 10 * kills {
        kill += 1;
        let mut mounted = Mounted::on(&scratch, "cache", "disk", &scratch.0.join("fs"));
        let begins = mounted.status()["begins"].as_str().unwrap().to_owned();
        let fragments: u64 = begins.split(' ').next().unwrap().parse().unwrap_or_else(|_| panic!("{begins}"));
        warm.push(fragments);
        let connection = open(&mounted.folder);
        connection.execute_batch("create table if not exists t (id integer primary key, v text)").unwrap();
        let rows = verify(&connection, next.load(SeqCst), &format!("before kill {kill}"));
        // One that was under way may have been carried out.
        assert!(rows <= next.load(SeqCst) + 1);
        next.store(rows, SeqCst);
        std::thread::scope(|scope| {
            let next = &next;
            let working = scope.spawn(move || work(&connection, next));
            std::thread::sleep(Duration::from_millis(700 + kill % KILLS_USUAL * 37));
            waited += mounted.status()["counters"]["writes_waited"].as_u64().unwrap();
            mounted.kill();
            working.join().unwrap();
        });
    }
    {
        let mounted = Mounted::on(&scratch, "cache", "disk", &scratch.0.join("fs"));
        let connection = open(&mounted.folder);
        verify(&connection, next.load(SeqCst), "at the end");
        drop(connection);
        let compared = json(&scratch, &["check", "file", "--compare"]);
        assert_eq!((&compared["blocks_differing"], &compared["blocks_unreadable"]), (&0.into(), &0.into()));
        assert!(compared["blocks_same"].as_u64().unwrap() > 0, "{compared}");
    }
    run("e2fsck", &["-fp", &disk]);
    let rows = next.load(SeqCst);
    println!(
        "{kill} kills, {rows} rows; fragments that were warm after each: {warm:?}; {waited} writes waited"
    );
    assert!(enough(&warm, rows), "{rows} rows, warm {warm:?}");
}
