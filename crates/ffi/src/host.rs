//! One process's view of the tier: the inherited flash device, the region, and the callbacks into the server.

use std::error::Error;
use std::io::ErrorKind;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, OnceLock};

use mezzanine_device::zones::write_pointer;
use mezzanine_device::{
    Device, DeviceError, DeviceErrorKind, FileDevice, IoEngine, NullDevice, OpenOptions, Request,
    prefer_huge_pages, sleep_at_locks,
};
use mezzanine_engine::format::{
    FormatError, Superblock, SuperblockError, TierState, read_superblock, write_superblock,
};
use mezzanine_engine::planted::{self, Bug};
use mezzanine_engine::{
    AttachError, Blank, Failure, Geometry, LastingMemory, LogPosition, PageId, REGION_ALIGNMENT, ReadError,
    ReadFlash, Region, Tier, TierConfig, WriteFlash,
};

use crate::expendable::provably_clean;
use crate::marker::{DataDirectory, Marker, MarkerStore};
use crate::message::Refusal;
use crate::modelled::FlashModel;
use crate::read_ahead::ReadAhead;
use crate::settings::Settings;

/// What the flash device is doing for a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlashIo {
    /// A page is read, or what stage-out looks at.
    Read,
    /// A group or metadata is written.
    Write,
    /// What was written is made durable.
    Sync,
}

/// What a read of a page's place on disk has brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskRead {
    /// What is there.
    There,
    /// The relation does not reach so far.
    Nothing,
    /// An error: what is there is not known.
    Failed,
}

/// What only the server can do for the tier.
pub trait Server: Send + Sync {
    /// Writes pages to their places on disk, in the order given. The tier syncs them later, by
    /// [`Server::sync_pages`]. Returns those that could not be written, as a missing file or a full file
    /// system has it; they are tried again later. The reason was logged.
    fn write_pages(&self, pages: &[(PageId, &[u8])]) -> Vec<PageId>;

    /// Reads what disk has in the place of a page. The next [`Server::sync_pages`] makes it durable as if it
    /// had been written.
    fn read_page(&self, id: &PageId, page: &mut [u8]) -> DiskRead;

    /// Makes durable whatever [`Server::write_pages`] has written, in any process.
    fn sync_pages(&self) -> bool;

    /// Whether this process may carry out jobs now. If not, it waits for others to.
    fn may_work(&self) -> bool;

    /// Whether an error of this process would end the server, as it does in redo: then it is spared one that
    /// others get.
    fn error_ends_server(&self) -> bool {
        false
    }

    /// Waits until [`Server::progressed`] is called in any process, or some milliseconds; returns at once if
    /// the tier's progress is no longer `seen`.
    fn wait(&self, seen: u64);

    /// Wakes those that wait, and background workers that have nothing to do.
    fn progressed(&self);

    /// Keeps servers that know nothing of the tier away from the data directory, or lets them in again;
    /// durably.
    ///
    /// # Errors
    /// If the control file cannot be written.
    fn mark_control_file(&self, dirty: bool) -> Result<(), Refusal>;

    /// How far the server's log is durable, and the timeline that it is on; in recovery: how far it was
    /// redone, the record that is redone now included. What is dropped now, is dropped by what lies before.
    fn log_position(&self) -> LogPosition;

    /// Whether the log that the server is about to redo reaches a position, on a timeline of its history.
    /// Asked before redo, of what the log itself says, and of nothing that may be said of it elsewhere but
    /// the point up to which a server must redo in any case (`minRecoveryPoint`).
    ///
    /// # Errors
    /// If the log cannot be read.
    fn log_reaches(&self, log: LogPosition) -> Result<bool, Refusal>;

    /// Keeps other processes from replacing the superblock until [`Server::unlock_superblock`]. A host of one
    /// process needs neither.
    fn lock_superblock(&self) {}

    /// Lets them again.
    fn unlock_superblock(&self) {}

