//! Recovery of a large tier against reading all of it.

use std::error::Error;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

use mezzanine_device::prefer_huge_pages;
use mezzanine_engine::format::Superblock;
use mezzanine_engine::{
    Blank, InTurn, Job, PageId, ReadError, ReadFlash, RecoveryReport, StageIn, StageKind, SyncState, Tier,
    TierConfig, Workers,
};
use mezzanine_volume::RecoveryThreads;

use crate::report::{Outcome, Row, Scale};
use crate::scale;

/// Bandwidth in bytes a second at which bytes read are turned into seconds of a device.
const DEVICE_BANDWIDTH: f64 = 500e6;

struct Flash(File);

impl ReadFlash for Flash {
    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> Result<(), ReadError> {
        self.0.read_exact_at(bytes, offset).map_err(|error| ReadError(error.to_string()))
    }
}

pub(crate) fn run(scale: Scale, gib: u64, directory: &Path) -> Outcome {
    let bytes = scale.pick(gib << 30, 64 << 20);
    let path = directory.join(format!("mezz-bench-recovery-{}.flash", std::process::id()));
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path)?;
    let outcome = measure(bytes, file);
    std::fs::remove_file(&path)?;
    outcome
}

fn measure(bytes: u64, file: File) -> Outcome {
    let config = TierConfig::for_flash_bytes(8192, bytes);
    let geometry = config.geometry()?;
    file.set_len(geometry.flash_bytes())?;
    let fresh = Superblock::new(&geometry, [1; 16], [2; 16]);
    let mut flash = Flash(file);
    let superblock = fill(&config, &fresh, &mut flash)?;

    let (report, alone) = timed(&superblock, &mut flash, &InTurn(1))?;
    let threads = RecoveryThreads::of_machine();
    let (_, together) = timed(&superblock, &mut flash, &threads)?;
    let read = report.bytes_read as f64;
    let frame = |seconds: f64| seconds * 1e9 / geometry.frames() as f64;
    let size = format!("{:.1} GiB, 8 KiB pages", bytes as f64 / (1u64 << 30) as f64);
    let scan = geometry.flash_bytes() as f64;
    Ok(vec![
        Row::new(format!("recovery, flash read ({size})"), read / 1e6, "MB").beside("full scan", scan / 1e6),
        Row::new("recovery, seconds of a device at 500 MB/s", read / DEVICE_BANDWIDTH, "s")
            .beside("full scan", scan / DEVICE_BANDWIDTH),
        Row::new(
            "recovery by one thread, processor time, reads from the page cache included",
            alone.processor,
            "s",
        )
        .beside("on the clock", alone.clock),
        Row::new("recovery by one thread, processor time for each frame", frame(alone.processor), "ns"),
        Row::new(format!("recovery by {} threads, on the clock", threads.count()), together.clock, "s")
            .beside("by one", alone.clock),
        Row::new("recovery by them, processor time for each frame", frame(together.processor), "ns")
            .beside("by one", frame(alone.processor)),
        Row::new("recovery, pages in the tier", report.valid as f64, "pages"),
        Row::new("recovery, segments read", report.segments_read as f64, "segments"),
        Row::new("recovery, groups scanned", report.groups_scanned as f64, "groups"),
    ])
}

/// Seconds that a recovery took.
struct Took {
    clock: f64,
    processor: f64,
}

fn timed(
    superblock: &Superblock,
    flash: &mut Flash,
    workers: &dyn Workers,
) -> Result<(RecoveryReport, Took), Box<dyn Error>> {
    let region = Blank::heap(superblock.config.geometry()?.region_bytes());
    prefer_huge_pages(region.memory());
    let (start, start_processor) = (Instant::now(), process_seconds()?);
    let recovered = Tier::recover_with(region, superblock, 1, flash, workers)?;
    let clock = start.elapsed().as_secs_f64();
    Ok((recovered.report, Took { clock, processor: process_seconds()? - start_processor }))
}

/// Seconds that the threads of this process have had the processor, those included that have ended; in steps
/// of a hundredth.
fn process_seconds() -> Result<f64, Box<dyn Error>> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // The name stands in parentheses and may have spaces in it.
    let (_, fields) = stat.rsplit_once(')').ok_or("a stat without a name")?;
    let mut ticks = fields.split_whitespace().skip(11).take(2).map(str::parse::<u64>);
    let mut next = || ticks.next().ok_or("a stat that is too short");
    Ok((next()?? + next()??) as f64 / 100.0)
}

