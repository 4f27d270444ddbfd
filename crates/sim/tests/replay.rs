//! A seed is all that it takes to see the same life again.

use mezzanine_sim::crash::volume::{Scenario, World};
use mezzanine_sim::crash::{CUTS_PER_WORLD, Options, run};

#[test]
fn a_seed_leads_the_same_life_each_time() {
    for seed in 0..8 {
        let [first, second] = [World::run(seed, CUTS_PER_WORLD), World::run(seed, CUTS_PER_WORLD)];
        assert_eq!(
            (first.operations, first.cuts, first.coverage),
            (second.operations, second.cuts, second.coverage)
        );
    }
}

#[test]
fn threads_change_nothing() {
    let mut options = Options::new(7, 10 * CUTS_PER_WORLD);
    let alone = run(&options);
    options.threads = 3;
    assert_eq!(run(&options), alone);
}

#[test]
fn a_violation_is_found_again_with_the_seed_and_the_cut_that_it_names() {
    let lying = |seed| Scenario { lying_flushes: true, ..Scenario::draw(seed) };
    let violations = (0..40).filter_map(|seed| World::of(lying(seed)).live(CUTS_PER_WORLD).violation);
    let mut compared = 0;
    for violation in violations.take(5) {
        let again = World::of(lying(violation.seed)).live(violation.cut + 1).violation;
        assert_eq!(again.as_ref(), Some(&violation));
        compared += 1;
    }
    assert_eq!(compared, 5);
}
