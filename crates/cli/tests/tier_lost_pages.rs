//! `mezz tier` on a tier with pages that no read brings: they are named and counted, and given up one by one.
#![allow(clippy::unwrap_used)]

mod common;

use std::os::unix::fs::FileExt as _;
use std::path::Path;

use common::{Scratch, mezz};
use mezzanine_engine::given_up_page;
use mezzanine_volume::{AttachOptions, SyncMode, TierConfig, Volume, VolumeConfig, create_flash};
use rusqlite::{Connection, OpenFlags};

const PAGE: usize = 4096;
/// The page that is lost.
const LOST: usize = 5;

fn page(block: usize, version: u8) -> Vec<u8> {
    (0..PAGE)
        .map(|at| (at as u8) ^ version)
        .zip(block.to_le_bytes().into_iter().cycle())
        .map(|(a, b)| a ^ b)
        .collect()
}

fn given_up() -> Vec<u8> {
    let mut page = vec![0; PAGE];
    given_up_page(&mut page);
    page
}

/// Where these bytes are in a file.
fn find(path: &str, bytes: &[u8]) -> usize {
    let held = std::fs::read(path).unwrap();
    held.windows(bytes.len()).rposition(|window| window == bytes).unwrap()
}

fn spoil(path: &str, at: usize) {
    let file = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at as u64).unwrap();
    file.write_all_at(&[byte[0] ^ 0xff], at as u64).unwrap();
}

/// A tier and a file on it, closed in order, one page of which is lost, and known to be.
fn with_a_lost_page(scratch: &Scratch) -> (String, String) {
    let (flash, path) = (scratch.file("app.mezz"), scratch.file("app.bin"));
    let tier = TierConfig {
        group_pages: 4,
        staging_groups: 3,
        segment_frames: 12,
        shards: 4,
        survivors_max: 2,
        band_frames: 8,
        sync_mode: SyncMode::Durable,
        ..TierConfig::new(PAGE as u32, 104)
    };
    let config = VolumeConfig { workers: 0, ..VolumeConfig::new(tier.clone()) };
    let device = create_flash(Path::new(&flash), &tier).unwrap();
    Volume::format(&*device, &config, false).unwrap();
    let volume = Volume::open(device, config).unwrap();
    let file = volume.attach_path(Path::new(&path), AttachOptions::default()).unwrap();
    let write = |block: usize, version| file.write_at(&page(block, version), (block * PAGE) as u64).unwrap();
    (0..12).for_each(|block| write(block, 1));
    file.sync().unwrap();
    spoil(&flash, find(&flash, &page(LOST, 1)) + 1000);
    for version in 2..10 {
        (200..330).for_each(|block| write(block, version));
        file.sync().unwrap();
    }
    assert_eq!(volume.lost_pages().len(), 1);
    volume.close().unwrap();
    (flash, path)
}