/// Recovery of a tier in which relations were dropped a moment ago, beside one without.
pub(crate) fn with_drops(bytes: u64, drops: u64, directory: &Path, size: &str) -> Outcome {
    let path = directory.join(format!("mezz-bench-scale-{}.flash", std::process::id()));
    let mut rows = Vec::new();
    let mut without = None;
    for drops in [0, drops] {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path)?;
        let config = TierConfig::for_flash_bytes(8192, bytes);
        let geometry = config.geometry()?;
        file.set_len(geometry.flash_bytes())?;
        let mut flash = Flash(file);
        let fresh = Superblock::new(&geometry, [1; 16], [2; 16]);
        let outcome = recovered_with_drops(&config, &fresh, drops, &mut flash);
        std::fs::remove_file(&path)?;
        let (processor, read) = outcome?;
        let row =
            Row::new(format!("{size}: recovery with {drops} drops pending, processor time"), processor, "s");
        rows.push(match without {
            None => row,
            Some(without) => row.beside("with none", without),
        });
        if without.replace(processor).is_none() {
            rows.push(Row::new(format!("{size}: recovery, flash read"), read / 1e6, "MB"));
        }
    }
    Ok(rows)
}

/// Processor seconds of a recovery, and bytes read.
fn recovered_with_drops(
    config: &TierConfig,
    fresh: &Superblock,
    drops: u64,
    flash: &mut Flash,
) -> Result<(f64, f64), Box<dyn Error>> {
    let geometry = config.geometry()?;
    let pages = geometry.frames() * 11 / 10;
    let (tier, superblock) = filled(config, fresh, flash, scale::nth)?;
    let whole = scale::small_relations(pages).saturating_sub(drops);
    for number in whole..whole + drops {
        while tier.invalidate_range(&scale::small_relation(number)).is_err() {
            step(&tier, flash)?;
        }
    }
    make_durable(&tier, flash)?;
    drop(tier);
    let region = Blank::heap(geometry.region_bytes());
    prefer_huge_pages(region.memory());
    let start = processor_seconds()?;
    let recovered = Tier::recover(region, &superblock, 1, flash)?;
    Ok((processor_seconds()? - start, recovered.report.bytes_read as f64))
}

/// Seconds that this thread has had the processor.
fn processor_seconds() -> Result<f64, Box<dyn Error>> {
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let nanoseconds = statistics.split(' ').next().ok_or("an empty schedstat")?;
    Ok(nanoseconds.parse::<u64>()? as f64 / 1e9)
}

/// Fills the queue, until it has gone round, with pages of zeros, which stay holes in the file: recovery
/// reads no pages below the durable mark, and a hole reads as the zeros that the checksum was made of.
fn fill(config: &TierConfig, fresh: &Superblock, flash: &mut Flash) -> Result<Superblock, Box<dyn Error>> {
    let (tier, superblock) = filled(config, fresh, flash, |n| PageId::volume(1, n))?;
    make_durable(&tier, flash)?;
    Ok(superblock)
}

fn make_durable(tier: &Tier, flash: &mut Flash) -> Result<(), Box<dyn Error>> {
    let ticket = tier.request_sync()?;
    while tier.sync_state(&ticket) != SyncState::Durable {
        step(tier, flash)?;
    }
    Ok(())
}

/// [`fill`], with pages of these ids in turn, and without a sync.
fn filled(
    config: &TierConfig,
    fresh: &Superblock,
    flash: &mut Flash,
    nth: impl Fn(u64) -> PageId,
) -> Result<(Tier, Superblock), Box<dyn Error>> {
    let geometry = config.geometry()?;
    let region = Blank::heap(geometry.region_bytes());
    prefer_huge_pages(region.memory());
    let recovered = Tier::recover(region, fresh, 1, flash)?;
    let tier = recovered.tier;
    let page = vec![0; geometry.page_size()];
    for n in 0..geometry.frames() * 11 / 10 {
        let id = nth(n);
        while tier.stage_in(&id, &page, StageKind::Dirty, 0) == StageIn::Full {
            if !step(&tier, flash)? {
                return Err("a full tier has no job".into());
            }
        }
    }
    Ok((tier, recovered.superblock))
}

fn step(tier: &Tier, flash: &mut Flash) -> Result<bool, Box<dyn Error>> {
    let Some(mut job) = tier.next_job(1) else { return Ok(false) };
    let page = tier.geometry().page_size();
    match &mut job {
        Job::WriteGroup(job) => {
            for (offset, bytes) in job.writes() {
                // Summaries begin with a magic number.
                let written = bytes.chunks(page).enumerate().filter(|(_, page)| page[..8] != [0; 8]);
                for (index, bytes) in written {
                    flash.0.write_all_at(bytes, offset + (index * page) as u64)?;
                }
            }
        }
        Job::WriteSegment(job) => {
            let (offset, bytes) = job.write();
            flash.0.write_all_at(bytes, offset)?;
        }
        Job::ReadFront(job) => {
            for (offset, bytes) in job.reads() {
                flash.read(offset, bytes)?;
            }
        }
        Job::FlushFlash(_) | Job::WriteDisk(_) | Job::SyncDisk(_) | Job::PullPages(_) => {}
    }
    tier.complete(job, Ok(()));
    Ok(true)
}
