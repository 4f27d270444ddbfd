//! LPD, logical page drop: cold pages are dropped ahead of need, and the translation layer is told (section
//! 3.1, Algorithm 1).

use super::cache::{Allocate, Cache};

/// Algorithm 1.
#[derive(Debug)]
pub(super) struct Drop {
    /// Pages that are dropped with each replacement.
    pub(super) d: u32,
}

impl Allocate for Drop {
    fn allocate(&self, cache: &mut Cache) -> u32 {
        // Lines 1 and 2.
        if let Some(slot) = cache.take_free() {
            return slot;
        }
        // Lines 4 and 5. The version in this slot is not deleted: it is about to be written over.
        let victim = cache.evict_victim().expect("C1: a slot is free or occupied");
        // Lines 6 to 10, d times: the text has the d coldest pages dropped, and none if d is 0.
        for _ in 0..self.d {
            let Some(slot) = cache.evict_victim() else { break };
            cache.delete(slot);
        }
        // Line 11.
        victim
    }
}