    /// This process waits for the flash device from now on, until [`Server::flash_ended`].
    fn flash_begins(&self, _io: FlashIo) {}

    /// It waits no longer.
    fn flash_ended(&self, _io: FlashIo) {}

    /// Logs what the flash device said when it failed. What becomes of the tier is decided afterwards, by
    /// [`Host::give_up`].
    fn flash_failed(&self, _reason: &str) {}
}

/// The tier as a process of the server sees it.
pub struct Host {
    pub(crate) settings: Settings,
    pub(crate) geometry: Geometry,
    pub(crate) flash: Arc<dyn Device>,
    /// Where the data directory's marker is.
    pub(crate) marker: Box<dyn MarkerStore>,
    /// The device gave back no superblock when the sizes were computed.
    guessed: bool,
    locked: bool,
    /// Why there is no flash device, if nobody needs what it holds.
    pub(crate) absent: Option<Refusal>,
    flash_model: Option<FlashModel>,
    pub(crate) server: Box<dyn Server>,
    memory: Option<Memory>,
    tier: OnceLock<Tier>,
    /// What this process reads ahead.
    pub(crate) ahead: Mutex<ReadAhead>,
}

/// The memory that the server has given.
struct Memory {
    bytes: Bytes,
    /// Nobody has written to it before the server gave it.
    fresh: bool,
}

enum Bytes {
    Raw { base: NonNull<u8>, bytes: usize },
    Lasting(LastingMemory),
}

// SAFETY: the memory is shared by processes and only ever made a region, which is Send and Sync itself.
unsafe impl Send for Host {}
// SAFETY: as for Send.
unsafe impl Sync for Host {}

/// A flash device for the engine's reads and writes outside of jobs.
pub(crate) struct Flash<'d>(pub(crate) &'d dyn Device);

impl ReadFlash for Flash<'_> {
    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> Result<(), ReadError> {
        self.0.read_at_or_zero(bytes, offset).map(|_| ()).map_err(|error| ReadError(error.to_string()))
    }

    /// What fails is asked for by itself: behind the end of the device there are zeros.
    fn read_many(&mut self, reads: &mut [(u64, Vec<u8>)]) -> Vec<Result<(), ReadError>> {
        let mut requests: Vec<Request<'_>> =
            reads.iter_mut().map(|(offset, buf)| Request::Read { offset: *offset, buf }).collect();
        let results = self.0.run(&mut requests);
        let again = |((offset, bytes), result): (&mut (u64, Vec<u8>), Result<(), DeviceError>)| {
            result.or_else(|_| self.read(*offset, bytes))
        };
        reads.iter_mut().zip(results).map(again).collect()
    }

    fn write_pointer(&mut self, offset: u64) -> Option<u64> {
        write_pointer(self.0, offset)
    }
}

impl WriteFlash for Flash<'_> {
    type Error = DeviceError;

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.0.write_at(bytes, offset)
    }

    fn flush(&mut self) -> Result<(), DeviceError> {
        self.0.flush()
    }
}

/// While it lives no other process replaces the superblock.
pub(crate) struct SuperblockLock<'h>(&'h dyn Server);

impl Drop for SuperblockLock<'_> {
    fn drop(&mut self) {
        self.0.unlock_superblock();
    }
}