#[test]
fn a_lost_page_is_named_counted_and_given_up() {
    let scratch = Scratch::new();
    let (flash, path) = with_a_lost_page(&scratch);
    let name = format!("block {LOST} of {path}");
    let seen = mezz(&["tier", "inspect", &flash, "--json"]).expect(0).json();
    assert_eq!(seen["pages_lost"], 1, "{seen}");
    let lost = &seen["lost"][0];
    assert_eq!((&lost["block"], &lost["byte"]), (&LOST.into(), &(LOST * PAGE).into()), "{lost}");
    assert_eq!((&lost["path"], &lost["name"]), (&path.clone().into(), &name.clone().into()), "{lost}");
    let shown = mezz(&["tier", "inspect", &flash]).expect(0).stdout;
    assert!(shown.contains("1 of them LOST") && shown.contains(&name), "{shown}");

    let checked = mezz(&["tier", "verify", &flash]).expect(1).complains(&["only copy", "mezz tier give-up"]);
    assert!(
        checked.stdout.contains("1 known to be lost") && checked.stdout.contains(&name),
        "{}",
        checked.stdout
    );
    let checked = mezz(&["tier", "verify", &flash, "--json"]).expect(1).json();
    assert_eq!(
        (&checked["pages_dirty_damaged"], &checked["pages_lost"]),
        (&1.into(), &1.into()),
        "{checked}"
    );
    assert_eq!(checked["lost"][0]["name"], name, "{checked}");

    mezz(&["tier", "drain", &flash, &path]).expect(3).complains(&["app.bin", "mezz tier verify"]);
    // By name alone, and only what is lost.
    mezz(&["tier", "give-up", &flash, &path]).expect(2).complains(&["--block"]);
    let block = LOST.to_string();
    for (wrong, why) in [("4", "a read brings the page"), ("330", "the file ends")] {
        mezz(&["tier", "give-up", &flash, &path, "--block", wrong])
            .expect(3)
            .complains(&[why, "nothing was changed"]);
    }
    mezz(&["tier", "give-up", &flash, &scratch.file("missing"), "--block", &block])
        .expect(3)
        .complains(&["missing", "does not exist"]);
    assert_eq!(mezz(&["tier", "inspect", &flash, "--json"]).expect(0).json()["pages_lost"], 1);

    let done = mezz(&["tier", "give-up", &flash, &path, "--block", &block, "--json"]).expect(0).json();
    assert_eq!((&done["blocks"][0], &done["page_bytes"]), (&LOST.into(), &PAGE.into()), "{done}");
    mezz(&["tier", "give-up", &flash, &path, "--block", &block])
        .expect(3)
        .complains(&["a read brings the page"]);
    let seen = mezz(&["tier", "inspect", &flash, "--json"]).expect(0).json();
    assert_eq!((&seen["pages_lost"], &seen["state"]), (&0.into(), &"closed".into()), "{seen}");
    mezz(&["tier", "verify", &flash]).expect(0);
    mezz(&["tier", "drain", &flash, &path]).expect(0);
    let file = std::fs::read(&path).unwrap();
    for block in 0..12 {
        let expected = if block == LOST { given_up() } else { page(block, 1) };
        assert!(file[block * PAGE..][..PAGE] == expected, "block {block}");
    }
}

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
    for id in 0..400 {
        connection.execute("INSERT INTO t VALUES (?1, ?2)", (id, format!("row {id}; ").repeat(30))).unwrap();
    }
    // Something after it states that what is damaged below was durable: a rotten last group cannot be told
    // from a torn one.
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    connection.execute("UPDATE t SET text = 'other' WHERE id = 399", []).unwrap();
    connection.close().unwrap();
    registered.close().unwrap();
    (db, flash)
}

/// The block that `mezz tier verify` finds damaged.
fn damaged(flash: &str) -> String {
    let found = mezz(&["tier", "verify", flash, "--json"]).expect(1).json();
    assert_eq!(found["pages_dirty_damaged"], 1, "{found}");
    let finding = found["findings"][0].as_str().unwrap().to_owned();
    finding.strip_prefix("block ").unwrap().split(' ').next().unwrap().to_owned()
}

/// A row's page, and the first one, which SQLite reads of whatever it opens.
#[test]
fn sqlite_calls_a_database_malformed_whose_page_was_given_up() {
    for (vfs, needle, says) in [
        ("given-up-rows", "row 10; row 10; ", "malformed"),
        ("given-up-head", "CREATE TABLE t (id INTEGER", "not a database"),
    ] {
        let scratch = Scratch::new();
        let (db, flash) = database(&scratch, vfs);
        spoil(&flash, find(&flash, needle.as_bytes()));
        let block = damaged(&flash);
        assert_eq!(block == "0", says == "not a database");
        mezz(&["tier", "drain", &flash, &db]).expect(3).complains(&["app.db"]);
        mezz(&["tier", "give-up", &flash, &db, "--block", &block]).expect(0);
        mezz(&["tier", "verify", &flash]).expect(0);
        mezz(&["tier", "drain", &flash, &db]).expect(0);
        let error = Connection::open(&db)
            .and_then(|db| db.query_row("SELECT sum(length(text)) FROM t", [], |row| row.get::<_, u32>(0)))
            .unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
    }
}
