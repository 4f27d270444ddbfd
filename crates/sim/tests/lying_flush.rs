//! A drive that reports a flush and does not do it loses acknowledged data under any software. The world must
//! see that.

use mezzanine_sim::crash::CUTS_PER_WORLD;
use mezzanine_sim::crash::volume::{Scenario, World};

#[test]
fn a_lying_flush_is_found() {
    let mut found = 0;
    for seed in 0..40 {
        let scenario = Scenario { lying_flushes: true, ..Scenario::draw(seed) };
        found += u64::from(World::of(scenario).live(CUTS_PER_WORLD).violation.is_some());
    }
    assert!(found >= 10, "only {found} of 40 worlds with lying drives were seen to lose something");
}