impl Host {
    pub(crate) fn lock_superblock(&self) -> SuperblockLock<'_> {
        self.server.lock_superblock();
        SuperblockLock(&*self.server)
    }

    /// Opens the flash device, creating the file if there is none, and computes what memory the tier needs.
    /// Another server may be using it: nothing is written before [`Self::lock_device`]. A device that is not
    /// where the data directory's tier was, and that nobody needs by the marker, is refused by
    /// [`Self::start`] only, which knows whether the server can do without.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub fn open(
        settings: Settings,
        model: Option<FlashModel>,
        server: Box<dyn Server>,
    ) -> Result<Self, Refusal> {
        let marker = DataDirectory(settings.data_directory.clone());
        let (flash, (geometry, guessed), absent) = match find_flash(&settings) {
            Ok(file) => {
                let shape = shape(&file, &settings)?;
                (attached(model.as_ref(), file), shape, None)
            }
            Err(refusal) => {
                let refusal = unless_dispensable(refusal, &settings, &marker)?;
                // What is never asked for anything.
                let nothing: Arc<dyn Device> = Arc::new(NullDevice { len: 0 });
                (nothing, (shape_of(None, &settings)?, true), Some(refusal))
            }
        };
        Ok(Self {
            geometry,
            guessed,
            flash,
            marker: Box::new(marker),
            settings,
            locked: absent.is_some(),
            absent,
            flash_model: model,
            server,
            memory: None,
            tier: OnceLock::new(),
            ahead: Mutex::default(),
        })
    }

    /// A host on a flash device that is open and nobody else's, with the marker wherever the caller keeps it.
    /// Paths in the settings are only shown.
    ///
    /// # Errors
    /// If the settings make no tier.
    pub fn on_device(
        settings: Settings,
        flash: Arc<dyn Device>,
        marker: Box<dyn MarkerStore>,
        server: Box<dyn Server>,
    ) -> Result<Self, Refusal> {
        let (geometry, guessed) = shape(&*flash, &settings)?;
        Ok(Self {
            settings,
            geometry,
            guessed,
            flash,
            marker,
            locked: true,
            absent: None,
            flash_model: None,
            server,
            memory: None,
            tier: OnceLock::new(),
            ahead: Mutex::default(),
        })
    }

    /// Locks the flash device for this process and its children, unless it has. The server does that when it
    /// has its other locks, so that whatever keeps it from starting beside another one is said in the
    /// words that people know.
    ///
    /// # Errors
    /// If another server uses it, or has changed it since it was opened.
    pub fn lock_device(&mut self) -> Result<(), Refusal> {
        if self.locked {
            return Ok(());
        }
        let file = open_flash(&self.settings.flash_path, true)?;
        if shape(&file, &self.settings)?.0.config() != self.geometry.config() {
            return Err(Refusal::new(format!(
                "the flash tier on \"{}\" was changed while the server started",
                self.flash_path().display()
            ))
            .hint("Start the server again."));
        }
        self.flash = attached(self.flash_model.as_ref(), file);
        self.locked = true;
        Ok(())
    }

    pub(crate) fn is_locked(&self) -> bool {
        self.locked
    }

    /// Whether the sizes that memory was computed for are those of the tier that was found since. A queue
    /// that has grown or shrunk within its room has the same.
    pub(crate) fn fits(&self, found: &Superblock) -> Result<bool, Refusal> {
        let sizes =
            |geometry: &Geometry| (geometry.region_bytes(), geometry.flash_bytes(), geometry.frames_max());
        Ok(!self.guessed || sizes(&shape_of(Some(found), &self.settings)?) == sizes(&self.geometry))
    }

    /// Bytes of shared memory that [`Self::use_memory`] needs.
    pub fn memory_bytes(&self) -> usize {
        self.geometry.region_bytes() + REGION_ALIGNMENT
    }

    /// Gives the tier its memory, at the same address in this process and its children. `fresh` says that it
    /// is as the system gave it, zeroed, and that nobody has written to it: then [`Self::start`] need not
    /// wipe it. Memory in which a tier was before is not fresh, as after a crash that the server's shared
    /// memory has survived. The kernel is asked for huge pages, for forked children as well.
    ///
    /// # Safety
    /// The memory is initialised, stays valid and is used by nothing else while a process uses this host.
    ///
    /// # Panics
    /// If it is smaller than [`Self::memory_bytes`].
    pub unsafe fn use_memory(&mut self, base: NonNull<u8>, bytes: usize, fresh: bool) {
        assert!(bytes >= self.memory_bytes(), "the memory given is smaller than what was asked for");
        let skipped = base.align_offset(REGION_ALIGNMENT);
        // SAFETY: less than REGION_ALIGNMENT bytes are skipped, and memory_bytes counts so many more than the
        // region needs.
        let aligned = unsafe { base.add(skipped) };
        prefer_huge_pages(NonNull::slice_from_raw_parts(aligned, bytes - skipped));
        self.memory = Some(Memory { bytes: Bytes::Raw { base: aligned, bytes: bytes - skipped }, fresh });
        self.tier = OnceLock::new();
    }

    /// The same with memory of this process alone, which simulated processes share.
    ///
    /// # Panics
    /// If it is smaller than [`Self::memory_bytes`].
    pub fn use_lasting_memory(&mut self, memory: &LastingMemory, fresh: bool) {
        assert!(memory.bytes() >= self.memory_bytes(), "the memory given is smaller than what was asked for");
        self.memory = Some(Memory { bytes: Bytes::Lasting(memory.clone()), fresh });
        self.tier = OnceLock::new();
    }

    fn memory(&self) -> Result<&Memory, Refusal> {
        self.memory.as_ref().ok_or_else(|| Refusal::new("the tier was given no memory"))
    }

    /// The region that the memory given makes. Only for setting up or attaching the one tier of this process.
    fn region(&self) -> Result<Region, Refusal> {
        Ok(match &self.memory()?.bytes {
            // SAFETY: aligned by `use_memory`, whose caller keeps it valid; processes share it by the
            // region's own rules.
            Bytes::Raw { base, bytes } => unsafe { Region::from_raw(*base, *bytes) },
            Bytes::Lasting(memory) => memory.region(),
        })
    }

    /// The memory given, blank: for each attempt to recover the tier. Nothing of a tier that was there before
    /// can be joined any more.
    pub(crate) fn blank(&self) -> Result<Blank, Refusal> {
        let region = self.region()?;
        Ok(if self.memory()?.fresh { Blank::fresh(region) } else { Blank::wiped(region) })
    }

    pub(crate) fn set_tier(&self, tier: Tier) {
        tier.keep_room_for_refused();
        assert!(self.tier.set(tier).is_ok(), "a process recovers the tier once");
    }

    /// The tier, which this process has recovered or attached.
    ///
    /// # Panics
    /// If it has done neither.
    pub fn tier(&self) -> &Tier {
        self.tier.get().expect("the tier is attached before it is used")
    }

    /// Whether this process has recovered or attached the tier.
    pub fn is_attached(&self) -> bool {
        self.tier.get().is_some()
    }

    /// Joins the tier that another process of the server has recovered. `owner` is this process's own number.
    ///
    /// # Errors
    /// If nobody has recovered it, or a process has died while it changed it.
    pub fn attach(&self, owner: u32) -> Result<(), Refusal> {
        if self.is_attached() {
            return Ok(());
        }
        // Other processes of the server have the device from the same parent, and would share the reports of
        // their flushes. A device that has gone is noticed by whoever needs it, and then given up: most
        // processes never flush it.
        if !planted::is(Bug::FlushesShared) {
            let _ = self.flash.flush_apart();
        }
        sleep_at_locks();
        let tier = Tier::attach(self.region()?, owner).map_err(|error| match error {
            AttachError::Poisoned => Refusal::new("a process died while it changed the flash tier")
                .hint("The server restarts and rebuilds the tier from flash."),
            other => Refusal::new(format!("the flash tier cannot be used: {other}")),
        })?;
        self.set_tier(tier);
        Ok(())
    }

    /// The flash device's path.
    pub fn flash_path(&self) -> &Path {
        &self.settings.flash_path
    }

    /// The modelled drive under the tier, if it is on one.
    pub fn flash_model(&self) -> Option<&FlashModel> {
        self.flash_model.as_ref()
    }

    /// The sizes of the tier.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Whether the tier never holds the only copy of a page.
    pub fn is_provably_clean(&self) -> bool {
        let tier = self.tier();
        provably_clean(&TierConfig { sync_mode: tier.sync_mode(), ..tier.geometry().config().clone() })
    }

    /// Makes a superblock durable and the one in force. In a tier that is in use, a failure counts as one of
    /// a job.
    pub(crate) fn put_superblock(&self, superblock: &Superblock) -> Result<(), Refusal> {
        write_superblock(&mut Flash(&*self.flash), superblock).map_err(|error| {
            let (synced, error) = match error {
                SuperblockError::Unreadable(error) => (false, format!("neither copy can be read: {error}")),
                SuperblockError::Failed(error) => (error.operation() == "flush", error.to_string()),
            };
            if let Some(tier) = self.tier.get() {
                tier.report_failure(if synced { Failure::FlashSync } else { Failure::FlashWrite });
            }
            Refusal::new(format!("the superblock of the flash tier cannot be written: {error}"))
                .hint("Check the flash device and the kernel's log.")
                .of_failed_device()
        })
    }
}

