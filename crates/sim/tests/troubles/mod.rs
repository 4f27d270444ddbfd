//! Troubles that worlds have to get into.

use mezzanine_sim::crash::{Coverage, Report};

/// Panics if the worlds of a run did not get often enough into each trouble that those of every kind get
/// into, and into these: a run that never did proves nothing.
pub(crate) fn all_troubles_were_met(report: &Report, more: &[(&str, u64)]) {
    let (cuts, coverage) = (report.cuts, &report.coverage);
    let of_all = [
        ("second chances", coverage.second_chances),
        ("rounds of the queue", coverage.wraps),
        ("pages staged out", coverage.stage_outs),
        ("cuts inside recovery", coverage.cuts_inside_recovery),
        ("torn flash writes", coverage.torn_flash_writes),
        ("damaged tiers", coverage.damages),
    ];
    for (what, count) in of_all.iter().chain(more) {
        assert!(*count >= cuts / 1000, "only {count} {what} in {cuts} cuts");
    }
}

/// What worlds of a database get into besides, on any flash.
pub(crate) fn troubles_of_a_database(coverage: &Coverage) -> [(&'static str, u64); 5] {
    [
        ("metadata segments", coverage.segments),
        ("checkpoints", coverage.checkpoints),
        ("owners killed", coverage.owners_killed),
        ("drains", coverage.drains),
        ("errors that ended a process", coverage.errors_fatal),
    ]
}
