//! Every case of short traces, instead of some cases of long ones.
//!
//! A *trace* is a row of steps of a small grammar, [`Step`]s of a volume or [`DatabaseStep`]s of a database,
//! played in a *setting*: one of many tiny tiers, new or used. Every trace up to a length is played in every
//! setting; power fails in each device operation of it, and once after it; each time every choice of what
//! survives is tried (see its `window`): recovered, read, closed, and recovered again with another cut in
//! each operation of the recovery. There is no randomness: the same length always means the same cases.
//!
//! Stops before the last step of a trace are those of the shorter trace and are not repeated; nor are choices
//! that leave the same bytes at a later stop of the same step, which is most of what a stop in a read could
//! show.
//!
//! Invariants checked: those of [`super::world`], by the same checkers.

pub(crate) mod subject;

pub(crate) mod window;

mod volume;

mod stage;

mod name;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use mezzanine_volume::{Design, SyncMode};
use serde::Serialize;

use super::VIOLATIONS_MAX;
use super::kind::{Kind, Worlds};
use super::report::{VERSION, Violation};
use super::world::World as Volume;
use crate::database::World as Database;
use name::{Name, Of};
use stage::{Finding, Stage};
use subject::{Grammar, Scene, Subject};

pub use crate::database::exhaustive::Step as DatabaseStep;
pub use name::CaseName;
pub use volume::Step;

/// What to run.
pub struct Options<'a> {
    /// The greatest length of a trace, in steps.
    pub length: usize,
    /// Of worlds of which kind.
    pub worlds: Worlds,
    /// Only settings with this sync mode.
    pub sync_mode: Option<SyncMode>,
    /// Only settings with this design.
    pub design: Option<Design>,
    /// How many threads to use; 0 counts as 1. The result does not depend on it.
    pub threads: usize,
    /// Told, as traces are finished, how many of how many are.
    pub progress: Option<&'a (dyn Fn(u64, u64) + Sync)>,
}

impl Options<'_> {
    /// Everything up to a length, with one thread and no progress.
    pub fn new(length: usize) -> Self {
        Self { length, worlds: Worlds::All, sync_mode: None, design: None, threads: 1, progress: None }
    }
}

/// How many cases there were.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Traces, each counted in each of its settings.
    pub traces: u64,
    /// Device operations in which power failed, and ends of traces.
    pub stops: u64,
    /// Device operations of recoveries in which power failed.
    pub stops_inside_recovery: u64,
    /// Power cuts: choices of what survived a stop, each recovered and checked.
    pub cuts: u64,
    /// Of these, inside of a recovery.
    pub cuts_inside_recovery: u64,
    /// Of these, with a torn write.
    pub torn: u64,
}

impl Counts {
    fn add(&mut self, other: &Self) {
        self.traces += other.traces;
        self.stops += other.stops;
        self.stops_inside_recovery += other.stops_inside_recovery;
        self.cuts += other.cuts;
        self.cuts_inside_recovery += other.cuts_inside_recovery;
        self.torn += other.torn;
    }
}

/// The result of [`run`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The greatest length of a trace.
    pub length: usize,
    /// Settings that every trace was played in.
    pub settings: u64,
    /// How many cases there were.
    #[serde(flatten)]
    pub counts: Counts,
    /// What was found, at most once for each trace, with the shortest traces first. A trace that shows
    /// something is not made longer.
    pub violations: Vec<Violation>,
}

/// Tries every case. Ends early when there are many violations.
pub fn run(options: &Options<'_>) -> Report {
    let volumes = settings_of::<Volume>(options, Kind::Volume);
    let databases = settings_of::<Database>(options, Kind::Database);
    let traces_total = volumes.len() as u64 * traces::<Step>(options.length)
        + databases.len() as u64 * traces::<DatabaseStep>(options.length);
    let run = Run {
        options,
        traces_total,
        traces_done: AtomicU64::new(0),
        enough: AtomicBool::new(false),
        total: Mutex::default(),
    };
    run.all::<Volume>(&volumes);
    run.all::<Database>(&databases);
    let settings = (volumes.len() + databases.len()) as u64;
    let (counts, mut found) = run.total.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_by_key(|(length, violation)| (*length, violation.replay.clone()));
    let violations = found.into_iter().map(|(_, violation)| violation).collect();
    Report { length: options.length, settings, counts, violations }
}

fn settings_of<S: Subject>(options: &Options<'_>, kind: Kind) -> Vec<S::Setting> {
    let wanted = match options.worlds {
        Worlds::All => true,
        Worlds::Only(only) => only == kind,
    };
    if wanted { S::Setting::all(options.sync_mode, options.design) } else { Vec::new() }
}

/// One call of [`run`].
struct Run<'o> {
    options: &'o Options<'o>,
    traces_total: u64,
    traces_done: AtomicU64,
    enough: AtomicBool,
    /// What was found, each with the length of its trace.
    total: Mutex<(Counts, Vec<(usize, Violation)>)>,
}

