//! How far a drive is from what was measured, and which of its parameters anything of that depends on.

use serde::Serialize;

use super::bench::{self, Figure};
use super::draft::Draft;
use super::{Measurements, collection, host, loads};
use crate::config::{CacheKind, FlushRule, FlushTime};
use crate::load::{Load, LoadKind, Measured};

/// A parameter is determined if a load takes so much more or less with twice or half of it, as a logarithm.
const MOVES_MIN: f64 = 0.05;
/// The same for one that can only be this or that, as the sum over all loads.
const WORSE_MIN: f64 = 0.05;

/// A parameter of the drive that came out.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Parameter {
    /// Its key in a model file, behind `ssd.`.
    pub name: &'static str,
    /// What it was found to be, or taken to be.
    pub value: String,
    /// Whether anything that was measured depends on it.
    pub determined: bool,
    /// What it was found by, or why it was taken.
    pub why: String,
}

/// A load as it was measured, and as the drive that came out has it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Compared {
    /// The load.
    #[serde(flatten)]
    pub load: Load,
    /// What is compared: requests a second; microseconds of a request, for bursts with a rest between them.
    pub measured: f64,
    /// The same of the drive that came out.
    pub fitted: f64,
    /// By how much that is too fast, of what was measured. Below zero it is too slow.
    pub off: f64,
}

/// All loads, as far as there are any to compare.
pub(super) fn compare(draft: &Draft, measured: &Measurements) -> Vec<Compared> {
    let compared = |row: &Measured, found: &Measured| {
        let is_burst = row.load.rest_ms > 0;
        let figure = if is_burst { Figure::Latency } else { Figure::Rate };
        let (wanted, fitted) = (figure.of(row)?, figure.of(found)?);
        let off = if is_burst { wanted / fitted - 1.0 } else { fitted / wanted - 1.0 };
        Some(Compared { load: row.load, measured: wanted, fitted, off })
    };
    let over_a_part = measured.rows.iter().filter(|row| row.requests > 0);
    let mut all: Vec<Compared> =
        over_a_part.filter_map(|row| compared(row, &bench::run(draft, &measured.facts, row)?)).collect();
    if let Some(found) = collection::run(draft, measured) {
        all.extend(measured.collection.iter().zip(&found).filter_map(|(row, found)| compared(row, found)));
    }
    all
}

