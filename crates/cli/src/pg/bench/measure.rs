//! One run: warm-up without delays until the queue has gone round, warm-up with them, the measured interval,
//! a checkpoint, more transactions, kill -9, the restart, the checks.
//!
//! ```text
//!   scale 0          scale S         scale S      scale 1               scale 1     scale 0
//!   warm-up -------> warm-up ------> measured --> checkpoint, more ---> restart --> checks
//!   queue goes round                 interval     transactions   kill
//! ```

use std::time::{Duration, Instant};

use mezzanine_workload::postgres::PostgresDatabase;
use mezzanine_workload::{
    AcknowledgementLog, AcknowledgementWriter, Command, Database as _, Phase, Progress, RunConfig, RunReport,
    Session, TransactionType, Until, check_consistency, run, verify_acknowledged,
};

use super::Bench;
use super::args::Run;
use super::counts::Counts;
use super::result::Row;
use super::server::{Server, database_failure, execute, numbers};
use crate::benchmark::time_scale_for;
use crate::failure::Failure;
use crate::machine::{ProcessorMeter, cores};

/// The queue goes round this often without delays before anything is measured: once to fill it, once more so
/// that what leaves it was taken in by a full queue. In between is a checkpoint, which removes the log and,
/// in sync mode `drained`, writes what is dirty to disk: what leaves the queue while it is measured has come
/// after it, as in a run without end.
const WRAPS_BEFORE: f64 = 2.0;
const CHECKPOINT_AT: f64 = 0.5;
/// Transactions after which a queue that has not gone round will not do so.
const WARM_UP_TRANSACTIONS_MAX: u64 = 2_000_000;
/// Without a tier, and when no run with one came before.
const WARM_UP_TRANSACTIONS: u64 = 5_000;
/// Share of the measured time that is run with delays before measuring, so that queues have formed.
const WARM_UP_SHARE: f64 = 0.2;
/// How long a time scale is left alone, so that what was under way at another one is over, and then watched,
/// to find the time scale.
const SETTLING: Duration = Duration::from_secs(2);
const CALIBRATION: Duration = Duration::from_secs(4);
/// How often at most: what a scale makes of the processor is told badly from another one that leaves it no or
/// much time.
const CALIBRATIONS_MAX: u32 = 4;
/// The tier is asked this often whether it is warm.
const ASK_EVERY: Duration = Duration::from_millis(500);
/// Only one log of acknowledged commits is written on each copy of the database.
const RUN_ID: u32 = 1;
/// The population has the benchmark's seed; the transactions get others.
const MEASURED_SEED: u64 = 0x6d65_7a7a;
const KILLED_SEED: u64 = 0x6b69_6c6c;

/// Measures one configuration on a server that runs at time scale 0.
pub(super) fn measure(bench: &mut Bench<'_>, server: &mut Server, kind: Run) -> Result<Row, Failure> {
    let database = server.database(1)?;
    let mut row = Row { run: kind.name().to_owned(), ..Row::default() };
    let report = measured_run(bench, server, &database, kind, &mut row)?;
    fill(bench, &report, &mut row);
    let acknowledged = killed_run(bench, server, &database, &mut row)?;
    bench.configure(server, kind, 1.0)?;
    row.restart_seconds = server.start()?.as_secs_f64();
    check(&database, &acknowledged, &mut row)?;
    server.stop()?;
    Ok(row)
}

fn session(database: &PostgresDatabase) -> Result<Box<dyn Session + '_>, Failure> {
    database.open_session().map_err(|e| database_failure(&e))
}

/// Changes the time scale of the modelled devices, and the time that the log takes with it.
fn set_time_scale(bench: &Bench<'_>, admin: &mut dyn Session, scale: f64) -> Result<(), Failure> {
    execute(admin, &format!("SELECT mezzanine_model_time_scale({scale})"))?;
    execute(admin, &format!("ALTER SYSTEM SET commit_delay = {}", bench.commit_delay(scale)))?;
    execute(admin, "SELECT pg_reload_conf()")
}

/// Where the measured run is.
enum Stage {
    /// Warming up without delays; looked at last then.
    Fast(Instant),
    /// Finding the time scale.
    Calibrating(Calibrating),
    /// Warming up with delays, since then.
    Slow(Instant),
    Measuring(Box<Measuring>),
}

struct Calibrating {
    /// This scale, since then.
    scale: f64,
    began: Instant,
    /// From the end of the settling on.
    busy: Option<Busy>,
    /// Scales that were tried, this one included.
    tried: u32,
}

struct Measuring {
    counts: Counts,
    busy: Busy,
    began: Instant,
}

/// How busy the processor was since a moment, by this process and the server, and by everything.
struct Busy {
    meter: ProcessorMeter,
    server: Duration,
    began: Instant,
}

impl Busy {
    fn start(server: &Server) -> Busy {
        Busy { meter: ProcessorMeter::start(), server: server.processor_time(), began: Instant::now() }
    }

