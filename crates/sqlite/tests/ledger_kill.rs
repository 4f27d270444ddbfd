//! A ledger in SQLite on a tier, killed with SIGKILL at random times.
//!
//! A child process, which is this executable again, runs clients that transfer between two accounts with
//! version counters, append a ledger row, and report through a pipe which commit is in doubt and which was
//! acknowledged. The parent kills it, opens the database through the VFS and checks.
//!
//! Invariants checked:
//! 1. Every acknowledged commit is there; of those in doubt at the kill any may be; nothing else is.
//! 2. Each account's versions in the ledger are exactly 1..n, and n is the account's version.
//! 3. Balances are what the ledger says, and their sum never changes.
//! 4. The same is found when it is read through indexes alone, and SQLite's integrity check agrees.
//! 5. Rows hold the bytes that were written.
//!
//! `MEZZANINE_LEDGER_CYCLES` asks for more cycles than the default, `MEZZANINE_LEDGER_SEED` repeats the times
//! of the kills, and with `MEZZANINE_LEDGER_SLOWER` all lives are so many times as long, for slow machines.
//! They become longer by themselves, up to eight times, where little happens in them.
//! `ledger_on_a_zoned_device` is the same with a tier on the zoned block device that
//! `MEZZANINE_ZONED_DEVICE` names (`crates/device/zoned/run` has it run in a guest that has one).

#![allow(clippy::unwrap_used)]

mod support;

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mezzanine_device::{Device as _, FileDevice, OpenOptions};
use mezzanine_engine::{Design, SyncMode, TierConfig, TierZones};
use mezzanine_ground::random::Random;
use mezzanine_volume::{Volume, VolumeConfig};
use rusqlite::{Connection, OptionalExtension as _, TransactionBehavior, params};
use support::{Folder, check, count, flags, journal_mode, pragma_text, register};

const CYCLES: u64 = 40;
const CLIENTS: i64 = 3;
const ACCOUNTS: i64 = 60;
const OPENING_BALANCE: i64 = 1_000;

const SCHEMA: &str = "
    CREATE TABLE account (id INTEGER PRIMARY KEY, ver INTEGER NOT NULL, balance INTEGER NOT NULL, filler BLOB);
    CREATE INDEX account_state ON account (id, ver, balance);
    CREATE TABLE ledger (client INTEGER, seq INTEGER, a INTEGER, b INTEGER, amount INTEGER, ver_a INTEGER, ver_b INTEGER,
                         filler BLOB, PRIMARY KEY (client, seq));
    CREATE INDEX ledger_a ON ledger (a, ver_a, amount);
    CREATE INDEX ledger_b ON ledger (b, ver_b, amount);";

/// What every row carries so that a page of another row is noticed.
fn filler(client: i64, seq: i64) -> Vec<u8> {
    let mut random = Random::new((client << 40 | seq) as u64);
    let len = 100 + random.below(700) as usize;
    (0..len).map(|_| random.next_u64() as u8).collect()
}

/// A database on a flash file so small that the queue wraps many times in each life.
fn uri(folder: &Folder, more: &str) -> String {
    let (database, flash) = (folder.file("ledger.db"), folder.file("flash.mezz"));
    format!("file:{}?vfs=mezzanine&flash={}&flash_size=1MiB{more}", database.display(), flash.display())
}

fn open(uri: &str) -> Connection {
    register();
    let db = Connection::open_with_flags(uri, flags()).unwrap_or_else(|error| {
        panic!("{error}: {}", mezzanine_sqlite::last_error().unwrap_or_default());
    });
    db.busy_timeout(Duration::from_secs(30)).unwrap();
    db.pragma_update(None, "synchronous", "FULL").unwrap();
    // Far fewer pages than the database has, and early checkpoints: pages leave SQLite's cache all the time.
    db.pragma_update(None, "cache_size", 16).unwrap();
    db.pragma_update(None, "wal_autocheckpoint", 40).unwrap();
    db
}

// The child
// ----------------------------------------------------------------------------------------------------

fn say(line: &str) {
    // One write of a short line to a pipe is whole or not at all.
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(format!("\n@{line}\n").as_bytes());
    let _ = out.flush();
}

