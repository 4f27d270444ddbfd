//! EnhanceIO (STEC), write-through: blocks of 4 KiB in sets of 256.
//!
//! "Flash-Conscious Cache Population for Enterprise Database Workloads" (ADMS 2014), sections 2, 3.4, 4.1 and
//! 4.3: 256 ways, blocks of 4 KiB, 8 bytes of memory for a block, population as flashcache's, replacement
//! "based solely on recency", which is LRU here. What is common with flashcache is in `sets.rs`.

use super::super::super::setup::Refusal;
use super::super::setup::{BlockSetup, Order};
use super::sets::{Sets, SetsConfig};

pub(super) const WAYS: u32 = 256;
pub(super) const BYTES_PER_BLOCK: u64 = 8;

/// # Errors
/// If the cache device has no room for a set.
pub(super) fn new(setup: &BlockSetup) -> Result<Sets, Refusal> {
    Sets::new(setup, SetsConfig { ways: WAYS, order: Order::Lru, bytes_per_block: BYTES_PER_BLOCK })
}
