//! Closed-loop clients: each runs one transaction after the other, without keying or think time.
//!
//! ```text
//!   warm-up ---------------------> measured interval ---------------------> over
//!            time, transactions                      time, transactions
//!            or the observer                         or the observer
//! ```
//!
//! Clients do not stop between the phases. A transaction belongs to the phase in which it is committed; when
//! either of the phases is limited by a number of transactions, to the one in which it began, so that the
//! number is met exactly.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Barrier, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::acknowledge::{AcknowledgementSink, CommitId, payment_tag};
use crate::database::{Database, Session, Transaction};
use crate::error::{Error, ErrorKind, Result};
use crate::population::Population;
use crate::random::Random;
use crate::report::{ClientReport, RunReport};
use crate::request::{Request, RequestStream, TransactionType};
use crate::transaction::Output;

/// A payment's tag has room for three hexadecimal digits.
const CLIENTS_MAX: u32 = 4_096;
/// How often the observer is asked.
const OBSERVE_EVERY: Duration = Duration::from_millis(20);
/// A transaction that was in another one's way this often is not going to succeed.
const ATTEMPTS_MAX: u32 = 1_000;
/// Longest pause before a transaction is run again.
const BACK_OFF_MAX_US: u32 = 20_000;

/// When a phase ends. The observer can end it earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// After this time.
    Elapsed(Duration),
    /// After this many transactions of all clients, rolled back ones included.
    Transactions(u64),
    /// When the observer says so.
    Told,
}

/// A run.
#[derive(Clone, Copy, Debug)]
pub struct RunConfig {
    /// Clients, 1 to 4,096, each a thread with a session.
    pub clients: u32,
    /// What the requests are made from.
    pub seed: u64,
    /// How long clients run before measuring begins; `None` measures from the start.
    pub warm_up: Option<Until>,
    /// How long is measured.
    pub measure: Until,
}

/// The phases of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Nothing counts yet.
    WarmUp,
    /// Everything counts.
    Measure,
}

/// What the observer sees, about every 20 ms.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// The phase.
    pub phase: Phase,
    /// Time since it began.
    pub elapsed: Duration,
    /// Transactions committed in it, by type in the order of [`TransactionType::ALL`].
    pub committed: [u64; 5],
    /// Attempts in it that were run again.
    pub retries: u64,
}

impl Progress {
    /// Committed New-Orders per minute so far in this phase.
    pub fn new_orders_per_minute(&self) -> f64 {
        self.committed[TransactionType::NewOrder.index()] as f64 * 60.0 / self.elapsed.as_secs_f64().max(1e-9)
    }
}

/// What the observer answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Go on.
    Continue,
    /// End this phase: from warming up go on to measuring, from measuring to the end.
    EndPhase,
    /// End the run.
    Stop,
}

/// Runs clients against a loaded database.
///
/// `sink`, if given, is told of every commit. `observe` is called from this thread.
///
/// # Errors
/// [`ErrorKind::NotLoaded`], [`ErrorKind::Configuration`], and the first error of any client, upon which all
/// stop.
pub fn run(
    database: &dyn Database,
    config: &RunConfig,
    sink: Option<&dyn AcknowledgementSink>,
    observe: &mut dyn FnMut(&Progress) -> Command,
) -> Result<RunReport> {
    if config.clients == 0 || config.clients > CLIENTS_MAX {
        return Err(Error::new(
            ErrorKind::Configuration,
            format!("clients is {}; give a number from 1 to {CLIENTS_MAX}", config.clients),
        ));
    }
    let population = Population::read(database.open_session()?.as_mut())?;
    let shared = Shared::new(config);
    let barrier = Barrier::new(config.clients as usize + 1);
    let mut total = ClientReport::default();
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..config.clients)
            .map(|number| {
                let (shared, barrier, population) = (&shared, &barrier, &population);
                scope.spawn(move || {
                    let session = database.open_session();
                    // Whether or not there is a session: nobody else would come past the barrier otherwise.
                    barrier.wait();
                    let client = Client {
                        shared,
                        sink,
                        number,
                        sequence: 0,
                        back_off: Random::stream(config.seed, &[0xB0, u64::from(number)]),
                        report: ClientReport::default(),
                    };
                    let stream = RequestStream::new(population, config.seed, number, config.clients);
                    session.and_then(|mut session| client.run(session.as_mut(), stream)).unwrap_or_else(
                        |error| {
                            shared.fail(error.during(&format!("client {number}")));
                            ClientReport::default()
                        },
                    )
                })
            })
            .collect();
        shared.start();
        barrier.wait();
        while clients.iter().any(|client| !client.is_finished()) {
            std::thread::sleep(OBSERVE_EVERY);
            shared.observe(observe);
        }
        for client in clients {
            total.merge(&client.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
    });
    shared.finish(population, total)
}

