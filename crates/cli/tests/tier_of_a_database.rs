//! `mezz tier` on a tier that holds pages newer than their file: it is looked at, checked, damaged, drained.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Scratch, mezz};
use rusqlite::{Connection, OpenFlags};

/// Text that is in every row, to find pages on flash by.
const NEEDLE: &str = "a page whose only copy is on flash";
const ROWS: u32 = 400;

/// A database whose newest pages are in its tier, closed in order.
fn database(scratch: &Scratch, vfs: &str) -> (String, String) {
    let (db, flash) = (scratch.file("app.db"), scratch.file("app.mezz"));
    let registered = mezzanine_sqlite::MezzanineVfs::builder(vfs).register().unwrap();
    let uri = format!("file:{db}?vfs={vfs}&flash={flash}&flash_size=16MiB");
    let connection =
        Connection::open_with_flags(uri, OpenFlags::default() | OpenFlags::SQLITE_OPEN_URI).unwrap();
    connection
        .execute_batch("PRAGMA journal_mode = wal; CREATE TABLE t (id INTEGER PRIMARY KEY, text TEXT);")
        .unwrap();
    for id in 0..ROWS {
        connection.execute("INSERT INTO t VALUES (?1, ?2)", (id, NEEDLE.repeat(10))).unwrap();
    }
    connection.close().unwrap();
    registered.close().unwrap();
    (db, flash)
}

fn rows_without_tier(db: &str) -> rusqlite::Result<u32> {
    Connection::open(db)?.query_row("SELECT count(*) FROM t", [], |row| row.get(0))
}

#[test]
fn a_drained_database_opens_without_its_tier() {
    let scratch = Scratch::new();
    let (db, flash) = database(&scratch, "drained");
    assert!(rows_without_tier(&db).is_err(), "old pages are not shown");
    let seen = mezz(&["tier", "inspect", &flash, "--json"]).expect(0).json();
    assert_eq!(seen["state"], "closed");
    assert!(seen["recovery"]["pages_dirty"].as_u64().unwrap() > 0, "{seen}");
    mezz(&["tier", "format", &flash]).expect(3).complains(&[
        "app.mezz",
        "may be nowhere else",
        "mezz tier drain",
    ]);
    let checked = mezz(&["tier", "verify", &flash, "--json"]).expect(0).json();
    assert_eq!(checked["pages_dirty_damaged"], 0);
    let drained = mezz(&["tier", "drain", &flash, &db, "--json"]).expect(0).json();
    assert!(drained["pages_written"].as_u64().unwrap() > 0, "{drained}");
    assert_eq!(rows_without_tier(&db).unwrap(), ROWS);
    assert_eq!(mezz(&["tier", "inspect", &flash, "--json"]).expect(0).json()["state"], "drained");
    mezz(&["tier", "format", &flash]).expect(0);
}

#[test]
fn a_tier_is_drained_only_into_its_own_files() {
    let scratch = Scratch::new();
    let (db, flash) = database(&scratch, "foreign");
    let other = scratch.file("other.db");
    Connection::open(&other).unwrap().execute_batch("CREATE TABLE o (x)").unwrap();
    let before = std::fs::read(&other).unwrap();
    mezz(&["tier", "drain", &flash, &other]).expect(3).complains(&["other.db"]);
    assert_eq!(std::fs::read(&other).unwrap(), before);
    mezz(&["tier", "drain", &flash, &scratch.file("missing.db")])
        .expect(3)
        .complains(&["missing.db", "not exist"]);
    mezz(&["tier", "drain", &flash, &db]).expect(0);
    assert_eq!(rows_without_tier(&db).unwrap(), ROWS);
}

#[test]
fn a_rotten_only_copy_is_named() {
    let scratch = Scratch::new();
    let (_, flash) = database(&scratch, "rotten");
    let mut bytes = std::fs::read(&flash).unwrap();
    let page = bytes.windows(NEEDLE.len()).rposition(|window| window == NEEDLE.as_bytes()).unwrap();
    bytes[page] ^= 1;
    std::fs::write(&flash, &bytes).unwrap();
    let done = mezz(&["tier", "verify", &flash, "--json"]).expect(1).complains(&["app.mezz", "damaged"]);
    if !done.stdout.is_empty() {
        assert_eq!(done.json()["pages_dirty_damaged"], 1, "{}", done.stdout);
    }
}

