//! BL, the baseline: a cache with indirect use of flash (section 4; what Algorithm 1 is without lines 6 to
//! 10).
//!
//! The translation layer is not told that a page was evicted: its version stays valid, and is moved by
//! collection, until the slot is written again. LPD with d = 0 does the same.

use super::cache::{Allocate, Cache};

/// The standard logic of cache replacement.
#[derive(Debug)]
pub(super) struct Standard;

impl Allocate for Standard {
    fn allocate(&self, cache: &mut Cache) -> u32 {
        let slot = cache.take_free().or_else(|| cache.evict_victim());
        slot.expect("C1: a slot is free or occupied")
    }
}
