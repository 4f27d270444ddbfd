//! The process that the demo starts for each step, and kills.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use mezzanine_workload::sqlite::{JournalMode, SqliteDatabase, SqliteOptions, Synchronous};
use mezzanine_workload::{
    Access, AcknowledgementLog, AcknowledgementWriter, Command, Database as _, Phase, Population, Progress,
    RunConfig, Scale, Session, TransactionType, Until, check_consistency, load, run as run_workload,
    verify_acknowledged,
};

use super::protocol::{ChildSpec, Event, Measured, Role};
use super::result::Sample;
use super::stack::Stack;
use crate::failure::{Failure, chain};
use crate::machine::ProcessorMeter;

/// The queue goes round this often without delays before anything is measured: once to fill it, once more so
/// that what leaves it was taken in by a full queue.
const WRAPS_BEFORE: f64 = 2.0;
/// Transactions after which a queue that has not gone round will not do so.
const WARM_UP_TRANSACTIONS_MAX: u64 = 2_000_000;
/// Transactions before a calibration, so that SQLite's caches are as they will be.
const CALIBRATION_WARM_UP: u64 = 200;
/// Length of the intervals that the plots are made of.
const SAMPLE_SECONDS: f64 = 1.0;
/// Only one run writes to each copy of the database.
const RUN_ID: u32 = 1;
/// The population has the demo's seed; the transactions get another one.
const TRANSACTION_SEED: u64 = 0x6d65_7a7a;

/// The options of the hidden verb.
#[derive(Debug, Clone, Args)]
pub(crate) struct ChildArgs {
    /// A file with the [`ChildSpec`].
    spec: PathBuf,
}

fn tell(event: &Event) {
    // Without a reader there is nobody to tell, and the parent is about to kill this process anyway.
    if let Ok(line) = serde_json::to_string(event) {
        eprintln!("{line}");
    }
}

pub(crate) fn run(args: &ChildArgs) -> Result<(), Failure> {
    let spec = read_spec(&args.spec)?;
    let done = match spec.role {
        Role::Load => load_database(&spec),
        Role::Calibrate => calibrate(&spec),
        Role::Run => run_until_killed(&spec),
        Role::Reopen => reopen(&spec),
    };
    if let Err(failure) = &done {
        let (thing, reason, next) = failure.parts();
        tell(&Event::Failed { thing, reason, next });
    }
    // The parent prints the failure.
    Ok(())
}

fn read_spec(path: &Path) -> Result<ChildSpec, Failure> {
    let refused = |e: &dyn std::fmt::Display| {
        Failure::refused(path.display(), format!("not a step of the demo: {e}"))
            .next("run `mezz demo`, which starts this by itself")
    };
    let text = std::fs::read_to_string(path).map_err(|e| refused(&e))?;
    serde_json::from_str(&text).map_err(|e| refused(&e))
}

fn workload_failure(error: &mezzanine_workload::Error) -> Failure {
    // SQLite's own message is a number in words; the VFS knows what was wrong.
    match mezzanine_sqlite::last_error() {
        Some(cause) => Failure::refused("TPC-C", format!("{} ({cause})", chain(error))),
        None => Failure::refused("TPC-C", chain(error)),
    }
}

/// The database as the runs see it, over a VFS or, while loading, over SQLite's own.
fn database(spec: &ChildSpec, vfs: Option<&str>) -> SqliteDatabase {
    let options = SqliteOptions {
        page_size: Some(spec.page_bytes),
        cache_bytes: vfs.map(|_| spec.cache_bytes_per_client),
        journal_mode: JournalMode::Wal,
        synchronous: Synchronous::Full,
        ..SqliteOptions::default()
    };
    SqliteDatabase::new(&spec.database, vfs, options)
}

fn load_database(spec: &ChildSpec) -> Result<(), Failure> {
    let scale = if spec.tiny { Scale::tiny(spec.warehouses) } else { Scale::standard(spec.warehouses) };
    let database = database(spec, None);
    let progress = std::sync::Mutex::new(Instant::now());
    let report = load(&database, scale, spec.seed, &|p| {
        let mut told = progress.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if told.elapsed().as_secs_f64() > 0.1 {
            *told = Instant::now();
            tell(&Event::Progress(p.rows as f64 / p.rows_expected.max(1) as f64));
        }
    })
    .map_err(|e| workload_failure(&e))?;
    tell(&Event::Loaded { database_bytes: report.database_bytes });
    Ok(())
}

