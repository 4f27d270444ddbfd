//! What the benchmark asks of a database.
//!
//! A driver implements [`Database`] and [`Session`]; everything above them is portable SQL (see
//! [`statement`](crate::statement)). The driver's duties:
//!
//! 1. Statements are given with `?` placeholders, bound from left to right. A database that wants another
//!    notation rewrites them, and prepares each statement once per session.
//! 2. A transaction that another one blocks fails with [`ErrorKind::Conflict`], and only such a failure does:
//!    the workload rolls back and runs the transaction again.
//! 3. Isolation is serialisable, or at least protects the rows that a transaction updates before it reads
//!    them, which is the order that the statements keep wherever two transactions meet (clause 3.4).
//! 4. A sum of integers is handed over as an integer.
//! 5. A commit that returns `Ok` is durable to the degree that the database was configured for. A commit that
//!    fails with [`ErrorKind::Conflict`] has not happened and will not; after any other failure it is in
//!    doubt.

use crate::batch::RowBatch;
use crate::error::{Error, ErrorKind, Result};
use crate::schema::Table;
use crate::statement::Statement;

/// A database that sessions can be opened on, from any thread.
pub trait Database: Send + Sync {
    /// Opens a session. It stays on the thread that opened it.
    fn open_session(&self) -> Result<Box<dyn Session + '_>>;

    /// The database as messages and reports name it.
    fn describe(&self) -> String;

    /// Number of sessions that loading gains from; 1 for a database with a single writer.
    fn load_sessions_max(&self) -> usize {
        1
    }

    /// What goes behind the column list of a table that should be stored in the order of its primary key,
    /// where that must be asked for.
    fn clustered_table_suffix(&self) -> &'static str {
        ""
    }

    /// How many bytes the database occupies, indexes and free space included, logs not.
    fn size_bytes(&self) -> Result<u64>;
}

/// What a transaction is going to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Only read, from one snapshot, beside a writer where the database can.
    ReadOnly,
    /// Read and write.
    ReadWrite,
}

/// A connection to the database. One transaction at a time.
pub trait Session {
    /// Begins a transaction.
    fn begin(&mut self, access: Access) -> Result<()>;

    /// Commits the transaction. After an error the caller rolls back.
    fn commit(&mut self) -> Result<()>;

    /// Rolls back; does nothing when the database has done so on its own.
    fn rollback(&mut self) -> Result<()>;

    /// Executes a statement that returns no rows; returns how many rows it changed.
    fn execute(&mut self, statement: Statement, parameters: &[Value<'_>]) -> Result<u64>;

    /// Hands each row of a query to `each`; stops at its first error. Returns the number of rows.
    fn query(
        &mut self,
        statement: Statement,
        parameters: &[Value<'_>],
        each: &mut dyn FnMut(&dyn Columns) -> Result<()>,
    ) -> Result<u64>;

    /// Executes one statement of data definition.
    fn define(&mut self, sql: &str) -> Result<()>;

    /// Inserts rows into a table in the order of its columns, inside the running transaction, by the fastest
    /// way that the database has.
    fn insert_batch(&mut self, table: Table, batch: &RowBatch) -> Result<()>;

    /// Told before the population is loaded: may trade the safety of a crash during loading for speed.
    fn begin_load(&mut self) -> Result<()> {
        Ok(())
    }

    /// Told after the population is loaded: gives back what `begin_load` traded and makes all that was loaded
    /// durable.
    fn end_load(&mut self) -> Result<()> {
        Ok(())
    }

    /// Told once, when everything is loaded and indexed: may gather statistics and do what the database would
    /// otherwise do later beside the transactions.
    fn settle(&mut self) -> Result<()> {
        Ok(())
    }
}

/// A parameter or a cell. Money is in cents, rates in ten-thousandths, time in microseconds since 1970 UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// SQL NULL.
    Null,
    /// A number.
    Int(i64),
    /// Text.
    Text(&'a str),
}

impl From<i64> for Value<'_> {
    fn from(number: i64) -> Self {
        Value::Int(number)
    }
}

impl From<u32> for Value<'_> {
    fn from(number: u32) -> Self {
        Value::Int(i64::from(number))
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Value::Text(text)
    }
}

/// The current row of a query. Columns count from 0 in the order of the select list.
pub trait Columns {
    /// How many columns there are.
    fn count(&self) -> usize;

    /// The cell as it is. Fails when the database holds something that is neither NULL, nor an integer, nor
    /// text.
    fn value(&self, column: usize) -> Result<Value<'_>>;

