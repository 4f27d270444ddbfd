//! One life of a cluster: cycles of load, kill, recovery and checks.

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use crate::configuration::Configuration;
use crate::failure::{Checked, Failure, While as _, demand};
use crate::histories::copies::Known;
use crate::histories::outcome::Tally;
use crate::histories::trouble;
use crate::histories::{Histories, Kind, Plan, When};
use crate::journal::{self, Journal};
use crate::load::{self, Shared};
use crate::oracle::Oracle;
use crate::random::Random;
use crate::server::Server;
use crate::side::{self, Side};
use crate::{files, ledger, structure};

/// How long clients may take to notice that the server restarts its processes.
const NOTICE_SECONDS_MAX: u64 = 120;

/// What is killed, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kill {
    /// Every process, at a random moment.
    Anytime,
    /// Every process, while a checkpoint is under way.
    InCheckpoint,
    /// Every process, and again during the recovery.
    InRecovery,
    /// Every process, while the server stops in order.
    InStop,
    /// One client's backend; the postmaster restarts the others.
    Backend,
    /// The tier's background worker.
    Worker,
    /// Another of the server's own processes.
    Auxiliary,
}

impl Kill {
    fn draw(random: &mut Random) -> Self {
        match random.below(20) {
            0..=5 => Self::Anytime,
            6..=9 => Self::InCheckpoint,
            10..=13 => Self::InRecovery,
            14 => Self::InStop,
            15 | 16 => Self::Backend,
            17 | 18 => Self::Worker,
            _ => Self::Auxiliary,
        }
    }

    /// Whether the postmaster lives on.
    fn leaves_postmaster(self) -> bool {
        matches!(self, Self::Backend | Self::Worker | Self::Auxiliary)
    }
}

/// What a run did.
#[derive(Debug, Default, Clone)]
pub(crate) struct Statistics {
    pub(crate) cycles: u64,
    pub(crate) kills: u64,
    pub(crate) in_checkpoint: u64,
    pub(crate) in_recovery: u64,
    pub(crate) in_stop: u64,
    pub(crate) single: u64,
    pub(crate) flash_lost: u64,
    /// Files of a stopped cluster that ended within a block, because a kill tore the write that made them
    /// longer.
    pub(crate) torn_ends: u64,
    /// Commits acknowledged to clients; each was looked for after every later crash of its life.
    pub(crate) commits: u64,
    /// Blocks whose position was compared, counted at every check.
    pub(crate) blocks: u64,
    /// What was drawn of histories, and what became of it.
    pub(crate) histories: Tally,
}

impl Statistics {
    pub(crate) fn add(&mut self, other: &Self) {
        let pairs = [
            (&mut self.cycles, other.cycles),
            (&mut self.kills, other.kills),
            (&mut self.in_checkpoint, other.in_checkpoint),
            (&mut self.in_recovery, other.in_recovery),
            (&mut self.in_stop, other.in_stop),
            (&mut self.single, other.single),
            (&mut self.flash_lost, other.flash_lost),
            (&mut self.torn_ends, other.torn_ends),
            (&mut self.commits, other.commits),
            (&mut self.blocks, other.blocks),
        ];
        for (sum, more) in pairs {
            *sum += more;
        }
        self.histories.add(&other.histories);
    }
}

impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} cycles, {} kills ({} in checkpoints, {} in recovery, {} in shutdowns, {} of one process), flash lost {} times, \
             {} files cut to whole blocks, {} acknowledged commits, {} blocks compared with the log",
            self.cycles,
            self.kills,
            self.in_checkpoint,
            self.in_recovery,
            self.in_stop,
            self.single,
            self.flash_lost,
            self.torn_ends,
            self.commits,
            self.blocks
        )
    }
}

/// A cluster and what is known of it.
pub(crate) struct Life {
    pub(crate) server: Server,
    pub(crate) configuration: Configuration,
    clients: i32,
    pub(crate) shared: Shared,
    pub(crate) side: Side,
    pub(crate) oracle: Oracle,
    pub(crate) histories: Histories,
    /// The last commit of each client that is in the database, from client 1 on.
    last: Vec<i32>,
    /// How long a checkpoint takes.
    checkpoint_time: Duration,
    pub(crate) statistics: Statistics,
}

