//! TPC-C, apart from any database: population, the five transactions, closed-loop clients, an acknowledgement
//! log and the consistency conditions, against the small interface of [`Database`] and [`Session`].
//!
//! The crate's README says clause by clause what is implemented and what differs from the specification. The
//! figures are not audited TPC results and must not be called tpmC.
//!
//! ```
//! use mezzanine_workload::sqlite::{SqliteDatabase, SqliteOptions};
//! use mezzanine_workload::{Scale, load};
//!
//! let database = SqliteDatabase::in_memory(SqliteOptions::default())?;
//! let report = load(&database, Scale::tiny(1), 42, &|_progress| {})?;
//! assert!(report.database_bytes > 100_000);
//! # Ok::<(), mezzanine_workload::Error>(())
//! ```
#![forbid(unsafe_code)]

mod database;
mod error;

mod batch;
mod generate;
mod load;
mod population;
mod random;
mod scale;
mod schema;

mod request;
mod statement;
mod transaction;

mod histogram;
mod report;
mod run;

mod acknowledge;
mod consistency;

#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "sqlite")]
pub mod sqlite;

pub use acknowledge::{
    AcknowledgementLog, AcknowledgementReport, AcknowledgementSink, AcknowledgementViolation,
    AcknowledgementWriter, CommitId, ViolationKind, verify_acknowledged,
};
pub use batch::RowBatch;
pub use consistency::{CONDITIONS, Checked, Condition, ViolatingRow, check_consistency};
pub use database::{Access, Columns, Database, Session, Transaction, Value};
pub use error::{Error, ErrorKind, Result};
pub use histogram::Histogram;
pub use load::{LoadProgress, LoadReport, load};
pub use population::Population;
pub use random::{NurandConstants, Random};
pub use report::{RunReport, TypeReport};
pub use request::{CustomerChoice, DECK_CARDS, OrderLine, Request, RequestStream, TransactionType};
pub use run::{Command, Phase, Progress, RunConfig, Until, run};
pub use scale::{DISTRICTS_PER_WAREHOUSE, Scale};
pub use schema::Table;
pub use statement::{Statement, TRANSACTION_STATEMENTS};
pub use transaction::{Effect, Outcome, Output};
