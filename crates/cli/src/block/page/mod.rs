//! Volumes behind the page engine: writes back from flash (`durable`), or through to the volume's own device
//! (`through`). The engine's host, `mezzanine_volume`, does all of that; what is here is its opening and its
//! end, for `mezz block`.

mod create;
mod rest;
mod shown;
mod sidecar;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use mezzanine_blockdev::nbd::Export;
use mezzanine_device::{Device as _, DirectIo, FileDevice, OpenOptions};
use mezzanine_engine::format::{ClusterName, FormatError, Superblock, read_superblock};
use mezzanine_engine::{Geometry, SyncMode, TierConfig};
use mezzanine_engine::{ReadError, ReadFlash};
use mezzanine_volume::{
    AttachOptions, BlockDevice, Volume, VolumeConfig, VolumeError, VolumeErrorKind, VolumeFile, VolumeState,
};
use serde::Serialize;

use super::devices::{self, Named};
use super::served::PagesDetached;
use crate::failure::{Failure, chain};
use crate::output;
use crate::size::Size;

pub(super) use create::create;
pub(super) use rest::at_rest;
pub(super) use shown::{PageReport, counters_for_prometheus, text};
pub(super) use sidecar::refuse_without_its_tier;

/// Threads that write groups to flash and pages to the volumes' own devices. A second one goes on while the
/// first waits for a slow device.
const WORKERS: usize = 2;

/// Volumes that are served, and their tier.
pub(super) struct Pages {
    path: PathBuf,
    volume: Volume,
    volumes: Vec<(Named, VolumeFile)>,
    memory_bytes: u64,
    flash_bytes: u64,
    /// With what it began, for people.
    begins: String,
}

/// What does not change of a cache device, whether it is new or at rest.
#[derive(Serialize)]
struct CacheFacts {
    cache: String,
    engine: &'static str,
    mode: &'static str,
    cache_bytes: u64,
    page_bytes: u32,
    frames: u64,
}

impl CacheFacts {
    fn new(cache: String, config: &TierConfig, geometry: &Geometry) -> Self {
        Self {
            cache,
            engine: "page",
            mode: config.sync_mode.name(),
            cache_bytes: geometry.flash_bytes(),
            page_bytes: config.page_size,
            frames: config.frames,
        }
    }

    /// As people read it.
    fn line(&self) -> String {
        format!("{}, {}, page engine", self.cache, Size(self.cache_bytes))
    }
}

struct Reader<'d>(&'d FileDevice);

impl ReadFlash for Reader<'_> {
    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> Result<(), ReadError> {
        self.0.read_at(bytes, offset).map_err(|error| ReadError(chain(&error)))
    }
}

/// The tier on a cache device; none if something else is there, or nothing.
fn tier_on(path: &Path, device: &FileDevice) -> Result<Option<Superblock>, Failure> {
    match read_superblock(&mut Reader(device)) {
        Ok(superblock) => Ok(Some(superblock)),
        Err(FormatError::Unrecognised) => Ok(None),
        Err(error) => {
            let reason = format!("it holds a tier of Mezzanine that cannot be used: {error}");
            Err(Failure::refused(path.display(), reason).next(
                "`mezz tier inspect` says more; volumes in mode through have everything, and `mezz block create --force` makes a new cache there",
            ))
        }
    }
}

/// Whether the cache device at `path` is the page engine's.
pub(super) fn is_here(path: &Path) -> Result<bool, Failure> {
    tier_on(path, &devices::cache(path, false)?).map(|found| found.is_some())
}

/// A tier is laid out for the size that it is made with.
pub(super) fn refuse_size(path: &Path) -> Failure {
    Failure::refused(path.display(), "a cache of the page engine keeps the size that it was made with").next(
        "bring everything to the volumes with `mezz block detach` while it is attached, and make a cache of another size there with \
         `mezz block create --engine page --size SIZE --force`",
    )
}