/// Whether a tier that holds nothing of value is better made anew with the sizes that are configured now.
pub(crate) fn reshapes(found: &Superblock, settings: &Settings) -> bool {
    let expendable = found.state == TierState::Drained || provably_clean(&found.config);
    expendable && !settings.accepts_shape(&found.config)
}

/// The shape that the tier on this device will have, and whether there was none to be seen: a device that
/// answers nothing just now may have another one.
fn shape(flash: &dyn Device, settings: &Settings) -> Result<(Geometry, bool), Refusal> {
    refuse_zones(flash, &settings.flash_path)?;
    let found = read_superblock(&mut Flash(flash)).ok();
    Ok((shape_of(found.as_ref(), settings)?, found.is_none()))
}

/// The shape that a tier will have where this one was found.
fn shape_of(found: Option<&Superblock>, settings: &Settings) -> Result<Geometry, Refusal> {
    let wanted = settings.tier_config()?;
    let config = match found {
        // The shape of a tier that may still be needed is that on flash.
        Some(found) if found.config.page_size == settings.page_bytes && !reshapes(found, settings) => {
            settings.merged(&found.config, found.state == TierState::Drained)
        }
        _ => wanted,
    };
    config.geometry().map_err(|error| Refusal::new(error.to_string()))
}

fn attached(model: Option<&FlashModel>, file: FileDevice) -> Arc<dyn Device> {
    let file: Arc<dyn Device> = Arc::new(file);
    match model {
        Some(model) => model.attach(file),
        None => file,
    }
}