impl Run<'_> {
    /// Tries every trace in each of these settings, on all threads.
    fn all<S: Subject>(&self, settings: &[S::Setting]) {
        // Work is handed out by setting and first step, so that threads share the longest part.
        let length = self.options.length;
        let units: Vec<_> = settings
            .iter()
            .flat_map(|setting| S::Step::ALL.iter().map(move |first| (setting, Some(*first))))
            .filter(|_| length > 0)
            .chain(settings.iter().map(|setting| (setting, None)))
            .collect();
        let next = AtomicU64::new(0);
        let finished = || self.finished();
        let work = || {
            while let Some((setting, first)) = units.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
                let mut walk =
                    Walk::<S> { counts: Counts::default(), found: Vec::new(), finished: &finished };
                walk.unit(setting, *first, length);
                self.take(walk);
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..self.options.threads.max(1) {
                scope.spawn(work);
            }
            work();
        });
    }

    /// One more trace is finished. Whether to go on.
    fn finished(&self) -> bool {
        let done = self.traces_done.fetch_add(1, Ordering::Relaxed) + 1;
        if let Some(progress) = self.options.progress {
            progress(done, self.traces_total);
        }
        !self.enough.load(Ordering::Relaxed)
    }

    fn take<S: Subject>(&self, walk: Walk<'_, S>) {
        let mut total = self.total.lock().unwrap_or_else(PoisonError::into_inner);
        total.0.add(&walk.counts);
        let found = walk.found.into_iter();
        total.1.extend(found.map(|(name, finding)| (name.trace.len(), violation(&name, finding))));
        self.enough.fetch_or(total.1.len() >= VIOLATIONS_MAX, Ordering::Relaxed);
    }
}

/// Tries one case alone, or as many as the name leaves open.
pub fn replay(name: &CaseName) -> Report {
    match &name.0 {
        Of::Volume(name) => replay_of(name),
        Of::Database(name) => replay_of(name),
    }
}

fn replay_of<S: Subject>(name: &Name<S>) -> Report {
    let mut counts = Counts::default();
    let found = Stage::<S>::new(name.setting.clone())
        .and_then(|mut stage| stage.node(&name.trace, Some(name.case), &mut counts));
    let violations = found.err().map(|finding| violation(&name.at(finding.case), finding));
    let violations = violations.into_iter().collect();
    Report { length: name.trace.len(), settings: 1, counts, violations }
}

fn violation<S: Subject>(name: &Name<S>, finding: Finding) -> Violation {
    Violation {
        invariant: finding.invariant,
        seed: 0,
        cut: finding.case.stop,
        version: VERSION.to_owned(),
        text: finding.text,
        replay: format!("mezz sim crash --exhaustive --case {name}"),
    }
}

/// How many traces there are up to a length.
fn traces<G: Grammar>(length: usize) -> u64 {
    let mut ending_in = vec![0u64; G::ALL.len()];
    let (mut all, mut before) = (1, 1);
    for _ in 0..length {
        for (step, ending) in G::ALL.iter().zip(&mut ending_in) {
            *ending = before - if step.is_idempotent() { *ending } else { 0 };
        }
        before = ending_in.iter().sum();
        all += before;
    }
    all
}

/// A walk through the traces that begin with one step.
struct Walk<'a, S: Subject> {
    counts: Counts,
    found: Vec<(Name<S>, Finding)>,
    /// Called after each trace; says whether to go on.
    finished: &'a dyn Fn() -> bool,
}

impl<S: Subject> Walk<'_, S> {
    fn unit(&mut self, setting: &S::Setting, first: Option<S::Step>, length: usize) {
        match Stage::<S>::new(setting.clone()) {
            Ok(mut stage) => {
                let mut trace: Vec<_> = first.into_iter().collect();
                let length = if first.is_some() { length } else { 0 };
                self.below(&mut stage, &mut trace, length);
            }
            Err(finding) => self.found.push((Name::new(setting, &[], finding.case), finding)),
        }
    }

    /// Tries `trace` and all that begin with it, up to `length`. Returns whether to go on.
    fn below(&mut self, stage: &mut Stage<S>, trace: &mut Vec<S::Step>, length: usize) -> bool {
        let found = stage.node(trace, None, &mut self.counts);
        let sound = found.is_ok();
        if let Err(finding) = found {
            self.found.push((Name::new(stage.setting(), trace, finding.case), finding));
        }
        if !(self.finished)() {
            return false;
        }
        if !sound || trace.len() >= length {
            return true;
        }
        for step in S::Step::ALL {
            if step.is_idempotent() && trace.last() == Some(step) {
                continue;
            }
            trace.push(*step);
            let go_on = self.below(stage, trace, length);
            trace.pop();
            if !go_on {
                return false;
            }
        }
        true
    }
}
