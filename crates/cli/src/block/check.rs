//! `mezz block check`: a cache device at rest, and what an attached one holds.

use std::path::PathBuf;

use clap::Args;
use mezzanine_cached::{Attachment, Backing, Compared, read_superblocks};
use mezzanine_report::{Table, facts};
use serde::{Deserialize, Serialize};

use super::control::Request;
use super::devices;
use super::page;
use super::report::VolumeReport;
use super::verbs::asked;
use crate::failure::Failure;
use crate::output;
use crate::size::Size;

pub(crate) const EXAMPLES: &str = "Examples:
  mezz block check /dev/nvme1n1                  a cache that is not attached: its superblocks
  mezz block check /dev/nvme1n1 --compare        an attached one: what it holds against the volumes' own devices

A comparison reads everything that is cached twice, while clients go on. Blocks that differ make it end with code 1.";

/// The options of `block check`.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// The cache device; with --compare also the socket that clients use, or the control socket.
    cache: PathBuf,

    /// Compare what an attached cache holds with the volumes' own devices.
    #[arg(long)]
    compare: bool,
}

/// What a comparison has found.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Comparison {
    pub(super) blocks_same: u64,
    pub(super) blocks_differing: u64,
    /// Those that the cache device did not give back.
    pub(super) blocks_unreadable: u64,
    /// Those that were written, or left, while they were compared.
    pub(super) blocks_moved: u64,
    /// The first hundred.
    pub(super) differences: Vec<DifferingBlock>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct DifferingBlock {
    pub(super) volume: String,
    pub(super) offset: u64,
    pub(super) cache_offset: u64,
}

impl Comparison {
    pub(super) fn of(compared: &Compared, volumes: &[VolumeReport]) -> Self {
        let differences = compared.differences.iter().map(|one| DifferingBlock {
            volume: volumes
                .iter()
                .find(|volume| volume.number == one.volume)
                .map_or(one.volume.to_string(), |volume| volume.name.clone()),
            offset: one.offset,
            cache_offset: one.cache_offset,
        });
        Self {
            blocks_same: compared.blocks,
            blocks_differing: compared.differing,
            blocks_unreadable: compared.unreadable,
            blocks_moved: compared.moved,
            differences: differences.collect(),
        }
    }
}

/// What a cache device says of itself.
#[derive(Serialize)]
struct AtRest {
    cache: String,
    cache_id: String,
    epoch: u64,
    cache_bytes: u64,
    /// What it can be resized to at most.
    cache_bytes_max: u64,
    fragment_bytes: u64,
    slots: u64,
    memory_bytes: u64,
    /// Both copies of the superblock are whole and the same.
    both_superblocks: bool,
    volumes: Vec<VolumeAtRest>,
}

#[derive(Serialize)]
struct VolumeAtRest {
    name: String,
    bytes: u64,
    fingerprint: String,
    /// It was attached and not detached since.
    in_use: bool,
    /// It was in use at a crash, and the cache was attached without it since.
    abandoned: bool,
}

pub(crate) fn run(args: &CheckArgs, json: bool) -> Result<(), Failure> {
    match args.compare {
        true => compare(args, json),
        false if page::is_here(&args.cache)? => page::at_rest(&args.cache, json),
        false => at_rest(args, json),
    }
}