fn find_flash(settings: &Settings) -> Result<FileDevice, Refusal> {
    settings.check_path()?;
    open_flash(&settings.flash_path, false)
}

/// The refusal of a flash device that is not there, if the data directory says that its tier was there and
/// that nobody needs it: a start may do without. A path that no tier of it was at is a slip of the pen.
fn unless_dispensable(
    refusal: Refusal,
    settings: &Settings,
    store: &dyn MarkerStore,
) -> Result<Refusal, Refusal> {
    let marker = Marker::read(store).ok().flatten();
    match marker.filter(|marker| refusal.device_absent && marker.flash_path == settings.flash_path) {
        Some(marker) if marker.only_copies => {
            Err(refusal
                .detail("The data directory says that the tier there may hold the only copy of pages."))
        }
        Some(_) => Ok(refusal),
        None if refusal.device_absent && refusal.detail.is_empty() => {
            Err(refusal.detail("No tier of this data directory that can be done without was there before."))
        }
        None => Err(refusal),
    }
}

/// Whether a device cannot be opened because there is none: its node leads to nothing, or nothing is there
/// and no file can be made, as where a file system is not mounted.
fn is_absent(path: &Path, error: &DeviceError) -> bool {
    let reason = error.source().and_then(|source| source.downcast_ref::<std::io::Error>());
    let gone = reason.and_then(std::io::Error::raw_os_error);
    let nothing = std::fs::symlink_metadata(path).is_err_and(|error| error.kind() == ErrorKind::NotFound);
    let unmade = [DeviceErrorKind::NotFound, DeviceErrorKind::PermissionDenied, DeviceErrorKind::ReadOnly];
    matches!(gone, Some(libc::ENXIO | libc::ENODEV)) || nothing && unmade.contains(&error.kind())
}

