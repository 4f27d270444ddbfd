//! EnhanceIO (STEC): blocks of 4 KiB in sets of 256.
//!
//! "Flash-Conscious Cache Population for Enterprise Database Workloads" (ADMS 2014), sections 2, 3.4, 4.1 and
//! 4.3: 256 ways, blocks of 4 KiB, 8 bytes of memory for a block, population as flashcache's, replacement
//! "based solely on recency", which is LRU here. What is common with flashcache is in `sets.rs`.
//!
//! Written back: sets are cleaned one after the other, all of a set at once; one that is dirty altogether
//! (`dirty_set_high_threshold`, 100 %), and once 30 % of the cache are dirty (`dirty_high_threshold`) those
//! that were written longest ago, until 10 % are (`dirty_low_threshold`). That a set is recorded as
//! flashcache's is assumed.

use super::super::super::setup::Refusal;
use super::super::setup::{BlockSetup, Order, Writes};
use super::cleaning::Rule;
use super::sets::{Sets, SetsConfig};

pub(super) const WAYS: u32 = 256;
pub(super) const BYTES_PER_BLOCK: u64 = 8;

/// # Errors
/// If the cache device has no room for a set.
pub(super) fn new(setup: &BlockSetup, writes: Writes) -> Result<Sets, Refusal> {
    let rule = Rule::Sets { set_percent: 100, high_percent: 30, low_percent: 10 };
    let cleaning = (writes == Writes::Back).then_some(rule);
    let order = Order::Lru;
    Sets::new(setup, SetsConfig { ways: WAYS, order, bytes_per_block: BYTES_PER_BLOCK, cleaning })
}
