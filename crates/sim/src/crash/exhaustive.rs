//! Every case of short traces, instead of some cases of long ones.
//!
//! A *trace* is a row of [`Step`]s of a small grammar, played in a *setting*: one of many tiny tiers, new or used. Every trace up to
//! a length is played in every setting; power fails in each device operation of it, and once after it; each time every
//! choice of what survives is tried (see its `window`): recovered, read, closed, and recovered again with another cut in each
//! operation of the recovery. There is no randomness: the same length always means the same cases.
//!
//! Stops before the last step of a trace are those of the shorter trace and are not repeated; nor are choices that leave the
//! same bytes at a later stop of the same step, which is most of what a stop in a read could show.
//!
//! Invariants checked: those of [`super::world`], by the same checkers.

mod step;

mod setting;

mod window;

mod stage;

mod name;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use mezzanine_volume::{Design, SyncMode};
use serde::Serialize;

use super::VIOLATIONS_MAX;
use super::report::{VERSION, Violation};
use setting::Setting;
use stage::{Finding, Stage};
pub use step::Step;

pub use name::CaseName;

/// What to run.
pub struct Options<'a> {
    /// The greatest length of a trace, in steps.
    pub length: usize,
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
        Self { length, sync_mode: None, design: None, threads: 1, progress: None }
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
    /// What was found, at most once for each trace, with the shortest traces first. A trace that shows something is not
    /// made longer.
    pub violations: Vec<Violation>,
}

/// Tries every case. Ends early when there are many violations.
pub fn run(options: &Options<'_>) -> Report {
    let settings = setting::settings(options.sync_mode, options.design);
    // Work is handed out by setting and first step, so that threads share the longest part.
    let units: Vec<_> = settings
        .iter()
        .flat_map(|setting| Step::ALL.iter().map(move |first| (setting, Some(*first))))
        .filter(|_| options.length > 0)
        .chain(settings.iter().map(|setting| (setting, None)))
        .collect();
    let traces_total = settings.len() as u64 * traces(options.length);
    let (next, done, enough) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let total = Mutex::new((Counts::default(), Vec::new()));
    let work = || {
        while let Some((setting, first)) = units.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
            let finished = || {
                let done = done.fetch_add(1, Ordering::Relaxed) + 1;
                if let Some(progress) = options.progress {
                    progress(done, traces_total);
                }
                !enough.load(Ordering::Relaxed)
            };
            let mut walk = Walk { counts: Counts::default(), found: Vec::new(), finished: &finished };
            walk.unit(setting, *first, options.length);
            let mut total = total.lock().unwrap_or_else(PoisonError::into_inner);
            total.0.add(&walk.counts);
            total.1.extend(walk.found);
            enough.fetch_or(total.1.len() >= VIOLATIONS_MAX, Ordering::Relaxed);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..options.threads.max(1) {
            scope.spawn(work);
        }
        work();
    });
    let (counts, mut found) = total.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_by_key(|(name, _): &(CaseName, _)| (name.trace.len(), name.to_string()));
    let violations = found.into_iter().map(|(name, finding)| violation(&name, finding)).collect();
    Report { length: options.length, settings: settings.len() as u64, counts, violations }
}

/// Tries one case alone, or as many as the name leaves open.
pub fn replay(name: &CaseName) -> Report {
    let mut counts = Counts::default();
    let found = Stage::new(name.setting.clone())
        .and_then(|mut stage| stage.node(&name.trace, Some(name.case), &mut counts));
    let violations = found.err().map(|finding| violation(&name.at(finding.case), finding));
    let violations = violations.into_iter().collect();
    Report { length: name.trace.len(), settings: 1, counts, violations }
}

fn violation(name: &CaseName, finding: Finding) -> Violation {
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
fn traces(length: usize) -> u64 {
    let mut ending_in = vec![0u64; Step::ALL.len()];
    let (mut all, mut before) = (1, 1);
    for _ in 0..length {
        for (step, ending) in Step::ALL.iter().zip(&mut ending_in) {
            *ending = before - if step.is_idempotent() { *ending } else { 0 };
        }
        before = ending_in.iter().sum();
        all += before;
    }
    all
}

/// A walk through the traces that begin with one step.
struct Walk<'a> {
    counts: Counts,
    found: Vec<(CaseName, Finding)>,
    /// Called after each trace; says whether to go on.
    finished: &'a dyn Fn() -> bool,
}

impl Walk<'_> {
    fn unit(&mut self, setting: &Setting, first: Option<Step>, length: usize) {
        match Stage::new(setting.clone()) {
            Ok(mut stage) => {
                let mut trace: Vec<_> = first.into_iter().collect();
                let length = if first.is_some() { length } else { 0 };
                self.below(&mut stage, &mut trace, length);
            }
            Err(finding) => self.found.push((CaseName::new(setting, &[], finding.case), finding)),
        }
    }

    /// Tries `trace` and all that begin with it, up to `length`. Returns whether to go on.
    fn below(&mut self, stage: &mut Stage, trace: &mut Vec<Step>, length: usize) -> bool {
        let found = stage.node(trace, None, &mut self.counts);
        let sound = found.is_ok();
        if let Err(finding) = found {
            self.found.push((CaseName::new(stage.setting(), trace, finding.case), finding));
        }
        if !(self.finished)() {
            return false;
        }
        if !sound || trace.len() >= length {
            return true;
        }
        for step in Step::ALL {
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
