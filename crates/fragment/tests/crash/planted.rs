//! Every fault of the map that can be planted is noticed.

use mezzanine_fragment::planted::Bug;

use crate::noticed::all_are_noticed;
use crate::{Sums, run};

/// The invariants of the map.
const OF_MAP: std::ops::RangeInclusive<u32> = 10..=13;
/// Seeds within which each is noticed; the last to be noticed, `BehindLimitKept`, needs 685: what it keeps is
/// written over nearly always, as its block of the map names something else that has left.
const SEEDS_MAX: u64 = 1500;

#[test]
fn every_fault_is_noticed() {
    let of_map = Bug::ALL.iter().copied().filter(|bug| OF_MAP.contains(&bug.invariant()));
    all_are_noticed(of_map, SEEDS_MAX, |seed| run(seed, &mut Sums::default()));
}
