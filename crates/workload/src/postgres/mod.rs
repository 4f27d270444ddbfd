//! The driver for PostgreSQL.
//!
//! Sessions are connections of their own; statements are prepared once in each. Transactions that write run
//! at the isolation level of [`PostgresOptions`]. READ COMMITTED is enough for TPC-C as it is written here:
//! wherever two transactions meet in a row, the row is updated before it is read (see the module
//! `statement`), and an order that another Delivery has taken is noticed by its delete. Under the higher
//! levels the loser of such a meeting fails with a serialisation failure and is run again, which the workload
//! does for every [`ErrorKind::Conflict`]. Transactions that only read have one snapshot (REPEATABLE READ) at
//! any setting.

mod cell;

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::time::Duration;

use postgres::error::SqlState;
use postgres::fallible_iterator::FallibleIterator as _;
use postgres::types::ToSql;
use postgres::{Client, Config, NoTls, Row};

use crate::batch::RowBatch;
use crate::database::{Access, Columns, Database, Session, Value};
use crate::error::{Error, ErrorKind, Result};
use crate::schema::Table;
use crate::statement::Statement;
use cell::{Cell, Parameter};

/// How long a connection may take to come about: a server that is recovering does not accept any.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Isolation of the transactions that write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// Each statement sees what was committed before it.
    ReadCommitted,
    /// One snapshot; rows changed since are conflicts.
    RepeatableRead,
    /// As if one after the other.
    Serializable,
}

impl Isolation {
    /// The name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            Isolation::ReadCommitted => "read committed",
            Isolation::RepeatableRead => "repeatable read",
            Isolation::Serializable => "serializable",
        }
    }

    fn begin(self) -> &'static str {
        match self {
            Isolation::ReadCommitted => "BEGIN ISOLATION LEVEL READ COMMITTED",
            Isolation::RepeatableRead => "BEGIN ISOLATION LEVEL REPEATABLE READ",
            Isolation::Serializable => "BEGIN ISOLATION LEVEL SERIALIZABLE",
        }
    }
}

/// How sessions are set up.
#[derive(Clone, Copy, Debug)]
pub struct PostgresOptions {
    /// Isolation of the transactions that write.
    pub isolation: Isolation,
    /// Sessions that load the population side by side.
    pub load_sessions: usize,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self { isolation: Isolation::ReadCommitted, load_sessions: 2 }
    }
}

/// A PostgreSQL database: where it is and the options of its sessions.
pub struct PostgresDatabase {
    name: String,
    config: Config,
    options: PostgresOptions,
}

impl PostgresDatabase {
    /// A database by its connection string, as libpq knows it (`host=/run/postgresql user=postgres
    /// dbname=tpcc`, or a `postgresql://` URL). Connections are not encrypted.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] if the string is none.
    pub fn new(connection: &str, options: PostgresOptions) -> Result<Self> {
        let mut config: Config = connection.parse().map_err(|error| {
            Error::with_source(
                ErrorKind::Configuration,
                format!("'{connection}' is no connection string; give it as 'host=... user=... dbname=...'"),
                postgres_source(error),
            )
        })?;
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        if config.get_application_name().is_none() {
            config.application_name("mezzanine-workload");
        }
        Ok(Self { name: name_of(&config), config, options })
    }

    fn connect(&self) -> Result<Client> {
        self.config
            .connect(NoTls)
            .map_err(|error| postgres_error(&format!("{}: cannot connect", self.name), error))
    }
}

/// What messages call the database; never the password.
fn name_of(config: &Config) -> String {
    let host = config.get_hosts().first().map_or_else(
        || "the local host".to_owned(),
        |host| match host {
            postgres::config::Host::Tcp(host) => host.clone(),
            postgres::config::Host::Unix(directory) => directory.display().to_string(),
        },
    );
    format!("{} on {host}", config.get_dbname().or(config.get_user()).unwrap_or("the default database"))
}

impl Database for PostgresDatabase {
    fn open_session(&self) -> Result<Box<dyn Session + '_>> {
        let client = self.connect()?;
        Ok(Box::new(PostgresSession {
            client: RefCell::new(client),
            database: self,
            prepared: HashMap::new(),
            failed: false,
            open: false,
        }))
    }

    fn describe(&self) -> String {
        format!("PostgreSQL database {}", self.name)
    }

    fn load_sessions_max(&self) -> usize {
        self.options.load_sessions
    }

    fn size_bytes(&self) -> Result<u64> {
        let failed = |error| postgres_error(&format!("{}: cannot ask for the size", self.name), error);
        let row =
            self.connect()?.query_one("SELECT pg_database_size(current_database())", &[]).map_err(failed)?;
        let bytes: i64 = row.try_get(0).map_err(failed)?;
        Ok(bytes as u64)
    }
}

