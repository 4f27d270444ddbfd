//! A draft under a load that was measured: what it takes itself.

use std::sync::Arc;
use std::time::Duration;

use super::Facts;
use super::draft::Draft;
use crate::drive::Ssd;
use crate::load::{Load, LoadKind, Measured, Tally, VirtualDrive};

/// Bytes that reads of a draft are spread over: they take as long as over more.
const READ_SPAN_BYTES: u64 = 16 << 20;
/// Bytes that writes are spread over at most.
const WRITE_SPAN_BYTES: u64 = 1 << 30;
/// Requests that say as much as all that were measured.
const REQUESTS_MAX: u64 = 1000;
/// Mixed ones have to fill the buffer.
const MIXED_MAX: u64 = 4000;
/// Bytes of large requests that do.
const BYTES_MAX: u64 = 64 << 20;
/// Ends no load: the number of requests does.
const LONG: Duration = Duration::from_secs(1 << 30);

/// The figure of a load that a parameter is found by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Figure {
    /// Time of a request.
    Latency,
    /// Requests a second.
    Rate,
    /// Time of an fsync.
    Fsync,
}

impl Figure {
    pub(super) fn of(self, row: &Measured) -> Option<f64> {
        let value = match self {
            Self::Latency => row.latency_us_mean,
            Self::Rate => row.per_second,
            Self::Fsync => row.fsync_us_mean?,
        };
        (value > 0.0 && value.is_finite()).then_some(value)
    }
}

/// What a draft makes of a load over the measured part. None if there can be no such drive.
pub(super) fn run(draft: &Draft, facts: &Facts, row: &Measured) -> Option<Measured> {
    let (load, is_read) = (row.load, matches!(row.load.kind, LoadKind::RandomRead | LoadKind::Mixed));
    let most: u64 = if is_read { READ_SPAN_BYTES } else { WRITE_SPAN_BYTES };
    let of_load = load.request_bytes * load.run * 4;
    let span_bytes = facts.span_bytes.min(most).max(of_load.min(facts.span_bytes));
    // As much again is free: nothing has to be collected.
    let ssd = Ssd::new(draft.config(2 * span_bytes + 2 * BYTES_MAX).ok()?).ok()?;
    let mut drive = VirtualDrive::new(Arc::new(ssd), facts.has_fua);
    if is_read {
        drive.fill(span_bytes, &mut |_| {});
    }
    Some(carry_out(&mut drive, limited(load, row.requests), span_bytes, 1))
}

/// The load with no more requests than were measured, nor than are needed.
fn limited(load: Load, measured: u64) -> Load {
    let clients = load.clients as u64;
    let round = load.writes_per_fsync.unwrap_or(1) * clients;
    let most = if load.kind == LoadKind::Mixed { MIXED_MAX } else { REQUESTS_MAX };
    let enough = most.min((BYTES_MAX / load.request_bytes).max(round)).max(2 * clients);
    let requests_max = (enough.min(measured.max(round)) / clients).max(1);
    Load { requests_max, ..load }
}

/// Runs a load to the end of its requests.
pub(super) fn carry_out(drive: &mut VirtualDrive, load: Load, span_bytes: u64, seed: u64) -> Measured {
    let mut tally = Tally::default();
    let took = drive.run(load, span_bytes, LONG, seed, &mut tally);
    Measured::new(load, &tally, took)
}

/// How far a draft is from what was measured of a figure: the logarithm of their ratio.
pub(super) fn distance(draft: &Draft, facts: &Facts, row: &Measured, figure: Figure) -> Option<f64> {
    let found = run(draft, facts, row)?;
    Some((figure.of(&found)? / figure.of(row)?).ln())
}
