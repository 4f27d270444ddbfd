//! What findings mean for databases: a function of them, and of nothing else.
//!
//! Rules, each with a test:
//! 1. Protection is advised to be given up only where [`Findings::keeps_pages_whole`] shows it to be
//!    needless, and then as something to consider, with what has to hold besides.
//! 2. A fast flush proves nothing about what outlives a power cut, and this is said whatever was measured.
//! 3. From a measurement that ended early, and from a model, no change of protection follows.

#[cfg(test)]
mod tests;

use mezzanine_report::number;
use serde::Serialize;

use super::findings::{Figures, Findings, FlushPath, TargetKind};
use super::load::LOG_PAGE_BYTES;

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verdict {
    /// Leave it as it is: the value is the default, or protection that is needed.
    Keep,
    /// It may be worth it, under the conditions that are named.
    Consider,
    /// Something is wrong: set it to this.
    Repair,
}

/// What follows for one setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Advice {
    /// Whose setting it is.
    pub(super) of: &'static str,
    pub(super) setting: &'static str,
    pub(super) value: String,
    pub(super) verdict: Verdict,
    pub(super) why: String,
    /// What was measured of it, or why nothing was.
    pub(super) gain: String,
    /// What can be lost.
    pub(super) risk: String,
}

/// A difference that a measurement of seconds can tell from chance.
const GAIN_MIN: f64 = 1.2;
/// A smaller page has to be this much faster before it is worth a thought.
const PAGE_GAIN_MIN: f64 = 1.5;
/// Groups are large enough when they are this close to the fastest.
const GROUP_SHARE_MIN: f64 = 0.9;
/// The pages of a group that a tier has by itself.
const GROUP_PAGES_DEFAULT: u64 = 64;

/// Advice on all settings.
pub(super) fn advise(findings: &Findings) -> Vec<Advice> {
    vec![
        barriers(findings),
        full_page_writes(findings),
        wal_sync_method(findings),
        doublewrite(findings),
        page_size(findings),
        sync_mode(findings),
        group_pages(findings),
    ]
}

/// How many times as fast.
fn ratio(fast: Option<f64>, slow: Option<f64>) -> Option<f64> {
    let (fast, slow) = (fast?, slow?);
    (slow > 0.0 && fast.is_finite()).then_some(fast / slow)
}

fn times(factor: f64) -> String {
    format!("{} times", number(factor, usize::from(factor < 10.0)))
}

const NOT_MEASURED: &str = "Not measured.";
const FAST_PROVES_NOTHING: &str = "How fast a flush is proves nothing about what outlives a power cut: a safe \
    cache and a drive, controller or hypervisor that ignores flushes look alike from here. Only cutting the \
    power shows it.";

fn barriers(f: &Findings) -> Advice {
    let gain = match ratio(f.figures.fsync_never, f.figures.fsync_each) {
        Some(factor) if factor < GAIN_MIN => {
            "4 KiB writes of one client are not faster without fsync than with one after each.".to_owned()
        }
        Some(factor) => format!(
            "4 KiB writes of one client are {} as fast without fsync as with one after each. It is what \
             durability costs here, and not a gain to be had.",
            times(factor)
        ),
        None => NOT_MEASURED.to_owned(),
    };
    let (verdict, why) = if f.barriers_off {
        let why = "The file system is mounted without write barriers: fsync sends no flush, and what it \
                   promises is kept only if no write cache below is volatile.";
        (Verdict::Repair, why.to_owned())
    } else {
        let verdict = if f.flushes == FlushPath::Missing { Verdict::Repair } else { Verdict::Keep };
        (verdict, flush_path(f).to_owned())
    };
    Advice {
        of: "file system",
        setting: "write barriers",
        value: "on".to_owned(),
        verdict,
        why,
        gain,
        risk: FAST_PROVES_NOTHING.to_owned(),
    }
}

