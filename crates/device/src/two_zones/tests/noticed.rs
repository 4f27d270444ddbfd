//! Every rule of the log that can be taken out is noticed.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::planted::{Bug, only_with};
use super::{cuts, damage, ends, errors, giving_up};

fn are_noticed(bugs: &[Bug], by: impl Fn()) {
    only_with(bugs, || catch_unwind(AssertUnwindSafe(&by)).is_ok());
}

#[test]
fn by_power_cuts() {
    let bugs = [
        Bug::IncompleteHalfCounts,
        Bug::SnapshotUnflushed,
        Bug::ZoneBegunUnflushed,
        Bug::WrittenBehindTornRecord,
        Bug::WrittenBehindUnknownEnd,
        Bug::TornRecordTaken,
    ];
    are_noticed(&bugs, cuts::what_was_flushed_is_there_after_a_cut_at_any_operation);
}

#[test]
fn by_errors() {
    let bugs = [Bug::GenerationReused, Bug::FailedWriteRepeated];
    are_noticed(&bugs, errors::errors_are_returned_and_cost_nothing_that_was_there);
}

#[test]
fn by_damage() {
    let bugs = [Bug::FlushUnmarked, Bug::DamagedHeaderEnds];
    are_noticed(&bugs, damage::the_next_record_says_what_a_damaged_header_said);
    let by = damage::damaged_blocks_are_read_as_they_are_and_unreadable_ones_stay_so_when_they_are_copied;
    are_noticed(&[Bug::LostBlockZeroed], by);
}

#[test]
fn by_cuts_while_halves_are_emptied() {
    let by = giving_up::a_cut_while_a_half_is_emptied_that_was_begun_in_vain_costs_nothing;
    are_noticed(&[Bug::HalfEmptiedAtOnce], by);
    let bugs = [Bug::CountingHalfForgottenFirst, Bug::BeginningsResetAtOnce, Bug::EarlierLayoutKept];
    are_noticed(&bugs, giving_up::no_older_area_is_found_after_a_cut_while_one_ends);
}

#[test]
fn by_torn_ends() {
    are_noticed(
        &[Bug::WrittenBehindTornRecord],
        ends::a_torn_end_is_dropped_and_nothing_is_written_behind_it,
    );
    are_noticed(
        &[Bug::FailedHalfForgotten],
        ends::a_half_that_was_not_complete_when_it_was_read_never_counts,
    );
}
