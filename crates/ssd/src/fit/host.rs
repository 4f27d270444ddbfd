//! Everything but the buffer's size, flushes and collection: each parameter by the figure that depends on it
//! most, one after the other, and again until none moves the others.

use super::bench::{self, Figure, distance};
use super::draft::{Draft, PAGE_BYTES};
use super::loads::{LARGE, SEVERAL, SMALL};
use super::{Measurements, cache, loads};
use crate::config::{CacheKind, FlushRule};
use crate::load::{Load, LoadKind, Measured};

/// Rounds over all parameters.
const ROUNDS: usize = 3;
/// Steps towards one figure in a round.
const STEPS: usize = 4;
/// A figure is met when it is this close.
const CLOSE: f64 = 0.002;
/// A figure says nothing of a parameter that it follows by less than this power.
const SLOPE_MIN: f64 = 0.02;
/// A parameter changes by no more than this factor at a step.
const STEP_MAX: f64 = 3.0;
/// No time is below it, in microseconds.
const LEAST: f64 = 0.01;
/// The draft with the usual parameter is kept unless another is nearer by more than this share.
const NEARER: f64 = 0.9;
/// Rounds of polishing with steps of one size.
const SWEEPS_MAX: usize = 2;
/// Depths of queues that are tried.
const QUEUE_DEPTHS: [u32; 5] = [8, 16, 32, 64, 128];

/// A parameter: where it is in a draft.
type Place = fn(&mut Draft) -> &mut f64;

/// Which of two limits large reads are taken to have met: both look alike in their rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bound {
    Link,
    Channels,
}

/// A draft, what it takes large reads to have met, and how far it is from what was measured.
#[derive(Debug, Clone)]
pub(super) struct Nearest {
    pub(super) draft: Draft,
    bound: Bound,
    off: f64,
}

/// A first draft from the figures, whose parameters are then moved until all are met. Where figures look
/// alike (what limits large reads, what reads wait for), all that can be is tried, and the nearest is kept.
pub(super) fn fit(start: &Draft, measured: &Measurements) -> Nearest {
    let [link, channels] = [Bound::Link, Bound::Channels].map(|bound| {
        let mut draft = first(start, measured, bound);
        for _ in 0..ROUNDS {
            round(&mut draft, measured, bound);
        }
        let mut nearest = Nearest { off: 0.0, draft, bound };
        divide_reads(&mut nearest, measured);
        nearest.off = off(&nearest.draft, measured);
        nearest
    });
    let mut nearest = if channels.off < NEARER * link.off { channels } else { link };
    divide_reads(&mut nearest, measured);
    nearest
}

/// Once more, with the buffer's size settled since; and how requests wait for one another.
pub(super) fn again(nearest: &mut Nearest, measured: &Measurements) {
    let both = [false, true];
    nearest.off = off(&nearest.draft, measured);
    let all = QUEUE_DEPTHS.into_iter().flat_map(|depth| both.map(|ordered| (depth, ordered)));
    let all = all.flat_map(|(depth, ordered)| both.map(|take| (depth, ordered, take)));
    choose(nearest, measured, all, |draft, (depth, ordered, take)| {
        (draft.queue_depth, draft.ordered, draft.reads_take_frames) = (depth, ordered, take);
    });
    round(&mut nearest.draft, measured, nearest.bound);
    divide_reads(nearest, measured);
}

/// Takes the value of a parameter that is nearest; the usual one, which it has, unless another is nearer by
/// much.
fn choose<T: Copy>(
    nearest: &mut Nearest,
    measured: &Measurements,
    values: impl IntoIterator<Item = T>,
    set: impl Fn(&mut Draft, T),
) {
    let before = nearest.draft.clone();
    for value in values {
        let mut tried = before.clone();
        set(&mut tried, value);
        let off = if tried == before { continue } else { off(&tried, measured) };
        if off < NEARER * nearest.off {
            (nearest.off, nearest.draft) = (off, tried);
        }
    }
}

/// How far a draft is from all that says something of it, as a sum of logarithms.
pub(super) fn off(draft: &Draft, measured: &Measurements) -> f64 {
    off_of(draft, measured, |load| says_of_host(load, measured.facts.has_fua))
}

/// The same of some loads.
fn off_of(draft: &Draft, measured: &Measurements, is_one: impl Fn(Load) -> bool) -> f64 {
    let rows = measured.rows.iter().filter(|row| is_one(row.load));
    rows.map(|row| {
        let Some(found) = bench::run(draft, &measured.facts, row) else { return 1e3 };
        let off = |found: f64, wanted: f64| (found / wanted).ln().abs();
        let mut sum = off(found.latency_us_mean, row.latency_us_mean);
        if let (Some(found), Some(wanted)) = (found.read_us_mean, row.read_us_mean) {
            sum += off(found, wanted);
        }
        sum
    })
    .sum()
}

