//! Temperature-aware caching (M. Canim, G. Mihaila, B. Bhattacharjee, K. Ross, C. Lang, "SSD bufferpool
//! extensions for database systems", VLDB 2010), as "Flash as cache extension for online transactional
//! workloads", sections 2 and 5.1, describes it.
//!
//! - Pages enter when they are read from disk. A dirty page that leaves the host's memory goes to flash and
//!   to disk.
//! - Extents are ranked by how often they are accessed; the coldest gives up a page. Once flash is full a
//!   page enters only if its extent is hotter than that. A page that flash has and that is written stays.
//! - Disk is never behind: sync mode `through` alone.
//! - A slot directory on flash, with a slot for each frame, is current at every moment (`in_place/slots`). A
//!   page that enters costs two more random writes: one makes the slot of the page that left invalid, one
//!   makes its own valid.
//!
//! What the description leaves open is in docs/decisions/0011-cac-and-tac.md (temperature) and
//! 0013-tac-and-its-slot-directory.md.

use mezzanine_ground::replacement::PolicyConfig;
use mezzanine_ground::replacement::temperature::Config;

use super::InPlace;
use crate::config::{ConfigError, PolicyParameters, SyncMode, TierConfig};

pub(crate) const TAC: InPlace =
    InPlace { on_entry: true, selective: true, slots: true, check, ..InPlace::of(policy) };

fn policy(frames: u64, parameters: &PolicyParameters) -> Result<PolicyConfig, ConfigError> {
    let mut config = Config::new(frames)?;
    if let Some(pages) = parameters.extent_pages {
        config = config.with_extent_pages(pages)?;
    }
    if let Some(references) = parameters.ageing_period {
        config = config.with_ageing_period(references)?;
    }
    if let Some(weight) = parameters.random_weight {
        config = config.with_random_weight(weight)?;
    }
    if let Some(extents) = parameters.extents {
        config = config.with_extents(extents)?;
    }
    Ok(config.into())
}

fn check(config: &TierConfig) -> Result<(), ConfigError> {
    if config.sync_mode == SyncMode::Through {
        return Ok(());
    }
    let reason = format!("design tac keeps disk as new as flash, and mode {} does not", config.sync_mode);
    Err(ConfigError::new("sync_mode", reason, "use through".into()))
}
