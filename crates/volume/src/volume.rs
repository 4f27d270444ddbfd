//! The volume: one tier and the files whose pages it holds.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use mezzanine_device::{Device, FileDevice, OpenOptions, sleep_at_locks};
use mezzanine_engine::format::Nonce;
use mezzanine_engine::{PageId, SegmentLayout, SyncMode, TierConfig};
use mezzanine_ground::interleave::thread::{self, JoinHandle};
use mezzanine_trace::{Op, Written as Recorded};

use crate::attach::Candidate;
use crate::config::{AttachOptions, VolumeConfig};
use crate::core::{Local, lock};
use crate::error::VolumeError;
use crate::file::VolumeFile;
use crate::forget::Forgotten;
use crate::health::Mode;
use crate::open::open_tier;
use crate::pacing::WINDOW;
use crate::quiesce::dirty_pages;
use crate::registry::{OpenReport, Registry};
use crate::replace::ReplaceOptions;
use crate::resize::ResizeProgress;
use crate::sidecar::{PathSidecar, SidecarStore};
use crate::statistics::VolumeStatistics;

/// How well a volume is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VolumeState {
    /// The tier is in use.
    Ok,
    /// There is no tier, or it was given up, after a failure or near the end of a number: reads and writes go
    /// to the disk alone, which is current.
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
///
/// Dropping a volume without closing it is as safe as a crash: what was synced is kept.
pub struct Volume {
    pub(crate) local: Arc<Local>,
    workers: Vec<JoinHandle<()>>,
}

impl Volume {
    /// Opens the tier on `flash`. Nothing is written before the first change of a file, or the attachment of
    /// one that the tier does not know.
    ///
    /// # Errors
    /// `Unrecognised`, `NewerFormat`, `OlderFormat`, `Damaged`, `Truncated`, `OnlyCopy` if the sync mode or
    /// admission wanted cannot take over what the tier holds, `InvalidConfig`, or the device's failure.
    pub fn open(flash: Arc<dyn Device>, config: VolumeConfig) -> Result<Self, VolumeError> {
        Self::open_tier(flash, config.to_drain, |_| config)
    }

    /// As [`Self::open`], with what `choose` makes of the configuration that the tier was used with last.
    ///
    /// # Errors
    /// As of [`Self::open`].
    pub fn open_as_found(
        flash: Arc<dyn Device>,
        choose: impl FnOnce(&TierConfig) -> VolumeConfig,
    ) -> Result<Self, VolumeError> {
        Self::open_tier(flash, false, choose)
    }

    fn open_tier(
        flash: Arc<dyn Device>,
        to_drain: bool,
        choose: impl FnOnce(&TierConfig) -> VolumeConfig,
    ) -> Result<Self, VolumeError> {
        sleep_at_locks();
        let (host, opened) = open_tier(flash, to_drain, choose, None)?;
        let workers = host.workers;
        let registry = Registry { tier: Some(opened), next_number: 1 };
        let local = Arc::new(Local::new(Some(host), Mode::Normal, "", registry));
        let mut volume = Self { local, workers: Vec::new() };
        for number in 0..workers {
            let local = Arc::clone(&volume.local);
            let work = move || {
                // Looked up for each job: the flash device may be replaced between two.
                let run = || local.host().is_some_and(|host| local.run_job(&host));
                local.signal.work_until_stopped(WINDOW, run);
            };
            let thread = thread::spawn(format!("mezzanine-{number}"), work);
            volume.workers.push(
                thread.map_err(|error| VolumeError::from_io("start a worker of", "the volume", error))?,
            );
        }
        Ok(volume)
    }

    /// A volume that has no tier at all: every read and write goes to the backing devices.
    pub fn without_tier() -> Self {
        let reason = "the volume was opened without a tier";
        let registry = Registry { tier: None, next_number: 1 };
        Self { local: Arc::new(Local::new(None, Mode::Bypass, reason, registry)), workers: Vec::new() }
    }

