//! The other databases of a tier: as long as one that may have pages there is not attached, none is changed.

#![allow(clippy::unwrap_used, unsafe_code)]

mod support;

use mezzanine_engine::planted::{Bug, only_with};
use rusqlite::{Connection, OpenFlags};
use support::{Folder, copy_folder, count, flags, journal_mode, open, open_with, pragma_text, register, uri};

/// Two databases whose tier is closed, and knows both.
fn two_databases() -> Folder {
    let folder = Folder::new();
    let app = open(&folder, "app.db");
    let other = open(&folder, "other.db");
    app.execute_batch("CREATE TABLE t (a)").unwrap();
    other.execute_batch("CREATE TABLE t (a)").unwrap();
    // What the disk has is the newest then, and another SQLite can read it.
    pragma_text(&app, "mezzanine_admission = off");
    drop((other, app));
    folder
}

/// What an SQLite without the tier that reads another database lets the first connection do, while it reads
/// and afterwards.
fn beside_a_reader(change: impl Fn(&Connection) -> Result<(), rusqlite::Error>) -> (bool, bool) {
    let folder = two_databases();
    let read_only = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let reader = Connection::open_with_flags_and_vfs(folder.file("other.db"), read_only, "unix").unwrap();
    reader.execute_batch("BEGIN").unwrap();
    assert_eq!(count(&reader, "SELECT count(*) FROM t"), 0);
    let app = open(&folder, "app.db");
    let meanwhile = change(&app).is_ok();
    drop(reader);
    let afterwards = change(&app);
    if let Err(error) = &afterwards {
        println!("{error}: {:?}", mezzanine_sqlite::last_error());
    }
    (meanwhile, afterwards.is_ok())
}

/// Was found by trial (SQLite alone has no such thing, since a database knows no other): a lock that passed
/// when a tier was opened kept its databases from being changed as long as the process had it open.
#[test]
fn a_lock_that_passes_is_no_reason_for_ever() {
    only_with(&[Bug::OthersSoughtOnce], || {
        let (meanwhile, afterwards) = beside_a_reader(|app| app.execute_batch("INSERT INTO t VALUES (1)"));
        assert!(!meanwhile);
        afterwards
    });
}

/// The same of what a pragma asks for.
#[test]
fn nor_for_what_is_asked_of_the_tier() {
    only_with(&[Bug::OthersSoughtOnce], || {
        let drain = |app: &Connection| app.query_row("PRAGMA mezzanine_drain", [], |_| Ok(()));
        let (meanwhile, afterwards) = beside_a_reader(drain);
        assert!(!meanwhile);
        afterwards
    });
}

/// A database that is put back under its name, byte by byte, is left alone until it is there.
#[test]
fn a_database_that_is_coming_back_is_waited_for() {
    only_with(&[Bug::ComingFileAttached], || {
        let folder = two_databases();
        let path = folder.file("other.db");
        let whole = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let app = open(&folder, "app.db");
        app.execute_batch("INSERT INTO t VALUES (1)").unwrap_err();
        std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
        let half = app.execute_batch("INSERT INTO t VALUES (2)").is_ok();
        std::fs::write(&path, &whole).unwrap();
        // As if some seconds had gone.
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(std::time::SystemTime::now() - std::time::Duration::from_secs(60)).unwrap();
        let put_back = app.execute_batch("INSERT INTO t VALUES (3)").is_ok();
        !half && put_back
    });
}

/// Was found by trial: the copy was taken for the database, which was refused from then on.
#[test]
fn a_copy_does_not_take_the_place_of_a_database_that_is_held() {
    only_with(&[Bug::CopyTakenForHeld], || {
        let folder = Folder::new();
        register();
        let [here, there] = ["here", "there"].map(|name| {
            std::fs::create_dir(folder.file(name)).unwrap();
            folder.file(name)
        });
        let open = |path: &std::path::Path| {
            Connection::open_with_flags(uri(path, &folder.file("flash.mezz"), ""), flags()).unwrap()
        };
        let (app, other) = (open(&here.join("app.db")), open(&there.join("other.db")));
        app.execute_batch("CREATE TABLE t (a)").unwrap();
        other.execute_batch("CREATE TABLE t (a)").unwrap();
        drop((app, other));
        for name in ["other.db", "other.db.mezzanine"] {
            std::fs::copy(there.join(name), here.join(name)).unwrap();
        }
        let held = locked(&there.join("other.db"));
        let app = open(&here.join("app.db"));
        drop(held);
        let other = Connection::open_with_flags(
            uri(&there.join("other.db"), &folder.file("flash.mezz"), ""),
            flags(),
        );
        let kept = other.is_ok_and(|other| other.execute_batch("INSERT INTO t VALUES (1)").is_ok());
        drop(app);
        kept
    });
}

/// The lock of a reader of another process.
fn locked(path: &std::path::Path) -> std::fs::File {
    let file = std::fs::File::open(path).unwrap();
    // SAFETY: numbers, for which zeros will do.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    (lock.l_type, lock.l_whence) = (libc::F_RDLCK as i16, libc::SEEK_SET as i16);
    (lock.l_start, lock.l_len) = (0x4000_0002, 510);
    let descriptor = std::os::fd::AsRawFd::as_raw_fd(&file);
    // SAFETY: the file is open, and the lock is what this command takes.
    assert_eq!(unsafe { libc::fcntl(descriptor, libc::F_OFD_SETLK, &lock) }, 0);
    file
}

