//! The descriptor of a database file, and its locks, which keep every other process away.
//!
//! Rules, numbered for reference:
//! 1. A database has one descriptor in this process. The lock that keeps others out, and what is read and
//!    written, go by the same.
//! 2. POSIX locks, which an SQLite without the tier takes in this process as well, belong to the process and
//!    the file: to close *any* descriptor of it gives all of them back ("How To Corrupt An SQLite Database
//!    File", section 2.2). So a descriptor is closed only while it has our lock, beside which nobody has
//!    another. Where that cannot be had it is *parked*: it stays open, and is the descriptor of the next
//!    opening of that file.
//! 3. A file that cannot be written is locked by those who read it together. Nobody can be kept out there, so
//!    its descriptor stays parked: one for each such file that was ever opened.
//! 4. Children that are forked have no part in it.
//! 5. Another program's writes are noticed as [`Watch`] says.

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mezzanine_device::fork::KeptFromChildren;
use mezzanine_device::{Capabilities, Device, DeviceError, DirectIo, FileDevice, Request};
use mezzanine_engine::planted::{self, Bug};

use crate::error::Error;
use crate::ffi;
use crate::lineage::OfProcess;
use crate::mount::Wish;
use crate::watch::{self, Change, Outcome, Watch, is_change};

/// SQLite's own lock bytes of a database file: PENDING, RESERVED and 510 of SHARED from this offset on
/// (`os.h`).
const LOCK_BYTES: (i64, i64) = (0x4000_0000, 512);
/// For how long another one's descriptor may be on its way to be closed (rule 2), at first; each time twice
/// as long, 63 ms in all. Where a program is being started just then, its process has a copy of the
/// descriptor, and the lock, until it has replaced itself.
const CLOSING: Duration = Duration::from_millis(1);
const ATTEMPTS: u32 = 7;

