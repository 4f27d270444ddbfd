//! The descriptor of a database file, and its locks, which keep every other process away.
//!
//! Rules, numbered for reference:
//! 1. A database has one descriptor in this process. The lock that keeps others out, and what is read and
//!    written, go by the same.
//! 2. POSIX locks, which an SQLite without the tier takes in this process as well, belong to the process and the
//!    file: to close *any* descriptor of it gives all of them back ("How To Corrupt An SQLite Database File",
//!    section 2.2). So a descriptor is closed only while it has our lock, beside which nobody has another. Where
//!    that cannot be had it is *parked*: it stays open, and is the descriptor of the next opening of that file.
//! 3. A file that cannot be written is locked by those who read it together. Nobody can be kept out there, so
//!    its descriptor stays parked: one for each such file that was ever opened.
//! 4. Children that are forked have no part in it.
//! 5. Who writes over a file without SQLite asks for no lock. Where nobody has the database open here, and its tier
//!    is kept by another one, that is a restore: what the tier has of the file before must not come into it, nor may
//!    what it knows of that one be read. So its first bytes, its length and the time of its last change are remembered
//!    when it is closed, and again after each change of our own; and looked at before each, and before it is used
//!    again. Of another file, and of an older copy of the same one, the first bytes alone may be the same.

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use mezzanine_device::fork::KeptFromChildren;
use mezzanine_device::{Capabilities, Device, DeviceError, FileDevice, Request};
use mezzanine_engine::planted::{self, Bug};

use crate::error::Error;
use crate::ffi;
use crate::lineage::OfProcess;
use crate::mount::Wish;

/// SQLite's own lock bytes of a database file: PENDING, RESERVED and 510 of SHARED from this offset on
/// (`os.h`).
const LOCK_BYTES: (i64, i64) = (0x4000_0000, 512);
/// For how long another one's descriptor may be on its way to be closed (rule 2).
const CLOSING: Duration = Duration::from_millis(1);
const ATTEMPTS: u32 = 3;

/// A file, whatever its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    pub(crate) fn of(path: &Path) -> Option<Self> {
        std::fs::metadata(path).ok().map(|found| Self::from(&found))
    }

    /// Device and inode.
    pub(crate) fn numbers(self) -> (u64, u64) {
        (self.device, self.inode)
    }
}

impl From<&std::fs::Metadata> for FileId {
    fn from(found: &std::fs::Metadata) -> Self {
        Self { device: found.dev(), inode: found.ino() }
    }
}

/// An open database file, locked or not.
struct Descriptor {
    id: FileId,
    writable: bool,
    _kept: KeptFromChildren,
    open: Open,
}

/// To make a device of a file opens and closes others of it, so that comes when it is locked.
enum Open {
    File(File),
    Device(FileDevice),
}