    /// Adds a file to the volume, or takes it up again after a restart. `path` names it in messages.
    ///
    /// # Errors
    /// `AlreadyAttached`, `TooManyFiles`, and the refusals of identity: `ForeignTier`, `OlderTier`,
    /// `NewerTier`, `ChangedFile`, `SidecarMissing`, `FileNotAttached`, `OnlyCopy`, `Damaged`,
    /// `NewerFormat`, `OlderFormat`, each with the next step; nothing was changed then.
    pub fn attach(
        &self,
        path: &Path,
        backing: Arc<dyn Device>,
        sidecar: Arc<dyn SidecarStore>,
        options: AttachOptions,
    ) -> Result<VolumeFile, VolumeError> {
        let page_size = self.local.host().map_or(4096, |host| host.page_size() as u32);
        let candidate = Candidate::new(path, backing, sidecar, options, page_size)?;
        let file = self.local.attach(candidate)?;
        Ok(VolumeFile::new(file, Arc::clone(&self.local)))
    }

    /// Opens the file at `path`, created if it is missing and locked against other processes, and attaches it
    /// with its sidecar beside it.
    ///
    /// # Errors
    /// As [`Self::attach`], and `Busy` if another process has the file open so.
    pub fn attach_path(&self, path: &Path, options: AttachOptions) -> Result<VolumeFile, VolumeError> {
        let open = OpenOptions { exclusive_lock: true, ..OpenOptions::read_write_create() };
        let failed = |error| VolumeError::from_device("attach", path.display().to_string(), error);
        let backing = FileDevice::open(path, &open).map_err(failed)?;
        let sidecar = PathSidecar::of_device(&backing)
            .map_err(|error| VolumeError::from_io("attach", path.display().to_string(), error))?;
        self.attach(path, Arc::new(backing), Arc::new(sidecar), options)
    }

    /// The attached file of that path.
    pub fn file(&self, path: &Path) -> Option<VolumeFile> {
        let found = self.local.all_files().into_iter().find(|file| file.path == path);
        found.map(|file| VolumeFile::new(file, Arc::clone(&self.local)))
    }

    /// Paths, as far as the tier remembers them, of files that may have newer pages there than on disk and
    /// are not attached. Until they are, no file of the volume can be changed.
    pub fn unattached(&self) -> Vec<PathBuf> {
        self.unattached_files().into_iter().map(|(_, path)| path).collect()
    }

    /// As [`Self::unattached`], with the numbers that the tier has for these files.
    pub fn unattached_files(&self) -> Vec<(u32, PathBuf)> {
        let registry = lock(&self.local.registry);
        let (Some(host), Some(opened)) = (self.local.host(), &registry.tier) else { return Vec::new() };
        let missing = self.local.missing_files(&host).into_iter();
        missing.filter_map(|number| Some((number, opened.path_table.paths.get(&number)?.clone()))).collect()
    }

    /// The number that the tier has for the file with this sidecar; `None` if the sidecar is another tier's.
    pub fn number_of(&self, sidecar: &crate::Sidecar) -> Option<u32> {
        let host = self.local.host()?;
        (sidecar.tier_uuid == host.tier.uuid()).then_some(sidecar.file)
    }

    /// Goes on without files that the tier waits for ([`Self::unattached`]) and that are gone for good, by
    /// the paths under which they were used with it. What flash alone had of them is lost, and when this
    /// returns that is durable. All others have to be attached.
    ///
    /// # Errors
    /// `FileNotAttached`: the tier waits for no such file, or for others as well, and nothing was changed;
    /// `NoTier`; the failure.
    pub fn forget(&self, paths: &[PathBuf]) -> Result<Vec<Forgotten>, VolumeError> {
        self.local.forget_files(paths)
    }

    /// Carries out one job of the tier in the calling thread. Returns whether there was one.
    pub fn step(&self) -> bool {
        self.local.host().is_some_and(|host| self.local.run_job(&host))
    }

