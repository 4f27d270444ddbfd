//! The driver for SQLite.
//!
//! SQLite has one writer at a time. Writing transactions begin with `BEGIN IMMEDIATE`: a deferred one that
//! has read before another session commits can never be upgraded (`SQLITE_BUSY_SNAPSHOT`) and all of its
//! reads would be for nothing. The writers of this process take turns in the order of their arrival instead
//! of polling SQLite's lock, whose busy handler sleeps for longer than a transaction lasts. Read-only
//! transactions begin deferred, so in WAL mode they run beside the writer.
//!
//! A turn lasts until COMMIT returns, and a commit that fills the write-ahead log checkpoints before it
//! returns. So nobody writes meanwhile, the checkpoint completes unless a reader holds it up, and the log
//! starts over: it cannot grow without bounds while a slow disk is left behind, which would flatter that
//! disk.
//!
//! SQLite drops a connection's whole page cache when another connection has committed since its last
//! transaction. With several sessions the cache therefore rarely survives from one transaction to the next.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, OpenFlags};

use crate::batch::RowBatch;
use crate::database::{Access, Columns, Database, Session, Value};
use crate::error::{Error, ErrorKind, Result};
use crate::schema::Table;
use crate::statement::Statement;

/// More than the statements of the transactions, the consistency conditions and the loader together.
const STATEMENT_CACHE: usize = 160;

/// SQLite's page cache while loading; inserts into the middle of an index must not fall out of it.
const LOAD_CACHE_KIB: u32 = 64 << 10;

/// The busy handler gives up after about five seconds; the transaction is then run again.
const BUSY_ATTEMPTS: i32 = 2_500;
const BUSY_SLEEP_MAX: Duration = Duration::from_millis(2);

/// `PRAGMA journal_mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalMode {
    /// Write-ahead log.
    Wal,
    /// Rollback journal, deleted at commit.
    Delete,
    /// Rollback journal, truncated at commit.
    Truncate,
    /// Rollback journal, its header overwritten at commit.
    Persist,
    /// Rollback journal in memory: a crash destroys the database. For databases in memory.
    Memory,
}

impl JournalMode {
    /// The name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            JournalMode::Wal => "wal",
            JournalMode::Delete => "delete",
            JournalMode::Truncate => "truncate",
            JournalMode::Persist => "persist",
            JournalMode::Memory => "memory",
        }
    }
}

/// `PRAGMA synchronous`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Synchronous {
    /// Never syncs.
    Off,
    /// In WAL mode a power cut may take the newest commits; the database stays consistent.
    Normal,
    /// A commit is durable.
    Full,
    /// As `Full`, and the directory is synced after the journal is deleted.
    Extra,
}

impl Synchronous {
    /// The name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            Synchronous::Off => "off",
            Synchronous::Normal => "normal",
            Synchronous::Full => "full",
            Synchronous::Extra => "extra",
        }
    }
}

/// How sessions are set up. What is `None` stays as SQLite or the database file has it.
#[derive(Clone, Debug)]
pub struct SqliteOptions {
    /// Bytes per page, a power of two from 512 to 65,536. Takes effect in a new database only.
    pub page_size: Option<u32>,
    /// SQLite's page cache in bytes, rounded down to KiB. Each session has its own.
    pub cache_bytes: Option<u64>,
    /// How commits are made atomic.
    pub journal_mode: JournalMode,
    /// How commits are made durable.
    pub synchronous: Synchronous,
    /// Pages in the write-ahead log from which a commit also checkpoints.
    pub wal_autocheckpoint: Option<u32>,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self {
            page_size: None,
            cache_bytes: None,
            journal_mode: JournalMode::Wal,
            synchronous: Synchronous::Full,
            wal_autocheckpoint: None,
        }
    }
}

type Connect = Box<dyn Fn() -> rusqlite::Result<Connection> + Send + Sync>;

/// A SQLite database: a way to connect to it and the options of its sessions.
pub struct SqliteDatabase {
    name: String,
    connect: Connect,
    options: SqliteOptions,
    writers: Turns,
    /// Keeps a database in memory alive while no session is open.
    anchor: Option<Mutex<Connection>>,
}

static NEXT_IN_MEMORY: AtomicU64 = AtomicU64::new(0);

