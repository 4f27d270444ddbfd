//! The search: every trace up to a length in every setting, on all threads.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::counts::Counts;
use super::name::Name;
use super::stage::{Finding, Stage};
use super::subject::{Grammar, Subject};
use crate::crash::driver::report::{VERSION, VIOLATIONS_MAX, Violation};
use crate::crash::driver::threads::on_threads;

/// Called, as traces are finished, with how many of how many are.
pub type Progress<'a> = &'a (dyn Fn(u64, u64) + Sync);

/// One search, through the settings of one kind of world or of several.
pub(crate) struct Search<'o> {
    /// The greatest length of a trace.
    length: usize,
    threads: usize,
    progress: Option<Progress<'o>>,
    traces_total: u64,
    traces_done: AtomicU64,
    enough: AtomicBool,
    /// What was found, each with the length of its trace.
    total: Mutex<(Counts, Vec<(usize, Violation)>)>,
}

impl<'o> Search<'o> {
    /// A search that goes through so many traces, each counted in each of its settings.
    pub(crate) fn new(
        length: usize,
        threads: usize,
        progress: Option<Progress<'o>>,
        traces_total: u64,
    ) -> Self {
        Self {
            length,
            threads,
            progress,
            traces_total,
            traces_done: AtomicU64::new(0),
            enough: AtomicBool::new(false),
            total: Mutex::default(),
        }
    }

    /// Tries every trace in each of these settings, on all threads. Ends early when there are many
    /// violations.
    pub(crate) fn all<S: Subject>(&self, settings: &[S::Setting]) {
        // Work is handed out by setting and first step, so that threads share the longest part.
        let length = self.length;
        let units: Vec<_> = settings
            .iter()
            .flat_map(|setting| S::Step::ALL.iter().map(move |first| (setting, Some(*first))))
            .filter(|_| length > 0)
            .chain(settings.iter().map(|setting| (setting, None)))
            .collect();
        let next = AtomicU64::new(0);
        let finished = || self.finished();
        on_threads(self.threads, || {
            while let Some((setting, first)) = units.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
                let mut walk =
                    Walk::<S> { counts: Counts::default(), found: Vec::new(), finished: &finished };
                walk.unit(setting, *first, length);
                self.take(walk);
            }
        });
    }

    /// One more trace is finished. Whether to go on.
    fn finished(&self) -> bool {
        let done = self.traces_done.fetch_add(1, Ordering::Relaxed) + 1;
        if let Some(progress) = self.progress {
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

    /// How many cases there were, and what was found, the shortest traces first.
    pub(crate) fn found(self) -> (Counts, Vec<Violation>) {
        let (counts, mut found) = self.total.into_inner().unwrap_or_else(PoisonError::into_inner);
        found.sort_by_key(|(length, violation)| (*length, violation.replay.clone()));
        (counts, found.into_iter().map(|(_, violation)| violation).collect())
    }
}

/// Tries one case alone, or as many as the name leaves open.
pub(crate) fn replay<S: Subject>(name: &Name<S>) -> (Counts, Option<Violation>) {
    let mut counts = Counts::default();
    let found = Stage::<S>::new(name.setting.clone())
        .and_then(|mut stage| stage.node(&name.trace, Some(name.case), &mut counts));
    (counts, found.err().map(|finding| violation(&name.at(finding.case), finding)))
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
pub(crate) fn traces<G: Grammar>(length: usize) -> u64 {
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
