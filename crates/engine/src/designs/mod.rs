//! Designs that write pages in place: what each is, beside the paper that it comes from.
//!
//! They differ in what is declared here; how a page is placed, found again after a crash and brought to disk
//! is the same for all of them (see `in_place`), but that one has a slot directory. A new design is a file
//! here and its lines in the list of [`Design`](crate::Design).

mod cac;

mod clock;

mod exadata;

mod fifo;

mod lc;

mod lru;

mod tac;

pub(crate) use cac::CAC;
pub(crate) use clock::CLOCK;
pub(crate) use exadata::EXADATA;
pub(crate) use fifo::FIFO;
pub(crate) use lc::LC;
pub(crate) use lru::LRU;
pub(crate) use tac::TAC;

use mezzanine_ground::replacement::PolicyConfig;

use crate::config::{ConfigError, Design, PolicyParameters, TierConfig};

/// A replacement policy for so many frames.
type MakePolicy = fn(u64, &PolicyParameters) -> Result<PolicyConfig, ConfigError>;

/// What a design that writes in place consists of.
pub(crate) struct InPlace {
    /// Which page leaves.
    pub(crate) policy: MakePolicy,
    /// Pages are admitted when they are read from disk, not when they leave the host's memory.
    pub(crate) on_entry: bool,
    /// Dirty pages are written to disk before they have to leave.
    pub(crate) cleaner: Option<Cleaner>,
    /// A page comes into a full tier only if the policy says so.
    pub(crate) selective: bool,
    /// A slot directory on flash says what lies where, instead of the records of the queue.
    pub(crate) slots: bool,
    /// Whether the rest of the configuration goes with the design.
    pub(crate) check: fn(&TierConfig) -> Result<(), ConfigError>,
}

impl InPlace {
    /// What is a replacement policy and nothing else.
    const fn of(policy: MakePolicy) -> Self {
        Self { policy, on_entry: false, cleaner: None, selective: false, slots: false, check: any }
    }
}

/// Dirty pages are brought to disk ahead of need, the coldest first.
pub(crate) struct Cleaner {
    /// The policy by which it knows the coldest dirty page.
    pub(crate) policy: MakePolicy,
    /// The share of the frames that may be dirty.
    pub(crate) dirty_percent: fn(&PolicyParameters) -> u32,
}

/// Any configuration.
fn any(_config: &TierConfig) -> Result<(), ConfigError> {
    Ok(())
}

/// Checks what is particular to designs that write in place.
pub(crate) fn check(config: &TierConfig, design: &InPlace) -> Result<(), ConfigError> {
    if config.frames_max > config.frames {
        return Err(ConfigError::new(
            "frames_max",
            format!("a tier of design {} cannot grow: its pages lie where they were written", config.design),
            format!("use {}, or format a larger tier", config.frames),
        ));
    }
    (design.check)(config)
}

/// Refuses parameters of designs that were not chosen.
pub(crate) fn check_foreign(config: &TierConfig) -> Result<(), ConfigError> {
    let PolicyParameters { correlated_period, history, dirty_percent, write_back, .. } = config.policy;
    let PolicyParameters { extent_pages, ageing_period, random_weight, extents, .. } = config.policy;
    let given = [
        ("correlated_period", correlated_period.is_some(), Design::Lc),
        ("history", history.is_some(), Design::Lc),
        ("dirty_percent", dirty_percent.is_some(), Design::Lc),
        ("write_back", write_back, Design::Exadata),
        ("extent_pages", extent_pages.is_some(), Design::Tac),
        ("ageing_period", ageing_period.is_some(), Design::Tac),
        ("random_weight", random_weight.is_some(), Design::Tac),
        ("extents", extents.is_some(), Design::Tac),
    ];
    match given.into_iter().find(|&(_, given, of)| given && of != config.design) {
        None => Ok(()),
        Some((name, _, of)) => Err(ConfigError::new(
            name,
            format!("a parameter of design {of}, not of {}", config.design),
            "leave it out".into(),
        )),
    }
}
