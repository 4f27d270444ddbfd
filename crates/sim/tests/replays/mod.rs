//! What a violation names, taken from the environment: which world to see again, and which part of it.

use std::str::FromStr;

use mezzanine_sim::crash::{Focus, Terms};

/// A world to see again.
pub(crate) struct Replay {
    pub(crate) seed: u64,
    pub(crate) cuts: u64,
    pub(crate) terms: Terms,
}

impl Replay {
    /// `MEZZANINE_SEED`, `_CUTS`, `_SYNC_MODE`, `_DESIGN`, `_WITHOUT`, `_ANOMALIES` and `_ONLY`, each as the
    /// option of that name of `mezz sim crash`.
    pub(crate) fn from_environment() -> Self {
        let without = variable("WITHOUT").unwrap_or_default();
        let features = without.split(',').filter(|name| !name.is_empty());
        let focus = Focus { sync_mode: parsed("SYNC_MODE"), design: parsed("DESIGN") };
        let anomalies = variable("ANOMALIES").unwrap_or_default();
        let anomalies = anomalies.split(',').filter(|name| !name.is_empty());
        let anomalies = anomalies.map(|name| name.parse().unwrap()).collect();
        let without = features.map(|name| name.parse().unwrap()).collect();
        Self {
            seed: parsed("SEED").unwrap_or(1),
            cuts: parsed("CUTS").unwrap_or(4),
            terms: Terms { focus, without, anomalies, only: parsed("ONLY") },
        }
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(format!("MEZZANINE_{name}")).ok()
}

/// What `MEZZANINE_` and this name stand for, if they are set.
pub(crate) fn parsed<T: FromStr<Err: std::fmt::Debug>>(name: &str) -> Option<T> {
    variable(name).map(|text| text.parse().unwrap())
}
