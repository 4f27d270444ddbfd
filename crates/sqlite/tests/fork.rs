//! Programs that fork: what a child inherits is its parent's, and what it opens is its own.

#![allow(clippy::unwrap_used)]

mod support;

use std::fs;
use std::io::{BufRead as _, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

use rusqlite::{Connection, ErrorCode};
use support::{Folder, check, count, flags, journal_mode, register, uri};

/// What a forked child found, as it exits.
const AS_IT_SHOULD_BE: i32 = 40;

/// Forks. The child does `body` and no more; its answer is how the parent's call ends.
fn forked(body: impl FnOnce() -> bool) -> bool {
    // SAFETY: the other threads of this process wait for this test to end.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let good = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).unwrap_or(false);
        // SAFETY: ends the process, without what a test does at its end.
        unsafe { libc::_exit(if good { AS_IT_SHOULD_BE } else { 1 }) }
    }
    let mut status = 0;
    // SAFETY: the status is written to a number of ours.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == AS_IT_SHOULD_BE
}

fn refused_because(result: rusqlite::Result<Connection>, code: ErrorCode, words: &[&str]) -> bool {
    let read = result.and_then(|db| db.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0)));
    let said = mezzanine_sqlite::last_error().unwrap_or_default();
    let good = matches!(&read, Err(error) if error.sqlite_error_code() == Some(code))
        && words.iter().all(|word| said.contains(word));
    if !good {
        eprintln!("{read:?}: {said}");
    }
    good
}

/// Runs one of the stories below in a process that forks.
#[test]
#[ignore = "is run by other tests in a process of its own"]
fn story() {
    let uri = std::env::var("MEZZANINE_FORK_URI").expect("other tests set this");
    register();
    #[cfg(feature = "planted")]
    if std::env::var("MEZZANINE_FORK_PLANTED").is_ok() {
        mezzanine_engine::planted::set(Some(mezzanine_engine::planted::Bug::ForkUnnoticed));
    }
    let db = Connection::open_with_flags(&uri, flags()).unwrap();
    if std::env::var("MEZZANINE_FORK_STORY").unwrap() == "empty" {
        return on_an_empty_database(&db);
    }
    journal_mode(&db, &std::env::var("MEZZANINE_FORK_JOURNAL").unwrap());
    db.execute_batch("CREATE TABLE IF NOT EXISTS t (a); INSERT INTO t VALUES (1)").unwrap();
    match std::env::var("MEZZANINE_FORK_STORY").unwrap().as_str() {
        "inherited" => inherited(db, &uri),
        "open" => open_for_itself(db, &uri),
        other => outlives(db, other),
    }
}

/// A child uses, closes and reopens what its parent has open, in the middle of a transaction too.
fn inherited(db: Connection, uri: &str) {
    let parent = format!("process {}", std::process::id());
    for in_transaction in [false, true] {
        if in_transaction {
            db.execute_batch("BEGIN IMMEDIATE; INSERT INTO t VALUES (2)").unwrap();
        }
        assert!(forked(|| {
            let read = db.query_row("SELECT count(*) FROM sqlite_schema, t", [], |row| row.get::<_, i64>(0));
            let wrote = db.execute_batch("INSERT INTO t VALUES (100); COMMIT");
            // SAFETY: the copy of the parent is not used after this, and the parent has its own.
            let closed = unsafe { std::ptr::read(&raw const db) }.close();
            let answered = (in_transaction || read.is_err()) && wrote.is_err() && closed.is_ok();
            if !answered {
                eprintln!("{read:?} {wrote:?} {closed:?}");
            }
            answered
                && refused_because(
                    Connection::open_with_flags(uri, flags()),
                    ErrorCode::DatabaseBusy,
                    &[&parent],
                )
        }));
        if in_transaction {
            db.execute_batch("COMMIT").unwrap();
        }
    }
    db.execute_batch("INSERT INTO t VALUES (3)").unwrap();
    assert_eq!(count(&db, "SELECT sum(a) FROM t"), 6);
    // As after a kill: nothing that a child did shows.
    println!("\n@done");
    std::process::abort();
}

/// SQLite does not ask whether it may write a database in which there is nothing. A child that inherits one
/// in the middle of a transaction made a journal, was refused the pages, and took the journal away, which may
/// be its parent's by then.
fn on_an_empty_database(db: &Connection) {
    journal_mode(db, "delete");
    db.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert!(forked(|| {
        let database = db.path().unwrap().to_owned();
        let journal = Path::new(&format!("{database}-wal")).join("journal");
        // As its parent would have made it meanwhile, if it has not yet.
        let is_made = journal.exists();
        if !is_made {
            fs::write(&journal, "the parent's").unwrap();
        }
        let before = fs::read(&journal).unwrap();
        let wrote = db.execute_batch("CREATE TABLE u (a); COMMIT");
        let left = fs::read(&journal).is_ok_and(|left| left == before);
        if !is_made {
            let _ = fs::remove_file(&journal);
        }
        wrote.is_err() && left
    }));
    db.execute_batch("CREATE TABLE t (a); INSERT INTO t VALUES (1); COMMIT").unwrap();
    println!("\n@done");
}

