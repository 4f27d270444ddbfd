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
//! Invariants checked: those of [`super::volume::world`], by the same checkers.

use std::fmt;
use std::str::FromStr;

use mezzanine_engine::{Design, SyncMode};
use serde::Serialize;

use super::database::World as Database;
use super::driver::exhaustive::name::Name;
use super::driver::exhaustive::search::{self, Search, traces};
use super::driver::exhaustive::subject::{Scene, Subject};
use super::driver::report::Violation;
use super::kind::{Kind, Worlds};
use super::volume::World as Volume;

pub use super::database::exhaustive::Step as DatabaseStep;
pub use super::driver::exhaustive::counts::Counts;
pub use super::driver::exhaustive::search::Progress;
pub use super::volume::exhaustive::Step;

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
    pub progress: Option<Progress<'a>>,
}

impl Options<'_> {
    /// Everything up to a length, with one thread and no progress.
    pub fn new(length: usize) -> Self {
        Self { length, worlds: Worlds::All, sync_mode: None, design: None, threads: 1, progress: None }
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
    let search = Search::new(options.length, options.threads, options.progress, traces_total);
    search.all::<Volume>(&volumes);
    search.all::<Database>(&databases);
    let (counts, violations) = search.found();
    let settings = (volumes.len() + databases.len()) as u64;
    Report { length: options.length, settings, counts, violations }
}

fn settings_of<S: Subject>(options: &Options<'_>, kind: Kind) -> Vec<S::Setting> {
    let wanted = match options.worlds {
        Worlds::All => true,
        Worlds::Only(only) => only == kind,
    };
    if wanted { S::Setting::all(options.sync_mode, options.design) } else { Vec::new() }
}

/// Tries one case alone, or as many as the name leaves open.
pub fn replay(name: &CaseName) -> Report {
    match &name.0 {
        Of::Volume(name) => replay_of(name),
        Of::Database(name) => replay_of(name),
    }
}

fn replay_of<S: Subject>(name: &Name<S>) -> Report {
    let (counts, found) = search::replay(name);
    Report { length: name.trace.len(), settings: 1, counts, violations: found.into_iter().collect() }
}

/// The name of a case, of a volume or of a database.
#[derive(Debug, Clone)]
pub struct CaseName(Of);

/// What a case is of.
#[derive(Debug, Clone)]
enum Of {
    Volume(Name<Volume>),
    Database(Name<Database>),
}

impl fmt::Display for CaseName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Of::Volume(name) => name.fmt(f),
            Of::Database(name) => name.fmt(f),
        }
    }
}

impl FromStr for CaseName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let setting = text.split(':').next().unwrap_or_default();
        if <Database as Subject>::Setting::named(setting).is_some() {
            return text.parse().map(|name| Self(Of::Database(name)));
        }
        if <Volume as Subject>::Setting::named(setting).is_some() {
            return text.parse().map(|name| Self(Of::Volume(name)));
        }
        let mut known = names::<Volume>();
        known.extend(names::<Database>());
        Err(format!("there is no setting '{setting}'; known: {}", known.join(", ")))
    }
}

fn names<S: Subject>() -> Vec<String> {
    S::Setting::all(None, None).iter().map(S::Setting::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_it_is_written() {
        for text in [
            "used/durable/face-gsc/both/1:wsj:5.12+3.0",
            "new/through/face-gr/both/2::4.0",
            "new/durable/face-basic/both/1:z:7",
            "used/durable/face-gsc/clean/2:kk",
            "database/used/drained/face-gsc/both/1:pk:3.1+2.0",
        ] {
            assert_eq!(text.parse::<CaseName>().map(|name| name.to_string()), Ok(text.to_owned()));
        }
    }

    #[test]
    fn a_wrong_name_is_answered_with_what_there_is() {
        let complaint = |text: &str| text.parse::<CaseName>().err().unwrap_or_default();
        assert!(complaint("old/durable").contains("used/durable/face-gsc/both/1"));
        assert!(complaint("old/durable").contains("database/new/drained/face-gr/both/2"));
        assert!(complaint("used/durable/face-gsc/both/1:q").contains("w write the first page"));
        assert!(complaint("used/durable/face-gsc/both/1:w:x").contains("'x' is not a number"));
        assert!(complaint("used/durable/face-gsc/both/1:w:1.2:3").contains(":3"));
    }
}
