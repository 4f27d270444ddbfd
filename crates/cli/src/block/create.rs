//! `mezz block create`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use mezzanine_cached::write_superblock;
use mezzanine_device::{Device as _, FileDevice, OpenOptions};
use mezzanine_engine::SyncMode;
use mezzanine_fragment::format::Superblock;
use mezzanine_fragment::{BLOCK_BYTES, FRAGMENT_BYTES_MAX, Geometry};
use mezzanine_report::facts;
use serde::Serialize;

use super::devices::{self, Named};
use super::page;
use crate::contents::contents;
use crate::failure::{Failure, chain};
use crate::output;
use crate::size::Size;

pub(crate) const EXAMPLES: &str = "Examples:
  mezz block create /dev/nvme1n1 --backing /dev/sdb
  mezz block create /mnt/nvme/cache.mezz --size 100GiB --backing data=/dev/sdb --backing log=/dev/sdc
  mezz block create /dev/nvme1n1 --backing /dev/sdb --fragment 512KiB
  mezz block create /mnt/nvme/cache.mezz --size 100GiB --max-size 1TiB --backing /dev/sdb
  mezz block create /dev/nvme1n1 --backing /dev/sdb --engine page --mode durable

Nothing is written to the volumes. They are known by their length and the first and last 64 KiB of each. Small fragments follow a small \
working set more closely, and take more memory: 72 bytes for each fragment of 1 MiB of cache, and 4 bytes for each of the volumes. A cache takes the memory of its largest size.

The page engine caches pages and not fragments, and can write back. In mode durable a flush is answered when the cache device has it; the volumes need the \
cache device from then on, until `mezz block detach` has brought everything to them, and are lost with it. In mode through a flush is answered when the \
volume's own device has it. A small file beside each volume, PATH.mezzanine, binds it to its cache device; of block devices it lies in $MEZZ_STATE_DIR, \
/var/lib/mezz (root), $XDG_STATE_HOME/mezz or ~/.local/state/mezz.";

/// What caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum EngineKind {
    Fragment,
    Page,
}

/// A mode that a volume can have.
pub(super) fn mode(text: &str) -> Result<SyncMode, String> {
    let found = text.parse::<SyncMode>().ok().filter(|mode| *mode != SyncMode::Drained);
    found.ok_or_else(|| "give through or durable".to_owned())
}

/// The options of `block create`.
#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    /// The cache device: a block device on flash, or a file, which is created if it does not exist.
    pub(super) cache: PathBuf,

    /// A volume to be cached: a block device or file, called as its file or by NAME. May be given several
    /// times.
    #[arg(long, value_name = "[NAME=]PATH", required = true, value_parser = devices::named)]
    pub(super) backing: Vec<Named>,

    /// Bytes of cache: of a file that is created, or of a device of which only a part is to be used (default:
    /// all of it).
    #[arg(long, value_name = "SIZE")]
    size: Option<Size>,

    /// Of the fragment engine: what `mezz block resize` can make of it later (default: all of the device; of
    /// a file that is created, --size).
    #[arg(long, value_name = "SIZE")]
    max_size: Option<Size>,

    /// What caches: fragment (large parts of the volumes, every write goes to them at once) or page (pages;
    /// can write back).
    #[arg(long, value_enum, default_value = "fragment")]
    engine: EngineKind,

    /// Of the page engine: where a write is when a flush is answered: through (on the volume's own device)
    /// or durable (on the cache device).
    #[arg(long, value_name = "MODE", value_parser = mode)]
    mode: Option<SyncMode>,

    /// Of the page engine: unit of caching, 4KiB, 8KiB, 16KiB or 32KiB (default: 8KiB).
    #[arg(long, value_name = "SIZE")]
    page: Option<Size>,

    /// Of the fragment engine: unit of caching, a power of two from 128KiB to 8MiB (default: 1MiB).
    #[arg(long, value_name = "SIZE")]
    fragment: Option<Size>,

    /// Write over what the cache device holds.
    #[arg(long)]
    pub(super) force: bool,
}

impl CreateArgs {
    pub(super) fn page_size(&self) -> Size {
        self.page.unwrap_or(Size(8 << 10))
    }

