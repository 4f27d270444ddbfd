//! The order in which frames or slots were last used.

use mezzanine_ground::region::Region;
use mezzanine_ground::replacement::{Lru, Order, PageKey, PolicyConfig, Replacement, lru};

use crate::ConfigError;

/// Some of the numbers `0..count`, in LRU order.
pub(super) struct Recency {
    policy: PolicyConfig,
    region: Region,
}

impl Recency {
    pub(super) fn new(what: &'static str, count: u32) -> Result<Self, ConfigError> {
        let config = lru::Config::new(count.into());
        let config = config.map_err(|error| ConfigError::new(what, format!("{}: {count}", error.reason)))?;
        let policy = PolicyConfig::from(config);
        Ok(Self { region: policy.region(), policy })
    }

    fn order(&self) -> Lru<'_> {
        match self.policy.open(&self.region, 0) {
            Order::Lru(order) => order,
            _ => unreachable!("the policy is LRU"),
        }
    }

    /// The number comes in, and is the one that was used last.
    pub(super) fn inserted(&self, number: u32) {
        self.order().inserted(number, PageKey(0));
    }

    pub(super) fn used(&self, number: u32) {
        self.order().referenced(number);
    }

    /// Takes out the one that was not used for the longest time.
    pub(super) fn victim(&self) -> Option<u32> {
        self.order().victim()
    }
}

impl std::fmt::Debug for Recency {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Recency of {}", self.policy.frames())
    }
}
