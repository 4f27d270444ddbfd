//! `mezz tier inspect`.

use std::fmt;
use std::path::PathBuf;

use clap::Args;
use mezzanine_engine::format::{FORMAT_VERSION, TierState};
use mezzanine_engine::{Geometry, TierZones};
use mezzanine_report::facts;
use serde::Serialize;

use super::lost::{self, LostPage, Names};
use super::open::Flash;
use super::postgres::{self, Cluster};
use crate::failure::Failure;
use crate::output;
use crate::size::Size;

pub(crate) const EXAMPLES: &str = "Examples:
  mezz tier inspect /mnt/nvme/app.mezz
  mezz tier inspect /mnt/nvme/app.mezz --json

The tier of a PostgreSQL server that is stopped or dead is shown with its cluster and with what it holds of each relation.";

#[derive(Debug, Args)]
pub(crate) struct InspectArgs {
    /// The tier's file or block device.
    flash: PathBuf,
}

#[derive(Serialize)]
struct Inspection {
    flash: String,
    format_version: u32,
    tier: String,
    database: String,
    state: &'static str,
    generation: u64,
    epoch: u32,
    design: &'static str,
    admission: &'static str,
    returning_only: bool,
    /// Clean pages whose first offer is remembered, if only those enter that return.
    remembered_pages: Option<u64>,
    sync_mode: &'static str,
    page_bytes: u32,
    frames: u64,
    /// Frames up to which the queue can grow while it is in use.
    frames_max: u64,
    group_pages: u32,
    flash_bytes: u64,
    metadata_bytes: u64,
    /// Of the frames, what summaries of full groups take.
    summary_bytes: u64,
    memory_bytes: u64,
    memory_bytes_per_frame: f64,
    /// Of a tier that is written zone by zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    zones: Option<TierZonesFound>,
    /// What opening the tier now would find; its pages are gone if it would be emptied.
    recovery: Recovery,
    /// Pages that are newer than their disk copies, and that no read brings.
    pages_lost: u64,
    lost: Vec<LostPage>,
    /// Why it would take no more pages, if one of its numbers comes to an end.
    #[serde(skip_serializing_if = "Option::is_none")]
    used_up: Option<String>,
    /// Of a PostgreSQL server's tier.
    postgresql: Option<Cluster>,
}

/// The zones that a tier is laid out for.
#[derive(Serialize)]
pub(crate) struct TierZonesFound {
    /// Zones of the queue.
    count: u64,
    /// From the beginning of one to that of the next.
    zone_bytes: u64,
    /// What of a zone is written.
    capacity_bytes: u64,
    /// Bytes before the queue, which are written over in place.
    conventional_bytes: u64,
}

impl TierZonesFound {
    pub(crate) fn of(geometry: &Geometry) -> Option<Self> {
        let zones = geometry.zones()?;
        let conventional_bytes = geometry.conventional_bytes();
        let count = (geometry.flash_bytes() - conventional_bytes) / zones.zone_bytes;
        let TierZones { zone_bytes, capacity_bytes } = zones;
        Some(Self { count, zone_bytes, capacity_bytes, conventional_bytes })
    }
}

impl fmt::Display for TierZonesFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.count, Size(self.zone_bytes))?;
        if self.capacity_bytes < self.zone_bytes {
            write!(f, " with room for {}", Size(self.capacity_bytes))?;
        }
        write!(f, ", behind {} of conventional zones", Size(self.conventional_bytes))
    }
}

#[derive(Serialize)]
struct Recovery {
    pages: u64,
    /// Pages that are newer than their disk copies.
    pages_dirty: u64,
    emptied: bool,
    groups_scanned: u64,
    groups_torn: u64,
    segments_read: u64,
    bytes_read: u64,
    seconds: f64,
}

/// A tier's state as users know it.
pub(crate) fn state_name(state: TierState) -> &'static str {
    match state {
        TierState::Open => "open",
        TierState::Closed => "closed",
        TierState::Drained => "drained",
    }
}

fn state_meaning(state: TierState) -> &'static str {
    match state {
        TierState::Open => "open (in use, or not closed in order: it will be recovered)",
        TierState::Closed => "closed in order; it holds pages that are newer than the files",
        TierState::Drained => "drained: the files are current without it",
    }
}

fn format_meaning(version: u32) -> String {
    match version {
        FORMAT_VERSION => version.to_string(),
        older => format!(
            "{older}, older than this build's {FORMAT_VERSION}: it can be drained, and then formatted anew"
        ),
    }
}