/// The cache device as the engine uses it: past the page cache.
fn flash(path: &Path) -> Result<FileDevice, Failure> {
    devices::cache_with(
        path,
        &OpenOptions { exclusive_lock: true, direct: DirectIo::IfPossible, ..OpenOptions::read_write() },
    )
}

/// A volume's own device, of which it does not matter that its newest pages may be in a tier.
fn backing(named: &Named) -> Result<Arc<FileDevice>, Failure> {
    devices::backing_of_any_state(&named.path)
}

fn refused(thing: impl std::fmt::Display, error: &VolumeError) -> Failure {
    let failure = Failure::refused(thing, chain(error));
    match error.kind() {
        VolumeErrorKind::FileNotAttached => {
            failure.next("name all volumes of this cache device, each with --backing")
        }
        VolumeErrorKind::LostPage => failure.next("`mezz tier verify` lists the damaged pages"),
        _ => failure,
    }
}

impl Pages {
    /// Opens the tier and attaches the volumes. What is refused has changed nothing.
    pub(super) fn open(path: &Path, named: &[Named]) -> Result<Self, Failure> {
        if let Some(one) = named.iter().find(|one| devices::same(&one.path, path)) {
            return Err(Failure::usage(one.path.display(), "it cannot be its own cache")
                .next("name its cache device"));
        }
        // Its sidecars name it, for people wherever they are.
        let path = &path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let device = flash(path)?;
        let Some(superblock) = tier_on(path, &device)? else {
            return Err(Failure::refused(path.display(), "it holds no cache of the page engine any more")
                .next("`mezz block create --engine page` makes one"));
        };
        if ClusterName::of(&superblock.database_uuid).is_some() {
            return Err(Failure::refused(path.display(), "it is the tier of a PostgreSQL cluster")
                .next("name another cache device; `mezz pg status` shows that cluster"));
        }
        let geometry = superblock.config.geometry().map_err(|error| {
            Failure::refused(path.display(), error).next(
                "`mezz block create --force` makes a new cache there, and loses what this one alone has",
            )
        })?;
        let memory_bytes = devices::memory_for(
            geometry.region_bytes() as u64,
            "use a smaller cache, or larger pages (`mezz block create --page 16KiB`)",
        )?;
        let volume = Volume::open_as_found(Arc::new(device), |found| VolumeConfig {
            workers: WORKERS,
            ..VolumeConfig::new(BlockDevice::policy(found))
        });
        let volume = volume.map_err(|error| refused(path.display(), &error))?;
        let volumes = named.iter().map(|named| attach(&volume, named)).collect::<Result<Vec<_>, _>>()?;
        let mode = volume.sync_mode();
        let waiting = volume.unattached();
        if mode == Some(SyncMode::Durable) && !waiting.is_empty() {
            let names: Vec<_> = waiting.iter().map(|path| path.display().to_string()).collect();
            let reason =
                format!("it has the newest pages of volumes that are not named: {}", names.join(", "));
            return Err(Failure::refused(path.display(), reason).next(
                "name each of them with --backing; `mezz tier forget` goes on without one that is gone for good",
            ));
        }
        let begins = begins(&volume);
        let flash_bytes = geometry.flash_bytes();
        Ok(Self { path: path.to_owned(), volume, volumes, memory_bytes, flash_bytes, begins })
    }

    /// Says once what is attached.
    pub(super) fn note(&self) {
        let mode = self.volume.sync_mode().map_or("none", SyncMode::name);
        output::note(&format!(
            "{}: {} of cache in mode {mode}, {} of memory; it begins with {}",
            self.path.display(),
            Size(self.flash_bytes),
            Size(self.memory_bytes),
            self.begins
        ));
    }

    /// The volumes, each as an export of its name with a line for people.
    pub(super) fn exports(&self) -> Vec<(Export, String)> {
        let of = |(named, file): &(Named, VolumeFile)| {
            let text = format!("serving {} ({})", named.name, Size(file.len()));
            let device = Arc::new(BlockDevice::new(file.clone()));
            // What is trimmed may be anything, so zeros are written as pages.
            (Export { name: named.name.clone(), ..Export::new(device) }, text)
        };
        self.volumes.iter().map(of).collect()
    }