/// Once its parent has closed the database, a child has it, and then its sibling.
fn open_for_itself(db: Connection, uri: &str) {
    db.close().unwrap();
    for number in 0..3 {
        assert!(forked(|| {
            let db = Connection::open_with_flags(uri, flags()).unwrap();
            let grandchild = forked(|| {
                refused_because(
                    Connection::open_with_flags(uri, flags()),
                    ErrorCode::DatabaseBusy,
                    &["process"],
                )
            });
            (0..50).for_each(|_| db.execute_batch("INSERT INTO t VALUES (7)").unwrap());
            grandchild
                && count(&db, "SELECT count(*) FROM t WHERE a = 7") == 50 * (number + 1)
                && db.close().is_ok()
        }));
    }
    println!("\n@done");
}

/// A child that does nothing lives on when its parent is killed. It ends with its standard input.
fn outlives(db: Connection, _story: &str) {
    let (mut begun, mut begins) = UnixStream::pair().unwrap();
    // SAFETY: as in `forked`.
    if unsafe { libc::fork() } == 0 {
        begins.write_all(b"!").unwrap();
        let _ = std::io::stdin().lock().lines().next();
        // SAFETY: ends the process.
        unsafe { libc::_exit(0) };
    }
    // What it inherits it lets go when it first runs, which may be late on a busy machine.
    begun.read_exact(&mut [0]).unwrap();
    db.execute_batch("INSERT INTO t VALUES (2)").unwrap();
    println!("\n@done");
    // SAFETY: ends this process, as somebody else does it.
    unsafe { libc::raise(libc::SIGKILL) };
}

/// A process that tells a story: whether it came to its end, and what is left of it. What it says after that
/// has to go somewhere as long as it lives.
struct Told {
    done: bool,
    child: std::process::Child,
    _said: std::io::BufReader<std::process::ChildStdout>,
}

fn tell(story: &str, uri: &str, journal: &str, planted: bool) -> Told {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--ignored", "--exact", "story", "--nocapture", "--test-threads=1"])
        .env("MEZZANINE_FORK_URI", uri)
        .env("MEZZANINE_FORK_STORY", story)
        .env("MEZZANINE_FORK_JOURNAL", journal)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    if planted {
        command.env("MEZZANINE_FORK_PLANTED", "yes");
    }
    let mut child = command.spawn().unwrap();
    let mut said = std::io::BufReader::new(child.stdout.take().unwrap());
    let done = said.by_ref().lines().any(|line| line.unwrap() == "@done");
    Told { done, child, _said: said }
}

fn database(folder: &Folder, mode: &str) -> (String, std::path::PathBuf) {
    let path = folder.file("app.db");
    (uri(&path, &folder.file("flash.mezz"), &format!("&sync_mode={mode}")), path)
}

fn rows(uri: &str, path: &Path) -> i64 {
    register();
    let db = Connection::open_with_flags(uri, flags())
        .unwrap_or_else(|error| panic!("{error}: {:?}", mezzanine_sqlite::last_error()));
    check(&db);
    assert!(fs::metadata(path).is_ok());
    count(&db, "SELECT sum(a) FROM t")
}

/// Was found by trial: a child that exited closed its copy of a connection, which marked the tier closed and
/// gave the lock of its parent back; children that opened it anew joined a copy of the registry, and of 450
/// commits none was left.
#[test]
fn what_a_child_inherits_answers_an_error_and_changes_nothing() {
    for (mode, journal) in
        [("durable", "wal"), ("durable", "delete"), ("through", "wal"), ("through", "persist")]
    {
        let folder = Folder::new();
        let (uri, path) = database(&folder, mode);
        let mut told = tell("inherited", &uri, journal, false);
        let _ = told.child.wait();
        assert!(told.done, "{mode} {journal}");
        assert_eq!(rows(&uri, &path), 6, "{mode} {journal}");
    }
}

#[test]
fn a_child_leaves_the_journal_of_its_parent_alone() {
    let folder = Folder::new();
    let (uri, path) = database(&folder, "durable");
    let mut told = tell("empty", &uri, "delete", false);
    assert!(told.done && told.child.wait().unwrap().success());
    assert_eq!(rows(&uri, &path), 1);
}

#[test]
fn a_child_opens_the_database_for_itself_when_its_parent_has_closed_it() {
    for (mode, journal) in [("durable", "wal"), ("durable", "delete"), ("through", "wal")] {
        let folder = Folder::new();
        let (uri, path) = database(&folder, mode);
        let mut told = tell("open", &uri, journal, false);
        assert!(told.done && told.child.wait().unwrap().success(), "{mode} {journal}");
        assert_eq!(rows(&uri, &path), 1 + 3 * 50 * 7);
    }
}

#[test]
fn a_child_that_outlives_its_parent_holds_nothing() {
    for mode in ["durable", "through"] {
        let folder = Folder::new();
        let (uri, path) = database(&folder, mode);
        let mut told = tell("outlives", &uri, "wal", false);
        assert!(told.done, "{mode}");
        // The parent is gone, and its child still waits for its standard input to end.
        let lives_on = told.child.stdin.take();
        let _ = told.child.wait();
        assert_eq!(rows(&uri, &path), 3, "{mode}");
        drop(lives_on);
    }
}

#[cfg(feature = "planted")]
#[test]
fn without_looking_for_a_fork_children_join_their_parents() {
    let folder = Folder::new();
    let (uri, _) = database(&folder, "durable");
    let mut told = tell("inherited", &uri, "wal", true);
    let _ = told.child.wait();
    assert!(!told.done);
}
