//! What a probe has found, in the terms that advice is given in.

use serde::Serialize;

use super::load::{LOG_PAGE_BYTES, LoadKind, PAGE_BYTES, Row, Rows};
use super::system::System;

/// What is probed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum TargetKind {
    NewFile,
    BlockDevice,
    Model,
}

/// What becomes of an fsync.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FlushPath {
    /// The kernel sent a flush to every disk for each fsync.
    Sent,
    /// It sent none, since no disk says that it has a volatile cache.
    NotNeeded,
    /// It sent fewer than were asked for, although a disk may have a volatile cache.
    Missing,
    /// It does not tell, or too few were asked for, or others use the disk so much that nothing follows.
    Unknown,
    /// A model gets all of them.
    Modelled,
}

/// Fewer fsyncs than this prove nothing.
const FSYNCS_MIN: u64 = 10;

impl FlushPath {
    /// From the loads with an fsync after each write: one client, so the kernel has none to join.
    pub(super) fn of(kind: TargetKind, volatile_cache: Option<bool>, rows: Rows<'_>) -> FlushPath {
        if kind == TargetKind::Model {
            return FlushPath::Modelled;
        }
        let one = PAGE_BYTES.iter().filter_map(|bytes| rows.writes(*bytes, Some(1)));
        let Some(sums) = sums(one) else { return FlushPath::Unknown };
        if sums.fsyncs < FSYNCS_MIN {
            return FlushPath::Unknown;
        }
        // What others flush meanwhile is counted, too: as much as while nothing was asked for here.
        let none = PAGE_BYTES.iter().filter_map(|bytes| rows.writes(*bytes, None));
        let Some(idle) = self::sums(none) else { return FlushPath::Unknown };
        let others = idle.counted as f64 / idle.seconds.max(1e-9) * sums.seconds;
        let share = (sums.counted as f64 - others) / sums.fsyncs as f64;
        match (share, volatile_cache) {
            (share, _) if share >= 0.9 => FlushPath::Sent,
            // So many of others that they could be taken for ours, or ours for theirs.
            _ if others > sums.fsyncs as f64 => FlushPath::Unknown,
            (_, Some(false)) => FlushPath::NotNeeded,
            _ => FlushPath::Missing,
        }
    }
}

#[derive(Default)]
struct Sums {
    fsyncs: u64,
    counted: u64,
    seconds: f64,
}

/// None if one of the rows was not counted, or there are none.
fn sums<'r>(rows: impl Iterator<Item = &'r Row>) -> Option<Sums> {
    let mut sums = Sums::default();
    let mut any = false;
    for row in rows {
        any = true;
        sums.fsyncs += row.fsyncs;
        sums.counted += row.flushes_counted?;
        sums.seconds += row.seconds;
    }
    any.then_some(sums)
}

/// What advice follows from, and nothing else.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Findings {
    pub(super) kind: TargetKind,
    /// Whether all loads were measured.
    pub(super) complete: bool,
    /// Whether the page cache was passed by.
    pub(super) direct: bool,
    pub(super) rotational: bool,
    pub(super) volatile_cache: Option<bool>,
    pub(super) fua: Option<bool>,
    /// The largest write that all layers keep whole; null if one of them does not tell.
    pub(super) atomic_write_bytes: Option<u64>,
    /// The same of the file itself, as its file system says.
    pub(super) file_atomic_write_bytes: Option<u64>,
    /// The largest page size to which all partitions are aligned.
    pub(super) aligned_bytes: u64,
    pub(super) never_merges: bool,
    pub(super) barriers_off: bool,
    pub(super) flushes: FlushPath,
    pub(super) figures: Figures,
}

/// Rates in requests a second; null where it was not measured.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Figures {
    /// Time of an fsync after a single 4 KiB write, in microseconds.
    pub(super) fsync_us: Option<f64>,
    /// 4 KiB writes of one client with an fsync after each, and with none at all.
    pub(super) fsync_each: Option<f64>,
    pub(super) fsync_never: Option<f64>,
    pub(super) log_fdatasync: Option<f64>,
    pub(super) log_dsync: Option<f64>,
    /// By page size: writes with one fsync in 256, with an fsync after each, and reads of many clients.
    pub(super) pages: Vec<PageFigures>,
    /// Pages of a group, and 10^6 bytes a second.
    pub(super) groups: Vec<(u64, f64)>,
}

/// Of one page size.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct PageFigures {
    pub(super) bytes: u64,
    pub(super) fsync_rarely: Option<f64>,
    pub(super) fsync_each: Option<f64>,
    pub(super) reads: Option<f64>,
}