impl Life {
    /// Starts a new cluster with a tier, and creates the tables.
    pub(crate) fn begin(
        mut server: Server,
        configuration: Configuration,
        clients: u32,
        histories: &[Kind],
    ) -> Checked<Self> {
        server.configure(&configuration.settings(&server.directory))?;
        server.kills_tear = configuration.full_page_writes;
        if !histories.is_empty() {
            // In the directory itself: where one goes, nobody would clean up what its server has elsewhere.
            server.configure("dynamic_shared_memory_type = mmap")?;
        }
        server.start()?;
        let mut db = server.connect()?;
        let mut oracle = Oracle::default();
        oracle.begin(&mut db)?;
        db.batch_execute(load::SCHEMA)?;
        db.batch_execute(side::SCHEMA)?;
        let journal = Journal::open(&Self::journal(&server))?;
        let mut histories = Histories::new(histories, &server.directory);
        histories.started(server.sessions);
        Ok(Self {
            server,
            histories,
            side: Side::new(!configuration.full_page_writes && configuration.consistency_checking),
            configuration,
            clients: clients as i32,
            shared: Shared::new(journal),
            oracle,
            last: vec![0; clients as usize],
            checkpoint_time: Duration::from_millis(30),
            statistics: Statistics::default(),
        })
    }

    /// The journal of a life's commits.
    pub(crate) fn journal(server: &Server) -> PathBuf {
        server.directory.join("commits")
    }

    /// Load, kill, recovery, checks, and the histories that are drawn. Says what was killed.
    pub(crate) fn cycle(
        &mut self,
        random: &mut Random,
        of_histories: Random,
        all: bool,
    ) -> Result<Kill, (Kill, Failure)> {
        let kill = Kill::draw(random);
        let mut plan = self.histories.plan(of_histories);
        // With trouble everything is killed: what is left of the server is unknown.
        let kill = if plan.trouble.is_some() { Kill::Anytime } else { kill };
        let done = self
            .before_load(&mut plan)
            .and_then(|()| self.load_and_kill(kill, random, &mut plan))
            .and_then(|()| self.recover(kill, random, &mut plan));
        self.statistics.histories = self.histories.tally.clone();
        let crashed = kill != Kill::InStop;
        done.and_then(|()| self.check(all, crashed)).map_err(|failure| (kill, failure))?;
        self.statistics.cycles += 1;
        Ok(kill)
    }

    /// Stops the server in order; then the files alone must be the database.
    pub(crate) fn end(&mut self) -> Checked {
        let databases = side::databases(&mut self.server.connect()?)?;
        // It may be as it was drawn for a copy.
        self.server.set("mezzanine.drain_on_shutdown", None)?;
        self.server.stop()?;
        // A kill in the middle of CREATE DATABASE leaves files that no database has, and that may end within
        // a block.
        files::remove_other_databases(&self.server.data(), &databases)?;
        // Where kills tear no write, a file that ends within a block is for `pg_checksums` to find.
        if self.server.kills_tear {
            self.statistics.torn_ends += files::cut_torn_ends(&self.server.data())?;
        }
        self.server.check_checksums()?;
        self.server.configure("mezzanine.flash_path = ''")?;
        self.server.start()?;
        self.check(true, false).during(|| "after a stop in order, without the tier".into())?;
        // In order again: nobody would clean up the shared memory that a kill leaves.
        self.server.stop()
    }

    fn load_and_kill(&mut self, kill: Kill, random: &mut Random, plan: &mut Plan) -> Checked {
        let Self {
            server, shared, side, last, clients, checkpoint_time, statistics, histories, oracle, ..
        } = self;
        shared.leave.store(false, Ordering::Relaxed);
        let connections = (0..*clients).map(|_| server.connect()).collect::<Checked<Vec<_>>>()?;
        let (keeper, checkpointer) = (server.connect()?, server.connect()?);
        let returned = AtomicBool::new(false);
        thread::scope(|scope| {
            let mut workers = Vec::new();
            for (number, db) in (1..).zip(connections) {
                let (seq, seed) = (last[number as usize - 1], Random::new(random.next(), number as u64));
                let shared = &*shared;
                workers.push(scope.spawn(move || load::run(db, number, seq, seed, shared)));
            }
            let keeper_numbers = Random::new(random.next(), 0);
            let (shared, side) = (&*shared, &*side);
            let keeper = scope.spawn(move || side.run(keeper, keeper_numbers, shared).map(|()| 0));
            workers.push(keeper);
            let copied = if plan.copy == Some(When::Running) {
                thread::sleep(Duration::from_millis(50 + plan.random.below(500)));
                histories.copy_running(&Known { server, shared, side, oracle })
            } else {
                Ok(())
            };
            let mut strike = Strike { server, random, statistics, checkpoint_time };
            let struck = copied.and_then(|()| match plan.trouble {
                None => strike.run(kill, scope, checkpointer, &returned),
                Some(trouble) => {
                    shared.trouble.store(true, Ordering::Relaxed);
                    let come = histories.trouble(trouble, strike.server, checkpointer, plan);
                    come.and_then(|()| strike.everything())
                }
            });
            let struck = struck.and_then(|()| {
                if kill.leaves_postmaster() { wait_all(&workers, strike.server) } else { Ok(()) }
            });
            shared.leave.store(true, Ordering::Relaxed);
            if struck.is_err() {
                let _ = strike.server.kill(true);
            }
            let commits = join_all(workers);
            struck?;
            statistics.commits += commits?;
            Ok(())
        })
    }