fn calibrate(spec: &ChildSpec) -> Result<(), Failure> {
    let stack = Stack::open(spec, 0.0, true)?;
    let database = database(spec, Some(stack.vfs_name()));
    let config = RunConfig {
        clients: spec.clients,
        seed: spec.seed ^ TRANSACTION_SEED,
        warm_up: Some(Until::Transactions(CALIBRATION_WARM_UP)),
        measure: Until::Told,
    };
    let mut meter = None;
    run_workload(&database, &config, None, &mut |progress| {
        if progress.phase == Phase::WarmUp {
            return Command::Continue;
        }
        let meter = meter.get_or_insert_with(|| {
            stack.set_time_scale(1.0);
            ProcessorMeter::start()
        });
        if progress.elapsed.as_secs_f64() < spec.seconds {
            return Command::Continue;
        }
        tell(&Event::Calibrated {
            cpu_busy: meter.read().own,
            transactions: progress.committed.iter().sum(),
        });
        Command::Stop
    })
    .map_err(|e| workload_failure(&e))?;
    Ok(())
}

fn run_until_killed(spec: &ChildSpec) -> Result<(), Failure> {
    let stack = Stack::open(spec, 0.0, true)?;
    let database = database(spec, Some(stack.vfs_name()));
    let sink = {
        let mut session = database.open_session().map_err(|e| workload_failure(&e))?;
        AcknowledgementWriter::begin(std::io::stdout(), session.as_mut(), RUN_ID)
            .map_err(|e| workload_failure(&e))?
    };
    let config = RunConfig {
        clients: spec.clients,
        seed: spec.seed ^ TRANSACTION_SEED,
        warm_up: Some(Until::Told),
        measure: Until::Told,
    };
    let mut observer = Observer { spec, stack: &stack, stage: Stage::Fast, failure: None };
    let ended = run_workload(&database, &config, Some(&sink), &mut |progress| observer.observe(progress));
    match (observer.failure.take(), ended) {
        (Some(failure), _) => Err(failure),
        (None, Err(error)) => Err(workload_failure(&error)),
        (None, Ok(_)) => Err(Failure::refused("TPC-C", "the run ended before it was killed")),
    }
}

/// Where a run is.
enum Stage {
    /// Warming up without delays.
    Fast,
    /// Warming up with delays, since then.
    Slow(Instant),
    Measuring(Box<Measuring>),
    /// Measured; transactions go on until the kill.
    Waiting,
}

struct Measuring {
    began: Instant,
    meter: ProcessorMeter,
    at_start: super::stack::Counts,
    last: Instant,
    last_counts: super::stack::Counts,
    last_committed: [u64; 5],
}

struct Observer<'a> {
    spec: &'a ChildSpec,
    stack: &'a Stack,
    stage: Stage,
    failure: Option<Failure>,
}

impl Observer<'_> {
    fn observe(&mut self, progress: &Progress) -> Command {
        if let Some(failure) = self.stack.failure() {
            self.failure = Some(failure);
            return Command::Stop;
        }
        match &mut self.stage {
            Stage::Fast => self.warm_up_fast(progress.committed.iter().sum()),
            Stage::Slow(since) => {
                if since.elapsed().as_secs_f64() < self.spec.warm_up_seconds {
                    return Command::Continue;
                }
                self.begin_measuring();
                Command::EndPhase
            }
            Stage::Measuring(measuring) => {
                // The phase changes a moment after it was ended.
                if progress.phase == Phase::WarmUp {
                    return Command::Continue;
                }
                let elapsed = measuring.began.elapsed().as_secs_f64();
                if measuring.last.elapsed().as_secs_f64() >= SAMPLE_SECONDS {
                    measuring.sample(self.stack, progress);
                }
                if elapsed >= self.spec.seconds {
                    tell(&Event::Measured(Box::new(measuring.finish(self.stack, progress))));
                    self.stage = Stage::Waiting;
                }
                Command::Continue
            }
            Stage::Waiting => Command::Continue,
        }
    }

    fn warm_up_fast(&mut self, transactions: u64) -> Command {
        let wraps = self.stack.queue_wraps();
        let warm = match self.spec.warm_up_transactions {
            Some(wanted) => transactions >= wanted && wraps.is_none_or(|wraps| wraps >= 1.0),
            None => wraps.is_none_or(|wraps| wraps >= WRAPS_BEFORE),
        };
        if warm {
            tell(&Event::Warmed { transactions, queue_wraps: wraps });
            tell(&Event::WarmingSlowly);
            self.stack.set_time_scale(self.spec.time_scale);
            self.stage = Stage::Slow(Instant::now());
        } else if transactions > WARM_UP_TRANSACTIONS_MAX {
            let wraps = wraps.unwrap_or(0.0);
            self.failure = Some(
                Failure::refused(
                    "demo",
                    format!("the flash queue went round {wraps:.2} times in {transactions} transactions, too little to measure it"),
                )
                .next("give it less flash with --flash-share"),
            );
            return Command::Stop;
        }
        Command::Continue
    }

    fn begin_measuring(&mut self) {
        tell(&Event::Measuring);
        let counts = self.stack.counts();
        let now = Instant::now();
        self.stage = Stage::Measuring(Box::new(Measuring {
            began: now,
            meter: ProcessorMeter::start(),
            at_start: counts.clone(),
            last: now,
            last_counts: counts,
            last_committed: [0; 5],
        }));
    }
}