/// Everything that belongs to a database but the flash: its bytes, in the order of the paths.
fn files_of(db: &str) -> Vec<(String, Vec<u8>)> {
    let logs = format!("{db}-wal");
    let inside = std::fs::read_dir(&logs).map_or_else(
        |_| Vec::new(),
        |entries| entries.map(|entry| entry.unwrap().path().display().to_string()).collect(),
    );
    let mut paths = [vec![db.to_owned(), format!("{db}.mezzanine")], inside].concat();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

/// Puts these files back in place of those that are there now.
fn put_back(db: &str, files: &[(String, Vec<u8>)]) {
    files_of(db).iter().for_each(|(path, _)| std::fs::remove_file(path).unwrap());
    files.iter().for_each(|(path, bytes)| std::fs::write(path, bytes).unwrap());
}

fn another_row(db: &str, flash: &str, vfs: &str) {
    let registered = mezzanine_sqlite::MezzanineVfs::builder(vfs).register().unwrap();
    let uri = format!("file:{db}?vfs={vfs}&flash={flash}");
    let connection =
        Connection::open_with_flags(uri, OpenFlags::default() | OpenFlags::SQLITE_OPEN_URI).unwrap();
    connection.execute("INSERT INTO t VALUES (?1, ?2)", (ROWS, NEEDLE)).unwrap();
    connection.close().unwrap();
    registered.close().unwrap();
}

/// A snapshot of the files put back beside the tier, which was used since: pages of two moments would come
/// together. And the same with an older flash. Nothing is changed, and the message says which of the two is
/// older; with those of one moment the drain goes on.
#[test]
fn a_tier_is_not_drained_into_files_of_another_moment() {
    let scratch = Scratch::new();
    let (db, flash) = database(&scratch, "rolled-back");
    let (files_before, flash_before) = (files_of(&db), std::fs::read(&flash).unwrap());
    another_row(&db, &flash, "rolled-back-later");
    let (files_now, flash_now) = (files_of(&db), std::fs::read(&flash).unwrap());

    put_back(&db, &files_before);
    mezz(&["tier", "drain", &flash, &db]).expect(3).complains(&[
        "app.db",
        "is newer than the file",
        "put the newest file and sidecar back",
    ]);
    assert!(files_of(&db) == files_before, "the files were changed");
    assert!(std::fs::read(&flash).unwrap() == flash_now, "the tier was changed");

    put_back(&db, &files_now);
    std::fs::write(&flash, &flash_before).unwrap();
    mezz(&["tier", "drain", &flash, &db]).expect(3).complains(&[
        "app.db",
        "is older than the file",
        "put the newest tier back",
    ]);
    assert!(files_of(&db) == files_now, "the files were changed");
    assert!(std::fs::read(&flash).unwrap() == flash_before, "the tier was changed");

    std::fs::write(&flash, &flash_now).unwrap();
    mezz(&["tier", "drain", &flash, &db]).expect(0);
    assert_eq!(rows_without_tier(&db).unwrap(), ROWS + 1);
}

/// One of two databases on a tier is gone: the other can be drained again once that one is forgotten.
#[test]
fn a_database_that_is_gone_is_forgotten_by_its_name() {
    let scratch = Scratch::new();
    let (db, flash) = database(&scratch, "forgotten");
    let gone = scratch.file("gone.db");
    {
        let registered = mezzanine_sqlite::MezzanineVfs::builder("forgotten").register().unwrap();
        let uri = format!("file:{gone}?vfs=forgotten&flash={flash}");
        let flags = OpenFlags::default() | OpenFlags::SQLITE_OPEN_URI;
        let connection = Connection::open_with_flags(uri, flags).unwrap();
        connection.execute_batch("CREATE TABLE t (a); INSERT INTO t VALUES (randomblob(100000))").unwrap();
        connection.close().unwrap();
        registered.close().unwrap();
    }
    // While it is there it is drained, and not forgotten without a word.
    mezz(&["tier", "forget", &flash, &gone]).expect(3).complains(&["gone.db", "newest pages", "--force"]);
    let sidecar = scratch.file("gone.db.mezzanine");
    let whole = std::fs::read(&sidecar).unwrap();
    std::fs::write(&sidecar, &whole[..whole.len() / 2]).unwrap();
    mezz(&["tier", "forget", &flash, &gone]).expect(3).complains(&["gone.db", "cannot be read", "--force"]);
    std::fs::write(&sidecar, whole).unwrap();
    for file in [gone.clone(), format!("{gone}.mezzanine")] {
        std::fs::remove_file(file).unwrap();
    }
    mezz(&["tier", "drain", &flash, &db]).expect(3).complains(&["gone.db"]);
    mezz(&["tier", "forget", &flash]).expect(2).complains(&["<FILES>"]);
    mezz(&["tier", "forget", &flash, &scratch.file("other.db")])
        .expect(3)
        .complains(&["other.db", "gone.db"]);
    mezz(&["tier", "forget", &flash, &gone, "--also", &scratch.file("missing.db")])
        .expect(3)
        .complains(&["missing.db"]);
    // A log of it as a killed process leaves it, which would be played into a backup.
    let log = format!("{gone}-wal/wal");
    std::fs::create_dir(format!("{gone}-wal")).unwrap();
    std::fs::write(&log, [1; 4096]).unwrap();
    let done = mezz(&["tier", "forget", &flash, &gone, "--json"]).expect(0).json();
    assert_eq!(done["files"][0]["file"].as_str().unwrap(), gone);
    assert_eq!(done["files"][0]["log"].as_str().unwrap(), log);
    assert!(done["files"][0]["pages"].as_u64().unwrap() >= 20, "{done}");
    mezz(&["tier", "forget", &flash, &gone]).expect(3).complains(&["waits for no file"]);
    mezz(&["tier", "drain", &flash, &db]).expect(0);
    assert_eq!(rows_without_tier(&db).unwrap(), ROWS);
}
