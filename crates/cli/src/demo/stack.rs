//! What lies under SQLite in one configuration: modelled drives, the volume with or without its tier, the
//! VFS.

use std::path::Path;
use std::sync::Arc;

use mezzanine_device::{
    Device, DeviceError, DirectIo, Drive, FileDevice, OpenOptions, Statistics as DriveStatistics,
};
use mezzanine_engine::TierConfig;
use mezzanine_sqlite::{LogDrive, MezzanineVfs};
use mezzanine_volume::{Volume, VolumeConfig, VolumeState, VolumeStatistics};

use super::protocol::{ChildSpec, Configuration, TierFigures};
use super::result::DriveUse;
use crate::failure::{Failure, chain};

const VFS: &str = "mezzanine-demo";

/// Everything under SQLite.
pub(crate) struct Stack {
    drives: Vec<(&'static str, Arc<Drive>)>,
    volume: Arc<Volume>,
    /// Frames of the queue and bytes of a page; `None` without a tier.
    queue: Option<(u64, u64)>,
    vfs: MezzanineVfs,
}

/// A file whose bytes outlive the process, which is what a kill -9 tests. They are not forced to this
/// machine's own disk: how long that takes is the modelled drive's to say.
fn open_file(path: &Path, options: OpenOptions) -> Result<Arc<dyn Device>, DeviceError> {
    let options = OpenOptions { write: true, direct: DirectIo::Never, ..options };
    Ok(Arc::new(FileDevice::open(path, &options)?))
}

fn drive(model: &str, time_scale: f64) -> Result<Arc<Drive>, Failure> {
    let found = crate::device::find_model(model)?;
    mezzanine_ssd::open_drive(found, None, time_scale)
        .map_err(|error| Failure::refused(format!("drive model '{model}'"), chain(&error)))
}

impl Stack {
    /// Opens the configuration; `fresh` formats the tier.
    pub(crate) fn open(spec: &ChildSpec, time_scale: f64, fresh: bool) -> Result<Stack, Failure> {
        let failed =
            |error: &dyn std::error::Error| Failure::refused(spec.configuration.name(), chain(error));
        let data_model =
            if spec.configuration == Configuration::Flash { &spec.flash_model } else { &spec.disk_model };
        let data = drive(data_model, time_scale)?;
        let log = drive(&spec.log_model, time_scale)?;
        let mut drives = vec![("data", Arc::clone(&data)), ("log", Arc::clone(&log))];
        let tier = TierConfig::for_flash_bytes(spec.page_bytes, spec.flash_bytes);
        let mut queue = None;
        let volume = if spec.configuration == Configuration::FaceGsc {
            let geometry = tier.geometry().map_err(|error| {
                Failure::refused("the tier", error)
                    .next("give it more flash with --flash-share, or a larger database")
            })?;
            queue = Some((geometry.frames(), geometry.page_size() as u64));
            let flash = drive(&spec.flash_model, time_scale)?;
            drives.push(("flash", Arc::clone(&flash)));
            let options =
                OpenOptions { create: true, len: Some(geometry.flash_bytes()), ..OpenOptions::default() };
            let file = open_file(&spec.flash, options).map_err(|error| failed(&error))?;
            let config = VolumeConfig::new(tier.clone());
            if fresh {
                Volume::format(&*file, &config, false).map_err(|error| failed(&error))?;
            }
            Volume::open(flash.attach(file, 0), config).map_err(|error| failed(&error))?
        } else {
            Volume::without_tier()
        };
        let volume = Arc::new(volume);
        let vfs = MezzanineVfs::builder(VFS)
            .volume(Arc::clone(&volume), &spec.flash.display().to_string(), &tier)
            .disk(move |path| Ok(data.attach(open_file(path, OpenOptions::default())?, 0)))
            .log_timer(Arc::new(
                LogDrive::new(log.attach(Arc::new(mezzanine_device::NullDevice::ENDLESS), 0), 0)
                    .without_real_sync(),
            ))
            .register()
            .map_err(|error| failed(&error))?;
        Ok(Stack { drives, volume, queue, vfs })
    }

    pub(crate) fn vfs_name(&self) -> &str {
        self.vfs.name()
    }

    pub(crate) fn set_time_scale(&self, scale: f64) {
        for (_, drive) in &self.drives {
            drive.set_time_scale(scale);
        }
    }

    /// How often the queue has gone round since the tier was opened; `None` without a tier.
    pub(crate) fn queue_wraps(&self) -> Option<f64> {
        let (frames, page_bytes) = self.queue?;
        let written = self.volume.statistics().tier?.group_bytes_written;
        Some((written / page_bytes) as f64 / frames as f64)
    }

    /// What is wrong with the volume, if anything.
    pub(crate) fn failure(&self) -> Option<Failure> {
        self.queue?;
        match self.volume.state() {
            VolumeState::Ok => None,
            VolumeState::Bypass { reason } | VolumeState::ReadOnly { reason } => {
                Some(Failure::refused("the tier", reason))
            }
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        let drives = self.drives.iter().map(|(_, drive)| drive.statistics()).collect();
        Counts { volume: self.volume.statistics(), drives }
    }
}

/// Counters of the volume and the drives at one moment, or between two.
#[derive(Clone)]
pub(crate) struct Counts {
    volume: VolumeStatistics,
    drives: Vec<DriveStatistics>,
}

impl Counts {
    pub(crate) fn since(&self, earlier: &Counts) -> Counts {
        let drives = self.drives.iter().zip(&earlier.drives).map(|(now, then)| now.since(then)).collect();
        Counts { volume: self.volume.since(&earlier.volume), drives }
    }

    /// Share of the pages that SQLite asked for and the tier had; `None` without a tier.
    pub(crate) fn hit_ratio(&self) -> Option<f64> {
        self.volume.tier.and_then(|_| self.volume.hit_ratio())
    }

    pub(crate) fn drives(&self, stack: &Stack) -> Vec<DriveUse> {
        let pairs = stack.drives.iter().zip(&self.drives);
        pairs
            .map(|((role, drive), s)| DriveUse {
                role: (*role).to_owned(),
                model: drive.model().name.clone(),
                utilisation: s.utilisation(),
                queue_depth: s.queue_depth_mean(),
                reads: s.reads,
                writes: s.writes,
                flushes: s.flushes,
                bytes_read: s.bytes_read,
                bytes_written: s.bytes_written,
            })
            .collect()
    }

    pub(crate) fn tier_figures(&self) -> Option<TierFigures> {
        let (v, t) = (&self.volume, self.volume.tier.as_ref()?);
        let hits = v.page_hits_memory + v.page_hits_flash;
        Some(TierFigures {
            hits,
            lookups: hits + v.page_misses,
            pages_written: v.page_writes,
            pages_to_disk: v.disk_pages_written,
            groups_whole: t.groups_written - t.groups_cut_short,
            bytes_whole: t.full_group_bytes_written,
            groups_cut_short: t.groups_cut_short,
            bytes_cut_short: t.group_bytes_written - t.full_group_bytes_written,
            flash_bytes_written: t.flash_bytes_written(),
            second_chances: t.second_chances,
        })
    }
}
