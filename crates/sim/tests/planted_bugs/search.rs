//! Looks for a violation with a rule taken out.

use mezzanine_engine::planted::{Bug, set};
use mezzanine_sim::crash::{CUTS_PER_WORLD, Outcome, Terms, Violation, database, volume};

/// The crash worlds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Volume,
    Database,
    Histories,
    Runners,
}

impl Kind {
    pub(crate) const ALL: [Self; 4] = [Self::Volume, Self::Database, Self::Histories, Self::Runners];

    fn run(self, seed: u64) -> Outcome {
        match self {
            Self::Volume => volume::World::run(seed, CUTS_PER_WORLD),
            Self::Database => database::World::run(seed, CUTS_PER_WORLD),
            Self::Histories => volume::World::of_histories(seed, &Terms::default()).live(CUTS_PER_WORLD),
            Self::Runners => volume::World::of_runners(seed, &Terms::default()).live(CUTS_PER_WORLD),
        }
    }
}

/// What was found, and after how many power cuts.
pub(crate) struct Found {
    pub(crate) cuts: u64,
    pub(crate) violation: Violation,
}

/// Lives through worlds from seed 1 on with `bug` switched on, until one shows a violation or the cuts reach
/// `cuts_max`.
pub(crate) fn search(bug: Option<Bug>, kind: Kind, cuts_max: u64) -> Option<Found> {
    set(bug);
    let mut cuts = 0;
    let mut found = None;
    for seed in 1.. {
        let outcome = kind.run(seed);
        // A world that fails before its first cut counts as one, or a search might never end.
        cuts += outcome.cuts.max(1);
        found = outcome.violation.map(|violation| Found { cuts, violation });
        if found.is_some() || cuts >= cuts_max {
            break;
        }
    }
    set(None);
    found
}
