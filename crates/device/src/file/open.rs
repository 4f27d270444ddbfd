//! Opening a file or block device: what is asked for, and every way in which it can be refused.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::kernel::{self, DirectTransfers};
use super::zoned::{self, NoZones};
use crate::fork::KeptFromChildren;
use crate::{AlignedBuf, DeviceError, DeviceErrorKind, Zones};

/// Whether the page cache of the operating system lies between us and the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DirectIo {
    /// Direct I/O, or an error where the file system refuses it.
    Always,
    /// Direct I/O where the file system has it, else through the page cache.
    #[default]
    IfPossible,
    /// Through the page cache.
    Never,
}

/// How several requests are carried out at once. A single request takes the plain system call with any of
/// them, and so does a batch with a write: io_uring is for reads. A process that is killed is there until its
/// system calls have ended, while the kernel carries out after its end what it has given to a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IoEngine {
    /// io_uring where the kernel allows it, else the thread pool.
    #[default]
    Auto,
    /// io_uring, or an error where the kernel refuses it.
    IoUring,
    /// A pool of threads with plain system calls.
    ThreadPool,
    /// One after the other on the calling thread, for processes that must start no threads and may fork.
    Sequential,
    /// For such processes too: io_uring where the kernel allows it, with a ring for each process, else one
    /// after the other. Files in memory are read and written one after the other.
    RingOrSequential,
}

/// How to open a [`FileDevice`](super::FileDevice). The default opens an existing file for reading.
#[derive(Debug, Clone, Default)]
pub struct OpenOptions {
    /// Open for writing too.
    pub write: bool,
    /// Create the file (readable and writable by its owner alone) if it does not exist.
    pub create: bool,
    /// Fail with `AlreadyExists` if there is a file already. Implies `create`.
    pub create_new: bool,
    /// Extend a shorter file to this many bytes. A longer file stays as it is.
    pub len: Option<u64>,
    /// With `len`: reserve the blocks now, so that no later write finds the file system full.
    pub preallocate: bool,
    /// Whether to bypass the page cache.
    pub direct: DirectIo,
    /// How batches are carried out.
    pub engine: IoEngine,
    /// Fail with `Busy` unless nobody else, in this process or another, has the file open with this option.
    /// A block device must not be mounted or otherwise claimed either. A child that is forked has no part in
    /// it, unless batches are [`IoEngine::Sequential`] or [`IoEngine::RingOrSequential`]: then it is the same
    /// user of the file.
    pub exclusive_lock: bool,
    /// Fail with `SymbolicLink` if the last part of the path is a symbolic link.
    pub no_follow: bool,
}

impl OpenOptions {
    /// Opens for reading and writing, creating the file if it is missing.
    #[must_use]
    pub fn read_write_create() -> Self {
        Self { write: true, create: true, ..Self::default() }
    }

    /// Opens an existing file for reading and writing.
    #[must_use]
    pub fn read_write() -> Self {
        Self { write: true, ..Self::default() }
    }
}

/// An opened file or block device.
pub(super) struct Opened {
    /// The descriptors with locks, where children are to have none of them.
    _kept: Vec<KeptFromChildren>,
    /// Past the page cache, where that was wanted and possible, with its alignment in bytes.
    pub(super) direct: Option<(File, u32)>,
    /// Length of a block device in bytes; files have theirs in their metadata.
    pub(super) block_device_len: Option<u64>,
    /// Zones of a block device that has to be written in them.
    pub(super) zones: Option<Zones>,
    /// Keeps a block device claimed.
    _claim: Option<File>,
    /// Through the page cache; also the one descriptor that is flushed, so that it sees every write error.
    /// The last to be closed: locks that it has cover the others.
    pub(super) buffered: File,
}

/// What [`open`] makes of a file that is open already.
pub(super) fn of_file(file: File, path: &Path, options: &OpenOptions) -> Result<Opened, DeviceError> {
    Opening { path, options }.prepare(file)
}

struct Opening<'a> {
    path: &'a Path,
    options: &'a OpenOptions,
}

pub(super) fn open(path: &Path, options: &OpenOptions) -> Result<Opened, DeviceError> {
    let opening = Opening { path, options };
    opening.refuse_wrong_type()?;
    let (buffered, created) = opening.open_or_create()?;
    let opened = opening.prepare(buffered);
    match &opened {
        // Leave nothing behind that the caller has not asked for, unless somebody else has taken it over
        // already.
        Err(error) if created && error.kind() != DeviceErrorKind::Busy => {
            let _ = fs::remove_file(path);
        }
        Ok(_) if created => opening.sync_directory()?,
        _ => {}
    }
    opened
}

