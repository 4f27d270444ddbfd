//! Loading the initial population.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use crate::batch::RowBatch;
use crate::database::{Access, Database, Session, Transaction};
use crate::error::{Error, ErrorKind, Result};
use crate::generate::{Part, generate, parts};
use crate::population::Population;
use crate::scale::{DISTRICTS_PER_WAREHOUSE, Scale};
use crate::schema::Table;

/// Batches between a generator and the session that inserts them: enough to keep both busy, little memory.
const QUEUE_BATCHES: usize = 8;

/// How far loading has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadProgress {
    /// Rows inserted so far.
    pub rows: u64,
    /// About how many there will be: exact but for order lines, of which there are ten per order on average.
    pub rows_expected: u64,
}

/// What was loaded, how fast, and how large it became.
#[derive(Clone, Debug)]
pub struct LoadReport {
    /// What was loaded. Carries whether the scale is the standard one.
    pub population: Population,
    /// Rows inserted.
    pub rows: u64,
    /// From the first table to the durable end.
    pub elapsed: Duration,
    /// The database with its indexes.
    pub database_bytes: u64,
    /// Of that, what does not depend on the number of warehouses: the items.
    pub shared_bytes: u64,
}

impl LoadReport {
    /// Bytes that one more warehouse takes.
    pub fn bytes_per_warehouse(&self) -> u64 {
        (self.database_bytes - self.shared_bytes) / u64::from(self.population.scale.warehouses)
    }

    /// Database bytes loaded per second.
    pub fn bytes_per_second(&self) -> f64 {
        self.database_bytes as f64 / self.elapsed.as_secs_f64()
    }
}

/// Creates the tables, loads the population that `scale` and `seed` give, and creates the indexes.
///
/// `progress` is called after every batch, from whichever thread inserted it.
///
/// # Errors
/// [`ErrorKind::AlreadyLoaded`] when the tables exist; nothing is changed then.
pub fn load(
    database: &dyn Database,
    scale: Scale,
    seed: u64,
    progress: &(dyn Fn(LoadProgress) + Sync),
) -> Result<LoadReport> {
    let population = Population::new(scale, seed)?;
    let started = Instant::now();
    let mut session = database.open_session()?;
    create_tables(database, session.as_mut())?;
    let counter = Counter { rows: AtomicU64::new(0), rows_expected: expected_rows(&scale), progress };

    session.begin_load()?;
    load_parts(session.as_mut(), &population, &[Part::Items], &counter)?;
    let shared_bytes = database.size_bytes()?;
    let all = parts(scale.warehouses);
    let sessions = database.load_sessions_max().clamp(1, all.len());
    if sessions == 1 {
        load_parts(session.as_mut(), &population, &all, &counter)?;
    } else {
        load_in_parallel(database, &population, &all, sessions, &counter)?;
    }
    for index in Table::create_indexes() {
        session.define(index)?;
    }
    session.end_load()?;

    session.begin(Access::ReadWrite)?;
    population.record(session.as_mut())?;
    session.commit()?;
    session.settle()?;
    drop(session);
    Ok(LoadReport {
        population,
        rows: counter.rows.into_inner(),
        elapsed: started.elapsed(),
        database_bytes: database.size_bytes()?,
        shared_bytes,
    })
}

struct Counter<'p> {
    rows: AtomicU64,
    rows_expected: u64,
    progress: &'p (dyn Fn(LoadProgress) + Sync),
}

impl Counter<'_> {
    fn add(&self, rows: u64) {
        let rows = self.rows.fetch_add(rows, Ordering::Relaxed) + rows;
        (self.progress)(LoadProgress { rows, rows_expected: self.rows_expected });
    }
}

fn expected_rows(scale: &Scale) -> u64 {
    let per_district = 1
        + 2 * u64::from(scale.customers_per_district)
        + 11 * u64::from(scale.orders_per_district)
        + u64::from(scale.new_orders_per_district);
    let per_warehouse = 1 + u64::from(scale.items) + u64::from(DISTRICTS_PER_WAREHOUSE) * per_district;
    u64::from(scale.items) + u64::from(scale.warehouses) * per_warehouse
}

fn create_tables(database: &dyn Database, session: &mut dyn Session) -> Result<()> {
    match Population::read(session) {
        Err(error) if error.kind() == ErrorKind::NotLoaded => {}
        Err(error) => return Err(error),
        Ok(found) => {
            return Err(Error::new(
                ErrorKind::AlreadyLoaded,
                format!(
                    "{} already holds TPC-C with {} warehouses; use it, or load into an empty database",
                    database.describe(),
                    found.scale.warehouses
                ),
            ));
        }
    }
    for table in Table::ALL {
        session.define(&table.create(database.clustered_table_suffix())).map_err(|error| {
            error.during(&format!(
                "cannot create table {} (a load that was interrupted leaves tables behind; load into an empty \
                 database)",
                table.name()
            ))
        })?;
    }
    Ok(())
}

fn load_in_parallel(
    database: &dyn Database,
    population: &Population,
    parts: &[Part],
    sessions: usize,
    counter: &Counter<'_>,
) -> Result<()> {
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..sessions)
            .map(|worker| {
                scope.spawn(move || {
                    let own: Vec<Part> = parts.iter().copied().skip(worker).step_by(sessions).collect();
                    let mut session = database.open_session()?;
                    session.begin_load()?;
                    load_parts(session.as_mut(), population, &own, counter)?;
                    session.end_load()
                })
            })
            .collect();
        // All are joined before the first error is reported: a scope panics on a thread's panic only when it
        // is not joined.
        let results: Vec<Result<()>> = workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect();
        results.into_iter().collect()
    })
}

enum Step {
    Insert(Table, RowBatch),
    Commit,
}

/// Generates in one thread and inserts in this one, a transaction per part.
fn load_parts(
    session: &mut dyn Session,
    population: &Population,
    parts: &[Part],
    counter: &Counter<'_>,
) -> Result<()> {
    let (sender, receiver) = sync_channel(QUEUE_BATCHES);
    std::thread::scope(|scope| {
        scope.spawn(move || generate_parts(population, parts, &sender));
        insert_parts(session, receiver, counter)
    })
}

/// Ends early, without an error of its own, when the inserting side has given up.
fn generate_parts(population: &Population, parts: &[Part], sender: &SyncSender<Step>) {
    let gave_up = || Error::new(ErrorKind::Database, "the inserting session has given up");
    for &part in parts {
        let mut emit =
            |table, batch: RowBatch| sender.send(Step::Insert(table, batch)).map_err(|_| gave_up());
        if generate(part, population, &mut emit).is_err() || sender.send(Step::Commit).is_err() {
            return;
        }
    }
}

fn insert_parts(session: &mut dyn Session, receiver: Receiver<Step>, counter: &Counter<'_>) -> Result<()> {
    let mut steps = receiver.into_iter().peekable();
    while steps.peek().is_some() {
        let mut transaction = Transaction::begin(session, Access::ReadWrite)?;
        for step in steps.by_ref() {
            match step {
                Step::Insert(table, batch) => {
                    transaction.insert_batch(table, &batch)?;
                    counter.add(batch.rows() as u64);
                }
                Step::Commit => break,
            }
        }
        transaction.commit()?;
    }
    Ok(())
}