/// Was found by trial: the journal of the change that was refused stayed, and could not be rolled back
/// either, so that nothing could be read any more.
#[test]
fn what_a_refused_change_leaves_can_be_read() {
    for mode in ["delete", "persist", "truncate", "memory", "wal"] {
        let can_be_read = || {
            let folder = two_databases();
            let app = open(&folder, "app.db");
            journal_mode(&app, mode);
            app.execute_batch("INSERT INTO t VALUES (1)").unwrap();
            drop(app);
            let away = folder.file("away.db");
            std::fs::rename(folder.file("other.db"), &away).unwrap();
            let app = open(&folder, "app.db");
            // In WAL mode it is in the log, and that is no change of the file.
            assert!(app.execute_batch("INSERT INTO t VALUES (2)").is_ok() == (mode == "wal"));
            let rows = |db: &Connection| db.query_row("SELECT count(*) FROM t", [], |row| row.get(0));
            let read = rows(&app) == Ok(if mode == "wal" { 2 } else { 1 });
            drop(app);
            let read_again = rows(&open(&folder, "app.db")).is_ok();
            read && read_again
        };
        let faults: &[Bug] = if ["memory", "wal"].contains(&mode) { &[] } else { &[Bug::JournalUnprepared] };
        only_with(faults, can_be_read);
    }
}

/// A database that is put back is one of the tier again, without anything being closed.
#[test]
fn a_database_that_comes_back_is_taken_up() {
    only_with(&[Bug::OthersSoughtOnce], || {
        let folder = two_databases();
        let parts = ["other.db", "other.db.mezzanine"];
        let away = |name: &str| folder.file(&format!("away-{name}"));
        parts.iter().for_each(|name| std::fs::rename(folder.file(name), away(name)).unwrap());
        let app = open(&folder, "app.db");
        app.execute_batch("INSERT INTO t VALUES (1)").unwrap_err();
        parts.iter().for_each(|name| std::fs::rename(away(name), folder.file(name)).unwrap());
        app.execute_batch("INSERT INTO t VALUES (2)").is_ok()
    });
}

/// Was found by trial: when the log came back after its database, which a change had needed, nobody asked
/// whose it was, and after a kill it was refused; the log of another moment was taken for its own.
#[test]
fn a_log_that_comes_back_later_is_known() {
    only_with(&[Bug::LateLogsBelieved], || {
        let (used, folder, killed) = (Folder::new(), Folder::new(), Folder::new());
        let (app, other) = (open(&used, "app.db"), open(&used, "other.db"));
        for db in [&app, &other] {
            journal_mode(db, "wal");
            db.execute_batch("CREATE TABLE t (a); INSERT INTO t VALUES (1)").unwrap();
        }
        copy_folder(used.path(), folder.path());
        let parts = ["other.db", "other.db-wal"];
        let away = |name: &str| folder.file(&format!("away-{name}"));
        parts.iter().for_each(|name| std::fs::rename(folder.file(name), away(name)).unwrap());
        let app = open(&folder, "app.db");
        journal_mode(&app, "wal");
        let drain = || app.query_row("PRAGMA mezzanine_drain", [], |_| Ok(()));
        drain().unwrap_err();
        std::fs::rename(away("other.db"), folder.file("other.db")).unwrap();
        drain().unwrap();
        std::fs::rename(away("other.db-wal"), folder.file("other.db-wal")).unwrap();
        let other = open(&folder, "other.db");
        assert_eq!(count(&other, "SELECT count(*) FROM t"), 1);
        copy_folder(folder.path(), killed.path());
        let again = open_with(&killed, "other.db", "");
        again.is_ok_and(|db| db.query_row("SELECT count(*) FROM t", [], |row| row.get(0)) == Ok(1))
    });
}

#[test]
fn a_time_that_is_yet_to_come_says_nothing() {
    let folder = two_databases();
    let other = std::fs::File::options().write(true).open(folder.file("other.db")).unwrap();
    other.set_modified(std::time::SystemTime::now() + std::time::Duration::from_secs(3600)).unwrap();
    drop(other);
    open(&folder, "app.db").execute_batch("INSERT INTO t VALUES (1)").unwrap();
    // Nor where a change is the first that can have it.
    let held = locked(&folder.file("other.db"));
    let app = open(&folder, "app.db");
    drop(held);
    let other = std::fs::File::options().write(true).open(folder.file("other.db")).unwrap();
    other.set_modified(std::time::SystemTime::now() + std::time::Duration::from_secs(3600)).unwrap();
    drop(other);
    app.execute_batch("INSERT INTO t VALUES (2)").unwrap();
}

/// An ordinary database stays one if nothing was committed.
#[test]
fn a_change_that_is_taken_back_leaves_no_guard() {
    let folder = Folder::new();
    let app = open(&folder, "app.db");
    app.execute_batch("CREATE TABLE t (a)").unwrap();
    app.query_row("PRAGMA mezzanine_drain", [], |_| Ok(())).unwrap();
    drop(app);
    let app = open(&folder, "app.db");
    app.execute_batch("BEGIN; INSERT INTO t VALUES (1); ROLLBACK").unwrap();
    drop(app);
    assert!(std::fs::read(folder.file("app.db")).unwrap().starts_with(b"SQLite format 3\0"));
}