fn open_flash(path: &Path, lock: bool) -> Result<FileDevice, Refusal> {
    let shown = path.display();
    refuse_open_modes(path)?;
    let options = OpenOptions {
        exclusive_lock: lock,
        no_follow: true,
        engine: IoEngine::RingOrSequential,
        ..OpenOptions::read_write_create()
    };
    FileDevice::open(path, &options).map_err(|error| {
        let refusal = Refusal::new(format!("the flash device \"{shown}\" cannot be opened"))
            .detail(&error)
            .of_absent_device(is_absent(path, &error));
        match error.kind() {
            DeviceErrorKind::Busy => refusal.hint(
                "Another server uses it. Stop that one, or give each its own device in mezzanine.flash_path.",
            ),
            DeviceErrorKind::SymbolicLink => {
                refusal.hint("Name the file or block device itself in mezzanine.flash_path.")
            }
            DeviceErrorKind::PermissionDenied => {
                refusal.hint("Make it readable and writable by the server's user, and by nobody else.")
            }
            DeviceErrorKind::ReadOnly => {
                refusal.hint("Choose a path in mezzanine.flash_path on a file system that can be written to.")
            }
            _ => {
                refusal.hint("Check the path in mezzanine.flash_path, its file system and the kernel's log.")
            }
        }
    })
}

/// Nothing here lays a server's tier out for zones. And where too few are conventional, one process alone
/// knows where the beginning of the tier lies (`two_zones`).
fn refuse_zones(flash: &dyn Device, path: &Path) -> Result<(), Refusal> {
    let Some(zones) = flash.capabilities().zones else { return Ok(()) };
    Err(Refusal::new(format!("the flash device \"{}\" has zones", path.display()))
        .detail(format!(
            "It is written in zones of {} bytes, front to back, and the processes of a server do not share what \
             each knows of them.",
            zones.zone_len
        ))
        .hint("Name a file or a block device without zones in mezzanine.flash_path."))
}

/// The pages on flash are the database: nobody else may read or change them.
fn refuse_open_modes(path: &Path) -> Result<(), Refusal> {
    use std::os::unix::fs::{FileTypeExt, MetadataExt};
    let Ok(metadata) = std::fs::symlink_metadata(path) else { return Ok(()) };
    let shown = path.display();
    let kind = metadata.file_type();
    if kind.is_symlink() {
        return Err(Refusal::new(format!("the flash device \"{shown}\" is a symbolic link"))
            .hint("Name the file or block device itself in mezzanine.flash_path."));
    }
    if kind.is_block_device() {
        return Ok(());
    }
    if !kind.is_file() {
        return Err(Refusal::new(format!(
            "the flash device \"{shown}\" is neither a file nor a block device"
        ))
        .hint("Name a file or block device in mezzanine.flash_path."));
    }
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err(Refusal::new(format!("the flash device \"{shown}\" belongs to another user"))
            .hint("Make the server's user its owner."));
    }
    if metadata.mode() & 0o077 != 0 {
        return Err(Refusal::new(format!("the flash device \"{shown}\" can be used by group or others"))
            .detail(format!("Its mode is {:04o}; it holds pages of the database.", metadata.mode() & 0o7777))
            .hint(format!("Run chmod 600 \"{shown}\".")));
    }
    Ok(())
}

/// What is wrong with a superblock, in words for a person.
pub(crate) fn describe(error: &FormatError) -> String {
    error.to_string()
}
