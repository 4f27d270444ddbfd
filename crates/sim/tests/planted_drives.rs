//! Faults of modelled drives are planted, and noticed by what the tier on them has lost. They are those of
//! `crates/ssd/tests/planted_power.rs`, which sees them from the drive's side.

#![allow(clippy::unwrap_used)]

use mezzanine_sim::crash::volume::{Scenario, World};
use mezzanine_sim::crash::{CUTS_PER_WORLD, Invariant, Terms, Violation};
use mezzanine_ssd::CacheKind;
use mezzanine_ssd::power::PlantedFault::{self, *};

/// Where each must have shown.
const CUTS_MAX: u64 = 40_000;

/// The first violation on drives of this kind with `fault` in them, and after how many power cuts.
fn search(fault: Option<PlantedFault>, cache: CacheKind, cuts_max: u64) -> Option<(u64, Violation)> {
    let mut cuts = 0;
    let scenarios = (1..).map(|seed| Scenario::draw(seed).on_drives(&Terms::default()));
    let fitting = scenarios.filter(|scenario| scenario.drive.as_ref().unwrap().cache() == cache);
    let found = fitting.map_while(|mut scenario| {
        scenario.drive.as_mut().unwrap().planted = fault;
        let outcome = (cuts < cuts_max).then(|| World::of(scenario).live(CUTS_PER_WORLD))?;
        cuts += outcome.cuts.max(1);
        Some((cuts, outcome.violation))
    });
    let mut found = found.filter_map(|(cuts, violation)| Some((cuts, violation?)));
    found.next()
}

fn is_noticed(fault: PlantedFault, cache: CacheKind) {
    let found = search(Some(fault), cache, CUTS_MAX);
    let (cuts, violation) = found.unwrap_or_else(|| panic!("{fault:?} was not noticed in {CUTS_MAX} cuts"));
    let text: String = violation.text.chars().take(200).collect();
    println!("{fault:?}: {cuts} cuts, seed {}, {} {text}", violation.seed, violation.invariant.name());
    // By what is lost, and not by an assertion of the drive.
    assert_ne!(violation.invariant, Invariant::Assertion, "{violation}");
}

#[test]
fn a_dump_without_changes_of_the_map() {
    is_noticed(DumpWithoutEntries, CacheKind::Durable);
}

#[test]
fn a_dump_without_what_is_on_its_way_to_flash() {
    is_noticed(DumpWithoutFramesUnderWay, CacheKind::Durable);
}

#[test]
fn a_dump_of_older_versions() {
    is_noticed(DumpOfOlderVersion, CacheKind::Durable);
}

#[test]
fn frames_that_are_restored_in_reverse() {
    is_noticed(RestoredInReverse, CacheKind::Durable);
}

#[test]
fn a_dump_area_that_is_cleared_before_its_frames_are_in_the_buffer() {
    is_noticed(ClearedTooEarly, CacheKind::Durable);
}

#[test]
fn a_journal_that_a_start_does_not_read() {
    is_noticed(JournalUnread, CacheKind::Durable);
}

#[test]
fn a_journal_that_is_ahead_of_flash() {
    is_noticed(JournalAhead, CacheKind::Durable);
}

#[test]
fn programs_that_no_capacitor_carries_to_their_end() {
    is_noticed(ProgramsCutOff, CacheKind::Durable);
}

#[test]
fn a_drive_in_order_loses_nothing() {
    assert_eq!(search(None, CacheKind::Durable, 2_000), None);
}