fn transfer(db: &mut Connection, client: i64, seq: i64, random: &mut Random) -> rusqlite::Result<()> {
    let a = 1 + random.below(ACCOUNTS as u64) as i64;
    let b = 1 + (a - 1 + 1 + random.below(ACCOUNTS as u64 - 1) as i64) % ACCOUNTS;
    let amount = random.below(50) as i64;
    let tx = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let update = "UPDATE account SET ver = ver + 1, balance = balance + ?2 WHERE id = ?1 RETURNING ver";
    let ver_a: i64 = tx.query_row(update, params![a, -amount], |row| row.get(0))?;
    let ver_b: i64 = tx.query_row(update, params![b, amount], |row| row.get(0))?;
    tx.execute(
        "INSERT INTO ledger VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        params![client, seq, a, b, amount, ver_a, ver_b, filler(client, seq)],
    )?;
    say(&format!("doubt {client} {seq}"));
    tx.commit()
}

fn client(uri: &str, client: i64, seed: u64) {
    let mut db = open(uri);
    let mut random = Random::new(seed ^ (client as u64) << 32);
    let last = "SELECT max(seq) FROM ledger WHERE client = ?1";
    let mut seq: i64 = db.query_row(last, [client], |row| row.get::<_, Option<i64>>(0)).unwrap().unwrap_or(0);
    loop {
        seq += 1;
        transfer(&mut db, client, seq, &mut random).unwrap();
        say(&format!("done {client} {seq}"));
    }
}

/// Tables come and go, the file shrinks and grows, indexes are rebuilt.
fn housekeeping(uri: &str, seed: u64) {
    let db = open(uri);
    let mut random = Random::new(seed ^ 0xABCD);
    loop {
        std::thread::sleep(Duration::from_millis(20 + random.below(60)));
        let sql = match random.below(6) {
            0 => "CREATE TABLE IF NOT EXISTS extra AS SELECT * FROM ledger ORDER BY seq DESC LIMIT 300",
            1 => "DROP TABLE IF EXISTS extra",
            2 => "VACUUM",
            3 => "PRAGMA wal_checkpoint(TRUNCATE)",
            4 => "REINDEX ledger_a",
            _ => "PRAGMA incremental_vacuum",
        };
        let _ = db.prepare(sql).and_then(|mut s| s.query([]).and_then(|mut rows| rows.next().map(|_| ())));
        let status = pragma_text(&db, "mezzanine_status");
        let staged_out = status.lines().find_map(|line| line.strip_prefix("tier_groups_staged_out "));
        say(&format!("wrapped {}", staged_out.unwrap()));
    }
}

/// The child process; without the parent's variables it has nothing to do.
#[test]
#[ignore = "is run by ledger_kill_cycles in a process of its own"]
fn ledger_child() {
    let uri = std::env::var("MEZZANINE_LEDGER_URI").expect("ledger_kill_cycles sets this");
    let mode = std::env::var("MEZZANINE_LEDGER_MODE").unwrap();
    let seed: u64 = std::env::var("MEZZANINE_LEDGER_CHILD_SEED").unwrap().parse().unwrap();
    let db = open(&uri);
    if count(&db, "SELECT count(*) FROM sqlite_schema") == 0 {
        journal_mode(&db, &mode);
        db.execute_batch("BEGIN").unwrap();
        db.execute_batch(SCHEMA).unwrap();
        for id in 1..=ACCOUNTS {
            let row = params![id, OPENING_BALANCE, filler(0, id)];
            db.execute("INSERT INTO account VALUES (?1, 0, ?2, ?3)", row).unwrap();
        }
        db.execute_batch("COMMIT").unwrap();
    } else if mode != "wal" {
        journal_mode(&db, &mode);
    }
    say("ready");
    let uri = Arc::new(uri);
    let threads: Vec<_> = (1..=CLIENTS)
        .map(|number| {
            let uri = Arc::clone(&uri);
            std::thread::spawn(move || client(&uri, number, seed))
        })
        .collect();
    let keeper = Arc::clone(&uri);
    std::thread::spawn(move || housekeeping(&keeper, seed));
    for thread in threads {
        // A client only ends by panicking; the parent must hear of that.
        if thread.join().is_err() {
            say("failed");
            std::process::exit(3);
        }
    }
}

// The parent
// ----------------------------------------------------------------------------------------------------

/// What the parent knows of one client: the last commit acknowledged and the one in doubt.
#[derive(Default, Clone, Copy, Debug)]
struct Known {
    acknowledged: i64,
    in_doubt: Option<i64>,
}