pub(crate) fn run(args: &InspectArgs, json: bool) -> Result<(), Failure> {
    let mut flash = Flash::open(&args.flash)?;
    let (superblock, format_version) = flash.superblock_and_version()?;
    let geometry = flash.geometry(&superblock)?;
    let bar = output::spinner("reading the tier");
    let started = std::time::Instant::now();
    let recovered = flash.recover(&superblock, &geometry)?;
    let seconds = started.elapsed().as_secs_f64();
    bar.finish_and_clear();
    let (config, report) = (&superblock.config, &recovered.report);
    let lost = Names::of(&flash, &superblock).lost(&recovered.tier);
    let inspection = Inspection {
        flash: flash.name.clone(),
        format_version,
        tier: hex::encode(superblock.tier_uuid),
        database: hex::encode(superblock.database_uuid),
        state: state_name(superblock.state),
        generation: superblock.generation,
        epoch: superblock.epoch,
        design: config.design.name(),
        admission: config.admission.name(),
        returning_only: config.returning_only,
        remembered_pages: remembered(&geometry),
        sync_mode: config.sync_mode.name(),
        page_bytes: config.page_size,
        frames: config.frames,
        frames_max: geometry.frames_max(),
        group_pages: config.group_pages,
        flash_bytes: geometry.flash_bytes(),
        metadata_bytes: geometry.metadata_bytes(),
        summary_bytes: geometry.summary_bytes(),
        memory_bytes: geometry.region_bytes() as u64,
        memory_bytes_per_frame: geometry.bytes_per_frame(),
        zones: TierZonesFound::of(&geometry),
        recovery: Recovery {
            pages: report.valid,
            pages_dirty: report.dirty,
            emptied: report.discarded,
            groups_scanned: report.groups_scanned,
            groups_torn: report.groups_torn,
            segments_read: report.segments_read,
            bytes_read: report.bytes_read,
            seconds,
        },
        pages_lost: lost.len() as u64,
        lost,
        used_up: recovered.tier.used_up().map(|why| why.to_string()),
        postgresql: postgres::cluster(&superblock, &recovered.tier),
    };
    if json { output::json(&inspection) } else { output::print(&text(&inspection, superblock.state)) }
}

/// What the tier takes of flash, in words.
pub(crate) fn flash_needed(bytes: u64, metadata_bytes: u64, summary_bytes: u64) -> String {
    let summaries = match summary_bytes {
        0 => String::new(),
        bytes => format!(", {} group summaries", Size(bytes)),
    };
    format!("{} ({} of it metadata segments{summaries})", Size(bytes), Size(metadata_bytes))
}

/// The queue in words.
pub(crate) fn queue(frames: u64, frames_max: u64, page_bytes: u32, group_pages: u32) -> String {
    let growth = if frames_max > frames { format!(", can grow to {frames_max}") } else { String::new() };
    format!("{frames} frames of {page_bytes} bytes{growth}, groups of {group_pages}")
}

/// Clean pages that are remembered; `None` where every one is taken.
pub(crate) fn remembered(geometry: &Geometry) -> Option<u64> {
    Some(geometry.remembered_pages()).filter(|pages| *pages > 0)
}

/// The design, and what enters when, in words.
pub(crate) fn design(name: &str, admission: &str, remembered: Option<u64>, sync_mode: &str) -> String {
    let returning = remembered.map_or_else(String::new, |pages| {
        format!(" (clean pages only if they return; {pages} are remembered)")
    });
    format!("{name}, admission {admission}{returning}, sync mode {sync_mode}")
}

fn text(i: &Inspection, state: TierState) -> String {
    let r = &i.recovery;
    let pages = if r.emptied {
        "none: it was not closed in order, and what it holds may be older than the files".to_owned()
    } else {
        let lost = if i.lost.is_empty() { String::new() } else { format!(", {} of them LOST", i.pages_lost) };
        format!("{} ({} newer than their files{lost})", r.pages, r.pages_dirty)
    };
    let found = format!(
        "{} groups after {} segments, {} read in {:.3} s",
        r.groups_scanned,
        r.segments_read,
        Size(r.bytes_read),
        r.seconds
    );
    let mut lines = vec![
        ("flash", i.flash.clone()),
        ("format", format_meaning(i.format_version)),
        ("tier", i.tier.clone()),
        ("database", i.database.clone()),
        ("state", state_meaning(state).to_owned()),
        ("generation", i.generation.to_string()),
        ("epoch", i.epoch.to_string()),
        ("design", design(i.design, i.admission, i.remembered_pages, i.sync_mode)),
        ("queue", queue(i.frames, i.frames_max, i.page_bytes, i.group_pages)),
    ];
    lines.extend(i.zones.iter().map(|zones| ("zones", zones.to_string())));
    lines.extend([
        ("flash needed", flash_needed(i.flash_bytes, i.metadata_bytes, i.summary_bytes)),
        (
            "memory needed",
            format!(
                "{} ({:.1} bytes per frame, staging apart)",
                Size(i.memory_bytes),
                i.memory_bytes_per_frame
            ),
        ),
        ("pages", pages),
        ("recovery", found),
    ]);
    lines.extend(i.used_up.iter().map(|why| ("admission", format!("none: {why}"))));
    lines.extend(i.postgresql.iter().flat_map(Cluster::facts));
    facts(&lines) + &lost::lines(&i.lost) + &i.postgresql.as_ref().map(Cluster::table).unwrap_or_default()
}