const WARM_UP: u8 = 0;
const MEASURE: u8 = 1;
const OVER: u8 = 2;

/// What clients and observer share. Phases only go forward; the time of a change is set before the change is
/// seen.
struct Shared<'c> {
    config: &'c RunConfig,
    phase: AtomicU8,
    began: OnceLock<Instant>,
    measure_began: OnceLock<Instant>,
    over: OnceLock<Instant>,
    /// For phases that a number of transactions limits: how many were begun.
    tickets: [AtomicU64; 2],
    /// Commits by phase and type.
    committed: [[AtomicU64; 5]; 2],
    retries: [AtomicU64; 2],
    failure: Mutex<Option<Error>>,
}

impl<'c> Shared<'c> {
    fn new(config: &'c RunConfig) -> Self {
        Self {
            config,
            phase: AtomicU8::new(WARM_UP),
            began: OnceLock::new(),
            measure_began: OnceLock::new(),
            over: OnceLock::new(),
            tickets: Default::default(),
            committed: Default::default(),
            retries: Default::default(),
            failure: Mutex::new(None),
        }
    }

    fn start(&self) {
        self.began.get_or_init(Instant::now);
        if self.config.warm_up.is_none() {
            self.end_phase(WARM_UP);
        }
    }

    fn phase(&self) -> u8 {
        self.phase.load(Ordering::Acquire)
    }

    fn until(&self, phase: u8) -> Until {
        if phase == WARM_UP { self.config.warm_up.unwrap_or(Until::Told) } else { self.config.measure }
    }

    /// Ends this phase, if nobody else has.
    fn end_phase(&self, phase: u8) {
        match phase {
            WARM_UP => self.measure_began.get_or_init(Instant::now),
            _ => self.over.get_or_init(Instant::now),
        };
        let _ = self.phase.compare_exchange(phase, phase + 1, Ordering::AcqRel, Ordering::Acquire);
    }

    fn stop(&self) {
        self.over.get_or_init(Instant::now);
        self.phase.store(OVER, Ordering::Release);
    }

    fn fail(&self, error: Error) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.stop();
    }

    /// The phase that a transaction may begin in now, or `None` when there is nothing more to begin.
    fn next_phase(&self) -> Option<u8> {
        loop {
            let phase = self.phase();
            if phase == OVER {
                return None;
            }
            let Until::Transactions(limit) = self.until(phase) else {
                return Some(phase);
            };
            if self.tickets[usize::from(phase)].fetch_add(1, Ordering::Relaxed) < limit {
                return Some(phase);
            }
            if phase == MEASURE {
                // The others may still be running theirs; the run is over when all clients have ended.
                return None;
            }
            self.end_phase(WARM_UP);
        }
    }

    /// The phase that a transaction belongs to which began in `began_in` and ends now.
    fn phase_of(&self, began_in: u8) -> u8 {
        let now = self.phase();
        let counted = |phase| matches!(self.until(phase), Until::Transactions(_));
        if counted(began_in) || (now != OVER && counted(now)) { began_in } else { now }
    }

    fn observe(&self, observe: &mut dyn FnMut(&Progress) -> Command) {
        let phase = self.phase();
        let began = if phase == WARM_UP { self.began.get() } else { self.measure_began.get() };
        let (WARM_UP | MEASURE, Some(began)) = (phase, began) else {
            return;
        };
        let index = usize::from(phase);
        let progress = Progress {
            phase: if phase == WARM_UP { Phase::WarmUp } else { Phase::Measure },
            elapsed: began.elapsed(),
            committed: std::array::from_fn(|kind| self.committed[index][kind].load(Ordering::Relaxed)),
            retries: self.retries[index].load(Ordering::Relaxed),
        };
        match observe(&progress) {
            Command::Stop => self.stop(),
            Command::EndPhase => self.end_phase(phase),
            Command::Continue => {
                if matches!(self.until(phase), Until::Elapsed(limit) if began.elapsed() >= limit) {
                    self.end_phase(phase);
                }
            }
        }
    }

    fn finish(self, population: Population, total: ClientReport) -> Result<RunReport> {
        if let Some(error) = self.failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(error);
        }
        let began = *self.began.get_or_init(Instant::now);
        let over = *self.over.get_or_init(|| total.last_end.unwrap_or_else(Instant::now));
        let measure_began = self.measure_began.into_inner().unwrap_or(over);
        let warm_up_transactions = self.committed[0].iter().map(|count| count.load(Ordering::Relaxed)).sum();
        Ok(RunReport {
            population,
            clients: self.config.clients,
            seed: self.config.seed,
            warm_up: measure_began.saturating_duration_since(began),
            elapsed: over.saturating_duration_since(measure_began),
            warm_up_transactions,
            types: total.types,
            seconds: total.seconds,
            deliveries_skipped: total.deliveries_skipped,
        })
    }
}