    /// Has this opening of the tier start now, rather than with the first change: what must be durable before
    /// a change is so when this returns, and [`Self::nonce`] names it on flash and in the sidecars of
    /// attached files. For a host that puts the nonce down elsewhere.
    ///
    /// # Errors
    /// As for a write of a file, and nothing was changed.
    pub fn begin(&self) -> Result<(), VolumeError> {
        self.local.ensure_started()
    }

    /// Writes every page that is newer than its disk copy to disk and syncs; the tier stays in use. Writers
    /// wait meanwhile.
    ///
    /// # Errors
    /// The failure of a read or write; the volume is read-only then, and the tier still holds what was not
    /// written.
    pub fn drain(&self) -> Result<(), VolumeError> {
        self.drain_while(|_, _| true).map(drop)
    }

    /// As [`Self::drain`], as long as `go_on` says so, which is told after every few hundred pages how many
    /// were written, and of how many. Returns whether all were; if not, those that were are no longer newer
    /// than their disk copies, and the tier has the others as before.
    ///
    /// # Errors
    /// As [`Self::drain`].
    pub fn drain_while(&self, go_on: impl FnMut(u64, u64) -> bool) -> Result<bool, VolumeError> {
        let complete = self.local.drain(go_on)?;
        if complete {
            self.local.recording.mark(Op::Checkpoint, None);
        }
        Ok(complete)
    }

    /// Records from now on every page that is read or written through the volume, every sync, and every
    /// drain, as a trace in Mezzanine's format at `path`. It has that name when [`Self::stop_recording`]
    /// has returned, or when the volume and all handles of its files are gone; a process that ends before
    /// leaves it under the name of `mezzanine_trace::Writer::unfinished`, without what happened in about
    /// the last second.
    ///
    /// Reads are what the program asks for; a page that is written in part is a write of it. A sync is a
    /// commit, unless it was called as [`VolumeFile::checkpoint`], and one that found nothing to make
    /// durable is none; a drain is a checkpoint.
    ///
    /// # Errors
    /// `Busy` if the volume is recorded already; `InvalidConfig` if there is a file of that name; `Io`. If
    /// the trace cannot be written later on, recording ends, and [`Self::stop_recording`] returns the
    /// reason; readers and writers go on.
    pub fn record(&self, path: &Path) -> Result<(), VolumeError> {
        self.local.record(path)
    }

    /// Completes the trace that is being recorded; `None` if there is none.
    ///
    /// # Errors
    /// `NothingRecorded`: then there is no file. Or the failure that has ended the recording; what was
    /// written before it stays, and the message names it.
    pub fn stop_recording(&self) -> Result<Option<Recorded>, VolumeError> {
        self.local.stop_recording()
    }

    /// The trace that is being recorded.
    pub fn recorded_to(&self) -> Option<PathBuf> {
        self.local.recorded_to()
    }

    /// Asks for a queue that takes `bytes` bytes of flash, its metadata included, and returns at once. It is
    /// shortened or extended when it next comes to its end, which may take one revolution: pages that come in
    /// move it on, and [`Self::resize_progress`] tells how far it is. Readers and writers go on; what no
    /// longer fits goes to disk as always. A crash or a closing before then forgets the request.
    ///
    /// # Errors
    /// `InvalidConfig` if the size is less than the tier's parameters need, or more than it was formatted
    /// for; `ReadOnly` and `Closed`; `NoTier`.
    pub fn resize(&self, bytes: u64) -> Result<ResizeProgress, VolumeError> {
        self.local.resize(bytes)
    }

    /// The size of the queue, and what is left to do of a resize; `None` without a tier.
    pub fn resize_progress(&self) -> Option<ResizeProgress> {
        self.local.tier_in_use().map(|host| crate::resize::progress(&host))
    }

    /// Forgets a resize that has not taken effect yet.
    pub fn cancel_resize(&self) {
        self.local.cancel_resize();
    }