    fn recover(&mut self, kill: Kill, random: &mut Random, plan: &mut Plan) -> Checked {
        let lost = self.configuration.flash_may_be_lost() && random.below(8) == 0 && plan.trouble.is_none();
        if kill.leaves_postmaster() {
            self.server.wait_ready()?;
            self.histories.started(self.server.sessions);
            if plan.is_over() {
                return Ok(());
            }
            // What comes now is done to a server that is down.
            self.server.kill(random.below(2) == 0)?;
            self.statistics.kills += 1;
        }
        let lost = lost && !kill.leaves_postmaster();
        let later = plan.after_cut_starts && kill == Kill::InRecovery && !lost;
        if plan.copy == Some(When::Crashed) && !later {
            self.copy_crashed()?;
        }
        if !later {
            self.while_down(plan)?;
        }
        if lost {
            std::fs::remove_file(self.server.flash())?;
            self.histories.flash_was_lost();
            self.statistics.flash_lost += 1;
        }
        if kill == Kill::InRecovery {
            self.cut_starts(random)?;
        }
        if plan.copy == Some(When::Crashed) && later {
            self.copy_crashed()?;
        }
        self.while_down(plan)?;
        self.server.start()?;
        self.histories.started(self.server.sessions);
        if plan.trouble.is_some() {
            self.shared.trouble.store(false, Ordering::Relaxed);
            self.server.log.check_but(&trouble::OF_FILES)?;
            self.server.set("restart_after_crash", None)?;
        }
        self.compare_with_rotten()
    }

    /// Kills one or two starts.
    fn cut_starts(&mut self, random: &mut Random) -> Checked {
        for _ in 0..1 + random.below(2) {
            let longest = self.server.started_in / 2;
            self.server.launch()?;
            // Mostly within recovery itself, sometimes before it.
            let begin = Instant::now();
            let aimed = random.below(4) > 0;
            while aimed && !self.server.is_recovering() && begin.elapsed() < longest * 10 {
                thread::sleep(Duration::from_millis(1));
            }
            thread::sleep(Duration::from_micros(random.below(longest.as_micros().max(1_000) as u64)));
            let early = self.server.is_recovering();
            self.server.kill(random.below(2) == 0)?;
            self.histories.start_was_cut();
            self.statistics.in_recovery += u64::from(early);
            self.statistics.kills += 1;
        }
        Ok(())
    }

    /// Everything, of a server that runs and has no clients. Blocks first: reading a page may move its
    /// position.
    pub(crate) fn check(&mut self, all: bool, crashed: bool) -> Checked {
        self.server.log.check()?;
        let mut db = self.server.connect()?;
        self.statistics.blocks += self.oracle.check(&mut db)?;
        let known = journal::read(&Self::journal(&self.server))?;
        let found = ledger::check(&mut db, &known)?;
        journal::settle(&self.shared.journal, &found.settled)?;
        for (id, version) in found.versions {
            self.shared.versions[id as usize].store(version, Ordering::Release);
        }
        for (number, last) in (1..).zip(&mut self.last) {
            let there = found.settled.iter().filter(|(t, there)| t.client == number && *there).count();
            *last = (known.get(&number).map_or(0, |known| known.acknowledged.len()) + there) as i32;
        }
        self.side.check(&mut db)?;
        side::check_unlogged(&mut db, crashed)?;
        structure::check(&mut db, all)?;
        if side::is_beside(&mut db)? {
            side::check_beside(&mut self.server.connect_to("beside")?)?;
        }
        self.server.log.check()
    }
}

