//! The exhaustive mode finds rules that are taken out, each in a trace of at most two steps.

#![allow(clippy::unwrap_used)]

use mezzanine_engine::planted::{Bug, set};
use mezzanine_sim::crash::exhaustive::replay;

const TRACES: [(Bug, &str); 12] = [
    (Bug::SyncWithoutFlush, "used/durable/face-gsc/both/1:fj"),
    (Bug::ReuseBeforeDiskSync, "used/durable/face-gsc/both/2:fj"),
    (Bug::DirtyDroppedAtFront, "used/durable/face-gsc/both/2:f"),
    (Bug::OlderVersionWins, "used/durable/face-gsc/both/2:f"),
    (Bug::TornGroupUsed, "used/durable/face-gsc/both/1:fj"),
    (Bug::TailNotScanned, "used/durable/face-gsc/both/1:f"),
    (Bug::SegmentMisnamed, "used/durable/face-gsc/both/1:f"),
    (Bug::FrontIgnored, "used/durable/face-gsc/both/2:ff"),
    (Bug::BeforeMarkIgnored, "database/new/drained/face-gsc/both/1:f"),
    (Bug::DrainUnsynced, "database/used/drained/face-gsc/both/2:l"),
    (Bug::PendingRedoForgotten, "database/used/durable/face-gsc/both/1:p"),
    (Bug::CleanTierKept, "database/used/through/face-gsc/both/2:f"),
];

#[test]
fn planted_bugs_show_in_short_traces_and_their_names_replay_them() {
    for (bug, trace) in TRACES {
        set(Some(bug));
        let report = replay(&trace.parse().unwrap());
        let violation = report.violations.first().unwrap_or_else(|| panic!("{bug:?} does not show"));
        let case = violation.replay.rsplit(' ').next().unwrap();
        println!("{bug:?}: {} of {}, {case}", violation.invariant.name(), report.counts.cuts);
        let again = replay(&case.parse().unwrap());
        set(None);
        assert_eq!(again.violations.first(), Some(violation), "{bug:?}");
        assert!(again.counts.cuts <= 2, "{case} alone takes {:?}", again.counts);
    }
}

#[test]
fn without_a_planted_bug_the_same_traces_show_nothing() {
    for (_, trace) in TRACES {
        let report = replay(&trace.parse().unwrap());
        assert!(report.violations.is_empty(), "{}", report.violations[0]);
        assert!(report.counts.cuts > 10, "{trace}: {:?}", report.counts);
    }
}