impl Descriptor {
    /// Opens the file, for writing if that is possible.
    fn open(path: &Path, wish: Wish) -> Result<Self, Error> {
        let failed = |source| Error::io("open", path.display(), source);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(wish.create).create_new(wish.create && wish.exclusive);
        let (file, writable) = match options.open(path) {
            Ok(file) => (file, true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(failed(error)),
            Err(error) => match OpenOptions::new().read(true).open(path) {
                Ok(file) => (file, false),
                Err(_) => return Err(failed(error)),
            },
        };
        let id = FileId::from(&file.metadata().map_err(failed)?);
        Ok(Self { id, writable, _kept: KeptFromChildren::new(&file), open: Open::File(file) })
    }

    /// What is read and written. The lock is held.
    fn into_device(self, path: &Path) -> Result<Self, Error> {
        let Self { id, writable, _kept, open } = self;
        let device = match open {
            Open::Device(device) => device,
            Open::File(file) => {
                let options = mezzanine_device::OpenOptions { write: writable, ..Default::default() };
                FileDevice::of_file(file, path, &options)
                    .map_err(|source| Error::device("open", path.display(), source))?
            }
        };
        Ok(Self { id, writable, _kept, open: Open::Device(device) })
    }

    fn file(&self) -> &File {
        match &self.open {
            Open::File(file) => file,
            Open::Device(device) => device.file(),
        }
    }

    /// Takes the lock: alone if the file can be written, else together with other readers.
    fn lock(&self) -> io::Result<bool> {
        let kind = if self.writable { libc::F_WRLCK } else { libc::F_RDLCK };
        match ffi::set_lock(self.file(), kind, LOCK_BYTES) {
            Ok(()) => Ok(true),
            Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn unlock(&self) {
        // An error says that the descriptor is none, and then it has no lock.
        let _ = ffi::set_lock(self.file(), libc::F_UNLCK, LOCK_BYTES);
    }

    /// Whether nobody in this process can have a lock on the file, because this has it (rule 2).
    fn can_be_closed(&self) -> bool {
        self.writable && self.lock().unwrap_or(false) || planted::is(Bug::DatabaseClosedAtOnce)
    }
}

/// Descriptors that could not be closed yet.
#[derive(Default)]
pub(crate) struct Parked(Vec<Descriptor>);

impl Parked {
    fn take(&mut self, path: &Path) -> Option<Descriptor> {
        let id = FileId::of(path)?;
        let here = |writable: bool| self.0.iter().position(|it| it.id == id && it.writable == writable);
        // One that only reads will do where the file still cannot be written.
        let place = here(true).or_else(|| here(false).filter(|_| !ffi::can_write(path)))?;
        Some(self.0.swap_remove(place))
    }

    fn put(&mut self, descriptor: Descriptor) {
        self.0.push(descriptor);
        self.0.retain(|descriptor| !descriptor.can_be_closed());
    }
}

/// How often a file is looked at before it counts as another one.
const LOOKS_AT_OTHER: usize = 2;

/// The first bytes that are remembered: SQLite's header, or a guard with the name of its tier and file.
const HEAD_BYTES: usize = 128;

/// What tells a file that nobody has open here from another that gets into its place (rule 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Left {
    head: [u8; HEAD_BYTES],
    len: u64,
    /// When its contents were changed last, in seconds and nanoseconds. Whoever changes an owner, a mode or a name
    /// leaves that as it was.
    changed: (i64, i64),
}

impl Left {
    fn is_same(&self, left: &Self) -> bool {
        let times =
            (self.len, self.changed) == (left.len, left.changed) || planted::is(Bug::OlderCopyUnnoticed);
        times && self.head == left.head
    }
}

/// The file of a database in use: a device that its volume reads and writes.
pub(crate) struct DatabaseFile {
    descriptor: Option<Descriptor>,
    /// What it has to be (rule 5).
    left: RwLock<Option<Left>>,
    /// Whether all changes that the volume makes come by here.
    is_disk: AtomicBool,
}

impl DatabaseFile {
    fn new(descriptor: Descriptor) -> Self {
        Self { descriptor: Some(descriptor), left: RwLock::default(), is_disk: AtomicBool::new(false) }
    }

    #[allow(clippy::expect_used, reason = "it is there until it is dropped")]
    fn descriptor(&self) -> &Descriptor {
        self.descriptor.as_ref().expect("a file that is not dropped has its descriptor")
    }

    /// The device for the volume that the database is attached to.
    pub(crate) fn disk(self: Arc<Self>) -> Arc<dyn Device> {
        self.is_disk.store(true, Ordering::Relaxed);
        self
    }

    /// Nobody has the database open here from now on, and its tier goes on.
    pub(crate) fn leave(&self) {
        if !self.is_disk.load(Ordering::Relaxed) {
            return;
        }
        // What is under way comes to its end first.
        let mut left = self.left.write().unwrap_or_else(PoisonError::into_inner);
        *left = self.look().ok().filter(|_| !planted::is(Bug::CopiedOverUnnoticed));
    }

    /// The database is opened again.
    pub(crate) fn take_up(&self) {
        *self.left.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Whether it is what was left, or nobody has left it.
    pub(crate) fn is_as_left(&self) -> bool {
        !self.is_other(self.left.read().unwrap_or_else(PoisonError::into_inner).as_ref())
    }

    /// Through the page cache, where another program's write is at once. A shorter file ends with zeros.
    fn look(&self) -> io::Result<Left> {
        let file = self.descriptor().file();
        let found = file.metadata()?;
        let mut head = [0; HEAD_BYTES];
        let mut read = 0;
        while read < head.len() {
            match file.read_at(&mut head[read..], read as u64) {
                Ok(0) => break,
                Ok(count) => read += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Left { head, len: found.len(), changed: (found.mtime(), found.mtime_nsec()) })
    }

    /// Whether there is something else by now than what was left. What cannot be read is not known to be.
    fn is_other(&self, left: Option<&Left>) -> bool {
        let other = |left: &Left| self.look().is_ok_and(|found| !found.is_same(left));
        left.is_some_and(|left| (0..LOOKS_AT_OTHER).all(|_| other(left)))
    }

    /// Carries out a change of the file, if it is what was left.
    fn change<R>(&self, change: impl FnOnce() -> R) -> Option<R> {
        {
            let left = self.left.read().unwrap_or_else(PoisonError::into_inner);
            if left.is_none() {
                return Some(change());
            }
        }
        // One at a time, since each is followed by another look.
        let mut left = self.left.write().unwrap_or_else(PoisonError::into_inner);
        if self.is_other(left.as_ref()) {
            return None;
        }
        let changed = change();
        if left.is_some() {
            *left = self.look().ok();
        }
        Some(changed)
    }

    fn written_over(&self) -> DeviceError {
        let source = io::Error::other("another program has written over it while its tier was open");
        DeviceError::from_io("write", self.describe(), source).advise(
            "what the tier has of it stays there: close the tier's databases and put the file back that was there, \
             or give that up with `mezz tier forget --force`",
        )
    }

    fn device(&self) -> &FileDevice {
        match &self.descriptor().open {
            Open::Device(device) => device,
            Open::File(_) => unreachable!("whoever has the lock has the device"),
        }
    }
}

impl Drop for DatabaseFile {
    fn drop(&mut self) {
        if let Some(descriptor) = self.descriptor.take() {
            descriptor.unlock();
            OfProcess::here().parked().put(descriptor);
        }
    }
}

impl Device for DatabaseFile {
    fn capabilities(&self) -> Capabilities {
        self.device().capabilities()
    }

    fn run(&self, batch: &mut [Request<'_>]) -> Vec<Result<(), DeviceError>> {
        if !batch.iter().any(is_change) {
            return self.device().run(batch);
        }
        match self.change(|| self.device().run(batch)) {
            Some(results) => results,
            None => batch.iter().map(|_| Err(self.written_over())).collect(),
        }
    }

    fn run_one(&self, request: Request<'_>) -> Result<(), DeviceError> {
        if !is_change(&request) {
            return self.device().run_one(request);
        }
        self.change(|| self.device().run_one(request)).unwrap_or_else(|| Err(self.written_over()))
    }

    fn set_len(&self, len: u64) -> Result<(), DeviceError> {
        self.change(|| self.device().set_len(len)).unwrap_or_else(|| Err(self.written_over()))
    }

    fn reserve(&self, len: u64) -> Result<(), DeviceError> {
        self.change(|| self.device().reserve(len)).unwrap_or_else(|| Err(self.written_over()))
    }

    fn describe(&self) -> String {
        self.device().describe()
    }

    fn flush_apart(&self) -> Result<(), DeviceError> {
        self.device().flush_apart()
    }

    fn data_from(&self, offset: u64) -> Result<Option<Range<u64>>, DeviceError> {
        self.device().data_from(offset)
    }
}

fn is_change(request: &Request<'_>) -> bool {
    match request {
        Request::Write { .. } | Request::Discard { .. } => true,
        Request::Read { .. } | Request::Flush => false,
    }
}

/// A database that is locked against every other process.
pub(crate) struct ProcessLock(Arc<DatabaseFile>);

/// What became of an attempt to lock a database.
pub(crate) enum Acquired {
    Locked(ProcessLock),
    HeldElsewhere,
}

impl ProcessLock {
    /// Opens the database at `path`, which is made if `wish` says so, and locks it as an exclusive locker of
    /// SQLite does it. The lock belongs to an *open file description*, so it counts against SQLite's own VFS in
    /// this process, too. A file that cannot be written is locked together with other readers.
    pub(crate) fn acquire(path: &Path, wish: Wish) -> Result<Acquired, Error> {
        let parked = || OfProcess::here().parked().take(path);
        let parked = if wish.create && wish.exclusive { None } else { parked() };
        let descriptor = parked.map_or_else(|| Descriptor::open(path, wish), Ok)?;
        let mut file = DatabaseFile::new(descriptor);
        for attempt in 1.. {
            let locked = file.descriptor().lock();
            if locked.map_err(|source| Error::io("lock", path.display(), source))? {
                file.descriptor =
                    file.descriptor.take().map(|locked| locked.into_device(path)).transpose()?;
                return Ok(Acquired::Locked(Self(Arc::new(file))));
            }
            if attempt == ATTEMPTS {
                break;
            }
            std::thread::sleep(CLOSING);
        }
        Ok(Acquired::HeldElsewhere)
    }

    /// Whether the database can be written.
    pub(crate) fn writable(&self) -> bool {
        self.0.descriptor().writable
    }

    pub(crate) fn id(&self) -> FileId {
        self.0.descriptor().id
    }

    /// The file itself.
    pub(crate) fn file(&self) -> Arc<DatabaseFile> {
        Arc::clone(&self.0)
    }
}

impl Drop for ProcessLock {
    fn drop(&mut self) {
        // The volume may have the file for longer. And closing alone would leave the lock to a child that is
        // being spawned and has not yet replaced itself by another program.
        self.0.descriptor().unlock();
    }
}