/// Loads without fsyncs, or so short that no buffer is ever full.
fn says_of_host(load: Load, has_fua: bool) -> bool {
    let is_short = load.writes_per_fsync.is_some_and(|writes| writes * load.request_bytes <= 1 << 18);
    matches!(load.kind, LoadKind::RandomRead | LoadKind::Mixed)
        || (load.rest_ms > 0 && is_short)
        || load.is_like(loads::sustained())
        || (has_fua && load.is_like(loads::through()))
}

fn first(start: &Draft, measured: &Measurements, bound: Bound) -> Draft {
    let mut draft = start.clone();
    if let (FlushRule::OrderingPoint, Some(fsync)) = (start.flush, cache::fsync_us(measured)) {
        // It is a command, and nothing else.
        draft.command_us = fsync;
    }
    let latency = |load: Load| measured.row(load).map(|row| row.latency_us_mean);
    let is_cached = start.kind != CacheKind::None;
    let small = latency(loads::small_burst());
    if let (Some(small), Some(middle), true) = (small, latency(loads::middle_burst()), is_cached) {
        let unit = ((middle - small) / 15.0).max(LEAST);
        draft.latency_us = (small - unit - draft.command_us).max(LEAST);
        draft.write_unit_us = unit;
    }
    if let Some(row) = measured.row(reads(LARGE, SEVERAL)) {
        let each = 1e6 / row.per_second / 64.0;
        match bound {
            Bound::Link => (draft.link_unit_us, draft.channels_unit_us) = (each, each / 2.0),
            Bound::Channels => (draft.link_unit_us, draft.channels_unit_us) = (each / 2.0, each),
        }
    }
    if is_cached {
        draft.write_unit_us = (draft.write_unit_us - draft.link_unit_us).max(LEAST);
    }
    if let Some(row) = measured.row(reads(SMALL, 1)) {
        draft.read_us = (row.latency_us_mean - draft.latency_us - draft.link_unit_us).max(1.0);
    }
    // A write through the cache takes two programs, of its page and of the map's journal.
    let through = if measured.facts.has_fua { latency(loads::through()) } else { None };
    let written = if is_cached { through } else { small };
    if let Some(written) = written {
        draft.program_us = ((written - draft.latency_us - draft.command_us) / 2.0).max(1.0);
    }
    // As many planes as take what was written: more, if something else was the limit.
    if let Some(row) = measured.row(loads::sustained()) {
        draft.planes = row.mb_per_s() * draft.program_us / f64::from(PAGE_BYTES);
    }
    draft
}

pub(super) fn reads(bytes: u64, clients: usize) -> Load {
    Load::new(LoadKind::RandomRead, bytes, clients)
}

fn round(draft: &mut Draft, measured: &Measurements, bound: Bound) {
    let is_cached = draft.kind != CacheKind::None;
    let (by_rate, by_latency): (Place, Place) = match bound {
        Bound::Link => (|draft| &mut draft.link_unit_us, |draft| &mut draft.channels_unit_us),
        Bound::Channels => (|draft| &mut draft.channels_unit_us, |draft| &mut draft.link_unit_us),
    };
    let program: Place = |draft| &mut draft.program_us;
    if is_cached {
        meet(draft, measured, loads::middle_burst(), Figure::Latency, |draft| &mut draft.write_unit_us);
        meet(draft, measured, loads::small_burst(), Figure::Latency, |draft| &mut draft.latency_us);
        if measured.facts.has_fua {
            meet(draft, measured, loads::through(), Figure::Latency, program);
        }
    } else {
        meet(draft, measured, loads::small_burst(), Figure::Latency, program);
        meet(draft, measured, loads::middle_burst(), Figure::Latency, |draft| &mut draft.write_unit_us);
    }
    meet_planes(draft, measured);
    meet(draft, measured, reads(LARGE, SEVERAL), Figure::Rate, by_rate);
    meet(draft, measured, reads(SMALL, 1), Figure::Latency, |draft| &mut draft.read_us);
    meet(draft, measured, reads(LARGE, 1), Figure::Latency, by_latency);
    if draft.flush == FlushRule::Drain {
        meet(draft, measured, reads(SMALL, measured.clients()), Figure::Rate, |draft| &mut draft.command_us);
    }
}

