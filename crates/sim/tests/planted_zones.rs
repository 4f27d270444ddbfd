//! Worlds whose flash has zones notice rules of zones that are taken out (invariant 13). The others need a
//! queue that is as full as it gets: `crates/engine/tests/zones/main.rs`.

#![allow(clippy::unwrap_used)]

use mezzanine_engine::planted::{Bug, set};
use mezzanine_sim::crash::{CUTS_PER_WORLD, Kind, Terms, Violation};

/// Where each must have shown.
const CUTS_MAX: u64 = 20_000;

/// The first violation with `bug` switched on, and after how many power cuts.
fn search(bug: Option<Bug>, cuts_max: u64) -> Option<(u64, Violation)> {
    set(bug);
    let mut cuts = 0;
    let found = (1..).map_while(|seed| {
        let outcome = (cuts < cuts_max).then(|| Kind::Zones.run(seed, CUTS_PER_WORLD, &Terms::default()))?;
        cuts += outcome.cuts.max(1);
        Some((cuts, outcome.violation))
    });
    let found = found.filter_map(|(cuts, violation)| Some((cuts, violation?))).next();
    set(None);
    found
}

fn is_noticed(bug: Bug) {
    let found = search(Some(bug), CUTS_MAX);
    let (cuts, violation) = found.unwrap_or_else(|| panic!("{bug:?} was not noticed in {CUTS_MAX} cuts"));
    let text: String = violation.text.chars().take(200).collect();
    println!("{bug:?}: {cuts} cuts, seed {}, {} {text}", violation.seed, violation.invariant.name());
}

#[test]
fn groups_of_a_zone_side_by_side() {
    is_noticed(Bug::ZonesWrittenInAnyOrder);
}

#[test]
fn a_queue_that_goes_on_where_something_was_written() {
    is_noticed(Bug::ZoneEndWrittenOver);
}

#[test]
fn rests_of_zones_that_are_not_passed() {
    is_noticed(Bug::ZoneRestNotPassed);
}

#[test]
fn a_group_that_a_crash_has_left_behind_the_end() {
    is_noticed(Bug::ZoneRestBelieved);
}

#[test]
fn a_front_where_the_rest_of_a_zone_begins() {
    is_noticed(Bug::FrontBeforeRest);
}
