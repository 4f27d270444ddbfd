//! `mezz tier format`.

use std::path::{Path, PathBuf};

use clap::Args;
use mezzanine_device::{Capabilities, Device as _, FileDevice, OpenOptions, Zones};
use mezzanine_engine::format::ClusterName;
use mezzanine_engine::{Admission, Design, Geometry, PolicyParameters, SyncMode, TierConfig};
use mezzanine_report::facts;
use mezzanine_volume::{Volume, VolumeConfig, VolumeErrorKind, largest_on_zones};
use serde::Serialize;

use super::inspect::{TierZonesFound, design, flash_needed, queue, remembered};
use super::open::{Flash, open_failure};
use crate::failure::{Failure, chain};

use crate::output;
use crate::size::Size;

pub(crate) const EXAMPLES: &str = "Examples:
  mezz tier format /mnt/nvme/app.mezz --size 10GiB
  mezz tier format /mnt/nvme/app.mezz --size 10GiB --page-size 8KiB --sync-mode through
  mezz tier format /mnt/nvme/app.mezz --size 10GiB --max-size 40GiB
  mezz tier format /dev/nvme1n1 --page-size 8KiB

Choose the page size of the database: SQLite's default is 4KiB, PostgreSQL's 8KiB. With sync mode durable the flash becomes part of the \
database, and the database is lost with it; with through it may be lost at any time.";

#[derive(Debug, Args)]
pub(crate) struct FormatArgs {
    /// A file, which is created if it does not exist, or a block device.
    flash: PathBuf,

    /// Bytes of flash (default: all of what exists already).
    #[arg(long, value_name = "SIZE")]
    size: Option<Size>,

    /// Bytes of flash up to which the tier can grow while it is in use; they are taken now (default: no more
    /// than --size).
    #[arg(long, value_name = "SIZE")]
    max_size: Option<Size>,

    /// Page size of the database.
    #[arg(long, value_name = "SIZE", default_value = "4KiB")]
    page_size: Size,

    /// How pages leave: face-basic, face-gr or face-gsc, whose pages lie in a queue, or lru, fifo, clock,
    /// lc, cac, tac or exadata, whose pages are written in place.
    #[arg(long, default_value = "face-gsc")]
    design: Design,

    /// Which pages enter: clean, dirty or both (default: both; clean with the design exadata without
    /// --write-back).
    #[arg(long)]
    admission: Option<Admission>,

    /// Of the clean pages take only those that return: that were offered before, not long ago. Fewer pages
    /// are written to flash.
    #[arg(long)]
    returning_only: bool,

    /// With --returning-only: pages whose first offer is remembered (default: half as many as there are
    /// frames).
    #[arg(long, value_name = "PAGES", requires = "returning_only")]
    remembered_pages: Option<u64>,

    /// Where a page must be before a sync returns: through (on disk) or durable (on flash) (default:
    /// durable; through with the design tac, which has no other).
    #[arg(long)]
    sync_mode: Option<SyncMode>,

    /// With the design exadata: dirty pages go to flash, and to disk when they leave it.
    #[arg(long)]
    write_back: bool,

    /// With the design lc: share of the frames in per cent that may be newer than disk before the cleaner
    /// writes them there.
    #[arg(long, value_name = "PERCENT")]
    dirty_percent: Option<u32>,

    /// With the design lc: references after which another one to the same page counts as a new one.
    #[arg(long, value_name = "REFERENCES")]
    correlated_period: Option<u64>,

    /// With the design lc: pages that have left whose last reference is remembered.
    #[arg(long, value_name = "PAGES")]
    history: Option<u64>,

    /// With the design tac: consecutive pages that have one temperature.
    #[arg(long, value_name = "PAGES")]
    extent_pages: Option<u64>,

    /// With the design tac: references after which all temperatures are halved; with 0 they never are.
    #[arg(long, value_name = "REFERENCES")]
    ageing_period: Option<u64>,

    /// With the design tac: by how much a random reference warms an extent, if one in sequence does by 1.
    #[arg(long, value_name = "FACTOR")]
    random_weight: Option<u64>,

    /// With the design tac: extents without a page in the tier whose temperature is known.
    #[arg(long, value_name = "EXTENTS")]
    extents: Option<u64>,

    /// Pages that are written together.
    #[arg(long, value_name = "PAGES")]
    group_pages: Option<u32>,

    /// Overwrite what is not recognised, and a tier that may hold the only copy of pages.
    #[arg(long)]
    force: bool,
}

