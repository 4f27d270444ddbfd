//! Memory that says nothing: what a tier is built in.
//!
//! Every structure in a region is empty when all its bytes are zero, and recovery only adds to what it finds:
//! it links pages, lists homes, counts. So what was in the memory before would be part of the tier. It was so
//! once: a recovery that failed half way had linked pages of its tier, the tier was then discarded in the
//! same memory, and answered with those pages although disk had newer ones.
//!
//! Therefore whoever builds a tier (recovery, whether of a new, a left or a discarded one) takes a [`Blank`]
//! and nothing else. There are two ways to one:
//! 1. The memory is *wiped*. It may have held anything: another tier, the half of one, another program's
//!    bytes.
//! 2. It is *fresh*: as the system gave it, zeroed, and written to by nobody. That is the host's word, and
//!    saves writing zeros over zeros. It is good for one recovery: the first thing that a recovery does is to
//!    leave its mark at the start of the region (`Header::begun`), and memory with that mark is wiped
//!    whatever is said of it. So the word of a host that forks and gives the same memory out twice, or tries
//!    again after an error, does no harm.

use std::ptr::NonNull;

use mezzanine_ground::region::Region;

use crate::attach::header::has_begun;
use crate::planted::{self, Bug};

/// A region of which every byte is zero.
pub struct Blank(Region);

impl Blank {
    /// Zeroed memory of `bytes` bytes on the heap.
    pub fn heap(bytes: usize) -> Self {
        Self(Region::heap(bytes))
    }

    /// A region that may hold anything, zeroed. What that costs is in `docs/benchmarks.md`.
    pub fn wiped(mut region: Region) -> Self {
        if !planted::is(Bug::UsedMemoryKept) {
            region.wipe();
        }
        Self(region)
    }

    /// A region in memory that the system has just given, zeroed, and that nobody has written to since. It is
    /// wiped all the same if a recovery has begun in it.
    pub fn fresh(region: Region) -> Self {
        if has_begun(&region) {
            return Self::wiped(region);
        }
        debug_assert!(region.is_zero(), "fresh memory was written to");
        Self(region)
    }

    /// Where it lies, for a host that tells the system how it will be used.
    pub fn memory(&self) -> NonNull<[u8]> {
        self.0.memory()
    }

    pub(crate) fn into_region(self) -> Region {
        self.0
    }
}

/// What is not known to be blank is made so.
impl From<Region> for Blank {
    fn from(region: Region) -> Self {
        Self::wiped(region)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mezzanine_ground::region::REGION_ALIGNMENT;

    #[test]
    fn wiped_memory_is_zero_to_its_last_byte() {
        let region = Region::heap(3 * REGION_ALIGNMENT);
        let ones = vec![0xFF; region.bytes()];
        region.copy_in(0, &ones);
        assert!(!region.is_zero());
        let region = Blank::from(region).into_region();
        assert!(region.is_zero());
        for at in [0, REGION_ALIGNMENT, region.bytes() - 8] {
            region.copy_in(at, &[0, 0, 0, 0, 0, 0, 0, 1]);
            assert!(!region.is_zero(), "byte {at} counts");
            region.copy_in(at, &[0; 8]);
        }
    }

    #[test]
    fn fresh_memory_is_fresh_for_one_recovery() {
        let region = Region::heap(3 * REGION_ALIGNMENT);
        let region = Blank::fresh(region).into_region();
        crate::attach::header::begin(&region);
        region.copy_in(REGION_ALIGNMENT, &[7; 8]);
        assert!(Blank::fresh(region).into_region().is_zero());
    }
}