fn flush_path(f: &Findings) -> &'static str {
    match f.flushes {
        FlushPath::Sent => {
            "For each fsync the kernel sent a flush to every disk it knows of. What a hypervisor, a \
             controller or the drive then does with it cannot be seen from here."
        }
        FlushPath::NotNeeded => {
            "The kernel sent no flushes, since the disks say that they have no volatile cache, or somebody has \
             set queue/write_cache so. What they say was taken for true, not tested."
        }
        FlushPath::Missing => {
            "The kernel did not send a flush to every disk for each fsync, although no disk was said to be \
             without a volatile cache. Find out why (mount options, a layer that drops flushes, or a file \
             system without a disk), before anything is trusted to it."
        }
        FlushPath::Unknown => {
            "It could not be seen whether flushes reach a disk: the kernel does not count them here, others \
             use the disk too much, or the probe was too short."
        }
        FlushPath::Modelled => "A model carries out every flush; a real drive has to be probed itself.",
    }
}

fn full_page_writes(f: &Findings) -> Advice {
    let covered = |said: Option<u64>| said.is_some_and(|said| said >= LOG_PAGE_BYTES);
    let why = if f.kind == TargetKind::Model {
        "A model says nothing about torn pages."
    } else if covered(f.atomic_write_bytes) {
        "The device promises to keep aligned writes of 8 KiB whole, but nothing promises that a page is one \
         such write: PostgreSQL writes through the kernel's page cache and does not ask for untorn writes, so \
         that the kernel may split a page or join it with others."
    } else if f.atomic_write_bytes.is_some() {
        "The device does not promise that a page of 8 KiB is written whole or not at all."
    } else {
        "It is not known whether the device writes a page of 8 KiB whole or not at all."
    };
    let gain = match f.figures.page(LOG_PAGE_BYTES).and_then(|page| page.fsync_rarely) {
        Some(rate) if rate > 0.0 => format!(
            "At most an image of 8 KiB in the log for each page that is changed first after a checkpoint, some \
             {} us of this device's time; fewer checkpoints (max_wal_size) and wal_compression save most of \
             that without risk.",
            number(1e6 / rate, 0)
        ),
        _ => NOT_MEASURED.to_owned(),
    };
    Advice {
        of: "PostgreSQL",
        setting: "full_page_writes",
        value: "on".to_owned(),
        verdict: Verdict::Keep,
        why: why.to_owned(),
        gain,
        risk: "Without it, a page that is torn by a power cut is damaged for good.".to_owned(),
    }
}

fn wal_sync_method(f: &Findings) -> Advice {
    let factor = ratio(f.figures.log_dsync, f.figures.log_fdatasync);
    let is_worth = factor.is_some_and(|factor| factor >= GAIN_MIN);
    let is_safe = f.complete && f.fua == Some(true) && f.flushes_are_honoured() && !f.barriers_off;
    let measured = factor.map_or(NOT_MEASURED.to_owned(), |factor| {
        format!("Log writes of 8 KiB with O_DSYNC are {} as fast as with fdatasync.", times(factor))
    });
    let (value, verdict, why) = if is_worth && is_safe && f.kind != TargetKind::Model {
        let why = "Both promise the same, and the disks have FUA, by which one write takes the place of a \
                   write and a flush. Compare them with pg_test_fsync before.";
        ("open_datasync", Verdict::Consider, why)
    } else if is_worth && f.kind == TargetKind::Model {
        ("fdatasync", Verdict::Keep, "The model says nothing about FUA of the real drive; probe that one.")
    } else if is_worth {
        let why = "O_DSYNC was faster, but it was not shown that the disks have FUA and that flushes are sent to \
                   them; then the faster one may be the one that promises less.";
        ("fdatasync", Verdict::Keep, why)
    } else {
        (
            "fdatasync",
            Verdict::Keep,
            "It is the default on Linux, and nothing measured here speaks against it.",
        )
    };
    let risk = if f.flushes_are_honoured() {
        "None by itself; with open_datasync a commit of many log pages waits for each of them. fsync = off is no \
         setting of speed: it gives up the database at the next power cut."
    } else {
        "It was not shown that any of the methods makes a commit durable on this device."
    };
    Advice {
        of: "PostgreSQL",
        setting: "wal_sync_method",
        value: value.to_owned(),
        verdict,
        why: why.to_owned(),
        gain: measured,
        risk: risk.to_owned(),
    }
}

