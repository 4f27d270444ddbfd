//! The acknowledgement log: what was about to be committed, and what the database said it had committed.
//!
//! Around every commit that writes, a client reports to an [`AcknowledgementSink`]:
//!
//! ```text
//!             in_doubt            acknowledged
//!   running ------------> in doubt ------------> acknowledged     must be found after a crash
//!                             |
//!                             |  withdrawn (the commit was refused)
//!                             +------------> withdrawn            must not be found
//! ```
//!
//! A crash leaves at most one transaction per client in doubt, which may be found or not, but not in part.
//! [`verify_acknowledged`] looks for all of them. An order is recognised by its number, customer and entry
//! time, a payment by a tag in `h_data` of its history row, a delivery by its orders and their carrier.
//!
//! The log is text, a line per step, each written by one call, so that the log of a process killed at any
//! instant can be read: an incomplete last line is taken as not written, which errs on the side of doubt. To
//! survive a power cut of the machine that the client runs on, the sink would have to sync;
//! [`AcknowledgementWriter`] does not.

mod log;
mod verify;

use std::fmt::Write as _;
use std::io::Write;
use std::sync::{Mutex, PoisonError};

use crate::database::{Access, Session, Transaction};
use crate::error::{Error, ErrorKind, Result};
use crate::population::Population;
use crate::scale::DISTRICTS_PER_WAREHOUSE;
use crate::statement::{DISTRICT_NEXT_ORDER_ID, NEW_ORDER_OLDEST};
use crate::transaction::Effect;

pub use log::AcknowledgementLog;
pub use verify::{AcknowledgementReport, AcknowledgementViolation, ViolationKind, verify_acknowledged};

/// The first line of a log.
const MAGIC: &str = "mezzanine-acknowledgements 1";

/// Names a commit within a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CommitId {
    /// The client, from 0.
    pub client: u32,
    /// Counts the client's attempts to run a transaction.
    pub sequence: u64,
}

/// Is told about every commit that leaves something in the database. An error ends the run.
pub trait AcknowledgementSink: Send + Sync {
    /// The number of the run; with client and sequence it makes the tags of payments unique over runs.
    fn run_id(&self) -> u32;

    /// A commit is about to be asked for. Called while the transaction holds its locks.
    fn in_doubt(&self, id: CommitId, effect: &Effect) -> Result<()>;

    /// The commit has returned.
    fn acknowledged(&self, id: CommitId) -> Result<()>;

    /// The commit was refused and the transaction rolled back.
    fn withdrawn(&self, id: CommitId) -> Result<()>;
}

/// What a Payment writes into `h_data`: at most 24 characters, as long as there are at most 4,096 clients.
pub(crate) fn payment_tag(run_id: u32, id: CommitId) -> String {
    format!("{run_id:x}.{:x}.{:x}", id.client, id.sequence)
}

/// Writes the log to anything.
pub struct AcknowledgementWriter<W> {
    run_id: u32,
    out: Mutex<W>,
}

impl<W: Write + Send> AcknowledgementWriter<W> {
    /// Begins a log: writes down how far every district has come, so that later orders and deliveries can be
    /// told from earlier ones. `run_id` must not have been used on this database before.
    ///
    /// Nothing else may write to the database from now on until the log is verified.
    pub fn begin(out: W, session: &mut dyn Session, run_id: u32) -> Result<Self> {
        let population = Population::read(session)?;
        let mut header = format!("{MAGIC}\nrun {run_id}\n");
        let mut transaction = Transaction::begin(session, Access::ReadOnly)?;
        for warehouse in 1..=population.scale.warehouses {
            for district in 1..=DISTRICTS_PER_WAREHOUSE {
                let here = [warehouse.into(), district.into()];
                let next = transaction.query_one(DISTRICT_NEXT_ORDER_ID, &here, |row| row.id(0))?;
                let oldest = transaction.query_one(NEW_ORDER_OLDEST, &here, |row| row.optional_int(0))?;
                let first_undelivered = oldest.unwrap_or(i64::from(next));
                let _ = writeln!(header, "district {warehouse} {district} {next} {first_undelivered}");
            }
        }
        transaction.commit()?;
        header.push_str("begin\n");
        let writer = Self { run_id, out: Mutex::new(out) };
        writer.write(&header)?;
        Ok(writer)
    }

    /// The writer, to be read back.
    pub fn into_inner(self) -> W {
        self.out.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, text: &str) -> Result<()> {
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| {
            Error::with_source(
                ErrorKind::Log,
                "cannot write the acknowledgement log, so nothing more is committed",
                error,
            )
        })
    }
}

impl<W: Write + Send> AcknowledgementSink for AcknowledgementWriter<W> {
    fn run_id(&self) -> u32 {
        self.run_id
    }

    fn in_doubt(&self, id: CommitId, effect: &Effect) -> Result<()> {
        let mut line = format!("? {} {} ", id.client, id.sequence);
        // Writing into a String cannot fail.
        let _ = match effect {
            Effect::NewOrder { warehouse, district, order, customer, entered, lines } => {
                writeln!(line, "new-order {warehouse} {district} {order} {customer} {entered} {lines}")
            }
            Effect::Payment {
                warehouse,
                district,
                customer_warehouse,
                customer_district,
                customer,
                amount,
                data,
            } => writeln!(
                line,
                "payment {warehouse} {district} {customer_warehouse} {customer_district} {customer} {amount} {}",
                data.trim_end()
            ),
            Effect::Delivery { warehouse, carrier, orders } => {
                let _ = write!(line, "delivery {warehouse} {carrier}");
                for (district, order) in orders {
                    let _ = write!(line, " {district}:{order}");
                }
                writeln!(line)
            }
        };
        self.write(&line)
    }

    fn acknowledged(&self, id: CommitId) -> Result<()> {
        self.write(&format!("+ {} {}\n", id.client, id.sequence))
    }

    fn withdrawn(&self, id: CommitId) -> Result<()> {
        self.write(&format!("- {} {}\n", id.client, id.sequence))
    }
}