/// Every parameter, with what it was found by.
pub(super) fn parameters(
    draft: &Draft,
    measured: &Measurements,
    is_buffer_seen: bool,
    collected: collection::Determined,
) -> Vec<Parameter> {
    let mut all = Vec::new();
    let mut say = |name, value: String, determined, why: &str| {
        all.push(Parameter { name, value, determined, why: why.to_owned() });
    };
    let seen = |change: &dyn Fn(&mut Draft, f64)| is_seen(draft, measured, change);
    let us = |value: f64| format!("{} us", super::draft::round(value));
    let (facts, is_cached) = (&measured.facts, draft.kind != CacheKind::None);

    let kind = match draft.kind {
        CacheKind::None => "none",
        CacheKind::Volatile => "volatile",
        CacheKind::Durable => "durable",
    };
    let is_kind_known = facts.volatile_cache.is_some() || !is_cached;
    say(
        "cache.kind",
        kind.to_owned(),
        is_kind_known,
        match (is_cached, facts.volatile_cache) {
            (false, _) => "a write takes as long as one that goes through the cache",
            (true, Some(_)) => {
                "a write is over before flash can have it; whether it outlives the power is what the drive says"
            }
            (true, None) => {
                "a write is over before flash can have it; nothing says that it outlives the power"
            }
        },
    );
    let has_fsyncs = super::cache::fsync_us(measured).is_some();
    let (rule, time) = match (&draft.flush, &draft.flush_us) {
        (FlushRule::OrderingPoint, _) => ("ordering_point", "0 us".to_owned()),
        (FlushRule::Drain, FlushTime::Same(time)) => ("drain", us(*time)),
        (FlushRule::Drain, FlushTime::ByUnits(points)) => {
            ("drain", format!("by units written, {} points", points.len()))
        }
    };
    say(
        "cache.flush",
        rule.to_owned(),
        has_fsyncs,
        "an fsync after a write, beside what flash takes for a page",
    );
    say("cache.flush_us", time, has_fsyncs, "what fsyncs take beside what they write");
    let frames = super::draft::round(draft.buffer_bytes / f64::from(1 << 20));
    say(
        "cache.buffer_bytes",
        format!("{frames} MiB"),
        is_buffer_seen,
        if is_buffer_seen {
            "bursts after idle: how much is written before writes wait for flash"
        } else if is_cached {
            "no burst was ever slower than a short one: flash is as fast as the link; the usual size"
        } else {
            "writes wait for flash, so nothing shows how much would be held; the usual size"
        },
    );
    say(
        "cache.reads_take_frames",
        draft.reads_take_frames.to_string(),
        is_other_worse(draft, measured, |draft| draft.reads_take_frames = !draft.reads_take_frames),
        "reads among writes that wait",
    );
    let latency = seen(&|draft, factor| draft.latency_us *= factor) && is_cached;
    say(
        "host.latency_us",
        us(draft.latency_us),
        latency,
        if is_cached {
            "small writes into an empty buffer"
        } else {
            "not told apart from what flash takes; the usual time"
        },
    );
    let command = seen(&|draft, factor| draft.command_us *= factor);
    say(
        "host.command_us",
        us(draft.command_us),
        command,
        "small reads of many clients; flushes, if they are nothing else",
    );
    let rate = format!("{} MB/s", super::draft::round(4096.0 / draft.link_unit_us));
    let link = seen(&|draft, factor| draft.link_unit_us *= factor);
    say("host.link_mb_per_s", rate, link, "large reads, of one and of many clients");
    let unit = seen(&|draft, factor| draft.write_unit_us *= factor);
    say(
        "host.write_unit_us",
        us(draft.write_unit_us),
        unit,
        "large writes into an empty buffer, beside the link",
    );
    let depth = is_other_worse(draft, measured, |draft| draft.queue_depth /= 2)
        && is_other_worse(draft, measured, |draft| draft.queue_depth *= 2);
    say(
        "host.queue_depth",
        draft.queue_depth.to_string(),
        depth,
        "reads, and reads among writes, of more and more clients",
    );
    say(
        "host.ordered",
        draft.ordered.to_string(),
        is_other_worse(draft, measured, |draft| draft.ordered = !draft.ordered),
        "reads among writes that wait",
    );
    let read = seen(&|draft, factor| draft.read_us *= factor);
    say("timings.read_us", us(draft.read_us), read, "a small read of one client");
    let channels = seen(&|draft, factor| draft.channels_unit_us *= factor);
    let rate = 4096.0 / draft.channels_unit_us;
    say(
        "timings.channel_mb_per_s",
        format!("{} MB/s of all", super::draft::round(rate)),
        channels,
        "large reads, of one and of many clients; of all channels together",
    );
    let program = facts.has_fua || !is_cached;
    say(
        "timings.program_us",
        us(draft.program_us),
        program,
        if program {
            "writes that go through the cache take two programs"
        } else {
            "without FUA, not told apart from the number of planes; the usual time"
        },
    );
    say(
        "timings.erase_us",
        us(draft.erase_us),
        false,
        "not told apart from the number of planes; the usual time",
    );
    let planes = is_seen(draft, measured, &|draft, factor| draft.planes *= factor.max(1.0)) && program;
    let planes_why = if planes {
        "sustained writes, and what flash takes for a page; how they lie on channels is ours"
    } else {
        "as many as sustained writes need at least"
    };
    say(
        "geometry (planes)",
        format!(
            "{}",
            draft.erase_unit_bytes() / u64::from(super::draft::PAGE_BYTES) / u64::from(draft.pages_per_block)
        ),
        planes,
        planes_why,
    );
    let erase_unit = super::draft::round(draft.erase_unit_bytes() as f64 / f64::from(1 << 20));
    let not_whole = if measured.collection.is_empty() {
        "the whole drive was not written over (`mezz device probe --whole`); the usual one"
    } else {
        "writes over the whole drive did not depend on it: something else is slower"
    };
    say(
        "geometry (erase unit)",
        format!("{erase_unit} MiB"),
        collected.erase_unit,
        if collected.erase_unit {
            "writes over the whole drive: the more of an erase unit they fill, the faster; a block of each plane"
        } else {
            not_whole
        },
    );
    say(
        "geometry (spare)",
        format!("{:.1} %", 100.0 * (1.0 - draft.utilisation)),
        collected.spare,
        if collected.spare { "small writes over the whole drive; beside the reserve" } else { not_whole },
    );
    say(
        "geometry.page_bytes",
        "8192".to_owned(),
        false,
        "not told apart from the number of planes; the usual size",
    );
    all
}

/// Whether a load depends on a parameter.
fn is_seen(draft: &Draft, measured: &Measurements, change: &dyn Fn(&mut Draft, f64)) -> bool {
    let changed = [2.0, 0.5].map(|factor| {
        let mut draft = draft.clone();
        change(&mut draft, factor);
        draft
    });
    let rows = measured.rows.iter().filter(|row| is_telling(row.load));
    rows.filter_map(|row| Some((row, bench::run(draft, &measured.facts, row)?))).any(|(row, here)| {
        changed.iter().any(|draft| {
            let there = bench::run(draft, &measured.facts, row);
            there.is_some_and(|there| (there.latency_us_mean / here.latency_us_mean).ln().abs() > MOVES_MIN)
        })
    })
}

/// What is run again for each parameter: the short ones.
fn is_telling(load: Load) -> bool {
    load.kind == LoadKind::RandomRead
        || load.is_like(loads::small_burst())
        || load.is_like(loads::middle_burst())
        || load.is_like(loads::sustained())
        || load.is_like(loads::through())
}

fn is_other_worse(draft: &Draft, measured: &Measurements, change: impl Fn(&mut Draft)) -> bool {
    let mut other = draft.clone();
    change(&mut other);
    host::off(&other, measured) > host::off(draft, measured) + WORSE_MIN
}
