//! The flash device is replaced, again and again, in every world.

#![allow(clippy::unwrap_used)]

use mezzanine_sim::crash::Coverage;
use mezzanine_sim::crash::volume::{Scenario, World};

/// Power cuts in each world.
const CUTS_PER_WORLD: u64 = 64;

/// Worlds from the first seed on, through so many cuts. Returns how many cuts there were, and what was
/// reached.
fn live(spares: bool) -> (u64, Coverage) {
    let number =
        |name: &str, default: u64| std::env::var(name).map_or(default, |value| value.parse().unwrap());
    let (cuts, first) = (number("MEZZANINE_CUTS", 10_000), number("MEZZANINE_SEED", 1));
    let (mut coverage, mut done) = (Coverage::default(), 0);
    for seed in first.. {
        let scenario = Scenario { replaces: true, spares, ..Scenario::draw(seed) };
        let outcome = World::of(scenario).live(CUTS_PER_WORLD);
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
        "{done} cuts, {} replacements, {} cut short, {} failed, {} done though a device failed",
        coverage.replacements,
        coverage.replacements_cut,
        coverage.replacements_failed,
        coverage.replacements_outlived
    );
    assert!(coverage.replacements >= done / 50, "only {} replacements", coverage.replacements);
    assert!(coverage.replacements_cut >= done / 200, "only {} cuts in one", coverage.replacements_cut);
    (done, coverage)
}

#[test]
fn worlds_whose_flash_device_is_replaced_lose_nothing() {
    let (_, coverage) = live(false);
    assert_eq!(coverage.replacements_outlived, 0);
}

/// The spare device fails while it is made ready or when it has just taken the place of the other, or the
/// other does while its pages leave it. The first costs the replacement alone.
#[test]
fn worlds_whose_devices_fail_in_a_replacement_lose_nothing_more() {
    let (cuts, coverage) = live(true);
    let (failed, outlived) = (coverage.replacements_failed, coverage.replacements_outlived);
    assert!(failed >= cuts / 20, "only {failed} replacements failed");
    assert!(outlived >= cuts / 1000, "only {outlived} came to their end though a device failed");
}

/// A spare device reports every write as done and does none, and holds an older tier of this life, which
/// knows a file that this one does not.
#[cfg(feature = "planted")]
#[test]
fn a_spare_device_with_an_older_tier_is_missed() {
    use mezzanine_engine::planted::{Bug, set};
    set(Some(Bug::OlderSuccessorUsed));
    let found = (7_000..7_100).find_map(|seed| {
        let scenario = Scenario { replaces: true, spares: true, ..Scenario::draw(seed) };
        World::of(scenario).live(CUTS_PER_WORLD).violation
    });
    set(None);
    println!("{:?}", found.unwrap());
}
