//! A folder is moved under an open database, and another process makes a database of the same name in its
//! place: the first one leaves alone what that has.

#![allow(clippy::unwrap_used)]

mod support;

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use mezzanine_engine::planted::{self, Bug};
use rusqlite::{Connection, ErrorCode};
use support::{Folder, check, count, flags, journal_mode, register, uri};

/// What another process answers begins so.
const ANSWER: &str = "answer ";

/// Opens a database in its folder, and carries out what is said on standard input.
#[test]
#[ignore = "is run by other tests in a process of its own"]
fn second_process() {
    let folder = std::env::var("MEZZANINE_SECOND").expect("other tests set this");
    let db = open_in(Path::new(&folder)).unwrap();
    println!("\n{ANSWER}open");
    for line in std::io::stdin().lines().map_while(Result::ok) {
        match db.execute_batch(&line) {
            Ok(()) => println!("\n{ANSWER}done"),
            Err(error) => println!("\n{ANSWER}{error}"),
        }
    }
}

struct Second {
    process: Child,
    says: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Second {
    fn begin(folder: &Path, statements: &[&str]) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "second_process", "--nocapture", "--test-threads=1"])
            .env("MEZZANINE_SECOND", folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (says, answers) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        let mut second = Self { process, says, answers: BufReader::new(answers) };
        assert_eq!(second.answer(), "open");
        for statement in statements {
            assert_eq!(second.does(statement), "done", "{statement}");
        }
        second
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert!(self.answers.read_line(&mut line).unwrap() > 0, "the process has ended");
            if let Some(answer) = line.strip_prefix(ANSWER) {
                return answer.trim_end().to_owned();
            }
        }
    }

    fn does(&mut self, statement: &str) -> String {
        writeln!(self.says, "{statement}").unwrap();
        self.answer()
    }

    fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

fn open_in(folder: &Path) -> rusqlite::Result<Connection> {
    register();
    Connection::open_with_flags(uri(&folder.join("app.db"), &folder.join("flash.mezz"), ""), flags())
        .inspect_err(|_| eprintln!("{}", mezzanine_sqlite::last_error().unwrap_or_default()))
}

/// A folder with a database of one row, which is open.
fn first(folder: &Folder, mode: &str) -> (PathBuf, Connection) {
    let app = folder.file("app");
    fs::create_dir(&app).unwrap();
    let db = open_in(&app).unwrap();
    journal_mode(&db, mode);
    db.execute_batch("CREATE TABLE t (a); INSERT INTO t VALUES (1)").unwrap();
    (app, db)
}

/// Its folder gets another name, and one of the same name is made.
fn replace_folder(app: &Path) -> PathBuf {
    let moved = app.with_extension("old");
    fs::rename(app, &moved).unwrap();
    fs::create_dir(app).unwrap();
    moved
}

/// What the database in the folder has when another process that used it has died, or why it has nothing.
fn rows_in(folder: &Path) -> Result<Vec<i64>, String> {
    let db = open_in(folder).map_err(|error| error.to_string())?;
    check(&db);
    let mut rows = db.prepare("SELECT a FROM t ORDER BY a").unwrap();
    let rows = rows.query_map([], |row| row.get(0)).unwrap();
    rows.collect::<Result<_, _>>().map_err(|error| error.to_string())
}

/// Was found by reading: the second one's logs were removed, and what it had committed was lost, or it could
/// commit nothing more.
#[test]
fn who_closes_a_database_that_was_moved_leaves_the_logs_of_the_next_one() {
    for mode in ["wal", "delete", "persist"] {
        planted::only_with(&[Bug::LogsLeftByPath], || {
            let folder = Folder::in_memory();
            let (app, db) = first(&folder, mode);
            let moved = replace_folder(&app);
            let begun =
                format!("PRAGMA journal_mode = {mode}; CREATE TABLE t (a); INSERT INTO t VALUES (10)");
            // Its log holds nothing.
            let mut second = Second::begin(&app, &[&begun, "PRAGMA wal_checkpoint(TRUNCATE)"]);
            let directory = app.join("app.db-wal");
            let names = || {
                let mut found: Vec<_> = fs::read_dir(&directory).map_or_else(
                    |_| Vec::new(),
                    |entries| entries.map(|entry| entry.unwrap().file_name()).collect(),
                );
                found.sort();
                found
            };
            let before = names();
            assert!(before.len() >= 2, "{before:?}");
            db.close().unwrap();
            let kept = names() == before;
            // Of one that was moved SQLite leaves the write-ahead log.
            let gone = mode == "wal" || !moved.join("app.db-wal").exists();
            let done = second.does("INSERT INTO t VALUES (11)") == "done";
            second.kill();
            let rows = rows_in(&app);
            let good = kept && gone && done && rows == Ok(vec![10, 11]);
            if !good {
                eprintln!("{mode}: {kept} {gone} {done} {rows:?}");
            }
            good && rows_in(&moved) == Ok(vec![1])
        });
    }
}

/// A database alone is moved, and another one takes over the directory that its logs are in.
#[test]
fn who_closes_a_database_that_was_removed_leaves_the_directory_to_the_next_one() {
    for mode in ["wal", "delete"] {
        planted::only_with(&[Bug::LogsLeftByPath], || {
            let folder = Folder::in_memory();
            let app = folder.file("app");
            fs::create_dir(&app).unwrap();
            // In the folder of another flash file, and not used yet.
            register();
            let db = Connection::open_with_flags(
                uri(&app.join("app.db"), &folder.file("first.mezz"), ""),
                flags(),
            )
            .unwrap();
            assert_eq!(count(&db, "SELECT count(*) FROM sqlite_schema"), 0);
            fs::remove_file(app.join("app.db")).unwrap();
            let begun =
                format!("PRAGMA journal_mode = {mode}; CREATE TABLE t (a); INSERT INTO t VALUES (10)");
            let mut second = Second::begin(&app, &[&begun, "PRAGMA wal_checkpoint(TRUNCATE)"]);
            db.close().unwrap();
            let done = second.does("INSERT INTO t VALUES (11)") == "done";
            second.kill();
            done && rows_in(&app) == Ok(vec![10, 11])
        });
    }
}