impl SqliteDatabase {
    /// A database by its path or `file:` URI, over the VFS of this name or the default one. It is created
    /// when it does not exist.
    pub fn new(path: impl AsRef<Path>, vfs: Option<&str>, options: SqliteOptions) -> Self {
        let path = path.as_ref().to_path_buf();
        let name = path.display().to_string();
        let vfs = vfs.map(str::to_owned);
        let connect = Box::new(move || {
            let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
                | OpenFlags::SQLITE_OPEN_CREATE
                | OpenFlags::SQLITE_OPEN_URI
                | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            match &vfs {
                Some(vfs) => Connection::open_with_flags_and_vfs(&path, flags, vfs.as_str()),
                None => Connection::open_with_flags(&path, flags),
            }
        });
        Self::with_factory(name, connect, options)
    }

    /// A database that `connect` opens connections to. `name` is for messages.
    pub fn with_factory(
        name: impl Into<String>,
        connect: impl Fn() -> rusqlite::Result<Connection> + Send + Sync + 'static,
        options: SqliteOptions,
    ) -> Self {
        Self {
            name: name.into(),
            connect: Box::new(connect),
            options,
            writers: Turns::default(),
            anchor: None,
        }
    }

    /// A database in memory that lives as long as the value and that all of its sessions share.
    ///
    /// Such a database has its journal in memory and nothing to synchronise, whatever the options say.
    pub fn in_memory(options: SqliteOptions) -> Result<Self> {
        let number = NEXT_IN_MEMORY.fetch_add(1, Ordering::Relaxed);
        let options =
            SqliteOptions { journal_mode: JournalMode::Memory, synchronous: Synchronous::Off, ..options };
        let mut database = Self::new(format!("file:/mezzanine-workload-{number}?vfs=memdb"), None, options);
        database.anchor = Some(Mutex::new(database.connect()?));
        Ok(database)
    }

    /// A connection that waits for locks but has no options set.
    fn connect(&self) -> Result<Connection> {
        let failed = |error| sqlite_error(&format!("{}: cannot open", self.name), error);
        let connection = (self.connect)().map_err(failed)?;
        connection.busy_handler(Some(wait_when_busy)).map_err(failed)?;
        connection.set_prepared_statement_cache_capacity(STATEMENT_CACHE);
        Ok(connection)
    }

    fn set_up(&self, connection: &Connection) -> Result<()> {
        let options = &self.options;
        let mut pragmas = String::new();
        if let Some(bytes) = options.page_size {
            if !bytes.is_power_of_two() || !(512..=65_536).contains(&bytes) {
                return Err(Error::new(
                    ErrorKind::Configuration,
                    format!("page_size is {bytes}; give a power of two from 512 to 65536"),
                ));
            }
            pragmas += &format!("PRAGMA page_size = {bytes};");
        }
        if let Some(bytes) = options.cache_bytes {
            pragmas += &format!("PRAGMA cache_size = -{};", (bytes >> 10).max(1));
        }
        if let Some(pages) = options.wal_autocheckpoint {
            pragmas += &format!("PRAGMA wal_autocheckpoint = {pages};");
        }
        pragmas += &format!("PRAGMA synchronous = {};", options.synchronous.name());
        connection
            .execute_batch(&pragmas)
            .map_err(|error| sqlite_error(&format!("{}: {pragmas}", self.name), error))?;
        let mode = self.set_journal_mode(connection, options.journal_mode)?;
        if mode != options.journal_mode.name() {
            return Err(Error::new(
                ErrorKind::Configuration,
                format!(
                    "{}: the journal mode stays {mode} instead of {}; choose a mode that its VFS supports",
                    self.name,
                    options.journal_mode.name()
                ),
            ));
        }
        Ok(())
    }

    fn set_journal_mode(&self, connection: &Connection, mode: JournalMode) -> Result<String> {
        connection
            .query_row(&format!("PRAGMA journal_mode = {}", mode.name()), [], |row| row.get(0))
            .map_err(|error| sqlite_error(&format!("{}: cannot set the journal mode", self.name), error))
    }
}

