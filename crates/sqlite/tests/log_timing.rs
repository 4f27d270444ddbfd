//! Log files can take the time of a modelled drive, and are charged for what a drive would see.

#![allow(clippy::unwrap_used)]

mod support;

use std::path::Path;
use std::sync::{Arc, Mutex};

use mezzanine_device::{
    Capabilities, Device, DeviceError, DeviceErrorKind, FileDevice, NullDevice, OpenOptions, Request,
};
use mezzanine_sqlite::{Extent, LogDrive, LogTimer, MezzanineVfs, RealSync};
use mezzanine_volume::{TierConfig, Volume};
use rusqlite::Connection;
use support::{Folder, count, flags, journal_mode};

/// Writes down each sync.
#[derive(Default)]
struct Recorder(Mutex<Vec<(String, u64)>>);

impl LogTimer for Recorder {
    fn sync(&self, log: &Path, extents: &[Extent]) -> Result<RealSync, DeviceError> {
        assert!(extents.windows(2).all(|pair| pair[0].offset + pair[0].len < pair[1].offset), "{extents:?}");
        let name = log.file_name().unwrap().to_str().unwrap().to_owned();
        self.0.lock().unwrap().push((name, extents.iter().map(|extent| extent.len).sum()));
        Ok(RealSync::Skip)
    }
}

/// Registers a VFS whose logs are timed by `timer` and whose databases need no flash at all.
fn vfs(name: &str, timer: Arc<dyn LogTimer>) -> MezzanineVfs {
    let volume = Arc::new(Volume::without_tier());
    let disk =
        |path: &Path| Ok(Arc::new(FileDevice::open(path, &OpenOptions::read_write())?) as Arc<dyn Device>);
    let tier = TierConfig::new(4096, 1024);
    MezzanineVfs::builder(name)
        .volume(volume, "no flash", &tier)
        .disk(disk)
        .log_timer(timer)
        .register()
        .unwrap()
}

fn connect(vfs: &MezzanineVfs, database: &Path) -> Connection {
    Connection::open_with_flags_and_vfs(database, flags(), vfs.name()).unwrap()
}

#[test]
fn a_commit_costs_one_sync_of_what_it_wrote() {
    let folder = Folder::new();
    let recorder = Arc::new(Recorder::default());
    let vfs = vfs("recorded", Arc::<Recorder>::clone(&recorder));
    let db = connect(&vfs, &folder.file("app.db"));
    journal_mode(&db, "wal");
    db.execute_batch("PRAGMA synchronous = FULL; CREATE TABLE t (a)").unwrap();
    recorder.0.lock().unwrap().clear();
    db.execute_batch("INSERT INTO t VALUES (randomblob(9000))").unwrap();
    let syncs = std::mem::take(&mut *recorder.0.lock().unwrap());
    // The first page (the file grows), the leaf and two overflow pages, each after a header of 24 bytes, come
    // as one run.
    assert_eq!(syncs, [("wal".to_owned(), 4 * (4096 + 24))]);
    journal_mode(&db, "delete");
    recorder.0.lock().unwrap().clear();
    db.execute_batch("INSERT INTO t VALUES (1)").unwrap();
    let syncs = std::mem::take(&mut *recorder.0.lock().unwrap());
    assert!(syncs.len() >= 2 && syncs.iter().all(|(name, _)| name == "journal"), "{syncs:?}");
    assert_eq!(count(&db, "SELECT count(*) FROM t"), 2);
    drop(db);
    vfs.close().unwrap();
}

/// A drive that writes requests down, and can fail.
#[derive(Default)]
struct Drive {
    seen: Mutex<Vec<(u64, usize)>>,
    flushes: Mutex<u32>,
    broken: Mutex<bool>,
}

impl Device for Drive {
    fn capabilities(&self) -> Capabilities {
        NullDevice::ENDLESS.capabilities()
    }

    fn run(&self, batch: &mut [Request<'_>]) -> Vec<Result<(), DeviceError>> {
        let broken = *self.broken.lock().unwrap();
        let answer = |request: &Request<'_>| {
            match request {
                Request::Write { offset, buf, .. } => self.seen.lock().unwrap().push((*offset, buf.len())),
                Request::Flush => *self.flushes.lock().unwrap() += 1,
                _ => panic!("a log drive is only written"),
            }
            if broken { Err(DeviceError::new(DeviceErrorKind::Io, "write", self.describe())) } else { Ok(()) }
        };
        batch.iter().map(answer).collect()
    }

    fn set_len(&self, len: u64) -> Result<(), DeviceError> {
        NullDevice::ENDLESS.set_len(len)
    }

    fn describe(&self) -> String {
        "the log drive".to_owned()
    }
}

#[test]
fn a_drive_sees_runs_from_its_base_and_a_flush() {
    let folder = Folder::new();
    let drive = Arc::new(Drive::default());
    let base = 1 << 30;
    let timer = LogDrive::new(Arc::<Drive>::clone(&drive), base).without_real_sync();
    let vfs = vfs("driven", Arc::new(timer));
    let db = connect(&vfs, &folder.file("app.db"));
    journal_mode(&db, "wal");
    db.execute_batch("PRAGMA synchronous = FULL; CREATE TABLE t (a)").unwrap();
    let flushes = std::mem::take(&mut *drive.flushes.lock().unwrap());
    drive.seen.lock().unwrap().clear();
    assert!(flushes > 0);
    db.execute_batch("INSERT INTO t VALUES (1)").unwrap();
    let seen = std::mem::take(&mut *drive.seen.lock().unwrap());
    assert_eq!(seen.len(), 1, "{seen:?}");
    assert!(seen[0].0 > base && seen[0].0 % 512 == 0 && seen[0].1 >= 4096 && seen[0].1 <= 5120, "{seen:?}");
    assert_eq!(*drive.flushes.lock().unwrap(), 1);
    *drive.broken.lock().unwrap() = true;
    assert!(
        db.execute_batch("INSERT INTO t VALUES (2)").is_err(),
        "a commit on a broken log drive was acknowledged"
    );
    let said = mezzanine_sqlite::last_error().unwrap();
    assert!(said.contains("the log drive") && said.contains("app.db-wal/wal"), "{said}");
    *drive.broken.lock().unwrap() = false;
    assert_eq!(count(&db, "SELECT count(*) FROM t"), 1);
}

#[test]
fn a_vfs_cannot_close_under_its_connections() {
    let folder = Folder::new();
    let vfs = vfs("closing", Arc::new(Recorder::default()));
    let db = connect(&vfs, &folder.file("app.db"));
    db.execute_batch("CREATE TABLE t (a)").unwrap();
    let held = connect(&vfs, &folder.file("app.db"));
    drop(db);
    let name = vfs.name().to_owned();
    let error = vfs.close().unwrap_err();
    assert!(error.to_string().contains("1 connection") && error.to_string().contains("app.db"), "{error}");
    drop(held);
    // It is still there, with its volume.
    let db = Connection::open_with_flags_and_vfs(folder.file("app.db"), flags(), name.as_str()).unwrap();
    assert_eq!(count(&db, "SELECT count(*) FROM t"), 0);
}