impl Figures {
    pub(super) fn of(rows: Rows<'_>) -> Figures {
        let rate = |row: Option<&Row>| row.map(|row| row.per_second);
        let log = |kind, per_fsync| rate(rows.find(kind, LOG_PAGE_BYTES, per_fsync));
        Figures {
            fsync_us: rows.writes(4096, Some(1)).and_then(|row| row.fsync_us_p50),
            fsync_each: rate(rows.writes(4096, Some(1))),
            fsync_never: rate(rows.writes(4096, None)),
            log_fdatasync: log(LoadKind::LogFdatasync, Some(1)),
            log_dsync: log(LoadKind::LogDsync, None),
            pages: PAGE_BYTES
                .iter()
                .map(|bytes| PageFigures {
                    bytes: *bytes,
                    fsync_rarely: rate(rows.writes(*bytes, Some(256))),
                    fsync_each: rate(rows.writes(*bytes, Some(1))),
                    reads: rate(rows.reads(*bytes)),
                })
                .collect(),
            groups: rows
                .groups()
                .map(|row| (row.load.request_bytes / LOG_PAGE_BYTES, row.mb_per_s))
                .collect(),
        }
    }

    pub(super) fn page(&self, bytes: u64) -> Option<&PageFigures> {
        self.pages.iter().find(|page| page.bytes == bytes)
    }
}

impl Findings {
    pub(super) fn of(
        kind: TargetKind,
        complete: bool,
        direct: bool,
        system: &System,
        model_cache: Option<bool>,
        rows: &[Row],
    ) -> Findings {
        let volatile_cache = model_cache.or_else(|| system.volatile_cache());
        let aligned = PAGE_BYTES.iter().rev().find(|bytes| system.partitions_aligned_to(**bytes));
        Findings {
            kind,
            complete,
            direct,
            rotational: system.rotational(),
            volatile_cache,
            fua: system.fua(),
            atomic_write_bytes: system.atomic_write_bytes(),
            file_atomic_write_bytes: system.file_atomic_write_bytes,
            aligned_bytes: aligned.copied().unwrap_or(0),
            never_merges: system.never_merges(),
            barriers_off: system.file_system.as_ref().is_some_and(|found| found.barriers_off),
            flushes: FlushPath::of(kind, volatile_cache, Rows(rows)),
            figures: Figures::of(Rows(rows)),
        }
    }

    /// Whether a database that writes pages of this size by direct I/O to a file like this one was shown to
    /// have them on disk whole or not at all, whatever the power does: every layer says so for a write of
    /// this size, so does the file system for the file, nothing on the way misaligns it, makes it part of a
    /// larger write that nobody promises anything of, or loses it later.
    pub(super) fn keeps_pages_whole(&self, bytes: u64) -> bool {
        let covers = |said: Option<u64>| said.is_some_and(|said| said >= bytes);
        self.kind == TargetKind::NewFile
            && self.complete
            && self.direct
            && covers(self.atomic_write_bytes)
            && covers(self.file_atomic_write_bytes)
            && self.aligned_bytes >= bytes
            && self.never_merges
            && self.flushes_are_honoured()
    }

    /// Whether nothing was seen of an fsync that stops short of a volatile cache. It is no proof that the
    /// drive keeps what it was told to.
    pub(super) fn flushes_are_honoured(&self) -> bool {
        match self.flushes {
            FlushPath::Sent | FlushPath::Modelled => true,
            FlushPath::NotNeeded => self.volatile_cache == Some(false),
            FlushPath::Missing | FlushPath::Unknown => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::load::{Load, Seen, loads};
    use super::*;

    /// Rows with so many flushes counted in a second for each fsync, and for others.
    fn rows(per_fsync: f64, others: u64, counts: bool) -> Vec<Row> {
        loads(2)
            .into_iter()
            .map(|load: Load| {
                let mut seen = Seen { time: Duration::from_secs(1), ..Seen::default() };
                for _ in 0..256 {
                    seen.requests.record(Duration::from_micros(10));
                }
                for _ in 0..load.writes_per_fsync.map_or(0, |writes| 256 / writes) {
                    seen.fsyncs.record(Duration::from_micros(100));
                }
                let counted = (seen.fsyncs.count() as f64 * per_fsync) as u64 + others;
                Row::new(load, &seen, counts.then_some(counted))
            })
            .collect()
    }

    #[test]
    fn what_becomes_of_an_fsync_is_seen_in_the_counters() {
        let cases = [
            ((1.0, 0, true), Some(true), FlushPath::Sent),
            ((1.0, 50, true), None, FlushPath::Sent),
            ((1.0, 50, true), Some(false), FlushPath::Sent),
            ((0.0, 0, true), Some(false), FlushPath::NotNeeded),
            ((0.0, 0, true), Some(true), FlushPath::Missing),
            ((0.0, 0, true), None, FlushPath::Missing),
            ((0.5, 10, true), Some(true), FlushPath::Missing),
            // Others alone flush as often as was asked for here.
            ((0.0, 256, true), Some(true), FlushPath::Missing),
            ((0.0, 300, true), Some(true), FlushPath::Unknown),
            ((1.0, 0, false), Some(true), FlushPath::Unknown),
        ];
        for ((per_fsync, others, counts), cache, wanted) in cases {
            let rows = rows(per_fsync, others, counts);
            let found = FlushPath::of(TargetKind::NewFile, cache, Rows(&rows));
            assert_eq!(found, wanted, "{per_fsync} {others} {counts} {cache:?}");
        }
        assert_eq!(FlushPath::of(TargetKind::NewFile, None, Rows(&[])), FlushPath::Unknown);
        assert_eq!(FlushPath::of(TargetKind::Model, None, Rows(&[])), FlushPath::Modelled);
    }
}
