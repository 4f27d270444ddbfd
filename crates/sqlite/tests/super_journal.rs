//! A transaction over a database on a tier and one without: a crash in its commit leaves both whole.

#![allow(clippy::unwrap_used, unsafe_code)]

mod support;

use std::ffi::{CStr, c_char, c_int};
use std::path::Path;
use std::process::Command;

use rusqlite::{Connection, ffi};
use support::{Folder, check, count, flags, register, uri};

/// Where the commit stops.
const AT_SUPER_JOURNAL: &str = "-mj";
const AT_JOURNALS: &str = "-journal";

/// SQLite's `unlink`, which never comes to the file that the commit is to stop at.
unsafe extern "C" fn stops(name: *const c_char) -> c_int {
    // SAFETY: SQLite gives names that end with a zero.
    let text = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    let at = std::env::var("MEZZANINE_STOP_AT").unwrap_or_default();
    let is_there = match at.as_str() {
        AT_SUPER_JOURNAL => text.contains(AT_SUPER_JOURNAL),
        _ => text.ends_with(AT_JOURNALS) || text.ends_with("/journal"),
    };
    if is_there {
        // SAFETY: ends this process, as somebody else does it.
        unsafe { libc::raise(libc::SIGKILL) };
    }
    // SAFETY: as above.
    unsafe { libc::unlink(name) }
}

#[test]
#[ignore = "is run by other tests in a process of its own"]
fn commits_and_dies() {
    let (main, other) = (std::env::var("MEZZANINE_MAIN").unwrap(), std::env::var("MEZZANINE_OTHER").unwrap());
    register();
    #[cfg(feature = "planted")]
    if std::env::var("MEZZANINE_PLANT").is_ok() {
        mezzanine_engine::planted::set(Some(mezzanine_engine::planted::Bug::SuperJournalBelieved));
    }
    let db = Connection::open_with_flags(main, flags()).unwrap();
    db.execute("ATTACH ?1 AS other", [other]).unwrap();
    // SAFETY: SQLite's own VFS is there.
    let unix = unsafe { ffi::sqlite3_vfs_find(c"unix".as_ptr()) };
    // SAFETY: it is never freed.
    let set = unsafe { (*unix).xSetSystemCall }.unwrap();
    // SAFETY: SQLite calls it as `unlink`.
    let hook = unsafe {
        std::mem::transmute::<unsafe extern "C" fn(*const c_char) -> c_int, unsafe extern "C" fn()>(stops)
    };
    // SAFETY: the hook lives as long as the process.
    assert_eq!(unsafe { set(unix, c"unlink".as_ptr(), Some(hook)) }, 0);
    // Pages that are split and moved, so that half of the change is no database.
    db.execute_batch(
        "BEGIN; DELETE FROM main.t WHERE a % 3 = 0; DELETE FROM other.t WHERE a % 3 = 0;
         UPDATE main.t SET b = randomblob(900), c = 1; UPDATE other.t SET b = randomblob(900), c = 1; COMMIT",
    )
    .unwrap();
}

fn fill(uri: &str) {
    let db = Connection::open_with_flags(uri, flags()).unwrap();
    db.execute_batch(
        "CREATE TABLE t (a INTEGER PRIMARY KEY, b, c DEFAULT 0); CREATE INDEX i ON t (b);
         WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 300)
         INSERT INTO t (b) SELECT randomblob(600) FROM n",
    )
    .unwrap();
}

/// What is left of the change: all of it or nothing.
fn changed(uri: &str) -> bool {
    let db = Connection::open_with_flags(uri, flags())
        .unwrap_or_else(|error| panic!("{error}: {:?}", mezzanine_sqlite::last_error()));
    check(&db);
    let (rows, new) =
        (count(&db, "SELECT count(*) FROM t"), count(&db, "SELECT count(*) FROM t WHERE c = 1"));
    assert!((rows, new) == (300, 0) || (rows, new) == (200, 200), "{rows} rows, {new} of them new");
    new > 0
}

fn stock_uri(path: &Path) -> String {
    format!("file:{}?vfs=unix", path.display())
}

/// A crash in a commit over two databases; what is left of each after somebody has opened the one named
/// first.
fn crash(
    folder: &Folder,
    main_on_tier: bool,
    stop_at: &str,
    planted: bool,
    tier_first: bool,
) -> (bool, bool) {
    register();
    let on_tier = uri(&folder.file("tier.db"), &folder.file("flash.mezz"), "");
    let plain = stock_uri(&folder.file("plain.db"));
    fill(&on_tier);
    fill(&plain);
    let (main, other) = if main_on_tier { (&on_tier, &plain) } else { (&plain, &on_tier) };
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--ignored", "--exact", "commits_and_dies", "--test-threads=1"])
        .env("MEZZANINE_MAIN", main)
        .env("MEZZANINE_OTHER", other)
        .env("MEZZANINE_STOP_AT", stop_at);
    if planted {
        command.env("MEZZANINE_PLANT", "yes");
    }
    assert!(!command.output().unwrap().status.success(), "the commit came to its end");
    match tier_first {
        true => (changed(&on_tier), changed(&plain)),
        false => {
            let plain = changed(&plain);
            (changed(&on_tier), plain)
        }
    }
}

/// Was found by trial: an SQLite without the tier recovered its database, did not find the journal of the
/// other where it keeps journals, and removed the super-journal. The journal of the tier's database then
/// counted as committed, with half of its pages written: 10 of 20 were malformed.
#[test]
fn a_crash_before_the_commit_takes_both_back() {
    for (main_on_tier, tier_first) in [(false, false), (false, true), (true, false), (true, true)] {
        let folder = Folder::new();
        let left = crash(&folder, main_on_tier, AT_SUPER_JOURNAL, false, tier_first);
        assert_eq!(left, (false, false), "main on the tier: {main_on_tier}, tier first: {tier_first}");
    }
}

/// The commit is done where the super-journal goes, for databases without a tier. The other may be as before:
/// that is what is promised, and that each is whole.
#[test]
fn a_crash_behind_the_commit_leaves_each_whole() {
    for main_on_tier in [false, true] {
        let folder = Folder::new();
        let (_, plain) = crash(&folder, main_on_tier, AT_JOURNALS, false, false);
        assert!(plain, "the super-journal was gone, and that is the commit");
    }
}

/// Both on a tier: atomic, as ever.
#[test]
fn two_databases_on_a_tier_change_together() {
    for (stop_at, done) in [(AT_SUPER_JOURNAL, false), (AT_JOURNALS, true)] {
        let folder = Folder::new();
        register();
        let on_tier = |name: &str| uri(&folder.file(name), &folder.file("flash.mezz"), "");
        let (one, other) = (on_tier("one.db"), on_tier("other.db"));
        fill(&one);
        fill(&other);
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "commits_and_dies", "--test-threads=1"])
            .env("MEZZANINE_MAIN", &one)
            .env("MEZZANINE_OTHER", &other)
            .env("MEZZANINE_STOP_AT", stop_at)
            .output()
            .unwrap();
        assert!(!output.status.success());
        assert_eq!((changed(&one), changed(&other)), (done, done), "{stop_at}");
    }
}

#[cfg(feature = "planted")]
#[test]
fn a_journal_that_trusts_a_super_journal_of_others_counts_alone() {
    let folder = Folder::new();
    assert_eq!(crash(&folder, false, AT_SUPER_JOURNAL, true, false), (true, false));
}
