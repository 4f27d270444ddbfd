//! What a write cache is, what a flush costs, and how much is held before writes wait for flash.

use super::bench::{self, Figure, distance};
use super::draft::Draft;
use super::loads::{self, large_bursts};
use super::{Facts, Measurements};
use crate::config::{CacheKind, FlushRule, FlushTime};
use crate::load::{Load, LoadKind, Measured};

/// A write that goes through the cache takes as long as any other, within this share: there is none.
const SAME_SHARE: f64 = 0.05;
/// A fixed time of the firmware is kept if no column is further off, as a logarithm.
const AFFINE_OFF_MAX: f64 = 0.08;
/// A burst has waited for flash if its requests take so many times as long as those of the shortest.
const SLOWER_MIN: f64 = 1.1;
/// What flash takes for a page at least, in microseconds, where it was not seen.
const FASTEST_PROGRAM_US: f64 = 100.0;
/// The smallest and the largest buffer that is tried, as powers of two.
const BUFFER_BITS: (u32, u32) = (16, 29);
/// A buffer is determined if one of twice its size, and one of half of it, is worse by this much, as the sum
/// of the logarithms over all bursts.
const BUFFER_WORSE_MIN: f64 = 0.05;

/// What kind of cache writes go to.
pub(super) fn kind(measured: &Measurements) -> CacheKind {
    let through = measured.row(loads::through()).map(|row| row.latency_us_mean);
    let plain = measured.row(loads::small_burst()).map(|row| row.latency_us_mean);
    if let (Some(through), Some(plain), true) = (through, plain, measured.facts.has_fua) {
        // Without FUA a log flushes, also where there is nothing to flush.
        if plain > through * (1.0 - 2.0 * SAME_SHARE) {
            return CacheKind::None;
        }
    }
    match measured.facts.volatile_cache {
        Some(false) => CacheKind::Durable,
        Some(true) | None => CacheKind::Volatile,
    }
}

/// What an fsync takes after a single small write.
pub(super) fn fsync_us(measured: &Measurements) -> Option<f64> {
    let load = Load::new(LoadKind::RandomWrite, loads::SMALL, 1).fsync_after(1);
    measured.row(load).and_then(|row| Figure::Fsync.of(row))
}

/// What a flush does. One that is over before anything can have been programmed has drained nothing.
pub(super) fn rule(kind: CacheKind, measured: &Measurements) -> FlushRule {
    let through = measured.row(loads::through()).map(|row| row.latency_us_mean);
    let program_us = match through.filter(|_| measured.facts.has_fua) {
        Some(through) => through / 2.0,
        None => FASTEST_PROGRAM_US,
    };
    match (kind, fsync_us(measured)) {
        (CacheKind::Durable, Some(fsync)) if fsync < 0.9 * program_us => FlushRule::OrderingPoint,
        _ => FlushRule::Drain,
    }
}

/// Sets what a flush takes. Returns whether it was measured.
pub(super) fn fit_flush(draft: &mut Draft, measured: &Measurements) -> bool {
    let rows: Vec<&Measured> = measured.rows.iter().filter(|row| is_flushed(row.load)).collect();
    let Some(first) = rows.iter().find(|row| row.load.writes_per_fsync == Some(1)) else { return false };
    draft.flush_us = FlushTime::Same(0.0);
    if draft.flush == FlushRule::OrderingPoint {
        return true;
    }
    let beyond = |draft: &Draft, row: &Measured| {
        let found = bench::run(draft, &measured.facts, row)?;
        Some((row.fsync_us_mean? - found.fsync_us_mean?).max(0.0))
    };
    draft.flush_us = FlushTime::Same(super::draft::round(beyond(draft, first).unwrap_or(0.0)));
    let off = |draft: &Draft, row: &Measured| {
        distance(draft, &measured.facts, row, Figure::Rate).map_or(0.0, f64::abs)
    };
    if rows.iter().all(|row| off(draft, row) < AFFINE_OFF_MAX) {
        return true;
    }
    // Nothing but a table meets it.
    let none = Draft { flush_us: FlushTime::Same(0.0), ..draft.clone() };
    let point = |row: &&Measured| {
        let units = row.load.writes_per_fsync? * row.load.request_bytes / u64::from(super::draft::UNIT_BYTES);
        Some((units as f64, super::draft::round(beyond(&none, row)?)))
    };
    draft.flush_us = FlushTime::ByUnits(rows.iter().filter_map(point).collect());
    true
}

/// Small writes with an fsync after so many.
fn is_flushed(load: Load) -> bool {
    load.kind == LoadKind::RandomWrite
        && load.request_bytes == loads::SMALL
        && load.clients == 1
        && load.rest_ms == 0
        && load.writes_per_fsync.is_some()
}

/// How well a buffer explains the bursts: the sum of the logarithms of what they are off.
fn off(draft: &Draft, facts: &Facts, rows: &[&Measured], bytes: f64) -> f64 {
    let tried = Draft { buffer_bytes: bytes, ..draft.clone() };
    let off = |row: &&Measured| distance(&tried, facts, row, Figure::Latency).map_or(1.0, f64::abs);
    rows.iter().map(off).sum()
}

/// Sets the size of the buffer by the bursts over the measured part. Returns whether they say anything of it:
/// where flash is faster than the link, no burst ever fills it.
pub(super) fn fit_buffer(draft: &mut Draft, measured: &Measurements) -> bool {
    let rows: Vec<&Measured> = large_bursts().filter_map(|load| measured.row(load)).collect();
    let latencies = rows.iter().map(|row| row.latency_us_mean);
    let (least, most) = latencies.fold((f64::MAX, 0.0), |(least, most), us| (us.min(least), us.max(most)));
    // As long as no burst is slower than a short one, none has filled any buffer.
    if rows.is_empty() || draft.kind == CacheKind::None || most < SLOWER_MIN * least {
        return false;
    }
    by_size(draft, |draft, bytes| off(draft, &measured.facts, &rows, bytes))
}

/// Sets the size that is the least off. Returns whether its neighbours are worse.
pub(super) fn by_size(draft: &mut Draft, off: impl Fn(&Draft, f64) -> f64) -> bool {
    let sizes = (BUFFER_BITS.0..=BUFFER_BITS.1).map(|bits| f64::from(1_u32 << bits));
    let tried: Vec<(f64, f64)> = sizes.map(|bytes| (off(draft, bytes), bytes)).collect();
    let Some((mut least, mut bytes)) = tried.iter().copied().min_by(|a, b| a.0.total_cmp(&b.0)) else {
        return false;
    };
    for step in [2_f64.sqrt(), 2_f64.sqrt().sqrt()] {
        for other in [bytes * step, bytes / step] {
            let found = off(draft, other);
            if found < least {
                (least, bytes) = (found, other);
            }
        }
    }
    let is_worse = |other: f64| off(draft, other) > least + BUFFER_WORSE_MIN;
    if !(is_worse(2.0 * bytes) && is_worse(bytes / 2.0)) {
        return false;
    }
    draft.buffer_bytes = bytes;
    true
}