fn doublewrite(f: &Findings) -> Advice {
    let largest = [16_384, 8192, 4096].into_iter().find(|bytes| f.keeps_pages_whole(*bytes));
    let size = largest.unwrap_or(16_384);
    let gain = match f.figures.page(size).and_then(|page| page.fsync_rarely) {
        Some(rate) => format!(
            "At most half of the page writes: {} of {} KiB a second were measured with one fsync in 256, of \
             which the doublewrite buffer takes every other one.",
            number(rate, 0),
            size / 1024
        ),
        None => NOT_MEASURED.to_owned(),
    };
    let risk = "Without it, a page that is torn by a power cut is damaged for good.".to_owned();
    let (value, verdict, why) = match largest {
        Some(bytes) => (
            format!("OFF, with innodb_page_size = {} at most", bytes),
            Verdict::Consider,
            format!(
                "Every layer and the file system promise that an aligned write of {} KiB is whole or not there \
                 at all, partitions are aligned to it, and requests are not merged. It holds for InnoDB only \
                 with innodb_flush_method = O_DIRECT, on this file system, and as long as nomerges is 2, after \
                 every restart as well. Cut the power under load before you rely on it.",
                bytes / 1024
            ),
        ),
        None => ("ON".to_owned(), Verdict::Keep, why_pages_may_tear(f)),
    };
    Advice { of: "InnoDB", setting: "innodb_doublewrite", value, verdict, why, gain, risk }
}

/// The first thing that is missing, of those that would show that pages stay whole.
fn why_pages_may_tear(f: &Findings) -> String {
    let smallest = 4096;
    let reason = match (f.kind, f.atomic_write_bytes) {
        (TargetKind::Model, _) => "a model says nothing about torn pages",
        _ if !f.complete => "the probe ended early",
        (_, None) => "the kernel does not tell whether the device writes pages whole or not at all",
        (_, Some(unit)) if unit < smallest => {
            "the device does not promise that a page is written whole or not at all"
        }
        (TargetKind::BlockDevice, _) => {
            "the device keeps pages whole, but the database will lie on a file system, which was not asked; \
             probe a new file on it"
        }
        _ if !f.direct => "the file system has no direct I/O, so the kernel decides how pages are written",
        _ if f.file_atomic_write_bytes.is_none_or(|said| said < smallest) => {
            "the device keeps pages whole, but the file system does not say so for its files"
        }
        _ if f.aligned_bytes < smallest => "a partition does not begin at a multiple of the page size",
        _ if !f.never_merges => {
            "the kernel may merge page writes to larger ones, of which the device promises nothing (nomerges \
             is not 2)"
        }
        _ => "it was not shown that flushes reach the disk",
    };
    format!("It was not shown to be needless: {reason}.")
}

fn page_size(f: &Findings) -> Advice {
    let figures = |bytes| f.figures.page(bytes).copied().unwrap_or_default();
    let (large, small) = (figures(16_384), figures(4096));
    let rarely = ratio(small.fsync_rarely, large.fsync_rarely);
    let each = ratio(small.fsync_each, large.fsync_each);
    let reads = ratio(small.reads, large.reads);
    let gain = match (rarely, each, reads) {
        (Some(rarely), Some(each), Some(reads)) => format!(
            "Pages of 4 KiB against 16 KiB: {} the reads, {} the writes with one fsync in 256, {} with an fsync \
             after each.",
            times(reads),
            times(rarely),
            times(each)
        ),
        _ => NOT_MEASURED.to_owned(),
    };
    let pays = |factor: Option<f64>| factor.is_some_and(|factor| factor >= PAGE_GAIN_MIN);
    let (value, verdict, why) = if f.complete && f.direct && pays(rarely) && pays(reads) {
        let why = "Where small random reads and updates rule, smaller pages give more of them, but only as long as \
                   fsyncs are few: an fsync costs the same whatever the page.";
        ("4096 or 8192 for new instances", Verdict::Consider, why)
    } else {
        ("16384", Verdict::Keep, "Smaller pages were not shown to be much faster here, for reads and writes.")
    };
    Advice {
        of: "InnoDB",
        setting: "innodb_page_size",
        value: value.to_owned(),
        verdict,
        why: why.to_owned(),
        gain,
        risk: "It is fixed when the instance is made; smaller pages hold shorter rows and keys. It changes \
               nothing about torn pages."
            .to_owned(),
    }
}