impl Opening<'_> {
    fn error(&self, kind: DeviceErrorKind) -> DeviceError {
        DeviceError::new(kind, "open", self.path.display().to_string())
    }

    fn io_error(&self, source: io::Error) -> DeviceError {
        let error = DeviceError::from_io("open", self.path.display().to_string(), source);
        match error.kind() {
            DeviceErrorKind::NotFound if self.options.create || self.options.create_new => {
                error.advise("create its directory first")
            }
            DeviceErrorKind::NotFound => error.advise("check the path"),
            DeviceErrorKind::PermissionDenied => {
                error.advise("check owner and mode of the file and its directory")
            }
            DeviceErrorKind::ReadOnly => error.advise("the file system is mounted read-only"),
            DeviceErrorKind::AlreadyExists => error.advise("choose another path or remove the file first"),
            DeviceErrorKind::SymbolicLink => error.advise("name the file itself"),
            DeviceErrorKind::NoSpace => error.advise("free some space or ask for a shorter file"),
            _ => error,
        }
    }

    /// Refuses what is neither a file nor a block device before opening it: opening a pipe could wait for
    /// ever.
    fn refuse_wrong_type(&self) -> Result<(), DeviceError> {
        let Ok(metadata) = self.path.metadata() else { return Ok(()) };
        let kind = metadata.file_type();
        if kind.is_file() || kind.is_block_device() {
            return Ok(());
        }
        let what = if kind.is_dir() { "a directory" } else { "neither a file nor a block device" };
        Err(self
            .error(DeviceErrorKind::Unsupported)
            .advise(format!("the path names {what}; name a file in it")))
    }

    /// The open file, and whether it is this call that created it.
    fn open_or_create(&self) -> Result<(File, bool), DeviceError> {
        let may_create = self.options.write && (self.options.create || self.options.create_new);
        loop {
            if !self.options.create_new || !may_create {
                match self.open_buffered(false) {
                    Err(error) if may_create && error.kind() == io::ErrorKind::NotFound => {}
                    opened => return opened.map(|file| (file, false)).map_err(|error| self.io_error(error)),
                }
            }
            match self.open_buffered(true) {
                // Somebody created it in between; or the path is a dangling link, which is never created
                // through.
                Err(error)
                    if error.kind() == io::ErrorKind::AlreadyExists
                        && !self.options.create_new
                        && self.path.exists() => {}
                opened => return opened.map(|file| (file, true)).map_err(|error| self.io_error(error)),
            }
        }
    }

    fn open_buffered(&self, create_new: bool) -> io::Result<File> {
        let flags = if self.options.no_follow { libc::O_NOFOLLOW } else { 0 };
        let mut open = fs::OpenOptions::new();
        open.read(true).write(self.options.write).create_new(create_new).mode(0o600).custom_flags(flags);
        open.open(self.path)
    }

    /// Everything after the first open: claims, length, direct I/O.
    fn prepare(&self, buffered: File) -> Result<Opened, DeviceError> {
        let is_block_device =
            buffered.metadata().map_err(|error| self.io_error(error))?.file_type().is_block_device();
        let (mut claim, mut kept) = (None, Vec::new());
        let forks = matches!(self.options.engine, IoEngine::Sequential | IoEngine::RingOrSequential);
        let alone = !forks;
        if self.options.exclusive_lock {
            kept.extend(alone.then(|| KeptFromChildren::new(&buffered)));
            kernel::lock_exclusively(&buffered).map_err(|error| self.busy(error, &buffered))?;
            if is_block_device {
                let exclusive = self.reopen(&buffered, libc::O_EXCL);
                let exclusive =
                    exclusive.map_err(|error| self.io_error(error).advise("unmount the device first"))?;
                kept.extend(alone.then(|| KeptFromChildren::new(&exclusive)));
                claim = Some(exclusive);
            }
        }
        let zones = if is_block_device { self.zones(&buffered)? } else { None };
        let block_device_len = if is_block_device {
            let len = kernel::block_device_len(&buffered).map_err(|error| self.io_error(error))?;
            // What no whole zone covers cannot be used.
            let len = zones.map_or(len, |zones| len.min(zones.count * zones.zone_len));
            if self.options.len.is_some_and(|wanted| wanted > len) {
                let error = self.error(DeviceErrorKind::NoSpace);
                return Err(
                    error.advise(format!("the device has only {len} bytes; ask for a shorter length"))
                );
            }
            Some(len)
        } else {
            self.extend(&buffered)?;
            None
        };
        let mut direct = self.open_direct(&buffered)?;
        if zones.is_some() && self.options.write {
            direct = Some(self.direct_to_zones(direct, &buffered)?);
        }
        Ok(Opened { _kept: kept, direct, block_device_len, zones, _claim: claim, buffered })
    }

    /// The zones of a block device, unless it can be written anywhere.
    fn zones(&self, file: &File) -> Result<Option<Zones>, DeviceError> {
        zoned::zones_of(file).map_err(|error| match error {
            NoZones::Unasked(error) => self.io_error(error).advise("its zones cannot be asked for"),
            NoZones::Refused(refused) => self.error(DeviceErrorKind::Unsupported).advise(refused.to_string()),
        })
    }

    /// What zones are written through: past the page cache, which would write in an order of its own, and in
    /// blocks of the size that the drive wants there.
    fn direct_to_zones(&self, direct: Option<(File, u32)>, file: &File) -> Result<(File, u32), DeviceError> {
        let Some((direct, alignment)) = direct else {
            return Err(self.error(DeviceErrorKind::Unsupported).advise(
                "its zones are written in order, which the page cache does not do; open it for direct I/O",
            ));
        };
        Ok((direct, zoned::write_alignment(file, alignment)))
    }

    fn busy(&self, source: io::Error, file: &File) -> DeviceError {
        let error = self.io_error(source);
        if error.kind() != DeviceErrorKind::Busy {
            return error;
        }
        match lock_holder(file) {
            Some(process) => {
                error.advise(format!("process {process} has it open; stop that process or wait for it"))
            }
            None => error.advise("stop the process that has it open or wait for it"),
        }
    }

    fn extend(&self, file: &File) -> Result<(), DeviceError> {
        let (Some(wanted), true) = (self.options.len, self.options.write) else { return Ok(()) };
        let len = file.metadata().map_err(|error| self.io_error(error))?.len();
        if wanted > 0 && self.options.preallocate {
            match kernel::reserve(file, wanted) {
                Ok(()) => return Ok(()),
                Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {}
                Err(error) => {
                    // A reservation that failed halfway may have extended the file.
                    let _ = file.set_len(len);
                    return Err(self.io_error(error));
                }
            }
        }
        if wanted > len { file.set_len(wanted).map_err(|error| self.io_error(error)) } else { Ok(()) }
    }

    fn open_direct(&self, buffered: &File) -> Result<Option<(File, u32)>, DeviceError> {
        if self.options.direct == DirectIo::Never {
            return Ok(None);
        }
        let opened = self.reopen(buffered, libc::O_DIRECT).and_then(|direct| {
            let alignment = match kernel::direct_transfers(&direct) {
                DirectTransfers::None => return Ok(None),
                DirectTransfers::Aligned(alignment) => return Ok(Some((direct, alignment))),
                DirectTransfers::Untold => DIRECT_ALIGNMENT_DEFAULT,
            };
            // Of those that do not tell some take the flag and refuse the transfers.
            let mut block = AlignedBuf::zeroed(alignment as usize);
            match direct.read_at(&mut block, 0) {
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Err(error),
                _ => Ok(Some((direct, alignment))),
            }
        });
        match opened {
            Ok(Some(direct)) => Ok(Some(direct)),
            Ok(None) | Err(_) if self.options.direct == DirectIo::IfPossible => Ok(None),
            Ok(None) => Err(self.error(DeviceErrorKind::Unsupported).advise(NO_DIRECT_IO)),
            Err(error) => {
                let error = DeviceError::from_io("open", self.path.display().to_string(), error);
                Err(error.advise(NO_DIRECT_IO))
            }
        }
    }

    /// A second, independent descriptor of the file that is already open, whatever the path names by now.
    fn reopen(&self, file: &File, flags: libc::c_int) -> io::Result<File> {
        let mut open = fs::OpenOptions::new();
        open.read(true).write(self.options.write).custom_flags(flags);
        match open.open(format!("/proc/self/fd/{}", file.as_raw_fd())) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // No proc file system here: go by the path, and make sure that it still names the same file.
                let again = open.open(self.path)?;
                let (old, new) = (file.metadata()?, again.metadata()?);
                let same = (old.dev(), old.ino()) == (new.dev(), new.ino());
                if same { Ok(again) } else { Err(io::ErrorKind::NotFound.into()) }
            }
            opened => opened,
        }
    }

    /// Makes the name of a file that was just created durable.
    fn sync_directory(&self) -> Result<(), DeviceError> {
        let parent = match self.path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
            _ => PathBuf::from("."),
        };
        match File::open(&parent).and_then(|directory| directory.sync_all()) {
            // Some network and pass-through file systems have no such operation; there is nothing more to be
            // done then.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP)) => Ok(()),
            synced => {
                synced.map_err(|error| DeviceError::from_io("flush", parent.display().to_string(), error))
            }
        }
    }
}

/// Alignment that is safe for direct I/O where the kernel does not say: no block device has larger logical
/// blocks.
const DIRECT_ALIGNMENT_DEFAULT: u32 = 4096;

const NO_DIRECT_IO: &str =
    "this file system has no direct I/O; use another file system, or go through the page cache";

/// The process that holds the lock of this file, if the kernel tells: /proc/locks has lines such as
/// `1: FLOCK  ADVISORY  WRITE 4711 fe:00:132067 0 EOF`.
fn lock_holder(file: &File) -> Option<u32> {
    let inode = file.metadata().ok()?.ino().to_string();
    let locks = fs::read_to_string("/proc/locks").ok()?;
    locks.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let is_flock = words.next()? == "FLOCK";
        let process = words.nth(2)?;
        let is_ours = words.next()?.rsplit(':').next()? == inode;
        if is_flock && is_ours { process.parse().ok() } else { None }
    })
}
