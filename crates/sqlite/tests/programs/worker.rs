//! A process that has connections, and does what its standard input says, one line a step.

use std::io::{BufRead as _, Write as _};
use std::time::Duration;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Error};

use crate::support::{flags, register};

/// Connections of a worker.
pub(crate) const SLOTS: usize = 2;

/// What a worker says of a step: one line behind `@`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    /// SQLite's primary result code; 0 if it was done.
    pub(crate) code: i32,
    /// Whether the connection is outside of a transaction then.
    pub(crate) autocommit: bool,
    /// Rows, or why not.
    pub(crate) text: String,
}

impl Answer {
    fn done(text: String, autocommit: bool) -> Self {
        Self { code: 0, autocommit, text }
    }

    fn failed(error: &Error, autocommit: bool) -> Self {
        let code = error.sqlite_error().map_or(-1, |error| error.extended_code & 0xFF);
        let ours = mezzanine_sqlite::last_error().unwrap_or_default();
        Self { code, autocommit, text: format!("{error} / {ours}").replace(['\n', '\t'], " ") }
    }

    pub(crate) fn parse(line: &str) -> Option<Self> {
        let mut parts = line.strip_prefix('@')?.splitn(3, '\t');
        let code = parts.next()?.parse().ok()?;
        Some(Self { code, autocommit: parts.next()? == "true", text: parts.next()?.to_owned() })
    }

    fn say(&self) {
        let mut out = std::io::stdout().lock();
        let _ = out.write_all(format!("\n@{}\t{}\t{}\n", self.code, self.autocommit, self.text).as_bytes());
        let _ = out.flush();
    }
}

pub(crate) fn open(uri: &str) -> rusqlite::Result<Connection> {
    let db = Connection::open_with_flags(uri, flags())?;
    db.busy_timeout(Duration::ZERO)?;
    // Fewer pages than a change has: they leave the cache before it is committed.
    db.pragma_update(None, "cache_size", 8)?;
    Ok(db)
}

/// Carries out one statement. Its rows, in one line.
pub(crate) fn run(db: &Connection, sql: &str) -> rusqlite::Result<String> {
    let mut statement = db.prepare(sql)?;
    let columns = statement.column_count();
    let mut rows = statement.query([])?;
    let mut text = String::new();
    while let Some(row) = rows.next()? {
        for column in 0..columns {
            match row.get_ref(column)? {
                ValueRef::Null => text.push('-'),
                ValueRef::Integer(number) => text.push_str(&number.to_string()),
                ValueRef::Real(number) => text.push_str(&number.to_string()),
                ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
                    text.push_str(&String::from_utf8_lossy(bytes));
                }
            }
            text.push('|');
        }
    }
    Ok(text.replace(['\n', '\t'], " "))
}

fn answer(result: rusqlite::Result<String>, db: Option<&Connection>) -> Answer {
    let autocommit = db.is_none_or(Connection::is_autocommit);
    match result {
        Ok(text) => Answer::done(text, autocommit),
        Err(error) => Answer::failed(&error, autocommit),
    }
}

fn opened(uri: &str, slot: &mut Option<Connection>) -> Answer {
    match open(uri) {
        Ok(db) => {
            let db = slot.insert(db);
            Answer::done(String::new(), db.is_autocommit())
        }
        Err(error) => Answer::failed(&error, true),
    }
}

fn closed(slot: &mut Option<Connection>) -> Answer {
    match slot.take().map_or(Ok(()), Connection::close) {
        Ok(()) => Answer::done(String::new(), true),
        Err((db, error)) => {
            let failed = Answer::failed(&error, db.is_autocommit());
            *slot = Some(db);
            failed
        }
    }
}

/// A child that has what it inherits, opens a database for itself, and says what came of that.
fn forked(uri: &str, sql: &str, inherited: Option<&Connection>) -> Option<Answer> {
    // SAFETY: this process has no other threads that do anything.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // What SQLite has in its own memory in a transaction it answers without asking.
        let idle = inherited.filter(|db| db.is_autocommit());
        let used = idle.map(|db| run(db, "INSERT INTO t (b) VALUES ('a child')"));
        match used {
            Some(Ok(text)) => Answer { code: -2, autocommit: true, text: format!("inherited: {text}") }.say(),
            _ => answer(open(uri).and_then(|db| run(&db, sql)), None).say(),
        }
        // SAFETY: ends the process, without what a test does at its end.
        unsafe { libc::_exit(0) };
    }
    if child < 0 {
        return Some(Answer { code: -6, autocommit: true, text: "it cannot fork".to_owned() });
    }
    let mut status = 0;
    // SAFETY: the status is written to a number of ours.
    while unsafe { libc::waitpid(child, &raw mut status, 0) } != child {}
    let died = !(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0);
    died.then(|| Answer { code: -3, autocommit: true, text: format!("a child ended with {status}") })
}

/// What a step brought; `None` if somebody else has said it.
fn step(parts: &[&str], slots: &mut [Option<Connection>; SLOTS]) -> Option<Answer> {
    let slot = parts.get(1).and_then(|slot| slot.parse::<usize>().ok()).unwrap_or(0);
    match parts {
        ["open", _, uri] => Some(opened(uri, &mut slots[slot])),
        ["close", _] => Some(closed(&mut slots[slot])),
        ["sql", _, sql] => match &slots[slot] {
            Some(db) => Some(answer(run(db, sql), Some(db))),
            None => Some(Answer { code: -4, autocommit: true, text: "not open".to_owned() }),
        },
        ["fork", _, uses, uri, sql] => {
            forked(uri, sql, slots[slot].as_ref().filter(|_| *uses == "inherited"))
        }
        _ => Some(Answer { code: -5, autocommit: true, text: format!("no step: {parts:?}") }),
    }
}

/// Until standard input ends.
pub(crate) fn serve() {
    register();
    let mut slots = [None, None];
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        let parts: Vec<&str> = line.split('\t').collect();
        if let Some(answer) = step(&parts, &mut slots) {
            answer.say();
        }
    }
}