fn spawn(uri: &str, mode: &str, seed: u64) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "ledger_child", "--nocapture", "--test-threads=1"])
        .env("MEZZANINE_LEDGER_URI", uri)
        .env("MEZZANINE_LEDGER_MODE", mode)
        .env("MEZZANINE_LEDGER_CHILD_SEED", seed.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Runs the child for `life` and kills it; adds what it reported to `known`.
/// Returns how many groups had left the front of the queue.
fn run_and_kill(uri: &str, mode: &str, seed: u64, life: Duration, known: &mut HashMap<i64, Known>) -> u64 {
    let mut child = spawn(uri, mode, seed);
    let out = child.stdout.take().unwrap();
    let reader = std::thread::spawn(move || {
        let lines = BufReader::new(out).lines().map_while(Result::ok);
        lines.filter_map(|line| line.strip_prefix('@').map(str::to_owned)).collect::<Vec<_>>()
    });
    std::thread::sleep(life);
    child.kill().unwrap();
    child.wait().unwrap();
    let mut staged_out = 0;
    for line in reader.join().unwrap() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["doubt", client, seq] => {
                let (client, seq): (i64, i64) = (client.parse().unwrap(), seq.parse().unwrap());
                let state = known.entry(client).or_default();
                // The one before was acknowledged in this life, or this life found it: it must not go again.
                let found = seq - 1;
                assert!(
                    found == state.acknowledged || Some(found) == state.in_doubt,
                    "client {client} went on after {found} (seed {seed}, mode {mode}): {state:?}"
                );
                *state = Known { acknowledged: found, in_doubt: Some(seq) };
            }
            ["done", client, seq] => {
                let client = known.entry(client.parse().unwrap()).or_default();
                *client = Known { acknowledged: seq.parse().unwrap(), in_doubt: None };
            }
            ["wrapped", groups] => staged_out = groups.parse().unwrap(),
            ["failed"] => panic!("a client failed before it was killed (seed {seed}, mode {mode})"),
            _ => {}
        }
    }
    staged_out
}

/// Checks invariant 1; returns how many commits are there.
fn check_commits(db: &Connection, known: &mut HashMap<i64, Known>) -> i64 {
    let mut found = HashMap::new();
    let sql = "SELECT client, count(*), max(seq), min(seq) FROM ledger NOT INDEXED GROUP BY client";
    let mut rows = db.prepare(sql).unwrap();
    let mut rows = rows.query([]).unwrap();
    while let Some(row) = rows.next().unwrap() {
        let (client, count, max, min): (i64, i64, i64, i64) =
            (row.get(0).unwrap(), row.get(1).unwrap(), row.get(2).unwrap(), row.get(3).unwrap());
        assert_eq!(
            (count, min),
            (max, 1),
            "client {client}: a commit in the middle is missing or there twice"
        );
        found.insert(client, max);
    }
    for client in 1..=CLIENTS {
        let state = known.entry(client).or_default();
        let there = found.remove(&client).unwrap_or(0);
        assert!(
            there == state.acknowledged || Some(there) == state.in_doubt,
            "client {client}: acknowledged {}, in doubt {:?}, in the database {there}",
            state.acknowledged,
            state.in_doubt
        );
        *state = Known { acknowledged: there, in_doubt: None };
    }
    assert!(found.is_empty(), "rows of clients that never were: {found:?}");
    known.values().map(|client| client.acknowledged).sum()
}

/// Checks invariants 2 and 3 over rows of (account, version, change of balance) and of (account, version,
/// balance).
fn check_versions(db: &Connection, movements: &str, accounts: &str) {
    let mut versions: HashMap<i64, Vec<i64>> = HashMap::new();
    let mut balances: HashMap<i64, i64> = HashMap::new();
    let mut statement = db.prepare(movements).unwrap();
    let mut rows = statement.query([]).unwrap();
    while let Some(row) = rows.next().unwrap() {
        let (id, version, change): (i64, i64, i64) =
            (row.get(0).unwrap(), row.get(1).unwrap(), row.get(2).unwrap());
        versions.entry(id).or_default().push(version);
        *balances.entry(id).or_default() += change;
    }
    let mut statement = db.prepare(accounts).unwrap();
    let mut rows = statement.query([]).unwrap();
    let (mut number, mut sum) = (0, 0);
    while let Some(row) = rows.next().unwrap() {
        let (id, version, balance): (i64, i64, i64) =
            (row.get(0).unwrap(), row.get(1).unwrap(), row.get(2).unwrap());
        let mut seen = versions.remove(&id).unwrap_or_default();
        seen.sort_unstable();
        assert_eq!(seen, (1..=version).collect::<Vec<_>>(), "versions of account {id}");
        assert_eq!(
            balance,
            OPENING_BALANCE + balances.get(&id).copied().unwrap_or(0),
            "balance of account {id}"
        );
        number += 1;
        sum += balance;
    }
    assert_eq!(
        (number, sum),
        (ACCOUNTS, ACCOUNTS * OPENING_BALANCE),
        "accounts and the sum of their balances"
    );
    assert!(versions.is_empty(), "movements of accounts that are not there");
}