fn compare(args: &CheckArgs, json: bool) -> Result<(), Failure> {
    let found: Comparison = asked(&args.cache, Request::Compare)?;
    let Comparison { blocks_same, blocks_differing, blocks_unreadable, blocks_moved, .. } = &found;
    if json {
        output::json(&found)?;
    } else {
        let mut text = facts(&[
            ("the same", format!("{blocks_same} blocks of 4 KiB")),
            ("different", format!("{blocks_differing} blocks")),
            ("not given back", format!("{blocks_unreadable} blocks")),
            ("written or gone meanwhile", format!("{blocks_moved} blocks")),
        ]);
        if !found.differences.is_empty() {
            let mut table = Table::new(["volume", "offset", "on the cache device at"]);
            for one in &found.differences {
                table.row([one.volume.clone(), one.offset.to_string(), one.cache_offset.to_string()]);
            }
            text.push_str(&format!("\n{}", table.render()));
        }
        output::print(&text)?;
    }
    if *blocks_differing > 0 {
        let reason = format!("{blocks_differing} blocks are not what the volumes' own devices have");
        return Err(Failure::check(args.cache.display(), reason).next(
            "detach it, and look for what writes to a volume past its cache, or for a cache device that loses writes; --accept-changes has \
             it cached anew",
        ));
    }
    Ok(())
}

fn at_rest(args: &CheckArgs, json: bool) -> Result<(), Failure> {
    let device = devices::cache(&args.cache, false)?;
    let newest = devices::superblocks(&args.cache, &device)?.newest;
    let geometry = newest.config().geometry();
    let geometry = geometry.map_err(|error| {
        Failure::refused(args.cache.display(), error)
            .next("`mezz block create --force` makes a new cache there; the volumes have everything")
    })?;
    let found = AtRest {
        cache: args.cache.display().to_string(),
        cache_id: hex::encode(newest.cache_id),
        epoch: newest.epoch,
        cache_bytes: newest.size(),
        cache_bytes_max: newest.layout.cache_bytes,
        fragment_bytes: newest.layout.fragment_bytes,
        slots: newest.slots_limit,
        memory_bytes: geometry.region_bytes() as u64,
        both_superblocks: both(&device),
        volumes: newest
            .volumes
            .iter()
            .map(|entry| {
                let Backing { fingerprint, attachment, .. } = Backing::decode(&entry.host);
                let (name, bytes) = (entry.name.clone(), entry.bytes);
                let [in_use, abandoned] =
                    [Attachment::InUse, Attachment::Abandoned].map(|state| state == attachment);
                VolumeAtRest { name, bytes, fingerprint: fingerprint.to_string(), in_use, abandoned }
            })
            .collect(),
    };
    if json {
        output::json(&found)?
    } else {
        output::print(&found.text())?
    }
    if !found.both_superblocks {
        let reason = "one copy of the superblock is damaged or older than the other";
        return Err(Failure::check(args.cache.display(), reason).next(
            "it can be used, and the next `mezz block attach` writes both; if it comes again, check the device",
        ));
    }
    Ok(())
}

/// Whether both copies of the superblock are whole and the same.
fn both(device: &dyn mezzanine_device::Device) -> bool {
    use mezzanine_fragment::format::{SUPERBLOCK_BYTES_MAX, SUPERBLOCK_OFFSETS, Superblock};
    let copies = SUPERBLOCK_OFFSETS.map(|offset| {
        let mut bytes = vec![0; SUPERBLOCK_BYTES_MAX];
        device.read_at_or_zero(&mut bytes, offset).ok().and_then(|_| Superblock::decode(&bytes).ok())
    });
    matches!(&copies, [Some(one), Some(other)] if one == other) && read_superblocks(device).is_ok()
}

impl AtRest {
    fn text(&self) -> String {
        let mut lines = vec![
            (
                "cache",
                format!(
                    "{}, {}, at most {} (epoch {})",
                    self.cache,
                    Size(self.cache_bytes),
                    Size(self.cache_bytes_max),
                    self.epoch
                ),
            ),
            ("fragments", format!("{} of {} KiB", self.slots, self.fragment_bytes >> 10)),
            ("memory needed", Size(self.memory_bytes).to_string()),
        ];
        lines.extend(self.volumes.iter().map(|volume| {
            let how = if volume.in_use || volume.abandoned { "not detached" } else { "detached" };
            let VolumeAtRest { name, bytes, fingerprint, .. } = volume;
            ("volume", format!("{name}, {}, {how}, known by {fingerprint}", Size(*bytes)))
        }));
        facts(&lines)
    }
}
