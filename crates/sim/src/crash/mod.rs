//! Power cuts, thousands a second, on the code that ships.
//!
//! Invariants checked: those of [`Invariant`]; [`volume::life`], [`database::life`] and [`server`] say when,
//! and by what.
//!
//! A run is a row of *worlds*: of files on a [`volume`], of a [`database`] on the engine alone, of a
//! [`server`] on the host that ships for PostgreSQL ([`Kind`]). Each draws its configuration from its own
//! seed, formats a tier over simulated devices and lives through [`CUTS_PER_WORLD`] power cuts. A violation
//! names the seed of its world and the cut, and says how to see it again. What runs them, and what they
//! share, is in `driver`; the [`exhaustive`] mode plays short traces instead, with every cut.

pub(crate) mod driver;

pub mod volume;

pub mod database;

pub mod server;

mod kind;

mod subjects;

pub mod exhaustive;

use serde::Serialize;

pub use driver::drives::{Drive, DriveAnomaly};
pub use driver::excerpt::Excerpt;
pub use driver::life::Outcome;
use driver::report::VIOLATIONS_MAX;
pub use driver::report::{Coverage, Invariant, VERSION, Violation};
use driver::run::Run;
pub use driver::run::{CUTS_PER_WORLD, Progress};
pub use driver::terms::{Feature, Focus, Terms};
pub use driver::watch::Endless;
pub use kind::{Kind, Worlds};

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

/// The result of [`run`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The seed that was asked for.
    pub seed: u64,
    /// Power cuts simulated.
    pub cuts: u64,
    /// Worlds, each with its own configuration.
    pub worlds: u64,
    /// Of these, worlds of a database; the others are of a volume.
    pub worlds_database: u64,
    /// Of those of a volume, worlds whose parts are put back to earlier moments.
    pub worlds_histories: u64,
    /// Of the worlds, those of a volume with threads that carry out its jobs.
    pub worlds_runners: u64,
    /// Reads, writes, syncs, discards, changes of length and steps carried out.
    pub operations: u64,
    /// What was found; the world that shows one is not taken further.
    pub violations: Vec<Violation>,
    /// What was reached.
    pub coverage: Coverage,
}

/// Runs as many worlds as the cuts need. Violations are ordered by seed.
pub fn run(options: &Options<'_>) -> Report {
    let Options { seed, cuts, worlds, ref terms, threads, progress, endless } = *options;
    let mut report = Report { seed, ..Report::default() };
    Run { seed, cuts, terms, threads, progress, endless }.worlds(
        |seed| worlds.kind(seed, terms.focus),
        |kind, outcome| {
            report.take(kind, outcome);
            report.violations.len() < VIOLATIONS_MAX
        },
    );
    report.violations.sort_by_key(|violation| violation.seed);
    report
}

impl Report {
    fn take(&mut self, kind: Kind, outcome: Outcome) {
        self.worlds += 1;
        self.worlds_database += u64::from(matches!(kind, Kind::Database | Kind::Zones | Kind::DriveDatabase));
        self.worlds_histories += u64::from(kind == Kind::Histories);
        self.worlds_runners += u64::from(kind == Kind::Runners);
        self.cuts += outcome.cuts;
        self.operations += outcome.operations;
        self.coverage.add(&outcome.coverage);
        self.violations.extend(outcome.violation);
    }
}