impl FormatArgs {
    fn policy(&self) -> PolicyParameters {
        PolicyParameters {
            correlated_period: self.correlated_period,
            history: self.history,
            dirty_percent: self.dirty_percent,
            write_back: self.write_back,
            extent_pages: self.extent_pages,
            ageing_period: self.ageing_period,
            random_weight: self.random_weight,
            extents: self.extents,
        }
    }
}

#[derive(Serialize)]
struct Formatted {
    flash: String,
    flash_bytes: u64,
    metadata_bytes: u64,
    /// Of the frames, what summaries of full groups take.
    summary_bytes: u64,
    page_bytes: u32,
    frames: u64,
    /// Frames up to which the queue can grow.
    frames_max: u64,
    group_pages: u32,
    design: &'static str,
    admission: &'static str,
    returning_only: bool,
    /// Clean pages whose first offer is remembered, if only those enter that return.
    remembered_pages: Option<u64>,
    sync_mode: &'static str,
    memory_bytes: u64,
    memory_bytes_per_frame: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    zones: Option<TierZonesFound>,
}

pub(crate) fn run(args: &FormatArgs, json: bool) -> Result<(), Failure> {
    let found = if args.flash.exists() { Some(existing(&args.flash)?) } else { None };
    let exists = found.is_some();
    let bytes = match (args.size, &found) {
        (Some(size), _) => size.0,
        (None, Some(found)) if found.len == 0 => {
            return Err(Failure::usage(args.flash.display(), "it is empty, and no size is given for it")
                .next("say how much flash the tier may use, for example --size 10GiB"));
        }
        (None, Some(found)) => found.len,
        (None, None) => {
            return Err(Failure::usage(
                args.flash.display(),
                "it does not exist, and no size is given for it",
            )
            .next("say how much flash the tier may use, for example --size 10GiB"));
        }
    };
    let zones = found.and_then(|found| found.zones);
    let (config, geometry) = configure(args, bytes, zones)?;
    let volume = VolumeConfig::new(config.clone());
    if exists {
        // Closed again before it is opened for writing.
        let of_cluster = is_a_clusters(&args.flash);
        let options = OpenOptions { exclusive_lock: true, no_follow: true, ..OpenOptions::read_write() };
        let device =
            FileDevice::open(&args.flash, &options).map_err(|error| open_failure(&args.flash, &error))?;
        format(&device, &volume, args, of_cluster)?;
    } else {
        create_and_format(&volume, &geometry, args)?;
    }
    report(args, &config, &geometry, json)
}

fn existing(path: &Path) -> Result<Capabilities, Failure> {
    let device =
        FileDevice::open(path, &OpenOptions::default()).map_err(|error| open_failure(path, &error))?;
    Ok(device.capabilities())
}

fn configure(args: &FormatArgs, bytes: u64, zones: Option<Zones>) -> Result<(TierConfig, Geometry), Failure> {
    let usage = |reason: &dyn std::fmt::Display| Failure::usage(args.flash.display(), reason);
    let page_size = u32::try_from(args.page_size.0).map_err(|_| {
        usage(&format!("pages of {} are too large", args.page_size)).next("use 4KiB, 8KiB, 16KiB or 32KiB")
    })?;
    if let Some(least) = TierConfig::flash_bytes_min(page_size).filter(|least| bytes < *least) {
        let reason = format!("a tier of pages of {page_size} bytes needs more than {}", Size(bytes));
        return Err(usage(&reason).next(format!("give a --size of at least {}KiB", least.div_ceil(1024))));
    }
    let fitted = match zones {
        Some(zones) => largest_on_zones(args.design, page_size, bytes, &zones),
        None => TierConfig::for_flash_bytes_of(args.design, page_size, bytes),
    };
    let config = TierConfig {
        policy: args.policy(),
        admission: args.admission.unwrap_or(if args.write_back { Admission::Both } else { fitted.admission }),
        returning_only: args.returning_only,
        remembered_pages: args.remembered_pages,
        sync_mode: args.sync_mode.unwrap_or(fitted.sync_mode),
        group_pages: args.group_pages.unwrap_or(fitted.group_pages),
        ..fitted
    };
    let config = match args.max_size {
        Some(most) if most.0 < bytes => {
            return Err(usage(&format!("it cannot grow to {most}, which is less than its {}", Size(bytes)))
                .next("give a --max-size of at least --size"));
        }
        Some(most) => config.with_room_in(most.0),
        None => config,
    };
    let config = TierConfig {
        survivors_max: config.survivors_max.min(config.group_pages.saturating_sub(1)),
        ..config
    };
    let geometry = config
        .geometry()
        .map_err(|error| usage(&format!("no tier can be made of {}: {error}", Size(bytes))))?;
    Ok((config, geometry))
}