    fn read(&self, server: &Server) -> (f64, f64) {
        let shares = self.meter.read();
        let served = server.processor_time().saturating_sub(self.server).as_secs_f64();
        let own = shares.own + served / self.began.elapsed().as_secs_f64().max(1e-9) / cores();
        (own.min(1.0), shares.machine)
    }
}

struct Observer<'a, 'b> {
    bench: &'a mut Bench<'b>,
    server: &'a Server,
    admin: Box<dyn Session + 'a>,
    with_tier: bool,
    stage: Stage,
    /// There was a checkpoint in the warm-up.
    checkpointed: bool,
    row: &'a mut Row,
    failure: Option<Failure>,
}

fn measured_run(
    bench: &mut Bench<'_>,
    server: &Server,
    database: &PostgresDatabase,
    kind: Run,
    row: &mut Row,
) -> Result<RunReport, Failure> {
    let config = RunConfig {
        clients: bench.args.clients,
        seed: bench.args.seed ^ MEASURED_SEED,
        warm_up: Some(Until::Told),
        measure: Until::Told,
    };
    let mut observer = Observer {
        bench,
        server,
        admin: session(database)?,
        with_tier: kind.sync_mode().is_some(),
        stage: Stage::Fast(Instant::now()),
        checkpointed: false,
        row,
        failure: None,
    };
    let ended = run(database, &config, None, &mut |progress| match observer.observe(progress) {
        Ok(command) => command,
        Err(failure) => {
            observer.failure = Some(failure);
            Command::Stop
        }
    });
    match observer.failure.take() {
        Some(failure) => Err(failure),
        None => ended.map_err(|e| database_failure(&e)),
    }
}

impl Observer<'_, '_> {
    fn counts(&mut self) -> Result<Counts, Failure> {
        Counts::now(self.admin.as_mut(), self.with_tier)
    }

    fn set_time_scale(&mut self, scale: f64) -> Result<(), Failure> {
        set_time_scale(self.bench, self.admin.as_mut(), scale)
    }

    fn observe(&mut self, progress: &Progress) -> Result<Command, Failure> {
        match &self.stage {
            Stage::Fast(asked) if asked.elapsed() >= ASK_EVERY => {
                if self.is_warm(progress.committed.iter().sum())? {
                    self.end_fast()?;
                } else {
                    self.stage = Stage::Fast(Instant::now());
                }
            }
            Stage::Fast(_) => {}
            Stage::Calibrating(_) => self.calibrate()?,
            Stage::Slow(since) => {
                let seconds = self.bench.args.seconds;
                if since.elapsed().as_secs_f64() >= seconds * WARM_UP_SHARE {
                    self.begin_measuring()?;
                    return Ok(Command::EndPhase);
                }
            }
            Stage::Measuring(measuring) => {
                if progress.phase == Phase::Measure
                    && measuring.began.elapsed().as_secs_f64() >= self.bench.args.seconds
                {
                    self.end_measuring()?;
                    return Ok(Command::Stop);
                }
            }
        }
        Ok(Command::Continue)
    }

    fn is_warm(&mut self, transactions: u64) -> Result<bool, Failure> {
        let wraps = self.counts()?.queue_wraps(super::PAGE_BYTES);
        self.row.queue_wraps_before = wraps;
        self.row.warm_up_transactions = transactions;
        let enough = self.bench.warm_up_transactions.unwrap_or(WARM_UP_TRANSACTIONS);
        let done = wraps.map_or(transactions as f64 / enough as f64, |wraps| wraps / WRAPS_BEFORE);
        if done >= CHECKPOINT_AT && !self.checkpointed {
            execute(self.admin.as_mut(), "CHECKPOINT")?;
            self.checkpointed = true;
        }
        let warm = done >= 1.0;
        if !warm && transactions > WARM_UP_TRANSACTIONS_MAX {
            let reason = format!(
                "the flash queue went round {:.2} times in {transactions} transactions, too little to measure it",
                wraps.unwrap_or(0.0)
            );
            return Err(Failure::refused("the tier", reason).next("give it less flash with --flash-share"));
        }
        if warm && wraps.is_some() {
            self.bench.warm_up_transactions.get_or_insert(transactions);
        }
        Ok(warm)
    }

    /// Goes on at the time scale, if it is known.
    fn end_fast(&mut self) -> Result<(), Failure> {
        if self.bench.time_scale.is_some() {
            return self.begin_slow();
        }
        self.try_time_scale(1.0, 1)
    }

    fn try_time_scale(&mut self, scale: f64, tried: u32) -> Result<(), Failure> {
        self.set_time_scale(scale)?;
        self.stage = Stage::Calibrating(Calibrating { scale, began: Instant::now(), busy: None, tried });
        Ok(())
    }

    /// Watches the processor at one time scale after the other, until one leads to itself.
    fn calibrate(&mut self) -> Result<(), Failure> {
        let Stage::Calibrating(now) = &mut self.stage else { return Ok(()) };
        if now.began.elapsed() < SETTLING {
            return Ok(());
        }
        let busy = now.busy.get_or_insert_with(|| Busy::start(self.server));
        if busy.began.elapsed() < CALIBRATION {
            return Ok(());
        }
        let (busy, _) = busy.read(self.server);
        let (scale, tried) = (now.scale, now.tried);
        let wanted = time_scale_for(busy, scale);
        if wanted != scale && tried < CALIBRATIONS_MAX {
            return self.try_time_scale(wanted, tried + 1);
        }
        self.bench.calibrated(scale, busy);
        self.begin_slow()
    }

