//! What all crash worlds share, whatever lives in them.
//!
//! *Architecture invariant:* nothing here knows a volume or a database; of those it has traits, and what comes
//! of them in a [`report`].

pub mod report;

pub(crate) mod panics;

pub(crate) mod whole;

pub(crate) mod harm;

pub(crate) mod planned;

pub(crate) mod ages;

pub(crate) mod tiers;

pub(crate) mod weights;

pub(crate) mod excerpt;

pub(crate) mod terms;

pub(crate) mod course;

pub(crate) mod stop;

pub(crate) mod life;

pub(crate) mod watch;

pub(crate) mod shrink;

pub(crate) mod run;

pub(crate) mod threads;

pub(crate) mod exhaustive;