    /// Goes on in another sync mode. Readers notice nothing; writers wait while what the tier alone holds
    /// goes to disk. Where the next opening asks for another mode, it is switched again.
    ///
    /// # Errors
    /// `InvalidConfig` for `drained`, `FileNotAttached`, `NoTier`. After a failure of a device the volume is
    /// read-only.
    pub fn set_sync_mode(&self, mode: SyncMode) -> Result<(), VolumeError> {
        self.local.set_sync_mode(mode)
    }

    /// The sync mode now; `None` without a tier.
    pub fn sync_mode(&self) -> Option<SyncMode> {
        self.local.tier_in_use().map(|host| host.tier.sync_mode())
    }

    /// Writes every page that the tier alone holds to disk, and takes no more: pages that it has are read
    /// from it until they change, and changes go to disk alone. A `sync` then makes them durable there.
    /// Readers go on meanwhile, writers wait. Lasts until [`Self::resume_admission`] or the next opening.
    ///
    /// # Errors
    /// `FileNotAttached`, `NoTier`. After a failure of a device the volume is read-only.
    pub fn stop_admission(&self) -> Result<(), VolumeError> {
        self.local.set_admission(false)
    }

    /// Takes pages again.
    ///
    /// # Errors
    /// As [`Self::stop_admission`].
    pub fn resume_admission(&self) -> Result<(), VolumeError> {
        self.local.set_admission(true)
    }

    /// Whether the tier takes pages; `None` without a tier.
    pub fn takes_pages(&self) -> Option<bool> {
        self.local.tier_in_use().map(|host| host.shared.service.admits())
    }

    /// Goes on with an empty tier on another flash device, while all files stay attached: one that has
    /// failed, or that is wanted elsewhere, is given back. What the old tier alone holds goes to disk
    /// first. Readers go on, and each file's wait once, for reads of it that are under way; writers and
    /// syncs wait until it is done. A resize that was asked for is forgotten, and stopped admission is
    /// resumed. Until the old tier is left there is memory for both.
    ///
    /// A tier that was given up after a failure ([`VolumeState::Bypass`]) is replaced as well, and the volume
    /// is in order then. Requests to the old device that hang are not waited for, but those of a read.
    ///
    /// After a crash or a failure on the way the files are opened with the old device or the new one: the
    /// error of the wrong one names the other, and it has changed nothing that this one needs. Once this has
    /// returned the old tier counts for nothing, whatever it holds, and is refused by every file.
    ///
    /// # Errors
    /// Nothing has changed after: `Unrecognised`, `OnlyCopy` and `Damaged` for what the new device holds,
    /// unless [`ReplaceOptions::force`], `Truncated` if it is too small, or its failure; `Busy` if it
    /// holds the tier in use; `InvalidConfig`, also for another page size; `TooManyFiles`,
    /// `FileNotAttached`; `NoTier` if the volume never had one; `Closed`.
    ///
    /// `OnlyCopy` and `ReadOnly` if the volume is read-only: what is durable, and where, is no longer known
    /// then, and the message says what the old device may hold alone.
    ///
    /// Nothing has changed either if a page is lost (`LostPage`), or the old device answers nothing just now,
    /// or the new one fails. If the disk does not take the old tier's pages, the volume is read-only
    /// afterwards. If the sidecars cannot be written, it goes on without a tier, and this may be called
    /// again.
    pub fn replace_flash(&self, flash: Arc<dyn Device>, options: &ReplaceOptions) -> Result<(), VolumeError> {
        self.local.replace_flash(flash, options)
    }

    /// The parameters of the tier as they are now, for a tier like it; also of one that was given up. `None`
    /// if there never was one.
    pub fn tier_config(&self) -> Option<TierConfig> {
        self.local.host().map(|host| TierConfig {
            sync_mode: host.tier.sync_mode(),
            frames: host.tier.frames(),
            segments: SegmentLayout::default(),
            ..host.tier.geometry().config().clone()
        })
    }