/// What is needed to kill.
struct Strike<'a> {
    server: &'a mut Server,
    random: &'a mut Random,
    statistics: &'a mut Statistics,
    checkpoint_time: &'a mut Duration,
}

impl Strike<'_> {
    /// Lets the clients work for a while, and kills.
    fn run<'scope>(
        &mut self,
        kill: Kill,
        scope: &'scope thread::Scope<'scope, '_>,
        checkpointer: postgres::Client,
        returned: &'scope AtomicBool,
    ) -> Checked {
        thread::sleep(Duration::from_millis(150 + self.random.below(650)));
        let mut idle = None;
        match kill {
            Kill::InCheckpoint => self.in_checkpoint(scope, checkpointer, returned)?,
            Kill::InStop => {
                self.server.request_stop();
                thread::sleep(Duration::from_micros(self.random.below(80_000)));
                self.statistics.in_stop += u64::from(self.server.ended()?.is_none());
            }
            // Its backend stays: one that is ending by itself must not be taken for the one to kill.
            _ => idle = Some(checkpointer),
        }
        let single = match kill {
            Kill::Backend => Some("[local]"),
            Kill::Worker => Some("mezzanine"),
            Kill::Auxiliary => Some(self.random.of(&["checkpointer", "background writer", "walwriter"])),
            _ => None,
        };
        match single {
            None => return self.everything(),
            Some(title) => {
                let named: Vec<u32> = self
                    .server
                    .children()
                    .iter()
                    .filter(|(_, name)| name.contains(title))
                    .map(|(pid, _)| *pid)
                    .collect();
                demand(!named.is_empty(), || format!("the server has no process \"{title}\""))?;
                self.server.kill_child(self.random.of(&named));
                self.statistics.single += 1;
            }
        }
        drop(idle);
        self.statistics.kills += 1;
        Ok(())
    }

    /// Kills every process.
    fn everything(&mut self) -> Checked {
        self.server.kill(self.random.below(2) == 0)?;
        self.statistics.kills += 1;
        Ok(())
    }

    fn in_checkpoint<'scope>(
        &mut self,
        scope: &'scope thread::Scope<'scope, '_>,
        mut db: postgres::Client,
        returned: &'scope AtomicBool,
    ) -> Checked {
        let begin = Instant::now();
        scope.spawn(move || {
            // An error is the kill's doing; whether the checkpoint returned is all that matters.
            if db.batch_execute("CHECKPOINT").is_ok() {
                returned.store(true, Ordering::Release);
            }
        });
        let until =
            Duration::from_micros(self.random.below(self.checkpoint_time.as_micros().max(1_000) as u64));
        while begin.elapsed() < until && !returned.load(Ordering::Acquire) {
            thread::sleep(Duration::from_micros(200));
        }
        if returned.load(Ordering::Acquire) {
            *self.checkpoint_time = begin.elapsed();
        } else {
            self.statistics.in_checkpoint += 1;
            // The longest wait so far may have been too short to come to a checkpoint's end.
            *self.checkpoint_time = (*self.checkpoint_time + until / 8).min(Duration::from_secs(1));
        }
        Ok(())
    }
}

/// Waits until the clients have noticed that the postmaster has ended their backends.
fn wait_all(workers: &[ScopedJoinHandle<'_, Checked<u64>>], server: &mut Server) -> Checked {
    let begin = Instant::now();
    while !workers.iter().all(ScopedJoinHandle::is_finished) {
        if let Some(status) = server.ended()? {
            return Err(Failure(format!(
                "the postmaster ended ({status}) instead of restarting: {}",
                server.log.tail()
            )));
        }
        demand(begin.elapsed().as_secs() < NOTICE_SECONDS_MAX, || {
            "a client still waits long after a process of the server was killed".into()
        })?;
        thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

/// Commits acknowledged to all clients, or what one of them complains of.
fn join_all(workers: Vec<ScopedJoinHandle<'_, Checked<u64>>>) -> Checked<u64> {
    let results: Vec<_> = workers.into_iter().map(ScopedJoinHandle::join).collect();
    let panicked = || Failure("a client of the test panicked".into());
    results.into_iter().map(|result| result.unwrap_or_else(|_| Err(panicked()))).sum()
}