fn sync_mode(f: &Findings) -> Advice {
    let fsync = f.figures.fsync_us.map_or(NOT_MEASURED.to_owned(), |us| {
        format!("A flush after a write of 4 KiB takes {} us here (median).", number(us, 0))
    });
    let is_trusted =
        f.complete && f.flushes_are_honoured() && (!f.barriers_off || f.volatile_cache == Some(false));
    let (value, verdict, mut why) = if is_trusted {
        let why = "Losing the flash device then costs a crash recovery, and nothing else. `durable` makes it part of \
                   the database; no probe can show that a drive deserves that.";
        ("drained", Verdict::Keep, why.to_owned())
    } else {
        let why = "It was not shown that flushes reach the device, or that it needs none; flash that is not trusted \
                   should hold no newest versions.";
        ("through", Verdict::Repair, why.to_owned())
    };
    if f.rotational {
        why.push_str(" The system says that a disk here has platters; virtual disks often do.");
    }
    Advice {
        of: "Mezzanine",
        setting: "sync_mode",
        value: value.to_owned(),
        verdict,
        why,
        gain: fsync,
        risk: FAST_PROVES_NOTHING.to_owned(),
    }
}

/// The smallest group that is nearly as fast as the fastest.
fn fitting_group(figures: &Figures) -> Option<(u64, f64)> {
    let best = figures.groups.iter().map(|group| group.1).fold(0.0, f64::max);
    figures.groups.iter().copied().find(|group| best > 0.0 && group.1 >= GROUP_SHARE_MIN * best)
}

fn group_pages(f: &Findings) -> Advice {
    let rate = |pages| f.figures.groups.iter().find(|group| group.0 == pages).map(|group| group.1);
    let (standard, single) = (rate(GROUP_PAGES_DEFAULT), rate(1));
    let keep = |why: &str| (format!("{GROUP_PAGES_DEFAULT} (the default)"), Verdict::Keep, why.to_owned());
    let fitting = fitting_group(&f.figures).filter(|_| f.complete && f.direct);
    let (value, verdict, why) = match (fitting, standard) {
        (Some((pages, mb)), Some(standard)) if mb >= GAIN_MIN * standard => {
            let why = format!(
                "Groups of {pages} pages of 8 KiB, flushed after each, reach {} MB/s, those of \
                 {GROUP_PAGES_DEFAULT} {}.",
                number(mb, 0),
                number(standard, 0)
            );
            (pages.to_string(), Verdict::Consider, why)
        }
        (Some(_), Some(_)) => keep("Other groups were not measured to be much faster."),
        _ => keep("Nothing that was measured speaks for another size."),
    };
    let gain = match ratio(standard, single) {
        Some(factor) => format!(
            "Groups of {GROUP_PAGES_DEFAULT} pages write {} as many bytes a second as single pages, each \
             with a flush.",
            times(factor)
        ),
        None => NOT_MEASURED.to_owned(),
    };
    Advice {
        of: "Mezzanine",
        setting: "group_pages",
        value,
        verdict,
        why,
        gain,
        risk: "None for durability; larger groups take more memory and end early where commits are small."
            .to_owned(),
    }
}
