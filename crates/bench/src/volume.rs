//! A flash hit through a volume against the bare device read, and the shape of flash writes.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use mezzanine_device::{AlignedBuf, Device, DirectIo, FileDevice, OpenOptions};
use mezzanine_engine::TierConfig;
use mezzanine_ground::random::Random;
use mezzanine_volume::{AttachOptions, MemorySidecar, Volume, VolumeConfig, VolumeFile};

use crate::report::{Outcome, Row, Scale, median};

const PAGE: u64 = 8192;
const NO_TIER: &str = "the volume has given up its tier";

/// Files that are removed at the end.
struct Files {
    flash: PathBuf,
    backing: PathBuf,
}

impl Drop for Files {
    fn drop(&mut self) {
        // What cannot be removed is left behind under its telling name.
        let _ = std::fs::remove_file(&self.flash);
        let _ = std::fs::remove_file(&self.backing);
    }
}

pub(crate) fn run(scale: Scale, directory: &Path) -> Outcome {
    let files = Files {
        flash: directory.join("mezz-bench-hit.flash"),
        backing: directory.join("mezz-bench-hit.data"),
    };
    let tier = TierConfig::for_flash_bytes(PAGE as u32, scale.pick(512 << 20, 32 << 20));
    let (frames, pages) = (tier.frames, tier.frames / 2);
    let options = OpenOptions {
        create: true,
        write: true,
        direct: DirectIo::IfPossible,
        len: Some(tier.geometry()?.flash_bytes()),
        ..OpenOptions::default()
    };
    let flash: Arc<dyn Device> = Arc::new(FileDevice::open(&files.flash, &options)?);
    let backing_options = OpenOptions { len: Some(pages * PAGE), ..options.clone() };
    let backing: Arc<dyn Device> = Arc::new(FileDevice::open(&files.backing, &backing_options)?);
    let config = VolumeConfig::new(tier);
    Volume::format(flash.as_ref(), &config, true)?;
    let volume = Volume::open(Arc::clone(&flash), config)?;
    let sidecar = Arc::new(MemorySidecar::new());
    let file = volume.attach(&files.backing, backing, sidecar, AttachOptions::default())?;

    let mut rows = writes(&volume, &file, pages)?;
    rows.extend(hits(scale, &volume, &file, flash.as_ref(), pages, frames)?);
    volume.close()?;
    Ok(rows)
}

/// Every page once, in random order, with a sync after each thousand, as a database in WAL mode writes at its
/// checkpoints.
fn writes(volume: &Volume, file: &VolumeFile, pages: u64) -> Outcome {
    let mut random = Random::new(4);
    let mut order: Vec<u64> = (0..pages).collect();
    for at in (1..order.len()).rev() {
        order.swap(at, random.below(at as u64 + 1) as usize);
    }
    let mut page = AlignedBuf::zeroed(PAGE as usize);
    for (n, block) in order.iter().enumerate() {
        page[..8].copy_from_slice(&block.to_le_bytes());
        file.write_at(&page, block * PAGE)?;
        if n % 1000 == 999 {
            file.sync()?;
        }
    }
    file.sync()?;
    let tier = volume.statistics().tier.ok_or(NO_TIER)?;
    let kib = |bytes: Option<f64>| bytes.unwrap_or(0.0) / 1024.0;
    Ok(vec![
        Row::new(
            "flash write, mean of full groups (sync every 1,000 pages)",
            kib(tier.full_group_bytes_mean()),
            "KiB",
        ),
        Row::new("flash write, mean of groups cut short by a sync", kib(tier.cut_group_bytes_mean()), "KiB"),
    ])
}

/// Reads through the volume and bare reads of the same device take turns, so that both see the same machine.
fn hits(
    scale: Scale,
    volume: &Volume,
    file: &VolumeFile,
    flash: &dyn Device,
    pages: u64,
    frames: u64,
) -> Result<Vec<Row>, Box<dyn Error>> {
    let rounds = scale.pick(41, 3);
    let reads = scale.pick(2000, 100);
    let mut random = Random::new(5);
    let mut page = AlignedBuf::zeroed(PAGE as usize);
    // The frames end where the device ends, and the queue was filled from its first frame on.
    let first = flash.capabilities().len / PAGE - frames;
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    let before = volume.statistics().tier.ok_or(NO_TIER)?;
    for _ in 0..rounds {
        let start = Instant::now();
        for _ in 0..reads {
            file.read_at(&mut page, random.below(pages) * PAGE)?;
        }
        ours.push(start.elapsed().as_nanos() as f64 / reads as f64 / 1e3);
        let start = Instant::now();
        for _ in 0..reads {
            // Where the groups lie that were just written; never a hole of the file.
            flash.read_at(&mut page, (first + random.below(pages)) * PAGE)?;
        }
        bare.push(start.elapsed().as_nanos() as f64 / reads as f64 / 1e3);
    }
    let seen = volume.statistics().tier.ok_or(NO_TIER)?.since(&before);
    let share = seen.hits_flash as f64 / seen.lookups() as f64 * 100.0;
    Ok(vec![
        Row::new("flash hit of 8 KiB through a volume", median(ours), "us")
            .beside("bare read of the device", median(bare)),
        Row::new("of these reads, flash hits", share, "%"),
    ])
}