    /// Makes everything durable, marks the tier closed and refuses further use. The tier keeps its pages for
    /// the next opening. Changes and syncs that are under way come to their end first; those that come
    /// later are refused, and nothing is written once this has returned.
    ///
    /// # Errors
    /// The failure of the last sync; the volume is closed all the same, as if it had crashed.
    pub fn close(&self) -> Result<(), VolumeError> {
        self.local.close(false)
    }

    /// As [`Self::close`], with everything written to disk first, so that the files can be used without the
    /// tier: their sidecars are removed, and the tier is left empty.
    ///
    /// # Errors
    /// As [`Self::drain`] and [`Self::close`]. With `LostPage` everything else is on disk, and the tier is
    /// closed as by [`Self::close`]: its files still need it.
    pub fn close_drained(&self) -> Result<(), VolumeError> {
        self.local.close(true)
    }

    /// What names this opening of the tier, and no other one of it or of a copy; also on another flash device
    /// that has taken its place. A host may put it down beside what belongs to the opening alone, such as
    /// a log. `None` without a tier.
    pub fn nonce(&self) -> Option<Nonce> {
        self.local.host().map(|host| host.nonce)
    }

    /// How well the volume is.
    pub fn state(&self) -> VolumeState {
        let reason = self.local.health.reason();
        match self.local.health.mode() {
            Mode::Normal | Mode::Quiescing => VolumeState::Ok,
            Mode::Bypass => VolumeState::Bypass { reason },
            Mode::ReadOnly | Mode::Closed => VolumeState::ReadOnly { reason },
        }
    }

    /// What the volume has done so far. The tier's own counters begin anew when its flash device is replaced.
    pub fn statistics(&self) -> VolumeStatistics {
        let lost = self.local.tier_in_use().map_or(0, |host| host.tier.lost().len() as u64);
        self.local.counters().snapshot(self.local.host().as_ref().map(|host| &host.tier), lost)
    }

    /// Pages that only flash has and that stage-out could not read: file and byte offset of each. Reads of
    /// them fail until they are written anew as a whole, cut off, discarded or given up
    /// ([`VolumeFile::give_up`]), and until then their files are not current on disk.
    pub fn lost_pages(&self) -> Vec<(PathBuf, u64)> {
        let Some(host) = self.local.tier_in_use() else { return Vec::new() };
        let size = host.page_size() as u64;
        let of = |id: PageId| {
            Some((self.local.file(id.file() as u32)?.path.clone(), id.block().saturating_mul(size)))
        };
        host.tier.lost().into_iter().filter_map(of).collect()
    }

    /// Pages that flash or memory alone has in their newest version, for people: others come and go while
    /// they are counted, which takes a look at each frame.
    pub fn newer_than_disk(&self) -> u64 {
        self.local.tier_in_use().map_or(0, |host| dirty_pages(&host))
    }

    /// How much of the last fraction of a second the disks were busy with what readers and writers waited
    /// for, in thousandths. The tier writes pages to disk ahead of need while they are idle. `None`
    /// without workers: it is not measured then.
    pub fn disk_utilisation(&self) -> Option<u32> {
        self.local.pacing.permille()
    }

    /// Tells a volume without workers, which does not measure it, how busy the disks are, in thousandths of
    /// their time. Until then they count as fully busy, and the tier writes nothing ahead of need.
    pub fn set_disk_utilisation(&self, permille: u32) {
        if let Some(host) = self.local.tier_in_use().filter(|_| self.workers.is_empty()) {
            host.tier.set_disk_utilisation(permille);
        }
    }

    /// What opening the tier found; `None` without a tier.
    pub fn report(&self) -> Option<OpenReport> {
        lock(&self.local.registry).tier.as_ref().map(|opened| opened.report.clone())
    }

    /// Checks the whole structure of the tier, for tests: nothing else may use the volume meanwhile.
    ///
    /// # Panics
    /// If a rule does not hold.
    pub fn check(&self) {
        if let Some(host) = self.local.host() {
            host.tier.check();
        }
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        self.local.signal.stop();
        for worker in self.workers.drain(..) {
            // A worker that panicked has said so on standard error already.
            let _ = worker.join();
        }
    }
}
