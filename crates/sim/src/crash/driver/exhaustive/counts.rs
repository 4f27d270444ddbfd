//! How much was tried.

use serde::Serialize;

/// How many cases there were.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Traces, each counted in each of its settings.
    pub traces: u64,
    /// Device operations in which power failed, and ends of traces.
    pub stops: u64,
    /// Device operations of recoveries in which power failed.
    pub stops_inside_recovery: u64,
    /// Power cuts: choices of what survived a stop, each recovered and checked.
    pub cuts: u64,
    /// Of these, inside of a recovery.
    pub cuts_inside_recovery: u64,
    /// Of these, with a torn write.
    pub torn: u64,
}

impl Counts {
    /// Adds those of another part.
    pub(super) fn add(&mut self, other: &Self) {
        self.traces += other.traces;
        self.stops += other.stops;
        self.stops_inside_recovery += other.stops_inside_recovery;
        self.cuts += other.cuts;
        self.cuts_inside_recovery += other.cuts_inside_recovery;
        self.torn += other.torn;
    }
}
