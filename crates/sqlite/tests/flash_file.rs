//! Two processes that make one flash file: one does, and the other is told who has it.

#![allow(clippy::unwrap_used)]

mod support;

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rusqlite::Connection;
use support::{Folder, check, count, flags, open_with, register, uri};

/// Makes a tier and commits once, as soon as the file `go` is there; then says so and stays until told to
/// end.
#[test]
#[ignore = "is run by other tests in a process of its own"]
fn making_process() {
    let uri = std::env::var("MEZZANINE_MAKE_URI").expect("other tests set this");
    let go = std::env::var("MEZZANINE_MAKE_GO").unwrap();
    register();
    #[cfg(feature = "planted")]
    if std::env::var("MEZZANINE_PLANT").is_ok() {
        mezzanine_engine::planted::set(Some(mezzanine_engine::planted::Bug::FlashReplaced));
    }
    while !Path::new(&go).exists() {
        std::hint::spin_loop();
    }
    let db = Connection::open_with_flags(uri, flags())
        .unwrap_or_else(|error| panic!("{error}: {}", mezzanine_sqlite::last_error().unwrap_or_default()));
    db.execute_batch("CREATE TABLE t (a); INSERT INTO t VALUES (1)").unwrap();
    std::process::abort();
}

/// Two processes make the same flash file for databases of their own. Which of them say that they have
/// committed: the others say that it is in use.
fn made_by_two(folder: &Folder, planted: bool) -> Vec<usize> {
    let go = folder.file("go");
    let start = |number: usize| -> Child {
        let database = folder.file(&format!("{number}.db"));
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--ignored", "--exact", "making_process", "--nocapture", "--test-threads=1"])
            .env("MEZZANINE_MAKE_URI", uri(&database, &folder.file("flash.mezz"), ""))
            .env("MEZZANINE_MAKE_GO", &go)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if planted {
            command.env("MEZZANINE_PLANT", "yes");
        }
        command.spawn().unwrap()
    };
    let processes: Vec<Child> = (0..2).map(start).collect();
    std::thread::sleep(std::time::Duration::from_millis(100));
    fs::write(&go, "").unwrap();
    let mut committed = Vec::new();
    for (number, process) in processes.into_iter().enumerate() {
        let output = process.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        if std::os::unix::process::ExitStatusExt::signal(&output.status) == Some(libc::SIGABRT) {
            committed.push(number);
        } else if !planted {
            let why = ["already open", "opens it just now"].iter().any(|why| said.contains(why));
            assert!(said.contains("flash.mezz") && why, "{said}");
        }
    }
    committed
}

fn has_row(folder: &Folder, number: usize) -> bool {
    register();
    let uri = uri(&folder.file(&format!("{number}.db")), &folder.file("flash.mezz"), "");
    let Ok(db) = Connection::open_with_flags(uri, flags()) else { return false };
    check(&db);
    db.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0)).is_ok_and(|rows| rows == 1)
}

/// Was found by trial: both acknowledged, and one of the databases was gone.
#[test]
fn of_two_processes_that_make_a_flash_file_one_has_it() {
    for round in 0..10 {
        let folder = Folder::new();
        if round % 2 == 1 {
            fs::write(folder.file("flash.mezz"), "").unwrap();
        }
        let committed = made_by_two(&folder, false);
        assert!(!committed.is_empty(), "neither could");
        for number in committed {
            assert!(has_row(&folder, number), "round {round}: the commit of {number} is gone");
        }
        let left = fs::read_dir(folder.path()).unwrap().flatten();
        let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
        assert!(left.iter().all(|name| !name.to_string_lossy().contains("formatting")), "{left:?}");
    }
}

#[test]
fn what_a_maker_left_that_died_goes_and_what_another_makes_stays() {
    let folder = Folder::new();
    fs::write(folder.file("flash.mezz.formatting-1-2"), "half a tier").unwrap();
    let other = fs::File::create(folder.file("flash.mezz.formatting-3-4")).unwrap();
    // SAFETY: takes no pointers.
    assert_eq!(unsafe { libc::flock(std::os::fd::AsRawFd::as_raw_fd(&other), libc::LOCK_EX) }, 0);
    let db = support::open(&folder, "app.db");
    db.execute_batch("CREATE TABLE t (a)").unwrap();
    assert_eq!(count(&db, "SELECT count(*) FROM t"), 0);
    assert!(
        !folder.file("flash.mezz.formatting-1-2").exists()
            && folder.file("flash.mezz.formatting-3-4").exists()
    );
}

#[cfg(feature = "planted")]
#[test]
fn a_flash_file_that_is_replaced_takes_a_database_with_it() {
    let lost = (0..20).any(|_| {
        let folder = Folder::new();
        let committed = made_by_two(&folder, true);
        committed.iter().any(|number| !has_row(&folder, *number))
    });
    assert!(lost);
}

/// Whether what is acknowledged is there at the next opening, or the first one is refused and has changed
/// nothing.
fn keeps_commits(there: bool, name: &str) -> bool {
    let folder = Folder::new();
    let path = folder.file("app.db");
    let insert =
        |db: &Connection| db.execute_batch("CREATE TABLE IF NOT EXISTS t (a); INSERT INTO t VALUES (1)");
    if there {
        insert(&Connection::open(&path).unwrap()).unwrap();
    }
    let before = fs::read(&path).ok();
    register();
    let open = || Connection::open_with_flags(uri(&path, &folder.file(name), ""), flags());
    match open().and_then(|db| insert(&db)) {
        Ok(()) => open().is_ok_and(|db| count(&db, "SELECT count(*) FROM t") == 1 + i64::from(there)),
        Err(_) => {
            let said = mezzanine_sqlite::last_error().unwrap_or_default();
            let left = name != "app.db" && folder.file(name).exists();
            fs::read(&path).ok() == before && !left && said.contains(name)
        }
    }
}

