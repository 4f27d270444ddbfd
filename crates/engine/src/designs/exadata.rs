//! Exadata Smart Flash Cache (Oracle, as described in "Flash as cache extension for online transactional
//! workloads", section 2): LRU, in place, pages entering when they are read from disk.
//!
//! - *Write-around*, as it was at first: flash holds clean pages only; a page that changes goes to disk, and
//!   its copy in flash is dropped.
//! - *Write-back*, in later editions: it goes to flash, and to disk when it leaves.
//!
//! What its descriptions leave open is what other caches of the kind do: nothing is known of sizes and
//! recovery. Objects are not told apart by type.

use mezzanine_ground::replacement::lru::Config;

use super::InPlace;
use crate::config::{Admission, ConfigError, TierConfig};

pub(crate) const EXADATA: InPlace =
    InPlace { on_entry: true, check, ..InPlace::of(|frames, _| Ok(Config::new(frames)?.into())) };

fn check(config: &TierConfig) -> Result<(), ConfigError> {
    if config.policy.write_back || config.admission == Admission::Clean {
        return Ok(());
    }
    let reason =
        format!("{} pages cannot be admitted by a design that writes around flash", config.admission);
    Err(ConfigError::new("admission", reason, "use clean, or write_back".into()))
}
