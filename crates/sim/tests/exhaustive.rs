//! Every case of short traces: nothing is found, the same cases are tried each time, and a case can be asked
//! for alone.

#![allow(clippy::unwrap_used)]

use mezzanine_sim::crash::exhaustive::{CaseName, DatabaseStep, Options, Step, replay, run};
use mezzanine_sim::crash::{Kind, Worlds};
use mezzanine_volume::{Design, SyncMode};

/// A few of the settings, so that this takes seconds without optimisation; `./test` tries all.
fn few(kind: Kind, length: usize) -> Options<'static> {
    Options {
        worlds: Worlds::Only(kind),
        sync_mode: Some(SyncMode::Durable),
        design: Some(Design::FaceBasic),
        threads: 2,
        ..Options::new(length)
    }
}

#[test]
fn opening_a_tier_loses_nothing_in_any_case_and_the_cases_are_always_the_same() {
    for kind in [Kind::Volume, Kind::Database] {
        let report = run(&few(kind, 0));
        assert!(report.violations.is_empty(), "{}", report.violations[0]);
        let counts = report.counts;
        assert_eq!(counts.traces, report.settings);
        assert!(counts.stops > 100 && counts.stops_inside_recovery > 1000, "{kind}: {counts:?}");
        assert!(counts.cuts_inside_recovery > 500 && counts.torn > 500, "{kind}: {counts:?}");
        assert_eq!(run(&Options { threads: 1, ..few(kind, 0) }), report);
    }
}

#[test]
fn a_trace_can_be_played_alone_and_each_step_does_something() {
    for step in Step::ALL {
        let name: CaseName = format!("used/durable/face-gr/both/2:vf{step}:1").parse().unwrap();
        let report = replay(&name);
        assert!(report.violations.is_empty(), "{}", report.violations[0]);
        // Reads, and writes that stay in memory, may meet no device; everything else does.
        let may_stay =
            matches!(step, Step::Read | Step::Write | Step::WriteFar | Step::WritePart | Step::Grow);
        assert!(may_stay || report.counts.stops > 1, "{step}: {:?}", report.counts);
    }
}

#[test]
fn a_trace_of_a_database_can_be_played_alone_and_each_step_does_something() {
    for step in DatabaseStep::ALL {
        let name: CaseName = format!("database/used/durable/face-gr/both/2:vc{step}:1").parse().unwrap();
        let report = replay(&name);
        assert!(report.violations.is_empty(), "{}", report.violations[0]);
        // What stays in memory may meet no device.
        let may_stay = matches!(step, DatabaseStep::Change | DatabaseStep::Begin | DatabaseStep::Read);
        assert!(may_stay || report.counts.stops > 1, "{step}: {:?}", report.counts);
    }
}
