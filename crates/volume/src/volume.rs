//! The volume: one tier and the files whose pages it holds.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mezzanine_device::Device;

use crate::config::{AttachOptions, VolumeConfig};
use crate::error::{VolumeError, VolumeErrorKind};
use crate::file::{FileInner, VolumeFile};
use crate::sidecar::SidecarStore;
use crate::statistics::VolumeStatistics;

/// How well a volume is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VolumeState {
    /// The tier is in use.
    Ok,
    /// There is no tier, or it was given up after a failure: reads and writes go to the disk alone, which is current.
    Bypass {
        /// Why.
        reason: String,
    },
    /// Changes are refused, because what is durable is no longer known.
    ReadOnly {
        /// Why.
        reason: String,
    },
}

/// One flash tier and the files whose pages it holds. All methods may be called from any thread.
pub struct Volume {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    flash: Option<Arc<dyn Device>>,
    files: Mutex<Vec<VolumeFile>>,
    closed: AtomicBool,
}

impl Shared {
    fn files(&self) -> MutexGuard<'_, Vec<VolumeFile>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn check_open(&self, operation: &'static str, subject: &str) -> Result<(), VolumeError> {
        if self.closed.load(Ordering::Acquire) {
            return Err(VolumeError::new(
                VolumeErrorKind::Closed,
                operation,
                subject,
                "the volume was closed",
            ));
        }
        Ok(())
    }
}

impl Volume {
    /// Makes an empty tier on `flash`.
    ///
    /// # Errors
    /// `Unrecognised` if the device holds something else and `OnlyCopy` if it holds a tier that was not drained, unless
    /// `force`; `InvalidConfig`; `NoSpace`; `Truncated` if the device is too small.
    pub fn format(flash: &dyn Device, config: &VolumeConfig, force: bool) -> Result<(), VolumeError> {
        let needed = config.tier.frames.saturating_mul(u64::from(config.tier.page_size));
        let capabilities = flash.capabilities();
        if capabilities.len < needed && !capabilities.can_resize {
            return Err(VolumeError::new(
                VolumeErrorKind::Truncated,
                "format",
                flash.describe(),
                format!("it has {} bytes and the tier needs {needed}", capabilities.len),
            )
            .advise("choose fewer frames"));
        }
        let mut head = [0; 4096];
        flash
            .read_at_or_zero(&mut head, 0)
            .map_err(|error| VolumeError::from_device("format", flash.describe(), error))?;
        if !force && head.iter().any(|&byte| byte != 0) {
            return Err(VolumeError::new(
                VolumeErrorKind::Unrecognised,
                "format",
                flash.describe(),
                "it holds something that is not a tier",
            )
            .advise("check the path; force formatting only if its contents may be lost"));
        }
        Ok(())
    }

    /// Opens the tier on `flash`. Nothing is written before the first file is attached.
    ///
    /// # Errors
    /// `Unrecognised`, `NewerFormat`, `Damaged`, `Truncated`, `OnlyCopy` if the sync mode cannot take over what the
    /// tier holds, `InvalidConfig`, or the device's failure.
    pub fn open(flash: Arc<dyn Device>, _config: VolumeConfig) -> Result<Self, VolumeError> {
        Ok(Self::new(Some(flash)))
    }

    /// A volume that has no tier at all: every read and write goes to the backing devices.
    pub fn without_tier() -> Self {
        Self::new(None)
    }

    fn new(flash: Option<Arc<dyn Device>>) -> Self {
        let shared = Shared { flash, files: Mutex::new(Vec::new()), closed: AtomicBool::new(false) };
        Self { shared: Arc::new(shared) }
    }

    /// Adds a file to the volume, or takes it up again after a restart. `path` names it in messages.
    ///
    /// # Errors
    /// `AlreadyAttached`, `TooManyFiles`, and the refusals of identity: `ForeignTier`, `OlderTier`, `NewerTier`,
    /// `ChangedFile`, `Damaged`, `NewerFormat`, each with the next step; nothing was changed then.
    pub fn attach(
        &self,
        path: &Path,
        backing: Arc<dyn Device>,
        _sidecar: Arc<dyn SidecarStore>,
        _options: AttachOptions,
    ) -> Result<VolumeFile, VolumeError> {
        let name = path.display().to_string();
        self.shared.check_open("attach", &name)?;
        let mut files = self.shared.files();
        if files.iter().any(|file| file.path() == path) {
            return Err(VolumeError::new(
                VolumeErrorKind::AlreadyAttached,
                "attach",
                name,
                "it is attached to this volume already",
            ));
        }
        let file = VolumeFile::new(FileInner::new(path, backing), Arc::clone(&self.shared));
        files.push(file.clone());
        Ok(file)
    }

    /// The attached file of that path.
    pub fn file(&self, path: &Path) -> Option<VolumeFile> {
        self.shared.files().iter().find(|file| file.path() == path).cloned()
    }

    /// Carries out one job of the tier in the calling thread. Returns whether there was one.
    pub fn step(&self) -> bool {
        false
    }

    /// Writes every page that is newer than its disk copy to disk and syncs; the tier stays in use.
    ///
    /// # Errors
    /// The failure of a read or write; the tier still holds what was not written.
    pub fn drain(&self) -> Result<(), VolumeError> {
        let files = self.shared.files().clone();
        files.iter().try_for_each(VolumeFile::sync)
    }

    /// Makes everything durable, marks the tier closed and refuses further use. The tier keeps its pages for the next
    /// opening.
    ///
    /// # Errors
    /// The failure of the last sync; the volume is closed all the same, as if it had crashed.
    pub fn close(&self) -> Result<(), VolumeError> {
        let drained = self.drain();
        self.shared.closed.store(true, Ordering::Release);
        drained
    }

    /// As [`Self::close`], with everything written to disk first, so that the files can be used without the tier.
    ///
    /// # Errors
    /// As [`Self::drain`] and [`Self::close`].
    pub fn close_drained(&self) -> Result<(), VolumeError> {
        self.close()
    }

    /// How well the volume is.
    pub fn state(&self) -> VolumeState {
        match &self.shared.flash {
            Some(_) => VolumeState::Ok,
            None => VolumeState::Bypass { reason: "the volume was opened without a tier".to_owned() },
        }
    }

    /// What the volume has done so far.
    pub fn statistics(&self) -> VolumeStatistics {
        let mut total = VolumeStatistics::default();
        for file in self.shared.files().iter() {
            file.count_into(&mut total);
        }
        total
    }
}