    /// The mode of the page engine; none for the other one. Options of the wrong one are refused.
    fn mode_of_pages(&self) -> Result<Option<SyncMode>, Failure> {
        let other = |option: &str, engine: &str| {
            Err(Failure::usage(option, format!("it is an option of the {engine} engine"))
                .next(format!("leave it out, or give --engine {engine}")))
        };
        match self.engine {
            EngineKind::Fragment if self.mode.is_some() => other("--mode", "page"),
            EngineKind::Fragment if self.page.is_some() => other("--page", "page"),
            EngineKind::Fragment => Ok(None),
            EngineKind::Page if self.fragment.is_some() => other("--fragment", "fragment"),
            EngineKind::Page if self.max_size.is_some() => other("--max-size", "fragment"),
            EngineKind::Page => self.mode.map(Some).ok_or_else(|| {
                Failure::usage("--engine page", "it has two modes, and none is given").next(
                    "give --mode durable, if the cache device is as safe as the volumes, or --mode through, if it may be lost",
                )
            }),
        }
    }
}

#[derive(Serialize)]
struct Created {
    cache: String,
    cache_bytes: u64,
    /// What it can be resized to at most.
    cache_bytes_max: u64,
    cache_id: String,
    fragment_bytes: u64,
    slots: u64,
    /// Superblocks and map.
    metadata_bytes: u64,
    memory_bytes: u64,
    volumes: Vec<CreatedVolume>,
}

/// A volume of a new cache, of either engine.
#[derive(Serialize)]
pub(super) struct CreatedVolume {
    name: String,
    backing: String,
    bytes: u64,
    /// What the fragment engine knows it by.
    #[serde(skip_serializing_if = "Option::is_none")]
    fingerprint: Option<String>,
}

impl CreatedVolume {
    pub(super) fn new(named: &Named, bytes: u64, fingerprint: Option<String>) -> Self {
        Self { name: named.name.clone(), backing: named.path.display().to_string(), bytes, fingerprint }
    }

    /// As people read it.
    pub(super) fn line(&self) -> (&'static str, String) {
        let known = self.fingerprint.as_ref().map(|known| format!(", known by {known}")).unwrap_or_default();
        ("volume", format!("{}: {}, {}{known}", self.name, self.backing, Size(self.bytes)))
    }
}

pub(crate) fn run(args: &CreateArgs, json: bool) -> Result<(), Failure> {
    devices::refuse_twice(&args.backing)?;
    if let Some(one) = args.backing.iter().find(|one| devices::same(&one.path, &args.cache)) {
        return Err(Failure::usage(one.path.display(), "it cannot be its own cache")
            .next("name another device for the cache"));
    }
    let exists = args.cache.exists();
    if let Some(mode) = args.mode_of_pages()? {
        return page::create(args, mode, exists, sizes(args, exists)?.0, json);
    }
    // Nobody else has the volumes until the cache is made; a part of one of them cannot be its cache.
    let held = args.backing.iter().map(|one| devices::backing(&one.path)).collect::<Result<Vec<_>, _>>()?;
    let (superblock, geometry, volumes) = plan(args, &held, sizes(args, exists)?)?;
    let memory_bytes = devices::memory(&geometry)?;
    if exists {
        let device = devices::cache(&args.cache, true)?;
        refuse_contents(args, &device)?;
        write(&args.cache, &device, &superblock)?;
    } else {
        create(&args.cache, &superblock)?;
    }
    let layout = &superblock.layout;
    let created = Created {
        cache: args.cache.display().to_string(),
        cache_bytes: superblock.size(),
        cache_bytes_max: layout.cache_bytes,
        cache_id: hex::encode(superblock.cache_id),
        fragment_bytes: layout.fragment_bytes,
        slots: superblock.slots_limit,
        metadata_bytes: layout.data_offset,
        memory_bytes,
        volumes,
    };
    if json { output::json(&created) } else { output::print(&created.text()) }
}