fn check_fillers(db: &Connection) {
    let mut statement = db
        .prepare("SELECT client, seq, filler FROM ledger UNION ALL SELECT 0, id, filler FROM account")
        .unwrap();
    let mut rows = statement.query([]).unwrap();
    while let Some(row) = rows.next().unwrap() {
        let (client, seq): (i64, i64) = (row.get(0).unwrap(), row.get(1).unwrap());
        assert!(
            row.get_ref(2).unwrap().as_blob().unwrap() == filler(client, seq),
            "the bytes of row {client}, {seq}"
        );
    }
}

/// Opens the database as its next user would, and checks everything; returns how many commits are there.
fn recover_and_check(uri: &str, known: &mut HashMap<i64, Known>) -> i64 {
    let db = open(uri);
    let there =
        db.query_row("SELECT 1 FROM sqlite_schema WHERE name = 'ledger'", [], |_| Ok(())).optional().unwrap();
    if there.is_none() {
        assert!(known.values().all(|client| client.acknowledged == 0), "acknowledged commits, and no table");
        return 0;
    }
    check(&db);
    let commits = check_commits(&db, known);
    let both = |hint_a: &str, hint_b: &str| {
        format!(
            "SELECT a, ver_a, -amount FROM ledger {hint_a} UNION ALL SELECT b, ver_b, amount FROM ledger {hint_b}"
        )
    };
    check_versions(
        &db,
        &both("NOT INDEXED", "NOT INDEXED"),
        "SELECT id, ver, balance FROM account NOT INDEXED",
    );
    check_versions(
        &db,
        &both("INDEXED BY ledger_a", "INDEXED BY ledger_b"),
        "SELECT id, ver, balance FROM account INDEXED BY account_state",
    );
    check_fillers(&db);
    commits
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|value| value.parse().unwrap_or_else(|_| panic!("{name}={value} is not a number")))
}

/// Commits in each life that there have to be on average, for a kill to come upon something.
const COMMITS_MIN: i64 = 20;
/// How many times as long lives become, where little happens in them.
const LONGER_MAX: u64 = 8;

/// `cycles` lives of the child; each database lives through ten of them, and has the URI that is made of its
/// folder and of more parameters. Returns commits found, kills survived and groups that left the queue.
fn ledger_cycles(cycles: u64, seed: u64, uri: impl Fn(&Folder, &str) -> String) -> (i64, u64, u64) {
    const MODES: [(&str, &str); 5] =
        [("wal", ""), ("delete", ""), ("wal", "&sync_mode=through"), ("truncate", ""), ("persist", "")];
    let mut random = Random::new(seed);
    let (mut commits, mut kills, mut staged_out) = (0, 0, 0);
    let slower = variable("MEZZANINE_LEDGER_SLOWER").unwrap_or(1);
    let (mut cycle, mut longer) = (0, 1);
    while cycle < cycles {
        let (mode, more) = MODES[(cycle / 10 % MODES.len() as u64) as usize];
        let folder = Folder::new();
        let uri = uri(&folder, more);
        let mut known = HashMap::new();
        let mut newest = 0;
        for _ in 0..10.min(cycles - cycle) {
            // Some lives are so short that they end inside the opening, which recovers the one before.
            let life = if random.below(4) == 0 { 2 + random.below(60) } else { 100 + random.below(900) };
            let life = life * slower * longer;
            staged_out +=
                run_and_kill(&uri, mode, random.next_u64(), Duration::from_millis(life), &mut known);
            kills += 1;
            // And some are not followed by a check, so that one crash comes upon another.
            if random.below(4) > 0 {
                newest = recover_and_check(&uri, &mut known);
                // Where too little happens in a life, the next ones are longer, until it is enough.
                let is_behind = commits + newest <= 2 * COMMITS_MIN * (cycle as i64 + 1)
                    || staged_out == 0 && cycle >= cycles / 4;
                longer = if is_behind { (2 * longer).min(LONGER_MAX) } else { 1 };
            }
            cycle += 1;
        }
        commits += recover_and_check(&uri, &mut known).max(newest);
    }
    (commits, kills, staged_out)
}

