//! Growing and shrinking the tier's queue while it is in use.
//!
//! The engine brings the rear of its queue to where the ring is to end, or to go on, and then waits for one
//! superblock. Whoever carries out jobs writes it: a worker, or a caller who has found no room. A crash
//! before leaves the old size, one after it the new one: in both, the rear stands where either finds every
//! frame.

use std::sync::Arc;

use mezzanine_device::DeviceErrorKind;
use mezzanine_engine::{ConfigError, Failure, TierConfig};

use crate::core::{Local, TierHost, lock};
use crate::error::{VolumeError, VolumeErrorKind};
use crate::health::Route;

const RESIZE: &str = "resize the tier on";

/// The size of a tier's queue, and how far a resize is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResizeProgress {
    /// Bytes of flash that the tier uses, its metadata included.
    pub bytes: u64,
    /// Bytes up to which it can grow.
    pub bytes_max: u64,
    /// Frames of the queue.
    pub frames: u64,
    /// What was asked for; `None` if no resize is under way.
    pub wanted: Option<ResizeWanted>,
}

/// A resize under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResizeWanted {
    /// Bytes of flash that the tier will use.
    pub bytes: u64,
    /// Frames that the queue will have.
    pub frames: u64,
    /// Frames that are still to be written before it takes effect, at least.
    pub frames_to_go: u64,
}

/// Bytes of flash before the first frame.
fn overhead(host: &TierHost) -> u64 {
    let geometry = host.tier.geometry();
    geometry.flash_bytes() - geometry.frames_max() * geometry.page_size() as u64
}

fn bytes_of(host: &TierHost, frames: u64) -> u64 {
    overhead(host) + frames * host.page_size() as u64
}

/// Fewest frames that the tier can have with its other parameters.
fn frames_min(host: &TierHost) -> u64 {
    let geometry = host.tier.geometry();
    let works = |frames| TierConfig { frames, ..geometry.config().clone() }.geometry().is_ok();
    let (mut low, mut high) = (1, geometry.frames_max());
    while low < high {
        let middle = low + (high - low) / 2;
        if works(middle) { high = middle } else { low = middle + 1 }
    }
    low
}

pub(crate) fn progress(host: &TierHost) -> ResizeProgress {
    let wanted = host.tier.resize_progress();
    ResizeProgress {
        bytes: bytes_of(host, host.tier.frames()),
        bytes_max: host.tier.geometry().flash_bytes(),
        frames: host.tier.frames(),
        wanted: wanted.map(|(frames, frames_to_go)| ResizeWanted {
            bytes: bytes_of(host, frames),
            frames,
            frames_to_go,
        }),
    }
}

impl Local {
    /// See [`crate::Volume::resize`].
    pub(crate) fn resize(&self, bytes: u64) -> Result<ResizeProgress, VolumeError> {
        let host = self.tier_for(RESIZE)?;
        let most = host.tier.geometry().flash_bytes();
        let least = bytes_of(&host, frames_min(&host));
        let refused = |reason: String, advice: String| {
            VolumeError::new(VolumeErrorKind::InvalidConfig, RESIZE, &host.flash_name, reason).advise(advice)
        };
        let design = host.tier.geometry().config().design;
        if design.writes_in_place() {
            let reason =
                format!("a tier of design {design} keeps its size: its pages lie where they were written");
            return Err(refused(reason, "replace it by another flash device of the size wanted".into()));
        }
        if bytes > most {
            let reason = format!("{bytes} bytes are more than the {most} that it was formatted for");
            let advice = format!("use at most {most}; to go beyond, format a tier with more room");
            return Err(refused(reason, advice));
        }
        if bytes < least {
            let reason =
                format!("{bytes} bytes are fewer than the {least} that its groups and metadata need");
            return Err(refused(reason, format!("use at least {least}")));
        }
        let frames = (bytes - overhead(&host)) / host.page_size() as u64;
        self.ensure_started()?;
        // It may have been given up just now.
        self.tier_for(RESIZE)?;
        {
            // Not while a superblock of another resize is on its way.
            let _superblock = lock(&host.superblock);
            host.tier
                .begin_resize(frames)
                .map_err(|error: ConfigError| refused(error.reason.clone(), error.advice))?;
        }
        self.signal.offer_work();
        Ok(progress(&host))
    }

    /// See [`crate::Volume::cancel_resize`].
    pub(crate) fn cancel_resize(&self) {
        if let Some(host) = self.tier_in_use() {
            let _superblock = lock(&host.superblock);
            host.tier.cancel_resize();
        }
        self.signal.made_progress();
    }

    /// The tier, for an operation that needs one.
    pub(crate) fn tier_for(&self, operation: &'static str) -> Result<Arc<TierHost>, VolumeError> {
        let host = self.host();
        let name = host.as_ref().map_or("the volume", |host| &host.flash_name);
        match (self.health.route(operation, name)?, &host) {
            (Route::Tier, Some(host)) => Ok(Arc::clone(host)),
            _ => {
                let reason = format!("there is no tier in use: {}", self.health.reason());
                Err(VolumeError::new(VolumeErrorKind::NoTier, operation, name, reason))
            }
        }
    }

    /// Writes the superblock that a resize waits for. Whoever runs jobs does it, with the disk gate held.
    pub(crate) fn write_resize(&self, host: &TierHost) {
        let mut superblock = lock(&host.superblock);
        // Somebody else may have been faster.
        if !host.tier.resize_waits() || host.tier.failure().is_some() {
            return;
        }
        let resized = host.tier.resized(&superblock);
        match host.write_superblock(&resized) {
            Ok(()) => {
                *superblock = resized;
                host.tier.finish_resize();
            }
            Err(error) => {
                // Which of the two is durable is not known, and the rear stays where both find every frame.
                let flush = error.operation() == "flush" || error.kind() == DeviceErrorKind::FlushFailed;
                let failure = if flush { Failure::FlashSync } else { Failure::FlashWrite };
                let error = VolumeError::from_device(RESIZE, &host.flash_name, error);
                lock(&host.cause).get_or_insert_with(|| error.to_string());
                host.tier.report_failure(failure);
            }
        }
    }

    /// A clean page was not taken: if that is because a resize waits, has somebody see to it.
    pub(crate) fn push_resize(&self, host: &TierHost) {
        if !host.tier.resize_waits() {
            return;
        }
        if host.workers == 0 {
            self.run_job(host);
        } else {
            self.signal.offer_work();
        }
    }
}