struct PostgresSession<'d> {
    client: RefCell<Client>,
    database: &'d PostgresDatabase,
    prepared: HashMap<&'static str, postgres::Statement>,
    /// Whether a transaction is open, and whether a statement has failed in it: PostgreSQL answers the
    /// COMMIT of such a transaction with a rollback that looks like success.
    open: bool,
    failed: bool,
}

impl PostgresSession<'_> {
    fn error(&mut self, error: postgres::Error) -> Error {
        self.failed = true;
        postgres_error(&self.database.name, error)
    }

    fn run(&mut self, sql: &str) -> Result<()> {
        let done = self.client.get_mut().batch_execute(sql);
        done.map_err(|error| self.error(error))
    }

    fn prepare(&mut self, statement: Statement) -> Result<postgres::Statement> {
        if let Some(prepared) = self.prepared.get(statement.sql) {
            return Ok(prepared.clone());
        }
        let prepared = self.client.get_mut().prepare(&numbered(statement.sql));
        let prepared = prepared.map_err(|error| self.error(error))?;
        self.prepared.insert(statement.sql, prepared.clone());
        Ok(prepared)
    }
}

/// Rewrites `?` placeholders as `$1`, `$2`, ... No statement has a question mark in a literal.
fn numbered(sql: &str) -> String {
    let mut parts = sql.split('?');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for (number, part) in (1..).zip(parts) {
        // Writing into a String cannot fail.
        let _ = write!(text, "${number}{part}");
    }
    text
}

impl Session for PostgresSession<'_> {
    fn begin(&mut self, access: Access) -> Result<()> {
        self.failed = false;
        self.run(match access {
            Access::ReadOnly => "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
            Access::ReadWrite => self.database.options.isolation.begin(),
        })?;
        self.open = true;
        Ok(())
    }

    fn commit(&mut self) -> Result<()> {
        if self.failed {
            return Err(Error::new(
                ErrorKind::Database,
                format!(
                    "{}: a transaction in which a statement failed cannot be committed",
                    self.database.name
                ),
            ));
        }
        self.run("COMMIT")?;
        self.open = false;
        Ok(())
    }

    fn rollback(&mut self) -> Result<()> {
        if !std::mem::take(&mut self.open) {
            return Ok(());
        }
        self.run("ROLLBACK")
    }

    fn execute(&mut self, statement: Statement, parameters: &[Value<'_>]) -> Result<u64> {
        let prepared = self.prepare(statement)?;
        let parameters: Vec<Parameter<'_>> = parameters.iter().copied().map(Parameter).collect();
        let parameters: Vec<&(dyn ToSql + Sync)> = parameters.iter().map(|p| p as _).collect();
        let done = self.client.get_mut().execute(&prepared, &parameters);
        done.map_err(|error| self.error(error))
    }

    fn query(
        &mut self,
        statement: Statement,
        parameters: &[Value<'_>],
        each: &mut dyn FnMut(&dyn Columns) -> Result<()>,
    ) -> Result<u64> {
        let prepared = self.prepare(statement)?;
        let parameters: Vec<Parameter<'_>> = parameters.iter().copied().map(Parameter).collect();
        let mut count = 0;
        let outcome = (|| {
            let client = self.client.get_mut();
            let mut rows =
                client.query_raw(&prepared, parameters.iter().map(|p| p as &(dyn ToSql + Sync)))?;
            while let Some(row) = rows.next()? {
                if let Err(error) = each(&PostgresRow(row)) {
                    return Ok(Err(error));
                }
                count += 1;
            }
            Ok(Ok(()))
        })();
        outcome.map_err(|error| self.error(error))??;
        Ok(count)
    }

    fn define(&mut self, sql: &str) -> Result<()> {
        self.run(sql)
    }

    fn insert_batch(&mut self, table: Table, batch: &RowBatch) -> Result<()> {
        let text = copy_text(batch);
        let outcome = (|| {
            let client = self.client.get_mut();
            let mut writer = client.copy_in(&format!("COPY {} FROM STDIN", table.name()))?;
            if let Err(error) = writer.write_all(text.as_bytes()) {
                // An error of the server arrives as one of the stream.
                return Ok(Err(error));
            }
            writer.finish().map(Ok)
        })();
        match outcome {
            Ok(Ok(rows)) if rows == batch.rows() as u64 => Ok(()),
            Ok(Ok(rows)) => Err(Error::new(
                ErrorKind::Database,
                format!("{}: COPY took {rows} of {} rows", self.database.name, batch.rows()),
            )),
            Ok(Err(error)) => {
                self.failed = true;
                let context = format!("{}: COPY was interrupted", self.database.name);
                Err(match error.get_ref().and_then(|inner| inner.downcast_ref::<postgres::Error>()) {
                    Some(inner) => Error::new(kind_of(inner), format!("{context}: {}", told(inner))),
                    None => Error::with_source(ErrorKind::Database, context, error),
                })
            }
            Err(error) => Err(self.error(error)),
        }
    }

    /// A load that was interrupted is not worth waiting for; see [`Session::end_load`].
    fn begin_load(&mut self) -> Result<()> {
        self.run("SET synchronous_commit = off")
    }

    /// From now on a commit forces the log, and with it everything that was committed before.
    fn end_load(&mut self) -> Result<()> {
        self.run("SET synchronous_commit = on")
    }

    fn settle(&mut self) -> Result<()> {
        self.run("VACUUM (ANALYZE)")
    }
}

/// Rows in the text format of COPY.
fn copy_text(batch: &RowBatch) -> String {
    let mut text = String::with_capacity(batch.bytes() + 16 * batch.rows());
    for (number, cell) in (1..).zip(batch.cells()) {
        // Writing into a String cannot fail.
        let _ = match cell {
            Value::Null => write!(text, "\\N"),
            Value::Int(number) => write!(text, "{number}"),
            Value::Text(cell) if cell.contains(['\\', '\t', '\n', '\r']) => {
                for character in cell.chars() {
                    match character {
                        '\\' => text.push_str("\\\\"),
                        '\t' => text.push_str("\\t"),
                        '\n' => text.push_str("\\n"),
                        '\r' => text.push_str("\\r"),
                        other => text.push(other),
                    }
                }
                Ok(())
            }
            Value::Text(cell) => {
                text.push_str(cell);
                Ok(())
            }
        };
        text.push(if number % batch.columns() == 0 { '\n' } else { '\t' });
    }
    text
}

struct PostgresRow(Row);

impl Columns for PostgresRow {
    fn count(&self) -> usize {
        self.0.len()
    }

    fn value(&self, column: usize) -> Result<Value<'_>> {
        self.0.try_get::<_, Cell<'_>>(column).map(|cell| cell.0).map_err(|error| {
            Error::with_source(
                ErrorKind::Corrupt,
                format!("column {column} of a PostgreSQL row"),
                postgres_source(error),
            )
        })
    }
}