/// Bytes of cache, and the most that it can be resized to.
fn sizes(args: &CreateArgs, exists: bool) -> Result<(u64, u64), Failure> {
    // Whole blocks, as devices have them.
    let whole = |size: Size| size.0 / BLOCK_BYTES * BLOCK_BYTES;
    let (size, most) = (args.size.map(whole), args.max_size.map(whole));
    let len = if exists { Some(devices::cache(&args.cache, false)?.len()) } else { None };
    let (bytes, most) = match (size, len) {
        (Some(size), Some(len)) if size > len => {
            let reason = format!("it has {len} bytes, and --size says {size}");
            return Err(Failure::usage(args.cache.display(), reason)
                .next("leave out --size, or make the device larger first"));
        }
        (Some(size), len) => (size, most.or(len).unwrap_or(size)),
        (None, Some(len)) => (most.map_or(len, |most| len.min(most)), most.unwrap_or(len)),
        (None, None) => {
            return Err(Failure::usage(
                args.cache.display(),
                "it does not exist, and no size is given for it",
            )
            .next("say how much flash the cache may use, for example --size 10GiB"));
        }
    };
    if bytes > most {
        let reason = format!("{most} bytes are less than the {bytes} that the cache begins with");
        return Err(Failure::usage("--max-size", reason).next(format!("give at least {bytes}")));
    }
    // A device may end with a part of a block, which a cache of all of it leaves out.
    Ok((if bytes < most { bytes / BLOCK_BYTES * BLOCK_BYTES } else { bytes }, most))
}

/// The superblock of the new cache, what is in memory of it, and its volumes.
fn plan(
    args: &CreateArgs,
    held: &[Arc<FileDevice>],
    (bytes, most): (u64, u64),
) -> Result<(Superblock, Geometry, Vec<CreatedVolume>), Failure> {
    let impossible = |error: &dyn std::fmt::Display| Failure::usage(args.cache.display(), error);
    let mut superblock =
        Superblock::new(devices::random_id()?, most, args.fragment.map_or(1 << 20, |size| size.0))
            .map_err(|error| impossible(&error))?;
    if bytes < most {
        superblock = superblock.resized(bytes).map_err(|error| impossible(&error))?;
    }
    let mut volumes = Vec::new();
    for (named, device) in args.backing.iter().zip(held) {
        let Named { name, path } = named;
        let backing = devices::known_by(path, device)?;
        superblock = superblock
            .with_volume(devices::random_id()?, name, device.len(), backing.encode())
            .map_err(|error| impossible(&error))?;
        volumes.push(CreatedVolume::new(named, device.len(), Some(backing.fingerprint.to_string())));
    }
    let geometry = superblock.config().geometry().map_err(|error| impossible(&error))?;
    Ok((superblock, geometry, volumes))
}

pub(super) fn refuse_contents(args: &CreateArgs, device: &FileDevice) -> Result<(), Failure> {
    if args.force {
        return Ok(());
    }
    let found = contents(device, FRAGMENT_BYTES_MAX);
    let found = found.map_err(|error| Failure::refused(args.cache.display(), chain(&error)))?;
    let Some(found) = found else { return Ok(()) };
    Err(Failure::refused(args.cache.display(), format!("it holds data: {found}"))
        .next("nothing was changed; give --force if what it holds may be lost"))
}

fn create(path: &Path, superblock: &Superblock) -> Result<(), Failure> {
    let options = OpenOptions {
        write: true,
        create_new: true,
        len: Some(superblock.size()),
        preallocate: true,
        exclusive_lock: true,
        no_follow: true,
        ..OpenOptions::default()
    };
    let device =
        FileDevice::open(path, &options).map_err(|error| Failure::refused(path.display(), chain(&error)))?;
    or_removed(path, write(path, &device, superblock))
}

/// What has become of a new file, which is removed again if it was not made a cache.
pub(super) fn or_removed<T>(path: &Path, made: Result<T, Failure>) -> Result<T, Failure> {
    if made.is_err() {
        if let Err(error) = std::fs::remove_file(path) {
            output::note(&format!("{}: cannot be removed: {error}", path.display()));
        }
    }
    made
}

fn write(path: &Path, device: &FileDevice, superblock: &Superblock) -> Result<(), Failure> {
    write_superblock(device, superblock, 0).map_err(|error| Failure::refused(path.display(), chain(&error)))
}

impl Created {
    fn text(&self) -> String {
        let mut lines = vec![
            (
                "cache",
                format!(
                    "{}, {} of at most {}",
                    self.cache,
                    Size(self.cache_bytes),
                    Size(self.cache_bytes_max)
                ),
            ),
            (
                "fragments",
                format!(
                    "{} of {} KiB, {} of metadata",
                    self.slots,
                    self.fragment_bytes >> 10,
                    Size(self.metadata_bytes)
                ),
            ),
            ("memory needed", Size(self.memory_bytes).to_string()),
        ];
        lines.extend(self.volumes.iter().map(CreatedVolume::line));
        facts(&lines)
    }
}