    /// The volumes as they are named, in the order of the exports.
    pub(super) fn named(&self) -> impl Iterator<Item = &Named> {
        self.volumes.iter().map(|(named, _)| named)
    }

    /// How long they are, in the same order.
    pub(super) fn bytes(&self) -> impl Iterator<Item = u64> {
        self.volumes.iter().map(|(_, file)| file.len())
    }

    /// `mezz block resize`, which is refused.
    pub(super) fn refuse_size(&self) -> Failure {
        refuse_size(&self.path)
    }

    /// Makes durable what was written: on flash in mode durable, on the volumes' own devices in mode through.
    pub(super) fn flush(&self) -> Result<(), Failure> {
        let synced = self.volumes.iter().try_for_each(|(_, file)| file.sync());
        synced.map_err(|error| refused("flush", &error))
    }

    pub(super) fn set_mode(&self, mode: SyncMode) -> Result<(), Failure> {
        self.volume.set_sync_mode(mode).map_err(|error| refused("mode", &error))
    }

    /// Ends it. With `drains`, what flash alone has goes to the volumes' own devices, as long as `go_on`,
    /// which is told how many pages of how many are there, says so; if all of it did, they need the cache
    /// device no more. Otherwise it goes on with what it has when it is attached again.
    pub(super) fn close(
        &self,
        drains: bool,
        mut go_on: impl FnMut(u64, u64) -> bool,
    ) -> Result<PagesDetached, Failure> {
        let mut written = 0;
        let mut complete = false;
        let is_durable = self.volume.sync_mode() == Some(SyncMode::Durable);
        if drains && is_durable {
            let drained = self.volume.drain_while(|done, total| {
                written = done;
                go_on(done, total)
            });
            match drained {
                Ok(all) => complete = all,
                Err(error) => {
                    // What it holds stays there.
                    let closed = self.volume.close();
                    let failure = refused(self.path.display(), &error);
                    return Err(match closed {
                        Ok(()) => failure.and("it was closed in order, and can be attached again"),
                        Err(_) => failure,
                    });
                }
            }
        }
        let left = if complete { 0 } else { self.volume.newer_than_disk() };
        let closed = if complete { self.volume.close_drained() } else { self.volume.close() };
        closed.map_err(|error| refused(self.path.display(), &error))?;
        Ok(PagesDetached {
            pages_written: written,
            pages_left: left,
            volumes_are_current: complete || !is_durable,
        })
    }
}

fn attach(volume: &Volume, named: &Named) -> Result<(Named, VolumeFile), Failure> {
    let device = backing(named)?;
    let sidecar = sidecar::store(&named.path, &device)?;
    let path = named.path.canonicalize().unwrap_or_else(|_| named.path.clone());
    let bytes = device.len();
    let file = volume
        .attach(&path, device, sidecar, AttachOptions::default())
        .map_err(|error| refused(named.path.display(), &error))?;
    if file.len() != bytes {
        let how = if bytes < file.len() { "shrunk" } else { "grown" };
        let reason =
            format!("it has {how} while it was detached: it has {bytes} bytes, and it had {}", file.len());
        return Err(Failure::refused(named.path.display(), reason)
            .next("give it its length back, attach and detach it, and then change its length"));
    }
    Ok((named.clone(), file))
}

fn begins(volume: &Volume) -> String {
    let Some(report) = volume.report() else { return "nothing".to_owned() };
    let found = report.recovery;
    match found.discarded {
        true => "nothing, as it came to no orderly end, and its volumes have everything".to_owned(),
        false => format!("{} pages, {} of them newer than the volumes have", found.valid, found.dirty),
    }
}

/// How well a tier is, as a word and, where it is not in order, with the reason.
fn health(state: VolumeState) -> (&'static str, Option<String>) {
    match state {
        VolumeState::Ok => ("working", None),
        VolumeState::Bypass { reason } => ("bypassed", Some(reason)),
        VolumeState::ReadOnly { reason } => ("read_only", Some(reason)),
    }
}