/// How long to wait before each further attempt to lock a file.
pub(crate) fn closing() -> impl Iterator<Item = Duration> {
    let attempts = if planted::is(Bug::ClosingHurried) { 3 } else { ATTEMPTS };
    (0..attempts - 1).map(|doubled| CLOSING * (1 << doubled))
}

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

    pub(crate) fn of_numbers(device: u64, inode: u64) -> Self {
        Self { device, inode }
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
                // A second descriptor, past the page cache, is closed again where the file system cannot give
                // that: nobody here has a lock then, but on a file that is locked together with other
                // readers.
                let direct = if writable { DirectIo::default() } else { DirectIo::Never };
                let options = mezzanine_device::OpenOptions { write: writable, direct, ..Default::default() };
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

/// The file of a database in use: a device that its volume reads and writes.
pub(crate) struct DatabaseFile {
    descriptor: Option<Descriptor>,
    /// Whether it is what it has to be (rule 5).
    watch: Watch,
    /// Whether all changes that the volume makes come by here.
    is_disk: AtomicBool,
}

impl DatabaseFile {
    fn new(descriptor: Descriptor) -> Self {
        Self { descriptor: Some(descriptor), watch: Watch::default(), is_disk: AtomicBool::new(false) }
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

    /// The watch over the file, and the file; not over one that the volume changes past this.
    fn watched(&self) -> Option<(&Watch, &File)> {
        self.is_disk.load(Ordering::Relaxed).then(|| (&self.watch, self.descriptor().file()))
    }

    /// The first connection is about to use the database. Whether it is what it was when the last one did.
    pub(crate) fn rouse(&self) -> bool {
        self.watched().is_none_or(|(watch, file)| watch.rouse(file))
    }

    /// No connection uses the database any more.
    pub(crate) fn rest(&self) {
        if let Some((watch, file)) = self.watched() {
            watch.rest(file);
        }
    }

    /// Nobody has the database open here from now on, and its tier goes on.
    pub(crate) fn leave(&self) {
        if let Some((watch, file)) = self.watched() {
            watch.leave(file);
        }
    }

    /// The database is opened again.
    pub(crate) fn take_up(&self) {
        self.watch.take_up();
    }

    /// The first bytes, with zeros past the end: through the page cache, where they are when they were looked
    /// at before, and where another program's write is at once.
    pub(crate) fn head<const LEN: usize>(&self) -> io::Result<[u8; LEN]> {
        let mut head = [0; LEN];
        watch::read(self.descriptor().file(), &mut head, 0)?;
        Ok(head)
    }

    /// Whether it is what was left, or nobody has left it.
    pub(crate) fn is_as_left(&self) -> bool {
        self.watched().is_none_or(|(watch, file)| watch.is_as_left(file))
    }

    /// Carries out a change of the file, if it is what was left.
    fn change<R: Outcome>(&self, what: Change, change: impl FnOnce() -> R) -> Option<R> {
        match self.watched() {
            Some((watch, file)) => watch.change(file, what, change),
            None => Some(change()),
        }
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
        let what = Change::of(batch);
        match self.change(what, || self.device().run(batch)) {
            Some(results) => results,
            None => batch.iter().map(|_| Err(self.written_over())).collect(),
        }
    }

    fn run_one(&self, request: Request<'_>) -> Result<(), DeviceError> {
        if !is_change(&request) {
            return self.device().run_one(request);
        }
        let what = Change::of(std::slice::from_ref(&request));
        self.change(what, || self.device().run_one(request)).unwrap_or_else(|| Err(self.written_over()))
    }

    fn set_len(&self, len: u64) -> Result<(), DeviceError> {
        let change = self.change(Change::length(len), || self.device().set_len(len));
        change.unwrap_or_else(|| Err(self.written_over()))
    }

    fn reserve(&self, len: u64) -> Result<(), DeviceError> {
        let change = self.change(Change::default(), || self.device().reserve(len));
        change.unwrap_or_else(|| Err(self.written_over()))
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

/// A database that is locked against every other process.
pub(crate) struct ProcessLock(Arc<DatabaseFile>);

/// What became of an attempt to lock a database.
pub(crate) enum Acquired {
    Locked(ProcessLock),
    HeldElsewhere,
}

/// A database file that is open and may be locked by others.
pub(crate) struct Asked(Option<DatabaseFile>);

impl Asked {
    /// Opens the file; makes it if `wish` says so.
    pub(crate) fn open(path: &Path, wish: Wish) -> Result<Self, Error> {
        let parked = || OfProcess::here().parked().take(path);
        let parked = if wish.create && wish.exclusive { None } else { parked() };
        let descriptor = parked.map_or_else(|| Descriptor::open(path, wish), Ok)?;
        Ok(Self(Some(DatabaseFile::new(descriptor))))
    }

    /// Whether it is the file of this path.
    pub(crate) fn is_at(&self, path: &Path) -> bool {
        self.0.as_ref().is_some_and(|file| FileId::of(path) == Some(file.descriptor().id))
    }

    /// One attempt; `None` if somebody else has it.
    pub(crate) fn lock(&mut self, path: &Path) -> Result<Option<ProcessLock>, Error> {
        let Some(file) = &self.0 else { return Ok(None) };
        if !file.descriptor().lock().map_err(|source| Error::io("lock", path.display(), source))? {
            return Ok(None);
        }
        let Some(mut file) = self.0.take() else { return Ok(None) };
        file.descriptor = file.descriptor.take().map(|locked| locked.into_device(path)).transpose()?;
        Ok(Some(ProcessLock(Arc::new(file))))
    }
}

impl ProcessLock {
    /// Opens the database at `path`, which is made if `wish` says so, and locks it as an exclusive locker of
    /// SQLite does it. The lock belongs to an *open file description*, so it counts against SQLite's own VFS
    /// in this process, too. A file that cannot be written is locked together with other readers.
    ///
    /// It waits a while for a descriptor that is about to be closed. Who opens a database waits himself, with
    /// nothing in hand ([`crate::mount::open`]).
    pub(crate) fn acquire(path: &Path, wish: Wish) -> Result<Acquired, Error> {
        let (mut asked, mut waits) = (Asked::open(path, wish)?, closing());
        loop {
            match (asked.lock(path)?, waits.next()) {
                (Some(lock), _) => return Ok(Acquired::Locked(lock)),
                (None, Some(wait)) => std::thread::sleep(wait),
                (None, None) => return Ok(Acquired::HeldElsewhere),
            }
        }
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
