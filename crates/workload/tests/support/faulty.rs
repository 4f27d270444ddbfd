//! A database whose commits go wrong.

use std::sync::atomic::{AtomicU64, Ordering};

use mezzanine_workload::{
    Access, Columns, Database, Error, ErrorKind, Result, RowBatch, Session, Statement, Table, Value,
};

/// What a commit does instead of committing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Says that another transaction was in the way; nothing is committed.
    Conflict,
    /// Fails, and nothing is committed.
    FailBefore,
    /// Commits, and then fails.
    FailAfter,
}

/// Passes everything on, but has a fault in every `every`-th commit of a transaction that writes.
pub struct FaultyDatabase<'d> {
    pub inner: &'d dyn Database,
    pub fault: Fault,
    pub every: u64,
    pub commits: AtomicU64,
}

impl<'d> FaultyDatabase<'d> {
    pub fn new(inner: &'d dyn Database, fault: Fault, every: u64) -> Self {
        Self { inner, fault, every, commits: AtomicU64::new(0) }
    }
}

impl Database for FaultyDatabase<'_> {
    fn open_session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(FaultySession { inner: self.inner.open_session()?, database: self, writes: false }))
    }

    fn describe(&self) -> String {
        format!("{} with faults", self.inner.describe())
    }

    fn size_bytes(&self) -> Result<u64> {
        self.inner.size_bytes()
    }
}

struct FaultySession<'d> {
    inner: Box<dyn Session + 'd>,
    database: &'d FaultyDatabase<'d>,
    writes: bool,
}

impl Session for FaultySession<'_> {
    fn begin(&mut self, access: Access) -> Result<()> {
        self.writes = access == Access::ReadWrite;
        self.inner.begin(access)
    }

    fn commit(&mut self) -> Result<()> {
        if !self.writes {
            return self.inner.commit();
        }
        let number = self.database.commits.fetch_add(1, Ordering::Relaxed) + 1;
        if number % self.database.every != 0 {
            return self.inner.commit();
        }
        match self.database.fault {
            Fault::Conflict => Err(Error::new(ErrorKind::Conflict, "planted conflict")),
            Fault::FailBefore => Err(Error::new(ErrorKind::Database, "planted failure")),
            Fault::FailAfter => {
                self.inner.commit()?;
                Err(Error::new(ErrorKind::Database, "planted failure"))
            }
        }
    }

    fn rollback(&mut self) -> Result<()> {
        self.inner.rollback()
    }

    fn execute(&mut self, statement: Statement, parameters: &[Value<'_>]) -> Result<u64> {
        self.inner.execute(statement, parameters)
    }

    fn query(
        &mut self,
        statement: Statement,
        parameters: &[Value<'_>],
        each: &mut dyn FnMut(&dyn Columns) -> Result<()>,
    ) -> Result<u64> {
        self.inner.query(statement, parameters, each)
    }

    fn define(&mut self, sql: &str) -> Result<()> {
        self.inner.define(sql)
    }

    fn insert_batch(&mut self, table: Table, batch: &RowBatch) -> Result<()> {
        self.inner.insert_batch(table, batch)
    }
}