    /// A number; NULL and text are errors.
    fn int(&self, column: usize) -> Result<i64> {
        match self.value(column)? {
            Value::Int(number) => Ok(number),
            other => Err(wrong_type(column, "a number", other)),
        }
    }

    /// A number or NULL.
    fn optional_int(&self, column: usize) -> Result<Option<i64>> {
        match self.value(column)? {
            Value::Int(number) => Ok(Some(number)),
            Value::Null => Ok(None),
            other => Err(wrong_type(column, "a number or NULL", other)),
        }
    }

    /// Text; NULL and numbers are errors.
    fn text(&self, column: usize) -> Result<&str> {
        match self.value(column)? {
            Value::Text(text) => Ok(text),
            other => Err(wrong_type(column, "text", other)),
        }
    }

    /// A number from 0 to `u32::MAX`, such as every identifier of the schema.
    fn id(&self, column: usize) -> Result<u32> {
        let number = self.int(column)?;
        u32::try_from(number).map_err(|_| {
            Error::new(ErrorKind::Corrupt, format!("column {column} holds {number}, which is no identifier"))
        })
    }
}

fn wrong_type(column: usize, wanted: &str, found: Value<'_>) -> Error {
    Error::new(ErrorKind::Corrupt, format!("column {column} should hold {wanted} but holds {found:?}"))
}

/// A running transaction. Dropped without [`commit`](Transaction::commit), it rolls back.
pub struct Transaction<'s> {
    session: &'s mut dyn Session,
    open: bool,
}

impl<'s> Transaction<'s> {
    /// Begins a transaction on the session.
    pub fn begin(session: &'s mut dyn Session, access: Access) -> Result<Self> {
        session.begin(access)?;
        Ok(Self { session, open: true })
    }

    /// Commits. See [`Database`] for what an error means.
    pub fn commit(mut self) -> Result<()> {
        self.session.commit()?;
        self.open = false;
        Ok(())
    }

    /// Rolls back.
    pub fn rollback(mut self) -> Result<()> {
        self.open = false;
        self.session.rollback()
    }

    /// Executes a statement that returns no rows; returns how many rows it changed.
    pub fn execute(&mut self, statement: Statement, parameters: &[Value<'_>]) -> Result<u64> {
        self.session.execute(statement, parameters).map_err(|error| error.during(statement.name))
    }

    /// Executes a statement that must change exactly one row.
    pub fn execute_one(&mut self, statement: Statement, parameters: &[Value<'_>]) -> Result<()> {
        match self.execute(statement, parameters)? {
            1 => Ok(()),
            changed => Err(Error::new(
                ErrorKind::Corrupt,
                format!("{} with {parameters:?} changed {changed} rows instead of one", statement.name),
            )),
        }
    }

    /// Inserts rows into a table in the order of its columns.
    pub fn insert_batch(&mut self, table: Table, batch: &RowBatch) -> Result<()> {
        self.session.insert_batch(table, batch).map_err(|error| error.during(table.name()))
    }

    /// Hands each row of a query to `each`; returns the number of rows.
    pub fn query(
        &mut self,
        statement: Statement,
        parameters: &[Value<'_>],
        each: &mut dyn FnMut(&dyn Columns) -> Result<()>,
    ) -> Result<u64> {
        self.session.query(statement, parameters, each).map_err(|error| error.during(statement.name))
    }

    /// The last row of a query that has at most one, or `None`.
    pub fn query_optional<T>(
        &mut self,
        statement: Statement,
        parameters: &[Value<'_>],
        mut read: impl FnMut(&dyn Columns) -> Result<T>,
    ) -> Result<Option<T>> {
        let mut found = None;
        self.query(statement, parameters, &mut |columns| {
            found = Some(read(columns)?);
            Ok(())
        })?;
        Ok(found)
    }

    /// The one row of a query that must have one.
    pub fn query_one<T>(
        &mut self,
        statement: Statement,
        parameters: &[Value<'_>],
        read: impl FnMut(&dyn Columns) -> Result<T>,
    ) -> Result<T> {
        self.query_optional(statement, parameters, read)?.ok_or_else(|| {
            Error::new(ErrorKind::Corrupt, format!("{} with {parameters:?} found no row", statement.name))
        })
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if self.open {
            // The error that made the caller give up is the one to report; a session that cannot roll back
            // fails again at its next begin.
            let _ = self.session.rollback();
        }
    }
}
