//! What `mezz block attach` has opened, of whichever engine, before anybody is let in.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use mezzanine_blockdev::nbd::Export;
use mezzanine_cached::{BlockCache, FileVoucher, Settings, Voucher};
use mezzanine_device::Device;

use super::attach::{AttachArgs, SIGNAL_WITHIN};
use super::cache_device::CacheDevice;
use super::detach::{close, tidy};
use super::devices::{self, Named};
use super::folders;
use super::open::{self, Opened, Volume};
use super::page::Pages;
use super::report::VolumeReport;
use super::served::{CacheFacts, Engine};
use crate::failure::{Failure, chain};
use crate::output;
use crate::size::Size;

/// What was opened, before anybody is let in.
pub(super) enum Begun {
    Nothing(Vec<Volume>),
    Fragments(Box<Fragments>),
    Pages(Pages),
}

/// The fragment engine with its volumes.
pub(super) struct Fragments {
    running: BlockCache,
    device: CacheDevice,
    volumes: Vec<Volume>,
    begins: String,
    unvouched: Option<String>,
}

impl Begun {
    pub(super) fn exports(&self) -> Vec<(Export, String)> {
        match self {
            Self::Nothing(volumes) => exports(volumes, None),
            Self::Fragments(fragments) => exports(&fragments.volumes, Some(&fragments.running)),
            Self::Pages(pages) => pages.exports(),
        }
    }

    /// The volumes as they are named, in the order of the exports.
    pub(super) fn named(&self) -> Vec<&Named> {
        match self {
            Self::Nothing(volumes) => volumes.iter().map(|volume| &volume.named).collect(),
            Self::Fragments(fragments) => fragments.volumes.iter().map(|volume| &volume.named).collect(),
            Self::Pages(pages) => pages.named().collect(),
        }
    }

    /// What does not change of the volumes, with the block devices that the kernel has of them, if any.
    pub(super) fn volume_reports(&self, block_devices: &[PathBuf]) -> Vec<VolumeReport> {
        let of = |volume: &Volume| (volume.number, volume.device.len());
        let numbers_and_bytes: Vec<_> = match self {
            Self::Nothing(volumes) => volumes.iter().map(of).collect(),
            Self::Fragments(fragments) => fragments.volumes.iter().map(of).collect(),
            Self::Pages(pages) => pages.bytes().enumerate().collect(),
        };
        let of = |(place, (named, (number, bytes))): (usize, (&Named, (usize, u64)))| VolumeReport {
            number,
            name: named.name.clone(),
            backing: named.path.display().to_string(),
            block_device: block_devices.get(place).map(|path| path.display().to_string()),
            bytes,
            counters: Default::default(),
        };
        self.named().into_iter().zip(numbers_and_bytes).enumerate().map(of).collect()
    }

    /// Ends it in good order where nobody has been let in.
    pub(super) fn give_up(self) {
        match self {
            Self::Nothing(_) => {}
            Self::Fragments(fragments) => {
                let Fragments { running, device, volumes, .. } = *fragments;
                close(&running, Some(device), &volumes, SIGNAL_WITHIN, |_| true);
            }
            Self::Pages(pages) => {
                if let Err(failure) = pages.close(false, |_, _| true) {
                    output::note(&failure.to_string());
                }
            }
        }
    }

    /// What is served, and what the end needs besides.
    pub(super) fn into_parts(self) -> (Engine, Option<CacheDevice>, Vec<Volume>) {
        match self {
            Self::Nothing(volumes) => (Engine::Nothing, None, volumes),
            Self::Fragments(fragments) => {
                let Fragments { running, device, volumes, begins, unvouched } = *fragments;
                let facts = CacheFacts {
                    path: device.path.display().to_string(),
                    cache_id: hex::encode(device.superblock.cache_id),
                    epoch: device.superblock.epoch,
                    begins,
                    unvouched,
                };
                (Engine::Fragments(running, facts), Some(device), volumes)
            }
            Self::Pages(pages) => (Engine::Pages(pages), None, Vec::new()),
        }
    }
}

