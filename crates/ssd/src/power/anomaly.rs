//! What a power cut may do to a drive without a durable cache.

use serde::{Deserialize, Serialize};

use crate::ConfigError;
use crate::config::{CacheKind, SsdConfig};

/// What drives were seen to do when their power was cut ("Understanding the Robustness of SSDs under Power
/// Fault", FAST 2013, where thirteen of fifteen drives did something of it). Each comes of a rule that a
/// careful drive keeps and this one does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Anomaly {
    /// What was flushed is lost. Rule that is missing: a flush, or a write that has to be in flash, is
    /// acknowledged when it is.
    Lost,
    /// The first sectors of a write, and for the rest what was there before. Missing: the sectors of a
    /// mapping unit whose program was cut off count as a whole or not at all.
    Shorn,
    /// A later write is there, and an earlier one that was acknowledged is not (unserialisable). Missing: a
    /// start takes nothing behind the first write that is not in flash. What is flushed stays.
    Reordered,
    /// Wrong bits that the drive's own code does not notice. Missing: a unit whose program was cut off, or
    /// whose cells were programmed for another page meanwhile, is told from a good one.
    BitCorruption,
    /// A unit reads what another has written, what it was long ago, or not at all. Missing: a start looks
    /// whether flash has what the map says, and for what the map does not have yet.
    CorruptMap,
    /// Nothing can be read any more. As `corrupt_map`, but that the drive notices, and does not start.
    Dead,
}

impl Anomaly {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Lost, Self::Shorn, Self::Reordered, Self::BitCorruption, Self::CorruptMap, Self::Dead];
}

/// What a power cut may do to a drive whose cache is not durable: the table `[ssd.power_loss]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PowerLossConfig {
    /// What it may do beyond losing writes that were not flushed, the last ones first.
    pub anomalies: Vec<Anomaly>,
}

impl Default for PowerLossConfig {
    /// What the interface allows every volatile cache: of what was not flushed anything is kept, in no order.
    fn default() -> Self {
        Self { anomalies: vec![Anomaly::Reordered] }
    }
}

impl PowerLossConfig {
    pub(crate) fn check(&self, kind: CacheKind, has_journal: bool) -> Result<(), ConfigError> {
        if kind == CacheKind::Durable {
            let reason = "is for caches that power cuts take away; leave it out, or make the cache \
                          \"volatile\" or \"none\"";
            return Err(ConfigError::new("power_loss", reason.to_owned()));
        }
        let of_map = [(Anomaly::CorruptMap, "corrupt_map"), (Anomaly::Dead, "dead")];
        let named = of_map.iter().find(|(anomaly, _)| self.anomalies.contains(anomaly));
        if let Some((_, name)) = named.filter(|_| !has_journal) {
            let reason = format!(
                "has \"{name}\", which is of a map that is on flash, and this one is not; use journal = true in \
                 [ssd.ftl]"
            );
            return Err(ConfigError::new("anomalies", reason));
        }
        Ok(())
    }
}

impl SsdConfig {
    /// Whether a power cut may do this.
    pub fn shows(&self, anomaly: Anomaly) -> bool {
        let by_default = PowerLossConfig::default();
        let power_loss = self.power_loss.as_ref().unwrap_or(&by_default);
        self.cache.kind != CacheKind::Durable && power_loss.anomalies.contains(&anomaly)
    }

    /// Whether a power cut takes the last writes first, although there is no power for the others.
    pub(crate) fn keeps_order(&self) -> bool {
        self.cache.kind != CacheKind::Durable && !self.shows(Anomaly::Reordered)
    }
}