/// Was found by reading: the second one's log was of another moment than its database, until somebody removed
/// a file by hand.
#[test]
fn a_write_after_a_move_leaves_the_log_of_the_next_one_what_it_is() {
    planted::only_with(&[Bug::LogsOwnedByPath], || {
        let folder = Folder::in_memory();
        let (app, db) = first(&folder, "wal");
        db.close().unwrap();
        let db = open_in(&app).unwrap();
        assert_eq!(count(&db, "SELECT count(*) FROM t"), 1);
        let moved = replace_folder(&app);
        let begun = "PRAGMA journal_mode = wal; CREATE TABLE t (a); INSERT INTO t VALUES (10)";
        let mut second = Second::begin(&app, &[begun]);
        let opening = || fs::read_link(app.join("app.db-wal/opening")).unwrap();
        let before = opening();
        let written = db.execute("INSERT INTO t VALUES (2)", []);
        let code = written.err().and_then(|error| error.sqlite_error_code());
        let told = code == Some(ErrorCode::ReadOnly)
            && mezzanine_sqlite::last_error().is_some_and(|said| said.contains("its path leads to another"));
        let same = opening() == before;
        assert_eq!(second.does("INSERT INTO t VALUES (11)"), "done");
        second.kill();
        // It is still read, and nothing of it was changed.
        let read = db.query_row("SELECT sum(a) FROM t", [], |row| row.get(0)) == Ok(1);
        drop(db);
        let rows = rows_in(&app);
        let good = told && same && rows == Ok(vec![10, 11]) && read;
        if !good {
            eprintln!("{told} {same} {rows:?} {read}");
        }
        good && rows_in(&moved) == Ok(vec![1])
    });
}

/// As with SQLite alone, in every mode of its journal but that of a log, which it does not ask for.
#[test]
fn a_first_write_after_a_move_is_refused_and_the_next_one_after_that_is_back_is_not() {
    for mode in ["wal", "delete", "truncate"] {
        let folder = Folder::in_memory();
        let (app, db) = first(&folder, mode);
        db.close().unwrap();
        let db = open_in(&app).unwrap();
        assert_eq!(count(&db, "SELECT count(*) FROM t"), 1);
        let moved = app.with_extension("old");
        fs::rename(&app, &moved).unwrap();
        let error = db.execute("INSERT INTO t VALUES (2)", []).unwrap_err();
        assert_eq!(error.sqlite_error_code(), Some(ErrorCode::ReadOnly), "{mode}: {error}");
        fs::rename(&moved, &app).unwrap();
        db.execute("INSERT INTO t VALUES (3)", []).unwrap();
        assert_eq!(count(&db, "SELECT sum(a) FROM t"), 4);
        db.close().unwrap();
        assert_eq!(rows_in(&app), Ok(vec![1, 3]), "{mode}");
    }
}

/// As SQLite alone does it, the next one's journal was played into the database that was moved, and removed.
#[test]
fn who_reads_a_database_that_was_moved_leaves_the_journal_of_the_next_one() {
    planted::only_with(&[Bug::LogsFoundByPath], || {
        let folder = Folder::in_memory();
        let (app, db) = first(&folder, "delete");
        let moved = replace_folder(&app);
        let begun = "CREATE TABLE t (a, b); INSERT INTO t VALUES (10, 0); PRAGMA cache_size = 5; BEGIN";
        let many = "WITH RECURSIVE n(i) AS (SELECT 11 UNION ALL SELECT i + 1 FROM n WHERE i < 500)
            INSERT INTO t SELECT i, randomblob(900) FROM n";
        let second = Second::begin(&app, &[begun, &many.replace('\n', " ")]);
        let journal = app.join("app.db-wal/journal");
        let hot = || fs::read(&journal).is_ok_and(|bytes| bytes.first().is_some_and(|first| *first != 0));
        assert!(hot());
        let read = db.query_row("SELECT sum(a) FROM t", [], |row| row.get(0)) == Ok(1);
        let stays = hot();
        second.kill();
        drop(db);
        let rows = rows_in(&app);
        let good = read && stays && rows == Ok(vec![10]);
        if !good {
            eprintln!("{read} {stays} {rows:?}");
        }
        good && rows_in(&moved) == Ok(vec![1])
    });
}

/// One whose log is not open yet: it does not take that of the next one for its own.
#[test]
fn who_reads_a_database_for_the_first_time_that_was_moved_does_not_read_the_log_of_the_next_one() {
    planted::only_with(&[Bug::LogsFoundByPath], || {
        let folder = Folder::in_memory();
        let (app, db) = first(&folder, "wal");
        db.close().unwrap();
        let db = open_in(&app).unwrap();
        let moved = replace_folder(&app);
        let begun = "PRAGMA journal_mode = wal; CREATE TABLE t (a); INSERT INTO t VALUES (10)";
        let second = Second::begin(&app, &[begun]);
        // A refusal is as good.
        let read: rusqlite::Result<i64> = db.query_row("SELECT sum(a) FROM t", [], |row| row.get(0));
        let right = read.map_or(true, |sum| sum == 1);
        drop(db);
        second.kill();
        right && rows_in(&app) == Ok(vec![10]) && rows_in(&moved) == Ok(vec![1])
    });
}
