//! The volume on flash that does what drives do when their power is cut, each anomaly by itself.
//!
//! Invariants checked: those of worlds of volumes. Drives that reorder, tear or corrupt what was under way
//! cost nothing. Of drives that take along what was flushed an error may tell, and nothing else is served. A
//! drive that lies about flushes must be seen to lose in silence, or this test is blind.
#![allow(clippy::unwrap_used)]

use mezzanine_sim::crash::{CUTS_PER_WORLD, Kind, Options, Report, Terms, Worlds, run};

/// What `MEZZANINE_` and this name say, if anything: `WORLDS` for more of them, `SEED` for others.
fn asked(name: &str) -> Option<u64> {
    std::env::var(format!("MEZZANINE_{name}")).ok().map(|text| text.parse().unwrap())
}

/// So many worlds on drives that do this, each through its cuts or to its first loss.
fn worlds(count: u64, anomalies: &str) -> Report {
    let (count, seed) = (asked("WORLDS").unwrap_or(count), asked("SEED").unwrap_or(1));
    let anomalies: Vec<_> = anomalies.split(',').map(|name| name.parse().unwrap()).collect();
    let terms = Terms { anomalies, ..Terms::default() };
    let (worlds, threads) = (Worlds::Only(Kind::Drives), 2);
    let options = Options { worlds, terms, threads, ..Options::new(seed, count * CUTS_PER_WORLD) };
    let report = run(&options);
    let coverage = &report.coverage;
    println!(
        "{:?}: {} worlds, {} cuts, {} units damaged, {} told, {} believed",
        options.terms.anomalies,
        report.worlds,
        report.cuts,
        coverage.drive_units_damaged,
        coverage.drives_told,
        coverage.drives_believed
    );
    for violation in &report.violations {
        println!("{violation}");
    }
    assert!(report.violations.is_empty());
    report
}

#[test]
fn anomalies_of_what_was_not_flushed_cost_nothing() {
    for (anomalies, does_damage) in
        [("reordered", false), ("shorn", true), ("bit_corruption", true), ("reordered,shorn", true)]
    {
        let Report { cuts, coverage, .. } = worlds(40, anomalies);
        assert!(cuts >= 40 * CUTS_PER_WORLD, "no life ends early");
        assert_eq!((coverage.drives_told, coverage.drives_believed), (0, 0));
        assert_eq!(coverage.drive_units_damaged > 50, does_damage, "{anomalies}: {coverage:?}");
    }
}

#[test]
fn what_a_corrupt_map_has_lost_is_told() {
    let report = worlds(60, "corrupt_map");
    assert!(report.coverage.drives_told > 5);
}

#[test]
fn a_dead_drive_is_told() {
    let report = worlds(60, "dead");
    assert!(report.coverage.drives_told > 5);
}

#[test]
fn pages_that_were_taken_along_are_told() {
    let report = worlds(60, "paired_pages");
    assert!(report.coverage.drives_told > 10 && report.coverage.drives_believed == 0);
}

#[test]
fn a_drive_that_lies_about_flushes_is_seen_to_lose_in_silence() {
    let report = worlds(40, "lost");
    assert!(report.coverage.drives_believed > 3);
}
