//! SQLite does through the VFS what it does without it, in every journal mode.

#![allow(clippy::unwrap_used)]

mod support;

use mezzanine_ground::random::Random;
use rusqlite::{Connection, OpenFlags, ffi};
use support::{Folder, check, count, journal_mode, open, open_with, pragma_text, register};

const MODES: [&str; 4] = ["delete", "truncate", "persist", "wal"];

/// One random statement of a workload, the same for the database and its model.
fn statement(random: &mut Random) -> String {
    let (a, b) = (random.below(400), random.below(1 << 40));
    match random.below(100) {
        0..40 => format!("INSERT OR REPLACE INTO t VALUES ({a}, {b}, printf('%0{}d', {b}))", 1 + b % 3000),
        40..60 => format!("UPDATE t SET v = v + 1, w = w || 'x' WHERE k BETWEEN {a} AND {}", a + 5),
        60..75 => format!("DELETE FROM t WHERE k BETWEEN {a} AND {}", a + 9),
        75..80 => "DELETE FROM u".to_owned(),
        80..94 => format!("INSERT INTO u SELECT k, v FROM t WHERE k % 7 = {} ORDER BY k", a % 7),
        94..96 => "REINDEX".to_owned(),
        96..98 => "VACUUM".to_owned(),
        _ => format!(
            "DROP TABLE IF EXISTS x; CREATE TABLE x AS SELECT * FROM t WHERE v % 3 = {} ORDER BY k",
            b % 3
        ),
    }
}

const SCHEMA: &str = "CREATE TABLE t (k INTEGER PRIMARY KEY, v INTEGER, w TEXT);
    CREATE INDEX t_v ON t (v); CREATE INDEX t_w ON t (substr(w, -20));
    CREATE TABLE u (a INTEGER, b INTEGER); CREATE INDEX u_b ON u (b, a);";

fn digest(db: &Connection) -> Vec<String> {
    let tables: Vec<String> = db
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    let mut lines = Vec::new();
    for table in tables {
        let mut rows = db.prepare(&format!("SELECT * FROM {table} ORDER BY 1, 2")).unwrap();
        let columns = rows.column_count();
        let found = rows
            .query_map([], |row| {
                let cells: Result<Vec<_>, _> =
                    (0..columns).map(|c| row.get::<_, rusqlite::types::Value>(c)).collect();
                Ok(format!("{table} {:?}", cells?))
            })
            .unwrap();
        lines.extend(found.map(Result::unwrap));
    }
    lines
}

fn random_workload(mode: &str, seed: u64, more: &str) {
    let folder = Folder::new();
    let model = Connection::open_in_memory().unwrap();
    let mut db = open_with(&folder, "app.db", more).unwrap();
    journal_mode(&db, mode);
    // A small cache makes pages leave, and come back, in the middle of transactions.
    db.pragma_update(None, "cache_size", 10).unwrap();
    for side in [&model, &db] {
        side.execute_batch(SCHEMA).unwrap();
    }
    let mut random = Random::new(seed);
    for round in 0..60 {
        let statements: Vec<String> = (0..1 + random.below(8)).map(|_| statement(&mut random)).collect();
        let rolled_back = random.below(5) == 0;
        for side in [&model, &db] {
            let within = !statements.iter().any(|s| s == "VACUUM");
            if within {
                side.execute_batch("BEGIN").unwrap();
            }
            for sql in &statements {
                side.execute_batch(sql).unwrap();
            }
            if within {
                side.execute_batch(if rolled_back { "ROLLBACK" } else { "COMMIT" }).unwrap();
            }
        }
        if round % 20 == 19 {
            db.close().unwrap();
            db = open_with(&folder, "app.db", more).unwrap();
            db.pragma_update(None, "cache_size", 10).unwrap();
            assert_eq!(pragma_text(&db, "journal_mode") == "wal", mode == "wal");
            if mode != "wal" {
                journal_mode(&db, mode);
            }
        }
    }
    check(&db);
    assert_eq!(digest(&db), digest(&model), "journal mode {mode}, seed {seed}");
}