/// How a file is made for a tier: nobody else has it, and no later write finds the file system full.
pub(crate) fn new_flash(geometry: &Geometry) -> OpenOptions {
    OpenOptions {
        write: true,
        create_new: true,
        len: Some(geometry.flash_bytes()),
        preallocate: true,
        exclusive_lock: true,
        no_follow: true,
        ..OpenOptions::default()
    }
}

/// A file that is new is removed again when it cannot be formatted.
fn create_and_format(volume: &VolumeConfig, geometry: &Geometry, args: &FormatArgs) -> Result<(), Failure> {
    let options = new_flash(geometry);
    let device =
        FileDevice::open(&args.flash, &options).map_err(|error| open_failure(&args.flash, &error))?;
    let formatted = format(&device, volume, args, false);
    if formatted.is_err() {
        if let Err(error) = std::fs::remove_file(&args.flash) {
            output::note(&format!("{}: cannot be removed: {error}", args.flash.display()));
        }
    }
    formatted
}

fn format(
    device: &FileDevice,
    volume: &VolumeConfig,
    args: &FormatArgs,
    of_cluster: bool,
) -> Result<(), Failure> {
    Volume::format(device, volume, args.force).map_err(|error| {
        let failure = Failure::refused(args.flash.display(), chain(&error));
        match error.kind() {
            VolumeErrorKind::Unrecognised
            | VolumeErrorKind::Damaged
            | VolumeErrorKind::NewerFormat { .. } => {
                failure.next("nothing was changed; give --force if what it holds may be lost")
            }
            VolumeErrorKind::OlderFormat { .. } => failure.next(
                "nothing was changed; run `mezz tier drain` first, or give --force if what it holds may be lost",
            ),
            VolumeErrorKind::OnlyCopy if of_cluster => failure.next(
                "nothing was changed; run `mezz pg drain` on its data directory first, or give --force to lose those pages",
            ),
            VolumeErrorKind::OnlyCopy => failure.next(
                "nothing was changed; run `mezz tier drain` first, or give --force to lose those pages",
            ),
            _ => failure,
        }
    })
}

/// Whether the tier that is there is a PostgreSQL server's.
fn is_a_clusters(flash: &Path) -> bool {
    let found = Flash::open(flash).and_then(|mut flash| flash.superblock());
    found.is_ok_and(|found| ClusterName::of(&found.database_uuid).is_some())
}

fn report(args: &FormatArgs, config: &TierConfig, geometry: &Geometry, json: bool) -> Result<(), Failure> {
    let formatted = Formatted {
        flash: args.flash.display().to_string(),
        flash_bytes: geometry.flash_bytes(),
        metadata_bytes: geometry.metadata_bytes(),
        summary_bytes: geometry.summary_bytes(),
        page_bytes: config.page_size,
        frames: config.frames,
        frames_max: geometry.frames_max(),
        group_pages: config.group_pages,
        design: config.design.name(),
        admission: config.admission.name(),
        returning_only: config.returning_only,
        remembered_pages: remembered(geometry),
        sync_mode: config.sync_mode.name(),
        memory_bytes: geometry.region_bytes() as u64,
        memory_bytes_per_frame: geometry.bytes_per_frame(),
        zones: TierZonesFound::of(geometry),
    };
    if json {
        return output::json(&formatted);
    }
    let f = &formatted;
    let mut lines = vec![
        ("flash", format!("{}, {}", f.flash, flash_needed(f.flash_bytes, f.metadata_bytes, f.summary_bytes))),
        ("queue", queue(f.frames, f.frames_max, f.page_bytes, f.group_pages)),
    ];
    lines.extend(f.zones.iter().map(|zones| ("zones", zones.to_string())));
    lines.extend([
        ("design", design(f.design, f.admission, f.remembered_pages, f.sync_mode)),
        (
            "memory needed",
            format!(
                "{} ({:.1} bytes per frame, staging apart)",
                Size(f.memory_bytes),
                f.memory_bytes_per_frame
            ),
        ),
    ]);
    output::print(&facts(&lines))
}
