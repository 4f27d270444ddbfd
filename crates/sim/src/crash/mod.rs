//! Power cuts, thousands a second, on the code that ships.
//!
//! Invariants checked: those of [`report::Invariant`], by the [`checkers`]; [`world`] says when.
//!
//! A run is a row of *worlds*, of files on a volume or of a database ([`crate::crash::database`]); in some of the
//! former parts of the machine are put back to earlier moments (`histories`). Each draws its configuration
//! from its own seed, formats a tier over simulated devices and lives through [`CUTS_PER_WORLD`] power cuts.
//! A violation names the seed of its world and the cut, and says how to see it again.
//!

pub mod driver;

pub mod volume;

pub mod database;

pub mod server;

pub mod kind;

pub mod exhaustive;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

pub use driver::excerpt::Excerpt;
use driver::report::VIOLATIONS_MAX;
pub use driver::report::{Coverage, Invariant, Report, VERSION, Violation};
pub use driver::terms::{Feature, Focus, Terms};
pub use driver::watch::Endless;
use driver::watch::{ENDLESS_AFTER, Watch};
pub use kind::{Kind, Worlds};
pub use volume::world::Outcome;

/// Power cuts in the life of one world. Long enough that a tiny queue wraps many times, short enough that
/// many configurations get their turn.
pub const CUTS_PER_WORLD: u64 = 64;

/// Called with the number of cuts done so far, from any of the threads, in no particular order.
pub type Progress<'a> = &'a (dyn Fn(u64) + Sync);

/// What to run.
pub struct Options<'a> {
    /// The seed of the first world; the following worlds have the following seeds.
    pub seed: u64,
    /// How many power cuts to simulate, at least.
    pub cuts: u64,
    /// In worlds of which kind.
    pub worlds: Worlds,
    /// What else is asked of them. An excerpt is of one world only, and that is then the only one.
    pub terms: Terms,
    /// How many threads to use; 0 counts as 1. The result does not depend on it.
    pub threads: usize,
    /// Told about the progress.
    pub progress: Option<Progress<'a>>,
    /// Told the command that replays a world that does not come to its end, once; the run cannot end then.
    pub endless: Option<Endless<'a>>,
}

impl Options<'_> {
    /// Worlds of all kinds, one thread and no progress.
    pub fn new(seed: u64, cuts: u64) -> Self {
        Self {
            seed,
            cuts,
            worlds: Worlds::All,
            terms: Terms::default(),
            threads: 1,
            progress: None,
            endless: None,
        }
    }
}

/// Runs as many worlds as the cuts need. Violations are ordered by seed.
pub fn run(options: &Options<'_>) -> Report {
    let worlds = if options.terms.only.is_some() { 1 } else { options.cuts.div_ceil(CUTS_PER_WORLD) };
    let (next, done, enough) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let total = Mutex::new(Report { seed: options.seed, ..Report::default() });
    let watch = Watch::new(ENDLESS_AFTER, options.threads);
    let work = || {
        while !enough.load(Ordering::Relaxed) {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= worlds {
                break;
            }
            let cuts = CUTS_PER_WORLD.min(options.cuts - number * CUTS_PER_WORLD);
            let seed = options.seed.wrapping_add(number);
            let kind = options.worlds.kind(seed, options.terms.focus);
            let mut outcome = watch.over(seed, || kind.run(seed, cuts, &options.terms));
            if options.terms.only.is_none() {
                let lived = std::mem::take(&mut outcome.lived);
                let shrink = |violation| driver::shrink::shrink(kind, &options.terms, violation, lived);
                outcome.violation = outcome.violation.map(shrink);
            }
            let sum = done.fetch_add(outcome.cuts, Ordering::Relaxed) + outcome.cuts;
            let mut total = total.lock().unwrap_or_else(PoisonError::into_inner);
            total.take(kind, outcome);
            enough.fetch_or(total.violations.len() >= VIOLATIONS_MAX, Ordering::Relaxed);
            drop(total);
            if let Some(progress) = options.progress {
                progress(sum);
            }
        }
    };
    std::thread::scope(|scope| {
        if let Some(endless) = options.endless {
            let watch = &watch;
            scope.spawn(move || {
                watch.watch(|seed| {
                    let kind = options.worlds.kind(seed, options.terms.focus);
                    endless(&kind.replay(seed, CUTS_PER_WORLD, &options.terms));
                });
            });
        }
        let _until_over = watch.until_over();
        std::thread::scope(|scope| {
            for _ in 1..options.threads.max(1) {
                scope.spawn(work);
            }
            work();
        });
    });
    let mut report = total.into_inner().unwrap_or_else(PoisonError::into_inner);
    report.violations.sort_by_key(|violation| violation.seed);
    report
}

impl Report {
    fn take(&mut self, kind: Kind, outcome: Outcome) {
        self.worlds += 1;
        self.worlds_database += u64::from(kind == Kind::Database);
        self.worlds_histories += u64::from(kind == Kind::Histories);
        self.worlds_runners += u64::from(kind == Kind::Runners);
        self.cuts += outcome.cuts;
        self.operations += outcome.operations;
        self.coverage.add(&outcome.coverage);
        self.violations.extend(outcome.violation);
    }
}