impl Database for SqliteDatabase {
    fn open_session(&self) -> Result<Box<dyn Session + '_>> {
        let connection = self.connect()?;
        self.set_up(&connection)?;
        Ok(Box::new(SqliteSession { connection, database: self, has_turn: false }))
    }

    fn describe(&self) -> String {
        format!("SQLite database {}", self.name)
    }

    fn clustered_table_suffix(&self) -> &'static str {
        "WITHOUT ROWID"
    }

    fn size_bytes(&self) -> Result<u64> {
        let connection = self.connect()?;
        let bytes: i64 = connection
            .query_row("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size", [], |row| {
                row.get(0)
            })
            .map_err(|error| sqlite_error(&format!("{}: cannot ask for the size", self.name), error))?;
        Ok(bytes as u64)
    }
}

struct SqliteSession<'d> {
    connection: Connection,
    database: &'d SqliteDatabase,
    has_turn: bool,
}

impl SqliteSession<'_> {
    fn error(&self, error: rusqlite::Error) -> Error {
        sqlite_error(&self.database.name, error)
    }

    fn run(&self, sql: &str) -> Result<()> {
        self.connection.execute_batch(sql).map_err(|error| self.error(error))
    }

    /// BEGIN, COMMIT and ROLLBACK, prepared like everything else.
    fn run_prepared(&self, sql: &str) -> Result<()> {
        let mut prepared = self.connection.prepare_cached(sql).map_err(|error| self.error(error))?;
        prepared.raw_execute().map(drop).map_err(|error| self.error(error))
    }

    fn end_turn(&mut self) {
        if std::mem::take(&mut self.has_turn) {
            self.database.writers.end();
        }
    }
}

impl Drop for SqliteSession<'_> {
    fn drop(&mut self) {
        self.end_turn();
    }
}

impl Session for SqliteSession<'_> {
    fn begin(&mut self, access: Access) -> Result<()> {
        match access {
            Access::ReadOnly => self.run_prepared("BEGIN DEFERRED"),
            Access::ReadWrite => {
                self.database.writers.wait();
                self.has_turn = true;
                let begun = self.run_prepared("BEGIN IMMEDIATE");
                if begun.is_err() {
                    self.end_turn();
                }
                begun
            }
        }
    }

    fn commit(&mut self) -> Result<()> {
        let committed = self.run_prepared("COMMIT");
        if committed.is_ok() {
            self.end_turn();
        }
        committed
    }

    fn rollback(&mut self) -> Result<()> {
        // SQLite rolls back on its own after some errors, and then a ROLLBACK would be one more.
        let rolled_back =
            if self.connection.is_autocommit() { Ok(()) } else { self.run_prepared("ROLLBACK") };
        self.end_turn();
        rolled_back
    }

    fn execute(&mut self, statement: Statement, parameters: &[Value<'_>]) -> Result<u64> {
        let mut prepared =
            self.connection.prepare_cached(statement.sql).map_err(|error| self.error(error))?;
        bind(&mut prepared, parameters.iter().copied()).map_err(|error| self.error(error))?;
        prepared.raw_execute().map(|rows| rows as u64).map_err(|error| self.error(error))
    }

    fn query(
        &mut self,
        statement: Statement,
        parameters: &[Value<'_>],
        each: &mut dyn FnMut(&dyn Columns) -> Result<()>,
    ) -> Result<u64> {
        let mut prepared =
            self.connection.prepare_cached(statement.sql).map_err(|error| self.error(error))?;
        bind(&mut prepared, parameters.iter().copied()).map_err(|error| self.error(error))?;
        let mut rows = prepared.raw_query();
        let mut count = 0;
        while let Some(row) = rows.next().map_err(|error| self.error(error))? {
            each(&SqliteRow(row))?;
            count += 1;
        }
        Ok(count)
    }

    fn define(&mut self, sql: &str) -> Result<()> {
        self.run(sql)
    }

    fn insert_batch(&mut self, table: Table, batch: &RowBatch) -> Result<()> {
        let marks = vec!["?"; batch.columns()].join(", ");
        let sql = format!("INSERT INTO {} VALUES ({marks})", table.name());
        let mut prepared = self.connection.prepare_cached(&sql).map_err(|error| self.error(error))?;
        let mut cells = batch.cells();
        for _ in 0..batch.rows() {
            bind(&mut prepared, cells.by_ref().take(batch.columns())).map_err(|error| self.error(error))?;
            prepared.raw_execute().map_err(|error| self.error(error))?;
        }
        Ok(())
    }

    /// New pages need no journal and nothing is worth keeping of a load that was interrupted.
    fn begin_load(&mut self) -> Result<()> {
        self.database.set_journal_mode(&self.connection, JournalMode::Memory)?;
        self.run(&format!("PRAGMA synchronous = off; PRAGMA cache_size = -{LOAD_CACHE_KIB};"))
    }

    /// A commit in rollback mode with `synchronous = full` syncs the database file, and with it all that was
    /// written before.
    fn end_load(&mut self) -> Result<()> {
        self.database.set_journal_mode(&self.connection, JournalMode::Delete)?;
        self.run("PRAGMA synchronous = full; BEGIN IMMEDIATE; PRAGMA user_version = 1; COMMIT;")?;
        if self.database.options.cache_bytes.is_none() {
            self.run("PRAGMA cache_size = -2000")?;
        }
        self.database.set_up(&self.connection)
    }
}

fn bind<'v>(
    prepared: &mut rusqlite::Statement<'_>,
    parameters: impl Iterator<Item = Value<'v>>,
) -> rusqlite::Result<()> {
    for (index, parameter) in parameters.enumerate() {
        prepared.raw_bind_parameter(index + 1, Parameter(parameter))?;
    }
    Ok(())
}

