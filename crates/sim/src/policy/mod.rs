//! A design's replacement alone: which requests of a trace find their page, and nothing of devices, writes to disk or time.
//!
//! The policies are the engine's own ([`mezzanine_engine::replacement`]). What they are given here is a cache of so many frames
//! that takes in every page that it misses. A request is a read or a write of one page, and writes are requests like reads. Pages have
//! small numbers, so that no loop has to hash anything: `mezzanine_trace::Dense` gives them out.
//!
//! [`Cache`] is one policy with one number of frames, [`Distances`] LRU with all numbers of frames at once, and [`Curve`]
//! whatever mixture of them a miss-ratio curve needs.

mod cache;
mod counts;
mod curve;
mod distances;
mod prod3;

use std::fmt;
use std::str::FromStr;

pub use cache::Cache;
pub use counts::{Access, Counts, PAGES_MAX};
pub use curve::{Curve, Point};
pub use distances::Distances;
pub use prod3::prod3;

use mezzanine_engine::replacement::Policy;

/// A design whose replacement can be run alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Design(Policy);

impl Design {
    /// Every one.
    pub fn all() -> impl Iterator<Item = Self> {
        Policy::ALL.iter().copied().map(Self)
    }

    /// The name used in configuration and output: that of the design, where one is known by more than its replacement.
    pub fn name(self) -> &'static str {
        match self.0 {
            Policy::LruK => "lc",
            policy => policy.name(),
        }
    }

    /// Its replacement.
    pub fn policy(self) -> Policy {
        self.0
    }
}

impl From<Policy> for Design {
    fn from(policy: Policy) -> Self {
        Self(policy)
    }
}

impl fmt::Display for Design {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Design {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::all().find(|design| design.name() == text).ok_or_else(|| {
            let known: Vec<_> = Self::all().map(Self::name).collect();
            format!("unknown design '{text}'; known: {}", known.join(", "))
        })
    }
}
