//! Three-tier caches on flash: BL, LPD and NFA.
//!
//! The top tier is a buffer pool in memory, the bottom tier a disk; the middle tier is a cache on flash, and
//! the subject. Source: "Towards an Efficient Flash-Based Mid-Tier Cache" (DEXA 2012); each file here is a
//! part of it, to be read beside it. What the paper leaves open is decided in
//! `docs/decisions/0029-three-tier-caches.md`.
//!
//! `baseline` and `lpd` are ways to find a slot in the same cache manager (`cache`), over a translation layer
//! (`ftl`); `nfa` has neither. All three are over the same flash (`flash`), which is [`crate::nand::Array`]
//! with a write pointer. Times are sums of the costs of operations ([`Costs`]): nothing overlaps.
//!
//! ```
//! use mezzanine_ssd::three_tier::{Approach, Costs, Driver, FlashConfig, Request};
//!
//! let mut driver = Driver::new(Approach::Nfa.tier(FlashConfig::with_blocks(64, 16))?);
//! for page in 0..5_000 {
//!     driver.make(Request::read(page % 1_200));
//! }
//! let counts = driver.tier().counts();
//! assert_eq!(counts.requests(), 5_000);
//! assert!(Costs::PUBLISHED.times(&counts).disk_ms > 0.0);
//! # Ok::<(), mezzanine_ssd::ConfigError>(())
//! ```

mod costs;

mod flash;

mod disk;
mod recency;

mod ftl;

mod cache;

mod baseline;
mod lpd;
mod nfa;

mod top;

mod driver;

mod comparison;

use std::fmt;

use crate::ConfigError;

pub use comparison::{Comparison, Outcome};
pub use costs::{Costs, Counts, Operations, Times};
pub use driver::Driver;
pub use flash::{Collected, FlashConfig};
pub use top::{PAGES_MAX, Request, TopTier};

/// What a read finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// What the page holds; 0 if it was never written.
    pub content: u64,
    /// Whether it was in the middle tier.
    pub is_hit: bool,
}

/// A cache between the top tier and the disk. It takes in each page that it is asked for, and writes back.
pub trait MiddleTier: fmt::Debug {
    /// The top tier lacks a page.
    fn read(&mut self, page: u32) -> Found;

    /// A dirty page leaves the top tier, whole. Says whether a version of it was here.
    fn write(&mut self, page: u32, content: u64) -> bool;

    /// What was counted since the beginning.
    fn counts(&self) -> Counts;

    /// Blocks collected, by their pages.
    fn collected(&self) -> &Collected;

    /// How often each block was erased (Figure 9).
    fn erases(&self) -> Vec<u32>;

    /// Pages that are here.
    fn cached_pages(&self) -> u32;

    /// Looks at everything, and says what does not hold. For tests.
    ///
    /// # Errors
    /// The first invariant that is broken.
    fn check(&mut self) -> Result<(), String>;
}

/// The approaches that are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Approach {
    /// The baseline.
    Bl,
    /// Logical page drop.
    Lpd {
        /// Pages dropped with each replacement; with 0 it is BL.
        d: u32,
    },
    /// Native flash access.
    Nfa,
}

impl Approach {
    /// d where the paper does not say otherwise.
    pub const PUBLISHED_D: u32 = 1024;

    /// A cache of this kind, empty.
    ///
    /// # Errors
    /// The first number of the flash that cannot be.
    pub fn tier(self, config: FlashConfig) -> Result<Box<dyn MiddleTier>, ConfigError> {
        Ok(match self {
            Self::Bl => Box::new((cache::Cache::new(config)?, baseline::Standard)),
            Self::Lpd { d } => Box::new((cache::Cache::new(config)?, lpd::Drop { d })),
            Self::Nfa => Box::new(nfa::Nfa::new(config)?),
        })
    }
}

impl fmt::Display for Approach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bl => f.write_str("BL"),
            Self::Lpd { d } => write!(f, "LPD, d = {d}"),
            Self::Nfa => f.write_str("NFA"),
        }
    }
}