struct Parameter<'v>(Value<'v>);

impl rusqlite::ToSql for Parameter<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self.0 {
            Value::Null => ValueRef::Null,
            Value::Int(number) => ValueRef::Integer(number),
            Value::Text(text) => ValueRef::Text(text.as_bytes()),
        }))
    }
}

struct SqliteRow<'r, 's>(&'r rusqlite::Row<'s>);

impl Columns for SqliteRow<'_, '_> {
    fn count(&self) -> usize {
        self.0.as_ref().column_count()
    }

    fn value(&self, column: usize) -> Result<Value<'_>> {
        let corrupt =
            |what: &str| Error::new(ErrorKind::Corrupt, format!("column {column} of a SQLite row {what}"));
        match self.0.get_ref(column).map_err(|error| sqlite_error("reading a row", error))? {
            ValueRef::Null => Ok(Value::Null),
            ValueRef::Integer(number) => Ok(Value::Int(number)),
            ValueRef::Text(bytes) => {
                std::str::from_utf8(bytes).map(Value::Text).map_err(|_| corrupt("is not UTF-8"))
            }
            ValueRef::Real(_) => Err(corrupt("holds a floating-point number")),
            ValueRef::Blob(_) => Err(corrupt("holds a blob")),
        }
    }
}

fn sqlite_error(context: &str, error: rusqlite::Error) -> Error {
    use rusqlite::ffi::ErrorCode;
    let kind = match error.sqlite_error_code() {
        // Busy covers BUSY_SNAPSHOT and BUSY_RECOVERY, locked is the shared cache's table lock.
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => ErrorKind::Conflict,
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => ErrorKind::Corrupt,
        _ => ErrorKind::Database,
    };
    Error::with_source(kind, context, error)
}

/// Sleeps a little longer each time: the lock is held for the rest of a transaction, mostly well under a
/// millisecond.
fn wait_when_busy(attempt: i32) -> bool {
    if attempt >= BUSY_ATTEMPTS {
        return false;
    }
    if attempt < 4 {
        std::thread::yield_now();
    } else {
        let doubled = Duration::from_micros(20) * 2_u32.pow(attempt.clamp(4, 12) as u32 - 4);
        std::thread::sleep(doubled.min(BUSY_SLEEP_MAX));
    }
    true
}

/// Lets one through at a time, in the order of arrival.
#[derive(Default)]
struct Turns {
    state: Mutex<TurnState>,
    ended: Condvar,
}

#[derive(Default)]
struct TurnState {
    next_ticket: u64,
    serving: u64,
}

impl Turns {
    fn wait(&self) {
        let mut state = self.lock();
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        while state.serving != ticket {
            state = self.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn end(&self) {
        let mut state = self.lock();
        state.serving += 1;
        assert!(state.serving <= state.next_ticket, "a turn ends that never began");
        drop(state);
        self.ended.notify_all();
    }

    /// Nothing between lock and unlock panics halfway through a change.
    fn lock(&self) -> MutexGuard<'_, TurnState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
