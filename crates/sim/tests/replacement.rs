//! The flash device is replaced, again and again, in every world.

#![allow(clippy::unwrap_used)]

use mezzanine_sim::crash::report::Coverage;
use mezzanine_sim::crash::scenario::Scenario;
use mezzanine_sim::crash::world::World;

/// Power cuts in each world.
const CUTS_PER_WORLD: u64 = 64;

#[test]
fn worlds_whose_flash_device_is_replaced_lose_nothing() {
    let number =
        |name: &str, default: u64| std::env::var(name).map_or(default, |value| value.parse().unwrap());
    let (cuts, first) = (number("MEZZANINE_CUTS", 10_000), number("MEZZANINE_SEED", 1));
    let (mut coverage, mut done) = (Coverage::default(), 0);
    for seed in first.. {
        let outcome = World::of(Scenario { replaces: true, ..Scenario::draw(seed) }).live(CUTS_PER_WORLD);
        // Its line for a replay draws the world without the replacements, unless they were drawn for it
        // anyway.
        assert!(
            outcome.violation.is_none(),
            "MEZZANINE_SEED={seed} replays this: {}",
            outcome.violation.unwrap()
        );
        coverage.add(&outcome.coverage);
        done += outcome.cuts;
        if done >= cuts {
            break;
        }
    }
    println!(
        "{done} cuts, {} replacements, {} of them cut short",
        coverage.replacements, coverage.replacements_cut
    );
    assert!(coverage.replacements >= cuts / 50, "only {} replacements", coverage.replacements);
    assert!(coverage.replacements_cut >= cuts / 200, "only {} cuts in one", coverage.replacements_cut);
}