/// Opens a cache of fragments, and has it run.
pub(super) fn begin(args: &AttachArgs, path: &Path) -> Result<Begun, Failure> {
    let Opened { volumes, cache: mut device, map, begins } = open::open(args, path)?;
    let (voucher, unvouched) = vouch(&device);
    if let Err(failure) = device.note_in_use(&volumes) {
        // What vouches for this opening stays if the cache device may name it.
        match device.note_nothing_done() {
            Ok(()) => tidy(Some(device.opening)),
            Err(_) => output::note(
                "whether the cache device says that it is in use is not known; nothing was changed otherwise",
            ),
        }
        return Err(failure);
    }
    let running = start(args, map, &volumes, &mut device, voucher)?;
    output::note(&format!("{}: the cache begins with {begins}", path.display()));
    Ok(Begun::Fragments(Box::new(Fragments { running, device, volumes, begins, unvouched })))
}

/// Has the map vouched for after a crash; otherwise why it is not.
fn vouch(cache: &CacheDevice) -> (Option<Box<dyn Voucher>>, Option<String>) {
    let issued = folders::state().and_then(|folder| {
        FileVoucher::issue(&folder, cache.opening).map_err(|error| {
            Failure::refused(folder.display(), format!("no voucher can be written there: {error}"))
                .next(format!("name another folder with the variable {}", folders::STATE_VARIABLE))
        })
    });
    match issued {
        Ok(voucher) => (Some(Box::new(voucher)), None),
        Err(failure) => {
            output::note(&format!("a crash costs what is cached: {failure}"));
            (None, Some(failure.to_string()))
        }
    }
}

/// The running cache. If there is none, the cache device is as it was before.
fn start(
    args: &AttachArgs,
    map: mezzanine_cached::ReadMap,
    volumes: &[Volume],
    cache: &mut CacheDevice,
    voucher: Option<Box<dyn Voucher>>,
) -> Result<BlockCache, Failure> {
    let (bytes, superblock) = (cache.superblock.size(), &cache.superblock);
    let backing = (0..superblock.volumes.len()).map(|number| {
        let volume = volumes.iter().find(|volume| volume.number == number);
        volume.map(|volume| Arc::clone(&volume.device) as Arc<dyn Device>)
    });
    let rate = args.population_rate.map_or(0, |rate| rate.0);
    let settings = Settings { population_rate: rate, sizing: true, ..Settings::default() };
    let flash = Arc::clone(&cache.device);
    let started = BlockCache::recover(map, flash, backing.collect(), settings, voucher);
    let running = started.map_err(|error| {
        // Nobody has been let in, so what it had before counts as it did.
        if let Err(failure) = cache.note_nothing_done() {
            output::note(&format!("the cache begins empty the next time: {failure}"));
        }
        tidy(Some(cache.opening));
        Failure::refused(cache.path.display(), chain(&error))
            .next("nothing was changed; or serve the volumes with --without-cache")
    })?;
    tidy(cache.opening_before);
    let geometry = running.engine().geometry();
    output::note(&format!(
        "{}: {} of cache, {} of {} fragments of {} KiB in use (epoch {}), {} of memory",
        cache.path.display(),
        Size(bytes),
        running.statistics().engine.slots_used,
        running.engine().slots_limit(),
        geometry.config().fragment_bytes >> 10,
        cache.superblock.epoch,
        Size(devices::memory(geometry)?)
    ));
    Ok(running)
}

fn exports(volumes: &[Volume], cache: Option<&BlockCache>) -> Vec<(Export, String)> {
    let of = |volume: &Volume| {
        let cached = cache.and_then(|cache| cache.volume(volume.number));
        let device: Arc<dyn Device> = match cached {
            Some(cached) => Arc::new(cached),
            None => Arc::clone(&volume.device) as Arc<dyn Device>,
        };
        let zeroes_are_holes = volume.named.path.metadata().is_ok_and(|metadata| metadata.is_file());
        let text = format!("serving {} ({})", volume.named.name, Size(device.len()));
        (Export { name: volume.named.name.clone(), zeroes_are_holes, ..Export::new(device) }, text)
    };
    volumes.iter().map(of).collect()
}
