//! Pages that flash does not give back are named and counted where people look.

#![allow(clippy::unwrap_used)]

mod support;

use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use mezzanine_sqlite::MezzanineVfs;
use mezzanine_volume::{SyncMode, TierConfig, Volume, VolumeConfig, create_flash};
use rusqlite::{Connection, OpenFlags};
use support::{Folder, pragma_text};

/// The row's page is lost when the queue comes to it; then the status has its file and block, until it is
/// given up.
#[test]
fn the_status_names_and_counts_lost_pages() {
    let folder = Folder::new();
    let (flash, db_path) = (folder.path().join("app.mezz"), folder.path().join("app.db"));
    let tier = TierConfig {
        group_pages: 4,
        staging_groups: 3,
        segment_frames: 12,
        shards: 4,
        survivors_max: 2,
        band_frames: 8,
        sync_mode: SyncMode::Durable,
        ..TierConfig::new(4096, 104)
    };
    let config = VolumeConfig { workers: 0, ..VolumeConfig::new(tier.clone()) };
    let device = create_flash(&flash, &tier).unwrap();
    Volume::format(&*device, &config, false).unwrap();
    let volume = Arc::new(Volume::open(device, config).unwrap());
    let vfs = MezzanineVfs::builder("lost-pages")
        .volume(Arc::clone(&volume), "app.mezz", &tier)
        .register()
        .unwrap();
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    let db = Connection::open_with_flags_and_vfs(&db_path, flags, vfs.name()).unwrap();
    db.execute_batch(
        "PRAGMA journal_mode = wal; PRAGMA wal_autocheckpoint = 0;
         CREATE TABLE kept (id INTEGER PRIMARY KEY, text TEXT); CREATE TABLE changed (id INTEGER PRIMARY KEY, text TEXT);",
    )
    .unwrap();
    let checkpoint = || db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    db.execute("INSERT INTO kept VALUES (1, ?1)", ["the row whose page is lost; ".repeat(100)]).unwrap();
    checkpoint();
    assert!(pragma_text(&db, "mezzanine_status").contains("\nlost_pages 0\n"));

    let file = std::fs::OpenOptions::new().read(true).write(true).open(&flash).unwrap();
    let held = std::fs::read(&flash).unwrap();
    let needle = b"the row whose page is lost";
    let at = held.windows(needle.len()).rposition(|window| window == needle).unwrap();
    file.write_all_at(b"X", at as u64).unwrap();
    for round in 0..8 {
        for row in 0..20 {
            let text = format!("{round} {row} ").repeat(500);
            db.execute("INSERT OR REPLACE INTO changed VALUES (?1, ?2)", (row, text)).unwrap();
        }
        checkpoint();
    }
    let status = pragma_text(&db, "mezzanine_status");
    let [(path, offset)] = &volume.lost_pages()[..] else { panic!("{status}") };
    let line =
        format!("lost_page {}: block {}, bytes {offset} to {}", path.display(), offset / 4096, offset + 4095);
    assert!(status.contains("\nlost_pages 1\n") && status.contains(&line), "{line} in\n{status}");
    assert!(path.ends_with("app.db"));
    volume.file(path).unwrap().give_up(*offset).unwrap();
    let status = pragma_text(&db, "mezzanine_status");
    assert!(status.contains("\nlost_pages 0\n") && status.contains("\npages_given_up 1\n"), "{status}");
    db.close().unwrap();
    vfs.close_drained().unwrap();
}