#[test]
fn random_workloads_end_like_those_in_memory() {
    for (number, mode) in MODES.into_iter().enumerate() {
        for seed in [1, 20_260_731] {
            random_workload(mode, seed + 1000 * number as u64, "");
        }
    }
}

#[test]
fn random_workloads_with_pages_that_are_not_those_of_the_tier() {
    random_workload("wal", 7, "&page_size=8192");
    random_workload("delete", 8, "&page_size=16384");
}

#[test]
fn the_vfs_says_its_name_and_its_state() {
    let folder = Folder::new();
    let db = open(&folder, "app.db");
    db.execute_batch("CREATE TABLE t (a)").unwrap();
    let status = pragma_text(&db, "mezzanine_status");
    for part in ["app.db", "flash.mezz", "tier_page_size 4096", "database_page_size 4096", "writes "] {
        assert!(status.contains(part), "{status}");
    }
    assert!(pragma_text(&db, "mezzanine_drain").starts_with("drained;"));
}

#[test]
fn a_new_database_gets_the_page_size_of_the_tier() {
    let folder = Folder::new();
    let db = open_with(&folder, "app.db", "&page_size=8192").unwrap();
    db.execute_batch("CREATE TABLE t (a)").unwrap();
    assert_eq!(count(&db, "PRAGMA page_size"), 8192);
}

#[test]
fn another_page_size_than_the_tiers_works_and_is_said() {
    let folder = Folder::new();
    let db = open_with(&folder, "app.db", "&page_size=8192").unwrap();
    db.execute_batch("PRAGMA page_size = 4096; CREATE TABLE t (a); INSERT INTO t VALUES (1)").unwrap();
    assert_eq!(count(&db, "PRAGMA page_size"), 4096);
    let status = pragma_text(&db, "mezzanine_status");
    let warning = status.lines().find(|line| line.starts_with("warning ")).unwrap();
    for part in ["app.db", "pages of 4096", "tier pages of 8192", "PRAGMA page_size=8192 and VACUUM"] {
        assert!(warning.contains(part), "{warning}");
    }
    db.execute_batch("PRAGMA page_size = 8192; VACUUM").unwrap();
    assert_eq!(count(&db, "PRAGMA page_size"), 8192);
    assert!(!pragma_text(&db, "mezzanine_status").contains("warning"));
    check(&db);
}

#[test]
fn vacuum_shrinks_the_file() {
    for mode in MODES {
        let folder = Folder::new();
        let db = open(&folder, "app.db");
        journal_mode(&db, mode);
        db.execute_batch(
            "CREATE TABLE t (a); WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
             INSERT INTO t SELECT randomblob(1000) FROM n;",
        )
        .unwrap();
        let before = count(&db, "PRAGMA page_count");
        db.execute_batch("DELETE FROM t WHERE rowid % 10 > 0; VACUUM;").unwrap();
        check(&db);
        assert!(count(&db, "PRAGMA page_count") < before / 5, "{mode}");
        assert_eq!(count(&db, "SELECT count(*) FROM t"), 200);
    }
}

#[test]
fn attached_databases_share_the_tier_and_commit_together() {
    let folder = Folder::new();
    let db = open(&folder, "one.db");
    db.execute_batch("CREATE TABLE t (a)").unwrap();
    let two = support::uri(&folder.file("two.db"), &folder.file("flash.mezz"), "");
    db.execute("ATTACH ?1 AS two", [&two]).unwrap();
    db.execute_batch(
        "CREATE TABLE two.t (a);
         BEGIN; INSERT INTO main.t VALUES (1); INSERT INTO two.t VALUES (2); COMMIT;
         BEGIN; INSERT INTO main.t VALUES (3); INSERT INTO two.t VALUES (4); ROLLBACK;",
    )
    .unwrap();
    drop(db);
    assert_eq!(count(&open(&folder, "one.db"), "SELECT sum(a) FROM t"), 1);
    assert_eq!(count(&open(&folder, "two.db"), "SELECT sum(a) FROM t"), 2);
}