impl Measuring {
    fn sample(&mut self, stack: &Stack, progress: &Progress) {
        let counts = stack.counts();
        let now = Instant::now();
        let new_orders = TransactionType::NewOrder.index();
        let committed: u64 = progress.committed.iter().sum();
        tell(&Event::Sample(Sample {
            seconds: (now - self.began).as_secs_f64(),
            interval_seconds: (now - self.last).as_secs_f64(),
            new_orders: progress.committed[new_orders] - self.last_committed[new_orders],
            transactions: committed - self.last_committed.iter().sum::<u64>(),
            flash_hit_ratio: counts.since(&self.last_counts).hit_ratio(),
        }));
        (self.last, self.last_counts, self.last_committed) = (now, counts, progress.committed);
    }

    fn finish(&self, stack: &Stack, progress: &Progress) -> Measured {
        let counts = stack.counts().since(&self.at_start);
        let shares = self.meter.read();
        let by_type = TransactionType::ALL
            .iter()
            .map(|kind| (kind.name().to_owned(), progress.committed[kind.index()]));
        Measured {
            seconds: self.began.elapsed().as_secs_f64(),
            transactions: by_type.collect(),
            new_orders: progress.committed[TransactionType::NewOrder.index()],
            cpu_busy: shares.own,
            machine_busy: shares.machine,
            drives: counts.drives(stack),
            tier: counts.tier_figures(),
        }
    }
}

fn reopen(spec: &ChildSpec) -> Result<(), Failure> {
    let stack = Stack::open(spec, spec.time_scale, false)?;
    let database = database(spec, Some(stack.vfs_name()));
    let mut session = database.open_session().map_err(|e| workload_failure(&e))?;
    first_transaction(session.as_mut()).map_err(|e| workload_failure(&e))?;
    tell(&Event::Ready);
    stack.set_time_scale(0.0);
    let (acknowledged_commits, mut violations) =
        check(spec, session.as_mut()).map_err(|e| workload_failure(&e))?;
    violations.extend(check_integrity(spec, stack.vfs_name())?);
    tell(&Event::Checked { acknowledged_commits, violations });
    Ok(())
}

/// SQLite recovers its log when the first transaction begins.
fn first_transaction(session: &mut dyn Session) -> mezzanine_workload::Result<()> {
    Population::read(session)?;
    session.begin(Access::ReadWrite)?;
    session.rollback()
}

/// What SQLite's own check of its structures finds wrong; it reads every page.
fn check_integrity(spec: &ChildSpec, vfs: &str) -> Result<Vec<String>, Failure> {
    let failed = |e: rusqlite::Error| Failure::refused("SQLite's integrity check", chain(&e));
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_WRITE;
    let connection =
        rusqlite::Connection::open_with_flags_and_vfs(&spec.database, flags, vfs).map_err(failed)?;
    let mut statement = connection.prepare("PRAGMA integrity_check(10)").map_err(failed)?;
    let lines = statement.query_map([], |row| row.get::<_, String>(0)).map_err(failed)?;
    let lines: Vec<String> = lines.collect::<Result<_, _>>().map_err(failed)?;
    Ok(lines.into_iter().filter(|line| line != "ok").map(|line| format!("integrity check: {line}")).collect())
}

fn check(spec: &ChildSpec, session: &mut dyn Session) -> mezzanine_workload::Result<(u64, Vec<String>)> {
    let mut violations: Vec<String> = check_consistency(session)?
        .iter()
        .filter(|checked| !checked.holds())
        .map(ToString::to_string)
        .collect();
    let file = std::fs::File::open(&spec.acknowledged).map_err(|e| {
        mezzanine_workload::Error::with_source(
            mezzanine_workload::ErrorKind::Log,
            format!("cannot open {}", spec.acknowledged.display()),
            e,
        )
    })?;
    let log = AcknowledgementLog::read(std::io::BufReader::new(file))?;
    let report = verify_acknowledged(session, &log)?;
    violations.extend(report.violations.iter().map(ToString::to_string));
    Ok((report.acknowledged as u64, violations))
}
