//! `mezz block create --engine page`.

use std::path::Path;

use mezzanine_device::FileDevice;
use mezzanine_engine::{Geometry, SyncMode, TierConfig};
use mezzanine_report::facts;
use mezzanine_volume::{BlockDevice, Volume, VolumeConfig, VolumeErrorKind};
use serde::Serialize;

use super::super::create::{CreateArgs, CreatedVolume, or_removed, refuse_contents};
use super::super::devices;
use super::{CacheFacts, Pages, flash};
use crate::failure::{Failure, chain};
use crate::output;
use crate::size::Size;
use crate::tier::new_flash;

#[derive(Serialize)]
struct Created {
    #[serde(flatten)]
    cache: CacheFacts,
    memory_bytes: u64,
    volumes: Vec<CreatedVolume>,
}

/// Makes the tier in `bytes` of the cache device, and has it and the volumes know each other.
pub(in super::super) fn create(
    args: &CreateArgs,
    mode: SyncMode,
    exists: bool,
    bytes: u64,
    json: bool,
) -> Result<(), Failure> {
    let (config, geometry) = configure(args, mode, bytes)?;
    let memory_bytes = devices::memory_for(
        geometry.region_bytes() as u64,
        "use a smaller cache (--size), or larger pages (--page)",
    )?;
    // Whoever needs them is found before anything is written.
    let held = args.backing.iter().map(|one| devices::backing(&one.path)).collect::<Result<Vec<_>, _>>()?;
    let volume = VolumeConfig::new(config.clone());
    if exists {
        let device = flash(&args.cache)?;
        refuse_contents(args, &device)?;
        format(args, &device, &volume)?;
        drop((device, held));
        know(args)?;
    } else {
        let device = made(&args.cache, &geometry)?;
        let done = format(args, &device, &volume);
        drop((device, held));
        or_removed(&args.cache, done.and_then(|()| know(args)))?;
    }
    let volumes = args.backing.iter().map(|one| {
        let bytes = devices::backing(&one.path).map(|device| mezzanine_device::Device::len(&*device));
        bytes.map(|bytes| CreatedVolume::new(one, bytes, None))
    });
    let created = Created {
        cache: CacheFacts::new(args.cache.display().to_string(), &config, &geometry),
        memory_bytes,
        volumes: volumes.collect::<Result<_, _>>()?,
    };
    if json { output::json(&created) } else { output::print(&created.text()) }
}

/// The tier that fits.
fn configure(args: &CreateArgs, mode: SyncMode, bytes: u64) -> Result<(TierConfig, Geometry), Failure> {
    let usage = |reason: String| Failure::usage(args.cache.display(), reason);
    let size = args.page_size();
    let page = u32::try_from(size.0).ok().filter(|page| page.is_power_of_two());
    let page = page.filter(|page| (4096..=32768).contains(page)).ok_or_else(|| {
        Failure::usage("--page", format!("there are no pages of {size}"))
            .next("use 4KiB, 8KiB, 16KiB or 32KiB")
    })?;
    if let Some(least) = TierConfig::flash_bytes_min(page).filter(|least| bytes < *least) {
        let reason = format!("a cache of pages of {size} needs more than {}", Size(bytes));
        return Err(usage(reason).next(format!("give it at least {}KiB", least.div_ceil(1024))));
    }
    let fitted = BlockDevice::policy(&TierConfig::for_flash_bytes(page, bytes));
    let config = TierConfig { sync_mode: mode, ..fitted };
    let geometry = config.geometry();
    let geometry =
        geometry.map_err(|error| usage(format!("no cache can be made of {}: {error}", Size(bytes))))?;
    Ok((config, geometry))
}

fn made(path: &Path, geometry: &Geometry) -> Result<FileDevice, Failure> {
    FileDevice::open(path, &new_flash(geometry))
        .map_err(|error| Failure::refused(path.display(), chain(&error)))
}

fn format(args: &CreateArgs, device: &FileDevice, volume: &VolumeConfig) -> Result<(), Failure> {
    Volume::format(device, volume, args.force).map_err(|error| {
        let failure = Failure::refused(args.cache.display(), chain(&error));
        match error.kind() {
            VolumeErrorKind::OnlyCopy => failure.next(
                "nothing was changed; `mezz block attach` and `mezz block detach` bring its pages to their volumes, or give --force to lose them",
            ),
            _ => failure,
        }
    })
}

/// Attaches the volumes once: each has its sidecar then, and the tier its path.
fn know(args: &CreateArgs) -> Result<(), Failure> {
    Pages::open(&args.cache, &args.backing)?.close(false, |_, _| true).map(drop)
}

impl Created {
    fn text(&self) -> String {
        let safe = match self.cache.mode {
            "durable" => {
                "durable: a flush is answered when the cache device has it, and the volumes need that from then on"
            }
            _ => {
                "through: a flush is answered when the volume's own device has it, and the cache device may be lost"
            }
        };
        let mut lines = vec![
            ("cache", self.cache.line()),
            ("mode", safe.to_owned()),
            ("pages", format!("{} frames of {} KiB", self.cache.frames, self.cache.page_bytes >> 10)),
            ("memory needed", Size(self.memory_bytes).to_string()),
        ];
        lines.extend(self.volumes.iter().map(CreatedVolume::line));
        facts(&lines)
    }
}