    fn begin_slow(&mut self) -> Result<(), Failure> {
        self.set_time_scale(self.bench.time_scale.unwrap_or(1.0))?;
        self.stage = Stage::Slow(Instant::now());
        Ok(())
    }

    fn begin_measuring(&mut self) -> Result<(), Failure> {
        let counts = self.counts()?;
        let busy = Busy::start(self.server);
        self.stage = Stage::Measuring(Box::new(Measuring { counts, busy, began: Instant::now() }));
        Ok(())
    }

    fn end_measuring(&mut self) -> Result<(), Failure> {
        let now = self.counts()?;
        let Stage::Measuring(measuring) = &self.stage else { return Ok(()) };
        (self.row.cpu_busy, self.row.machine_busy) = measuring.busy.read(self.server);
        (self.row.tier, self.row.drives) = now.since(&measuring.counts);
        Ok(())
    }
}

fn fill(bench: &Bench<'_>, report: &RunReport, row: &mut Row) {
    let scale = bench.time_scale.unwrap_or(1.0);
    let new_orders = report.of(TransactionType::NewOrder);
    row.measured_seconds = report.elapsed.as_secs_f64();
    row.new_orders = new_orders.committed;
    row.new_orders_per_minute = report.new_orders_per_minute() * scale;
    row.transactions_per_second = report.transactions_per_second() * scale;
    row.new_order_ms_p90 = new_orders.latency.quantile(0.9).as_secs_f64() * 1e3 / scale;
    row.new_order_ms_mean = new_orders.latency.mean().as_secs_f64() * 1e3 / scale;
    row.retries = report.retries();
}

/// Runs at time scale 1 from a checkpoint on until the server is killed; returns the log of acknowledged
/// commits.
fn killed_run(
    bench: &Bench<'_>,
    server: &mut Server,
    database: &PostgresDatabase,
    row: &mut Row,
) -> Result<Vec<u8>, Failure> {
    let mut admin = session(database)?;
    set_time_scale(bench, admin.as_mut(), 1.0)?;
    let log = AcknowledgementWriter::begin(Vec::new(), session(database)?.as_mut(), RUN_ID)
        .map_err(|e| database_failure(&e))?;
    let config = RunConfig {
        clients: bench.args.clients,
        seed: bench.args.seed ^ KILLED_SEED,
        warm_up: None,
        measure: Until::Told,
    };
    let mut failure = None;
    let mut checkpointed: Option<(Instant, u64)> = None;
    let mut killed = false;
    let ended = run(database, &config, Some(&log), &mut |progress| {
        let committed: u64 = progress.committed.iter().sum();
        let mut step = || -> Result<(), Failure> {
            let Some((since, before)) = checkpointed else {
                let began = Instant::now();
                execute(admin.as_mut(), "CHECKPOINT")?;
                row.checkpoint_seconds = began.elapsed().as_secs_f64();
                checkpointed = Some((Instant::now(), committed));
                return Ok(());
            };
            if killed || since.elapsed().as_secs_f64() < bench.args.restart_after {
                return Ok(());
            }
            row.transactions_to_redo = committed.saturating_sub(before);
            let log = "SELECT (pg_current_wal_lsn() - redo_lsn)::bigint FROM pg_control_checkpoint()";
            row.log_bytes_to_redo = numbers(admin.as_mut(), log)?.first().copied().unwrap_or(0);
            killed = true;
            server.kill()
        };
        if let Err(error) = step() {
            failure.get_or_insert(error);
            return Command::Stop;
        }
        Command::Continue
    });
    match (failure, ended) {
        (Some(failure), _) => Err(failure),
        // The clients have lost their server, as they were meant to.
        (None, Err(_)) if killed => Ok(log.into_inner()),
        (None, Err(error)) => Err(database_failure(&error)),
        (None, Ok(_)) => Err(Failure::refused("TPC-C", "the run ended before the server was killed")),
    }
}

/// Everything that was acknowledged is there, and all conditions hold.
fn check(database: &PostgresDatabase, acknowledged: &[u8], row: &mut Row) -> Result<(), Failure> {
    let mut session = session(database)?;
    execute(session.as_mut(), "SELECT mezzanine_model_time_scale(0)")?;
    let log = AcknowledgementLog::read(acknowledged).map_err(|e| database_failure(&e))?;
    let found = verify_acknowledged(session.as_mut(), &log).map_err(|e| database_failure(&e))?;
    row.acknowledged_commits = found.acknowledged;
    row.violations = found.violations.iter().map(ToString::to_string).collect();
    for checked in check_consistency(session.as_mut()).map_err(|e| database_failure(&e))? {
        if !checked.holds() {
            row.violations.push(checked.to_string());
        }
    }
    row.consistent = row.violations.is_empty();
    Ok(())
}
