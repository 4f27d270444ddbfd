//! flashcache 3.1.1 (Facebook): blocks of 4 KiB in sets of 512, FIFO or LRU in a set.
//!
//! "Flash-Conscious Cache Population for Enterprise Database Workloads" (ADMS 2014), sections 2, 3.4 and 4.1:
//! 512 ways, blocks of 4 KiB, every read that misses is brought in before it is answered, about 24 bytes of
//! memory for a block. What is common with EnhanceIO is in `sets.rs`.
//!
//! Written back: a set of which more than 20 % is dirty (`dirty_thresh_pct`) is cleaned, two blocks at a time
//! (`max_clean_ios_set`) and four of all sets (`max_clean_ios_total`), with those beside them.

use super::super::super::setup::Refusal;
use super::super::setup::{BlockSetup, Order, Writes};
use super::cleaning::Rule;
use super::sets::{Sets, SetsConfig};

pub(super) const WAYS: u32 = 512;
pub(super) const BYTES_PER_BLOCK: u64 = 24;

/// # Errors
/// If the cache device has no room for a set.
pub(super) fn new(setup: &BlockSetup, order: Order, writes: Writes) -> Result<Sets, Refusal> {
    let rule = Rule::Blocks { set_percent: 20, at_a_time: 2, of_all: 4 };
    let cleaning = (writes == Writes::Back).then_some(rule);
    Sets::new(setup, SetsConfig { ways: WAYS, order, bytes_per_block: BYTES_PER_BLOCK, cleaning })
}