/// Sets how many planes take what was written for long. There are whole ones, so no slope leads there.
fn meet_planes(draft: &mut Draft, measured: &Measurements) {
    let Some(row) = measured.row(loads::sustained()) else { return };
    let off = |planes: f64| {
        let tried = Draft { planes, ..draft.clone() };
        distance(&tried, &measured.facts, row, Figure::Rate).unwrap_or(f64::MAX)
    };
    let mut best = (off(draft.planes).abs(), draft.planes);
    for _ in 0..STEPS {
        let (planes, signed) = (best.1, off(best.1));
        if signed.abs() < CLOSE || signed == f64::MAX {
            break;
        }
        let step = (-signed).clamp(-STEP_MAX.ln(), STEP_MAX.ln()).exp();
        // Where one more does nothing, flash is not what is waited for: no more than are needed are taken.
        let one = if signed < 0.0 { planes.round() + 1.0 } else { (planes.round() - 1.0).max(1.0) };
        for other in [(planes * step).max(1.0), one] {
            let found = off(other).abs();
            if found + CLOSE / 4.0 < best.0 {
                best = (found, other);
            }
        }
        if best.1 == planes {
            break;
        }
    }
    draft.planes = best.1;
}

/// What a read takes besides its cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Channels,
    Link,
    Latency,
}

/// Has a part take this many times as long, and something else as much less: what small requests take stays
/// as it is.
fn moved(draft: &Draft, part: Part, factor: f64) -> Draft {
    let mut draft = draft.clone();
    let change = |value: &mut f64| {
        let before = std::mem::replace(value, (*value * factor).max(LEAST));
        *value - before
    };
    let more = match part {
        Part::Channels => f64::from(draft.channels()) * change(&mut draft.channels_unit_us),
        Part::Link => {
            let more = change(&mut draft.link_unit_us);
            if draft.kind != CacheKind::None {
                draft.write_unit_us = (draft.write_unit_us - more).max(LEAST);
            }
            more
        }
        Part::Latency => {
            let more = change(&mut draft.latency_us);
            // Where writes wait for flash it is beside two programs, and not seen by itself.
            draft.program_us = (draft.program_us - more / 2.0).max(1.0);
            more
        }
    };
    draft.read_us = (draft.read_us - more).max(1.0);
    draft
}

/// Divides what a read takes among cells, channels and link so that reads of all sizes come as near as they
/// can.
fn divide_reads(nearest: &mut Nearest, measured: &Measurements) {
    let off = |draft: &Draft| off_of(draft, measured, |load| load.kind == LoadKind::RandomRead);
    let mut least = off(&nearest.draft);
    let parts: &[Part] = match nearest.draft.kind {
        CacheKind::None => &[Part::Channels, Part::Link, Part::Latency],
        // Writes into an empty buffer show the latency.
        CacheKind::Volatile | CacheKind::Durable => &[Part::Channels, Part::Link],
    };
    for factor in [1.5, 1.2, 1.07] {
        for _ in 0..SWEEPS_MAX {
            let before = least;
            for part in parts {
                for factor in [factor, 1.0 / factor] {
                    let tried = moved(&nearest.draft, *part, factor);
                    let found = off(&tried);
                    if found < least {
                        (least, nearest.draft) = (found, tried);
                    }
                }
            }
            if least > 0.98 * before {
                break;
            }
        }
    }
}

/// Moves a parameter until the draft has a figure as it was measured. False if it has no part in it, or if
/// the load was not measured.
fn meet(draft: &mut Draft, measured: &Measurements, load: Load, figure: Figure, place: Place) -> bool {
    let Some(row) = measured.row(load) else { return false };
    meet_row(draft, measured, row, figure, place)
}

fn meet_row(
    draft: &mut Draft,
    measured: &Measurements,
    row: &Measured,
    figure: Figure,
    place: Place,
) -> bool {
    let facts = &measured.facts;
    let Some(mut off) = distance(draft, facts, row, figure) else { return false };
    for _ in 0..STEPS {
        if off.abs() < CLOSE {
            return true;
        }
        let mut tried = draft.clone();
        *place(&mut tried) = place(draft).max(LEAST) * 1.1;
        let Some(moved) = distance(&tried, facts, row, figure) else { return false };
        let slope = (moved - off) / 1.1_f64.ln();
        if slope.abs() < SLOPE_MIN {
            return false;
        }
        let mut step = (-off / slope).clamp(-STEP_MAX.ln(), STEP_MAX.ln());
        let mut is_nearer = false;
        for _ in 0..3 {
            let mut tried = draft.clone();
            *place(&mut tried) = (place(draft).max(LEAST) * step.exp()).max(LEAST);
            if let Some(now) = distance(&tried, facts, row, figure).filter(|now| now.abs() < off.abs()) {
                (*draft, off, is_nearer) = (tried, now, true);
                break;
            }
            step /= 2.0;
        }
        if !is_nearer {
            return true;
        }
    }
    true
}
