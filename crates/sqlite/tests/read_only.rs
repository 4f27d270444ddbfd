//! Databases in folders that cannot be written, with a tier that can: they are read.

#![allow(clippy::unwrap_used)]

mod support;

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

#[cfg(feature = "planted")]
use mezzanine_engine::planted::Bug;
use rusqlite::{Connection, OpenFlags};
use support::{Folder, copy_folder, count, flags, journal_mode, register, uri};

/// A user that owns nothing.
const OTHER: u32 = 65_534;

/// Reads the database, twice, as whoever runs this process can.
#[test]
#[ignore = "is run by other tests in a process of its own"]
fn reader() {
    let uri = std::env::var("MEZZANINE_READER").expect("other tests set this");
    #[cfg(feature = "planted")]
    match std::env::var("MEZZANINE_PLANT").as_deref() {
        Ok("ReadOnlyLogsNamed") => mezzanine_engine::planted::set(Some(Bug::ReadOnlyLogsNamed)),
        Ok("ClockNeedsFolder") => mezzanine_engine::planted::set(Some(Bug::ClockNeedsFolder)),
        Ok("ReadOnlyCloseFails") => mezzanine_engine::planted::set(Some(Bug::ReadOnlyCloseFails)),
        _ => {}
    }
    register();
    for _ in 0..2 {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
        let db = Connection::open_with_flags(&uri, flags)
            .unwrap_or_else(|error| panic!("{error}: {:?}", mezzanine_sqlite::last_error()));
        assert_eq!(count(&db, "SELECT sum(a) FROM t"), 7);
        // So many pages that the tier begins to take them.
        assert_eq!(count(&db, "SELECT sum(instr(b, x'ff')) FROM t"), 0);
        db.close().unwrap();
        // SQLite does not say what becomes of a file that it closes.
        assert_eq!(mezzanine_sqlite::last_error(), None);
    }
}

/// What keeps the folder from being written.
#[derive(Clone, Copy, PartialEq)]
enum By {
    FileSystem,
    Owner,
}

/// Whether this process can put readers in such a place: only root can.
fn is_possible() -> bool {
    let root = fs::metadata("/proc/self").unwrap().uid() == 0;
    let mounts =
        || Command::new("unshare").args(["-m", "true"]).status().is_ok_and(|status| status.success());
    let possible = root && mounts();
    if !possible {
        eprintln!("SKIPPED: only root can mount a file system, and be another user");
    }
    possible
}

/// Reads the database in the folder `app`, which cannot be written, on its flash file beside that folder.
fn read(folder: &Folder, by: By, more: &str, plant: &str) -> Result<(), String> {
    let app = folder.file("app");
    let uri = uri(&app.join("app.db"), &folder.file("flash.mezz"), more);
    // Where another user may look for it.
    let program = folder.file("reader");
    let own = std::env::current_exe().unwrap();
    assert!(Command::new("install").args(["-m", "755"]).args([&own, &program]).status().unwrap().success());
    let mut command = match by {
        By::FileSystem => {
            let mut command = Command::new("unshare");
            let run = "mount --bind \"$0\" \"$0\" && mount -o remount,bind,ro \"$0\" && exec \"$@\"";
            command.args(["-m", "sh", "-c", run]).arg(&app).arg(program);
            command
        }
        By::Owner => {
            let mut command = Command::new(program);
            command.uid(OTHER).gid(OTHER);
            command
        }
    };
    let output = command
        .args(["--ignored", "--exact", "reader", "--test-threads=1"])
        .env("MEZZANINE_READER", uri)
        .env("MEZZANINE_PLANT", plant)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    if output.status.success() { Ok(()) } else { Err(said) }
}

/// A database in the folder `app`, closed in order or as a kill leaves it; its folder is for others to read,
/// its flash file for them to write.
fn left(mode: &str, more: &str, killed: bool) -> Folder {
    let (folder, used) = (Folder::in_memory(), Folder::in_memory());
    fs::create_dir(used.file("app")).unwrap();
    register();
    let uri = uri(&used.file("app").join("app.db"), &used.file("flash.mezz"), more);
    let db = Connection::open_with_flags(&uri, flags()).unwrap();
    journal_mode(&db, mode);
    db.execute_batch("CREATE TABLE t (a, b); INSERT INTO t VALUES (3, zeroblob(900000)), (4, NULL)").unwrap();
    let mut db = Some(db);
    if !killed {
        db.take().unwrap().close().unwrap();
    }
    copy_folder(used.path(), folder.path());
    for (name, mode) in [("app", 0o755), ("app/app.db", 0o644), ("flash.mezz", 0o666)] {
        fs::set_permissions(folder.file(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    for beside in ["app/app.db.mezzanine", "app/app.db-wal/wal"] {
        let beside = folder.file(beside);
        if beside.exists() {
            fs::set_permissions(beside, fs::Permissions::from_mode(0o644)).unwrap();
        }
    }
    folder
}

/// Whether it can be read, and could not with this fault.
fn only_without(fault: &str, by: By, left: impl Fn() -> Folder, more: &str) {
    read(&left(), by, more, "").unwrap();
    if cfg!(feature = "planted") {
        let said = read(&left(), by, more, fault).expect_err("the planted fault went unnoticed");
        assert!(said.contains("app.db"), "{said}");
    }
}

/// Was found by reading: "cannot look at the log directory: Read-only file system".
#[test]
fn a_log_that_a_kill_has_left_is_read_on_a_read_only_file_system() {
    if is_possible() {
        only_without("ReadOnlyLogsNamed", By::FileSystem, || left("wal", "", true), "");
        read(&left("wal", "", true), By::Owner, "", "").unwrap();
    }
}

/// Was found by reading: whether the file was unchanged was asked by making another one beside it.
#[test]
fn a_database_of_a_tier_that_writes_through_is_read_in_a_folder_that_cannot_be_written() {
    if is_possible() {
        let more = "&sync_mode=through";
        for by in [By::FileSystem, By::Owner] {
            only_without("ClockNeedsFolder", by, || left("delete", more, false), more);
        }
    }
}

/// Was found by reading: each close wrote an error to the log, as no sidecar could be written.
#[test]
fn a_tier_that_took_pages_in_a_folder_that_cannot_be_written_is_closed() {
    if is_possible() {
        let more = "&sync_mode=through";
        for by in [By::FileSystem, By::Owner] {
            only_without("ReadOnlyCloseFails", by, || left("delete", more, false), more);
        }
    }
}

#[test]
fn a_database_that_was_closed_in_order_is_read_in_a_folder_that_cannot_be_written() {
    if is_possible() {
        for by in [By::FileSystem, By::Owner] {
            read(&left("delete", "", false), by, "", "").unwrap();
        }
    }
}
