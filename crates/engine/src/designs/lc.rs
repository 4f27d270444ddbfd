//! Lazy Cleaning (J. Do, D. Zhang, J. Patel, D. DeWitt, J. Naughton, A. Halverson, "Turbocharging DBMS buffer
//! pool using SSDs", SIGMOD 2011), as the FaCE papers compare with it ("Flash as cache extension for online
//! transactional workloads", sections 2 and 6).
//!
//! - Pages enter when they leave the host's memory, clean ones and dirty ones; each has one copy, which is
//!   the newest.
//! - LRU-2 decides what leaves.
//! - Dirty pages stay in flash only. When their share of the frames passes a threshold, a cleaner writes the
//!   coldest of them to disk, where the paper has a heap of the dirty pages: here a second LRU-2 order. They
//!   stay in flash, clean.
//! - The mapping is recoverable, as in the later version that the FaCE journal paper measures: here by the
//!   queue of records, where theirs logs it with the database's log.
//!
//! What the papers leave open: the threshold of the runs that FaCE is compared with, and LRU-2's periods
//! (docs/decisions/0007, 0008).

use mezzanine_ground::replacement::PolicyConfig;
use mezzanine_ground::replacement::lru_k::Config;

use super::{Cleaner, InPlace};
use crate::config::{ConfigError, PolicyParameters, TierConfig};

/// Dirty pages in per cent of the frames above which the cleaner works, where nothing else is said.
const DIRTY_PERCENT: u32 = 50;

pub(crate) const LC: InPlace = InPlace {
    cleaner: Some(Cleaner { policy: of_dirty_pages, dirty_percent }),
    check,
    ..InPlace::of(policy)
};

fn policy(frames: u64, parameters: &PolicyParameters) -> Result<PolicyConfig, ConfigError> {
    let mut config = with_period(frames, parameters)?;
    if let Some(pages) = parameters.history {
        config = config.with_history(pages)?;
    }
    Ok(config.into())
}

/// What was cleaned or has left is no longer among the dirty pages, and what it was is not remembered there.
fn of_dirty_pages(frames: u64, parameters: &PolicyParameters) -> Result<PolicyConfig, ConfigError> {
    Ok(with_period(frames, parameters)?.with_history(0)?.into())
}

/// What the orders of all pages and of the dirty ones have in common.
fn with_period(frames: u64, parameters: &PolicyParameters) -> Result<Config, ConfigError> {
    let config = Config::new(frames)?;
    match parameters.correlated_period {
        Some(references) => config.with_correlated_period(references),
        None => Ok(config),
    }
}

fn dirty_percent(parameters: &PolicyParameters) -> u32 {
    parameters.dirty_percent.unwrap_or(DIRTY_PERCENT)
}

fn check(config: &TierConfig) -> Result<(), ConfigError> {
    let percent = dirty_percent(&config.policy);
    if percent <= 100 {
        return Ok(());
    }
    let reason = format!("{percent} is more than all frames");
    Err(ConfigError::new("dirty_percent", reason, "use 0 to 100".into()))
}