/// The tier may have to write pages of all of its databases to disk, whichever of them is open.
#[test]
fn one_of_several_databases_on_a_tier_can_be_opened_alone() {
    let folder = Folder::new();
    let fill = "CREATE TABLE IF NOT EXISTS t (a);
        WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
        INSERT INTO t SELECT randomblob(900) FROM n;";
    let (one, two) = (open(&folder, "one.db"), open(&folder, "two.db"));
    for db in [&one, &two] {
        db.execute_batch(fill).unwrap();
    }
    drop((one, two));
    // Enough to push the pages of the other out of the queue.
    let one = open(&folder, "one.db");
    for _ in 0..4 {
        one.execute_batch(fill).unwrap();
    }
    drop(one);
    let three = open(&folder, "three.db");
    three.execute_batch(fill).unwrap();
    let two = open(&folder, "two.db");
    check(&two);
    assert_eq!(count(&two, "SELECT count(*) FROM t"), 3000);
    let one = open(&folder, "one.db");
    check(&one);
    assert_eq!(count(&one, "SELECT count(*) FROM t"), 15_000);
}

#[test]
fn logs_stand_in_their_directory_and_go_with_the_last_connection() {
    let folder = Folder::new();
    let db = open(&folder, "app.db");
    journal_mode(&db, "wal");
    db.execute_batch("CREATE TABLE t (a); INSERT INTO t VALUES (1)").unwrap();
    assert!(folder.file("app.db-wal/wal").is_file());
    let readme = std::fs::read_to_string(folder.file("app.db-wal/README")).unwrap();
    assert!(readme.contains(&format!("process {}", std::process::id())), "{readme}");
    assert_eq!(mezzanine_sqlite::unfinished_logs(&folder.file("app.db")), [folder.file("app.db-wal/wal")]);
    drop(db);
    assert!(!folder.file("app.db-wal").exists());
    let db = open(&folder, "app.db");
    journal_mode(&db, "persist");
    db.execute_batch("INSERT INTO t VALUES (2)").unwrap();
    assert!(folder.file("app.db-wal/journal").is_file());
    drop(db);
    assert!(!folder.file("app.db-wal").exists());
}