fn kind_of(error: &postgres::Error) -> ErrorKind {
    match error.code() {
        Some(code)
            if [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED].contains(code) =>
        {
            ErrorKind::Conflict
        }
        Some(code) if [SqlState::DATA_CORRUPTED, SqlState::INDEX_CORRUPTED].contains(code) => {
            ErrorKind::Corrupt
        }
        _ => ErrorKind::Database,
    }
}

/// What the server said, in its own words; the crate's own message is only "db error".
fn told(error: &postgres::Error) -> String {
    error.as_db_error().map_or_else(
        || error.to_string(),
        |db| {
            let detail = db.detail().map_or_else(String::new, |detail| format!(" ({detail})"));
            format!("{}: {}{detail}", db.code().code(), db.message())
        },
    )
}

fn postgres_source(error: postgres::Error) -> Box<dyn std::error::Error + Send + Sync> {
    error.into_source().unwrap_or_else(|| "no further cause".into())
}

fn postgres_error(context: &str, error: postgres::Error) -> Error {
    let kind = kind_of(&error);
    let context = format!("{context}: {}", told(&error));
    match error.into_source() {
        Some(source) if !source.is::<postgres::error::DbError>() => Error::with_source(kind, context, source),
        _ => Error::new(kind, context),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_numbered_from_left_to_right() {
        assert_eq!(numbered("UPDATE t SET a = ? + ? WHERE b = ?"), "UPDATE t SET a = $1 + $2 WHERE b = $3");
        assert_eq!(numbered("SELECT 1"), "SELECT 1");
    }

    #[test]
    fn what_copy_would_take_for_its_own_is_escaped() {
        let mut batch = RowBatch::new(3);
        batch.int(-5).null().text("a\\b\tc\nd\re");
        batch.int(1_u32).text("").text("ü");
        assert_eq!(copy_text(&batch), "-5\t\\N\ta\\\\b\\tc\\nd\\re\n1\t\tü\n");
    }

    #[test]
    fn a_string_that_is_no_connection_string_is_refused_and_a_password_is_not_repeated() {
        let error = PostgresDatabase::new("nonsense", PostgresOptions::default()).err();
        assert_eq!(error.map(|error| error.kind()), Some(ErrorKind::Configuration));
        let database = PostgresDatabase::new(
            "host=/run/x user=u password=secret dbname=tpcc",
            PostgresOptions::default(),
        );
        let described = database.map(|database| database.describe()).unwrap_or_default();
        assert_eq!(described, "PostgreSQL database tpcc on /run/x");
    }
}
