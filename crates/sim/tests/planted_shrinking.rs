//! A violation is made shorter before it is reported, and what is reported replays it.

#![allow(clippy::unwrap_used)]

use mezzanine_engine::planted::{Bug, set};
use mezzanine_sim::crash::{Kind, Options, Report, Terms, Violation, Worlds, run};

/// Runs what a violation says that replays it.
fn replay(violation: &Violation) -> Report {
    let words: Vec<_> = violation.replay.split(' ').collect();
    let option = |name: &str| words.iter().position(|word| *word == name).map(|at| words[at + 1]);
    let without = option("--without")
        .map_or(Vec::new(), |names| names.split(',').map(|name| name.parse().unwrap()).collect());
    let only = option("--only").map(|only| only.parse().unwrap());
    run(&Options {
        worlds: option("--world").unwrap().parse().unwrap(),
        terms: Terms { without, only, ..Terms::default() },
        ..Options::new(option("--seed").unwrap().parse().unwrap(), option("--cuts").unwrap().parse().unwrap())
    })
}

#[test]
fn violations_are_shrunk_to_a_few_operations_and_replay() {
    for (bug, kind, operations_max) in [
        (Bug::DirtyDroppedAtFront, Kind::Volume, 200),
        (Bug::SyncWithoutFlush, Kind::Volume, 60),
        (Bug::NoTombstone, Kind::Volume, 60),
        (Bug::ReuseBeforeDiskSync, Kind::Database, 200),
        (Bug::TornGroupUsed, Kind::Database, 200),
    ] {
        set(Some(bug));
        let options = Options { worlds: Worlds::Only(kind), ..Options::new(1, 6400) };
        let report = run(&options);
        let violation = report.violations.first().unwrap_or_else(|| panic!("{bug:?} is not found"));
        let again = replay(violation);
        set(None);
        println!("{bug:?}: {} operations\n  {violation}", again.operations);
        assert_eq!(again.violations.first(), Some(violation), "{bug:?}");
        assert!(again.operations <= operations_max, "{bug:?}: {} operations", again.operations);
        assert!(replay(violation).violations.is_empty(), "{bug:?}: the excerpt is sound without the bug");
    }
}