struct Client<'s> {
    shared: &'s Shared<'s>,
    sink: Option<&'s dyn AcknowledgementSink>,
    number: u32,
    sequence: u64,
    back_off: Random,
    report: ClientReport,
}

impl Client<'_> {
    fn run(mut self, session: &mut dyn Session, mut stream: RequestStream) -> Result<ClientReport> {
        while let Some(began_in) = self.shared.next_phase() {
            let request = stream.next_request();
            let started = Instant::now();
            let mut retries = 0;
            let output = loop {
                match self.attempt(session, &request) {
                    Ok(output) => break Some(output),
                    Err(error) if error.is_retryable() && retries < ATTEMPTS_MAX => {
                        retries += 1;
                        if self.shared.phase() == OVER {
                            break None;
                        }
                        self.back_off(retries);
                    }
                    Err(error) => return Err(error.during(request.transaction_type().name())),
                }
            };
            let phase = self.shared.phase_of(began_in);
            self.count(phase, &request, output, u64::from(retries), started);
        }
        Ok(self.report)
    }

    fn count(
        &mut self,
        phase: u8,
        request: &Request,
        output: Option<Output>,
        retries: u64,
        started: Instant,
    ) {
        if phase == OVER {
            return;
        }
        let kind = request.transaction_type();
        let index = usize::from(phase);
        self.shared.retries[index].fetch_add(retries, Ordering::Relaxed);
        let rolled_back = output == Some(Output::NewOrderRolledBack);
        if output.is_some() && !rolled_back {
            self.shared.committed[index][kind.index()].fetch_add(1, Ordering::Relaxed);
        }
        let (MEASURE, Some(measure_began)) = (phase, self.shared.measure_began.get()) else {
            return;
        };
        let now = Instant::now();
        self.report.last_end = Some(now);
        self.report.types[kind.index()].retries += retries;
        match output {
            None => {}
            Some(Output::NewOrderRolledBack) => self.report.types[kind.index()].rolled_back += 1,
            Some(output) => {
                if let Output::Delivery { skipped } = output {
                    self.report.deliveries_skipped += u64::from(skipped);
                }
                let since_start = now.saturating_duration_since(*measure_began);
                self.report.committed(kind, since_start, now - started);
            }
        }
    }

    /// Runs the transaction once, with what the log wants to know of it.
    fn attempt(&mut self, session: &mut dyn Session, request: &Request) -> Result<Output> {
        self.sequence += 1;
        let id = CommitId { client: self.number, sequence: self.sequence };
        let tag = match (self.sink, request) {
            (Some(sink), Request::Payment { .. }) => Some(payment_tag(sink.run_id(), id)),
            _ => None,
        };
        let mut transaction = Transaction::begin(session, request.access())?;
        let outcome = request.run(&mut transaction, now_us(), tag.as_deref())?;
        if !outcome.commit {
            transaction.rollback()?;
            return Ok(outcome.output);
        }
        let (Some(sink), Some(effect)) = (self.sink, &outcome.effect) else {
            transaction.commit()?;
            return Ok(outcome.output);
        };
        sink.in_doubt(id, effect)?;
        match transaction.commit() {
            Ok(()) => sink.acknowledged(id)?,
            Err(error) if error.is_retryable() => {
                sink.withdrawn(id)?;
                return Err(error);
            }
            // Nobody knows whether it happened: it stays in doubt.
            Err(error) => return Err(error.during("commit")),
        }
        Ok(outcome.output)
    }

    /// A random pause that grows with the number of attempts, so that two transactions do not meet again and
    /// again.
    fn back_off(&mut self, retries: u32) {
        let longest_us = (100_u32 << retries.min(8)).min(BACK_OFF_MAX_US);
        std::thread::sleep(Duration::from_micros(u64::from(self.back_off.uniform(0, longest_us))));
    }
}

/// Microseconds since 1970 UTC.
fn now_us() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as i64)
}