/// Was found by reading: the flash file was taken for a log, removed by whoever looked for one, or renamed
/// over the database.
#[test]
fn a_flash_file_with_the_name_of_a_part_of_a_database_is_refused() {
    let all = || {
        let names = ["app.db", "app.db-wal", "app.db-journal", "app.db-shm", "app.db.mezzanine"];
        [true, false].iter().all(|&there| names.iter().all(|name| keeps_commits(there, name)))
    };
    mezzanine_engine::planted::only_with(&[mezzanine_engine::planted::Bug::FlashInPlaceOfLog], all);
}

/// The same, of a database that is on another tier, or on none yet.
#[test]
fn nor_may_it_be_in_the_place_of_a_part_of_another_database() {
    let folder = Folder::new();
    let other = open_with(&folder, "other.db", "").unwrap();
    other.execute_batch("CREATE TABLE t (a)").unwrap();
    fs::write(folder.file("plain.db"), "").unwrap();
    let empty = open_with(&folder, "empty.db", "").unwrap();
    for name in ["other.db-journal", "other.db-wal/flash.mezz", "plain.db-journal", "empty.db"] {
        let uri = uri(&folder.file("app.db"), &folder.file(name), "");
        Connection::open_with_flags(&uri, flags()).unwrap_err();
        let said = mezzanine_sqlite::last_error().unwrap();
        assert!(said.contains(name) && said.contains("name of its own"), "{said}");
        assert!(!folder.file("app.db").exists());
    }
    // One that was there before the database has that name.
    let first = uri(&folder.file("app.db"), &folder.file("late.db-journal"), "");
    drop((other, empty));
    Connection::open_with_flags(&first, flags()).unwrap().execute_batch("CREATE TABLE t (a)").unwrap();
    open_with(&folder, "late.db", "").unwrap_err();
    let said = mezzanine_sqlite::last_error().unwrap();
    assert!(said.contains("late.db-journal") && said.contains("is a flash file"), "{said}");
    let app = Connection::open_with_flags(&first, flags()).unwrap();
    assert_eq!(count(&app, "SELECT count(*) FROM t"), 0);
}

/// Was found by trial: an empty database in which an SQLite without a tier has begun a transaction was
/// replaced, and what that committed went with it.
#[test]
fn an_empty_database_in_use_is_no_place_for_a_flash_file() {
    mezzanine_engine::planted::only_with(&[mezzanine_engine::planted::Bug::EmptyDatabaseReplaced], || {
        let folder = Folder::new();
        register();
        let path = folder.file("plain.db");
        let stock = Connection::open(&path).unwrap();
        stock.execute_batch("BEGIN IMMEDIATE; CREATE TABLE t (a)").unwrap();
        let opened = Connection::open_with_flags(uri(&folder.file("app.db"), &path, ""), flags());
        stock.execute_batch("COMMIT").unwrap();
        drop((opened, stock));
        Connection::open(&path)
            .is_ok_and(|stock| stock.query_row("SELECT count(*) FROM t", [], |row| row.get(0)) == Ok(0))
    });
}

/// An opening is refused, for its logs or for the recording that it is to make.
#[test]
fn a_refused_opening_leaves_no_flash_file_and_no_database() {
    let nothing_left = |trace: &str| {
        let folder = Folder::new();
        let path = folder.file("app.db");
        if trace.is_empty() {
            fs::write(&path, "").unwrap();
            fs::create_dir(folder.file("app.db-wal")).unwrap();
            fs::write(folder.file("app.db-wal/journal"), "one").unwrap();
            fs::write(folder.file("app.db-journal"), "two").unwrap();
        }
        register();
        let uri = uri(&path, &folder.file("new.mezz"), trace);
        assert!(Connection::open_with_flags(uri, flags()).is_err());
        assert_eq!(path.exists(), trace.is_empty());
        !folder.file("new.mezz").exists()
    };
    let all = || ["", "&trace=/nowhere/app.mezztrace"].iter().all(|trace| nothing_left(trace));
    mezzanine_engine::planted::only_with(&[mezzanine_engine::planted::Bug::UnusedFlashLeft], all);
}

/// Was found by trial: the first opening made a tier where the link leads, and the second refused the link.
#[test]
fn a_link_is_no_flash_file_wherever_it_leads() {
    for there in [true, false] {
        let folder = Folder::new();
        register();
        if there {
            fs::write(folder.file("real.mezz"), "").unwrap();
        }
        std::os::unix::fs::symlink(folder.file("real.mezz"), folder.file("link.mezz")).unwrap();
        let uri = uri(&folder.file("app.db"), &folder.file("link.mezz"), "");
        for _ in 0..2 {
            assert!(Connection::open_with_flags(&uri, flags()).is_err());
            let said = mezzanine_sqlite::last_error().unwrap();
            assert!(said.contains("link.mezz") && said.contains("name the file itself"), "{said}");
        }
        assert_eq!(fs::metadata(folder.file("real.mezz")).map_or(0, |found| found.len()), 0);
        let db = open_with(&folder, "app.db", "").unwrap();
        let pragma = format!("PRAGMA mezzanine_replace = '{}'", folder.file("link.mezz").display());
        assert!(
            db.query_row(&pragma, [], |_| Ok(())).unwrap_err().to_string().contains("name the file itself")
        );
    }
}