/// A database in WAL mode, of which a connection that only reads is the last: whether that can checkpoint,
/// and whether the log is left.
fn left_by_a_reader(
    open: impl Fn(OpenFlags) -> rusqlite::Result<Connection>,
    log: &std::path::Path,
) -> (bool, bool) {
    let write = |sql: &str| open(support::flags()).unwrap().execute_batch(sql).unwrap();
    write("PRAGMA journal_mode = wal; CREATE TABLE t (a); INSERT INTO t VALUES (1)");
    let reads = support::flags() - OpenFlags::SQLITE_OPEN_READ_WRITE - OpenFlags::SQLITE_OPEN_CREATE;
    let reader = open(reads | OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    assert_eq!(count(&reader, "SELECT count(*) FROM t"), 1);
    write("INSERT INTO t VALUES (2)");
    assert_eq!(count(&reader, "SELECT count(*) FROM t"), 2);
    let checkpoints = reader.query_row("PRAGMA wal_checkpoint", [], |_| Ok(())).is_ok();
    drop(reader);
    let left = std::fs::metadata(log).is_ok_and(|found| found.len() > 0);
    assert_eq!(count(&open(support::flags()).unwrap(), "SELECT count(*) FROM t"), 2);
    (checkpoints, left)
}

fn left_on_a_tier(more: &str) -> (bool, bool) {
    register();
    let folder = Folder::new();
    let uri = support::uri(&folder.file("app.db"), &folder.file("flash.mezz"), more);
    left_by_a_reader(|flags| Connection::open_with_flags(&uri, flags), &folder.file("app.db-wal/wal"))
}

#[test]
fn a_connection_that_reads_only_changes_nothing() {
    let folder = Folder::new();
    let plain = |flags| Connection::open_with_flags(folder.file("plain.db"), flags);
    assert_eq!(left_by_a_reader(plain, &folder.file("plain.db-wal")), (false, true));
    for more in ["&sync_mode=durable", "&sync_mode=through"] {
        assert_eq!(left_on_a_tier(more), (false, true), "{more}");
    }
}

#[cfg(feature = "planted")]
#[test]
fn a_reader_that_may_change_the_file_is_noticed() {
    mezzanine_engine::planted::set(Some(mezzanine_engine::planted::Bug::ReaderChanges));
    let left = left_on_a_tier("");
    mezzanine_engine::planted::set(None);
    assert_eq!(left, (true, false));
}

fn ask(db: &Connection, operation: i32, argument: *mut std::ffi::c_void) -> i32 {
    // SAFETY: it is not closed meanwhile.
    let handle = unsafe { db.handle() };
    // SAFETY: the argument is what the operation takes.
    unsafe { ffi::sqlite3_file_control(handle, c"main".as_ptr(), operation, argument) }
}

/// A program may say in any way that SQLite understands that an overwrite is not safe from a loss of power.
#[test]
fn psow_is_read_as_sqlite_reads_it() {
    for value in ["0", "1", "FALSE", "Off", "nO", "00", "01", "2", "true", "YES", "full", "-1", ""] {
        let folder = Folder::new();
        let more = format!("&psow={value}");
        let of = |db: Connection| {
            db.execute_batch("SELECT * FROM sqlite_schema").unwrap();
            let mut powersafe = -1;
            let asked = ask(&db, ffi::SQLITE_FCNTL_POWERSAFE_OVERWRITE, (&raw mut powersafe).cast());
            assert_eq!(asked, ffi::SQLITE_OK);
            powersafe
        };
        let plain = format!("file:{}?psow={value}", folder.file("plain.db").display());
        let plain = of(Connection::open_with_flags(plain, support::flags()).unwrap());
        assert_eq!(of(open_with(&folder, "app.db", &more).unwrap()), plain, "psow={value}");
    }
}

/// What SQLite's own VFS answers, asked as programs ask it.
#[test]
fn file_controls_are_answered_as_by_sqlites_own_vfs() {
    let folder = Folder::new();
    let db = open(&folder, "app.db");
    let plain = Connection::open(folder.file("plain.db")).unwrap();
    for db in [&db, &plain] {
        let (mut chunk, mut hint) = (1 << 16, 1_i64 << 20);
        assert_eq!(ask(db, ffi::SQLITE_FCNTL_CHUNK_SIZE, (&raw mut chunk).cast()), ffi::SQLITE_OK);
        assert_eq!(ask(db, ffi::SQLITE_FCNTL_SIZE_HINT, (&raw mut hint).cast()), ffi::SQLITE_OK);
        let mut reader = 7;
        assert_eq!(ask(db, ffi::SQLITE_FCNTL_EXTERNAL_READER, (&raw mut reader).cast()), ffi::SQLITE_OK);
        assert_eq!(reader, 0, "another process reads");
        let mut name: *mut std::ffi::c_char = std::ptr::null_mut();
        assert_eq!(ask(db, ffi::SQLITE_FCNTL_TEMPFILENAME, (&raw mut name).cast()), ffi::SQLITE_OK);
        // SAFETY: the name ends with a zero.
        let text = unsafe { std::ffi::CStr::from_ptr(name) }.to_str().unwrap().to_owned();
        // SAFETY: SQLite's memory, which is not used any more.
        unsafe { ffi::sqlite3_free(name.cast()) };
        let path = std::path::Path::new(&text);
        assert!(!path.exists() && path.parent().unwrap().is_dir() && text.contains("etilqs_"), "{text}");
    }
}
