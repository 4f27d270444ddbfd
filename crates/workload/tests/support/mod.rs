//! Databases to test on.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

pub mod faulty;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use mezzanine_workload::sqlite::{JournalMode, SqliteDatabase, SqliteOptions, Synchronous};
use mezzanine_workload::{
    Access, Database, Population, RunConfig, Scale, Session, Statement, Transaction, Until, Value,
    check_consistency, load,
};

/// The databases that everything is tested on.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Memory,
    WalFile,
    RollbackFile,
    /// A file in WAL mode whose sessions share one page cache.
    SharedCache,
}

pub const KINDS: [Kind; 3] = [Kind::Memory, Kind::WalFile, Kind::RollbackFile];

/// A database and, if it has one, its directory, which goes with it.
pub struct TestDatabase {
    pub database: SqliteDatabase,
    directory: Option<PathBuf>,
}

static NEXT_DIRECTORY: AtomicU32 = AtomicU32::new(0);

impl TestDatabase {
    pub fn empty(kind: Kind) -> Self {
        let journal_mode = match kind {
            Kind::Memory => {
                let database = SqliteDatabase::in_memory(SqliteOptions::default()).unwrap();
                return Self { database, directory: None };
            }
            Kind::WalFile | Kind::SharedCache => JournalMode::Wal,
            Kind::RollbackFile => JournalMode::Delete,
        };
        let number = NEXT_DIRECTORY.fetch_add(1, Ordering::Relaxed);
        let directory =
            std::env::temp_dir().join(format!("mezzanine-workload-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let options = SqliteOptions {
            page_size: Some(4096),
            cache_bytes: Some(256 << 10),
            journal_mode,
            // Nothing crashes here; syncing would only make the tests wait for the disk.
            synchronous: Synchronous::Off,
            wal_autocheckpoint: Some(100),
        };
        let mut path = directory.join("tpcc.db").display().to_string();
        if let Kind::SharedCache = kind {
            path = format!("file:{path}?cache=shared");
        }
        let database = SqliteDatabase::new(path, None, options);
        Self { database, directory: Some(directory) }
    }

    pub fn loaded(kind: Kind, scale: Scale, seed: u64) -> Self {
        let this = Self::empty(kind);
        load(&this.database, scale, seed, &|_| {}).unwrap();
        this
    }

    pub fn session(&self) -> Box<dyn Session + '_> {
        self.database.open_session().unwrap()
    }

    /// Runs one statement in a transaction of its own; returns how many rows it changed.
    pub fn change(&self, sql: &'static str) -> u64 {
        let mut session = self.session();
        let mut transaction = Transaction::begin(session.as_mut(), Access::ReadWrite).unwrap();
        let changed = transaction.execute(Statement { name: "test", sql }, &[]).unwrap();
        transaction.commit().unwrap();
        changed
    }

    /// All rows of a query, as text.
    pub fn rows(&self, sql: &str) -> Vec<String> {
        // A test's statements live as long as the test.
        let sql: &'static str = Box::leak(sql.to_owned().into_boxed_str());
        let mut rows = Vec::new();
        self.session()
            .query(Statement { name: "test", sql }, &[], &mut |row| {
                let cells: Vec<String> = (0..row.count())
                    .map(|column| match row.value(column).unwrap() {
                        Value::Null => "NULL".to_owned(),
                        Value::Int(number) => number.to_string(),
                        Value::Text(text) => text.to_owned(),
                    })
                    .collect();
                rows.push(cells.join("|"));
                Ok(())
            })
            .unwrap();
        rows
    }

    /// The one number that a query gives.
    pub fn number(&self, sql: &str) -> i64 {
        self.rows(sql)[0].parse().unwrap()
    }

    pub fn population(&self) -> Population {
        Population::read(self.session().as_mut()).unwrap()
    }

    /// The numbers of the consistency conditions that are broken.
    pub fn broken_conditions(&self) -> Vec<u32> {
        let checked = check_consistency(self.session().as_mut()).unwrap();
        assert_eq!(checked.len(), 12);
        checked.iter().filter(|checked| !checked.holds()).map(|checked| checked.condition.number).collect()
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        if let Some(directory) = &self.directory {
            let _ = std::fs::remove_dir_all(directory);
        }
    }
}

/// A run of this many transactions, measured from the start.
pub fn transactions(clients: u32, seed: u64, count: u64) -> RunConfig {
    RunConfig { clients, seed, warm_up: None, measure: Until::Transactions(count) }
}
