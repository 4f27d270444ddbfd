//! A process that runs out of descriptors: an opening fails and says why, and nothing is left behind or lost.

#![allow(clippy::unwrap_used)]

mod support;

use std::fs::File;
use std::process::Command;

use rusqlite::{Connection, ErrorCode};
use support::{Folder, check, count, flags, register, uri};

/// Opens a database with ever more descriptors to spare, until that succeeds.
#[test]
#[ignore = "is run by another test in a process of its own"]
fn short_of_descriptors() {
    let uri = std::env::var("MEZZANINE_SHORT_URI").expect("another test sets this");
    register();
    let limit = libc::rlimit { rlim_cur: 60, rlim_max: 60 };
    // SAFETY: the structure is complete.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
    let mut spare: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    let mut refused = 0;
    let db = loop {
        let opened = Connection::open_with_flags(&uri, flags());
        let read = opened.and_then(|db| db.query_row("SELECT count(*) FROM t", [], |_| Ok(())).map(|()| db));
        match read {
            Ok(db) => break db,
            Err(error) => {
                assert_eq!(
                    error.sqlite_error_code(),
                    Some(ErrorCode::CannotOpen),
                    "{error} {:?}",
                    mezzanine_sqlite::last_error()
                );
                refused += 1;
            }
        }
        drop(spare.pop().expect("with no file open there are descriptors"));
    };
    assert!(refused > 3, "{refused} openings failed");
    // The first change of an opening needs some more, and fails as a whole.
    let mut changes_refused = 0;
    while let Err(error) = db.execute_batch("INSERT INTO t VALUES (1)") {
        let code = error.sqlite_error_code();
        assert!(matches!(code, Some(ErrorCode::CannotOpen | ErrorCode::SystemIoFailure)), "{error}");
        db.query_row("SELECT count(*) FROM t", [], |_| Ok(())).unwrap();
        changes_refused += 1;
        drop(spare.pop().expect("with no file open there are descriptors"));
    }
    assert!(changes_refused < 9, "{changes_refused} changes failed");
    check(&db);
    drop((db, spare));
}

#[test]
fn an_opening_without_descriptors_is_refused_and_changes_nothing() {
    for (mode, journal) in [("durable", "wal"), ("through", "delete"), ("durable", "delete")] {
        let folder = Folder::new();
        let uri = uri(&folder.file("app.db"), &folder.file("flash.mezz"), &format!("&sync_mode={mode}"));
        register();
        let open = || Connection::open_with_flags(&uri, flags()).unwrap();
        let db = open();
        support::journal_mode(&db, journal);
        db.execute_batch("CREATE TABLE t (a); INSERT INTO t VALUES (1)").unwrap();
        drop(db);
        for number in 2..4 {
            let output = Command::new(std::env::current_exe().unwrap())
                .args(["--ignored", "--exact", "short_of_descriptors", "--nocapture", "--test-threads=1"])
                .env("MEZZANINE_SHORT_URI", &uri)
                .output()
                .unwrap();
            assert!(output.status.success(), "{mode} {journal}: {}", String::from_utf8_lossy(&output.stderr));
            let db = open();
            check(&db);
            assert_eq!(count(&db, "SELECT count(*) FROM t"), number);
        }
    }
}