#[test]
fn ledger_kill_cycles() {
    let (cycles, staged_out) = ledger(CYCLES, uri);
    assert!(staged_out > cycles, "{staged_out} groups left the queue: the flash is too large for this test");
}

/// The device holds the tier of one database after the other.
#[test]
#[ignore = "writes over the zoned block device that MEZZANINE_ZONED_DEVICE names"]
fn ledger_on_a_zoned_device() {
    let Some(device) = std::env::var_os("MEZZANINE_ZONED_DEVICE").map(PathBuf::from) else {
        println!(
            "skipped: MEZZANINE_ZONED_DEVICE names no zoned block device to write over; crates/device/zoned/run has one"
        );
        return;
    };
    let (_, staged_out) = ledger(CYCLES / 2, |folder, more| {
        format_zones(&device, if more.contains("through") { SyncMode::Through } else { SyncMode::Durable });
        let database = folder.file("ledger.db");
        format!("file:{}?vfs=mezzanine&flash={}{more}", database.display(), device.display())
    });
    assert!(staged_out > 0, "no group has left the queue: no zone was used again");
}

/// Makes a tier of as few zones as will do.
fn format_zones(path: &Path, sync_mode: SyncMode) {
    let options = OpenOptions { exclusive_lock: true, ..OpenOptions::read_write() };
    let device = FileDevice::open(path, &options).unwrap();
    let found = device.capabilities().zones.expect("the device that is named has zones");
    let zones = TierZones { zone_bytes: found.zone_len, capacity_bytes: found.zone_capacity };
    let of = |count| TierConfig::for_zones_of(Design::FaceGsc, 4096, count * zones.zone_bytes, zones);
    let fits = |config: &TierConfig| config.geometry().is_ok();
    let config = (found.conventional..=found.count).map(of).find(fits).expect("it has room for a tier");
    let config = TierConfig { sync_mode, ..config };
    Volume::format(&device, &VolumeConfig::new(config), true).unwrap();
}

/// Cycles that were asked for, or so many; returns their number, and that of groups that left the queue.
fn ledger(cycles: u64, uri: impl Fn(&Folder, &str) -> String) -> (u64, u64) {
    let cycles = variable("MEZZANINE_LEDGER_CYCLES").unwrap_or(cycles);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let seed = variable("MEZZANINE_LEDGER_SEED").unwrap_or(now);
    println!("MEZZANINE_LEDGER_SEED={seed}");
    let started = Instant::now();
    let (commits, kills, staged_out) = ledger_cycles(cycles, seed, uri);
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "{kills} kills, {commits} commits checked, none lost, {staged_out} groups staged out, {seconds:.1} s"
    );
    assert!(
        commits > COMMITS_MIN * cycles as i64,
        "{commits} commits in {cycles} cycles: the clients hardly ran"
    );
    (cycles, staged_out)
}

/// The checker must see what it is there to see: each planted fault makes it fail.
#[test]
fn the_checker_notices_planted_faults() {
    let faults = [
        "DELETE FROM ledger WHERE (client, seq) = (SELECT client, max(seq) FROM ledger GROUP BY client LIMIT 1)",
        "INSERT INTO ledger SELECT client, seq + 1, a, b, 0, ver_a + 100, ver_b, filler FROM ledger
         ORDER BY client DESC, seq DESC LIMIT 1",
        "UPDATE account SET ver = ver - 1 WHERE ver > 0",
        "UPDATE account SET balance = balance + 1 WHERE id = 7",
        "UPDATE ledger SET filler = zeroblob(8) WHERE seq = 1",
    ];
    for fault in faults {
        let folder = Folder::new();
        let uri = uri(&folder, "");
        let mut known = HashMap::new();
        run_and_kill(&uri, "wal", 5, Duration::from_millis(600), &mut known);
        assert!(recover_and_check(&uri, &mut known) > 0, "the child did nothing");
        open(&uri).execute_batch(fault).unwrap();
        let noticed = std::panic::catch_unwind(|| recover_and_check(&uri, &mut known.clone()));
        assert!(noticed.is_err(), "not noticed: {fault}");
    }
}
