//! A database file on a volume, and one connection's handle of it.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mezzanine_device::Device;
use mezzanine_engine::planted::{self, Bug};
use mezzanine_volume::{PathSidecar, VolumeErrorKind, VolumeFile, VolumeStatistics};

use crate::database_file::{DatabaseFile, FileId, ProcessLock};
use crate::error::{Error, ErrorKind};
use crate::lock::{Busy, Holder, Level, LockTable};
use crate::logs::{self, Entered};
use crate::mount::{self, GUARD, Mount};
use crate::open_directory::OpenDirectory;
use crate::shm::{Held, WalIndex};

/// Length of SQLite's file header in bytes ("Database File Format", section 1.3).
const HEADER_BYTES: usize = 100;

/// What the connections of the process share of one database file.
pub(crate) struct Database {
    path: PathBuf,
    /// The file that had this path when it was opened.
    id: FileId,
    file: VolumeFile,
    /// Where the file's pages are when they are not in the tier.
    disk: Arc<DatabaseFile>,
    sidecar: Arc<PathSidecar>,
    mount: Arc<Mount>,
    writable: bool,
    locks: Mutex<LockTable>,
    index: Mutex<WalIndex>,
    /// The newest header. SQLite reads the change counter in it at the start of every transaction in
    /// rollback mode, which would cost a read of the flash device each time. All writers are in this
    /// process and pass by here, so the copy is never old.
    header: Mutex<Option<[u8; HEADER_BYTES]>>,
    warned: AtomicBool,
    /// Writes so far, each counted at its end; and how many of them were synced or handed over.
    written: AtomicU64,
    handed: AtomicU64,
    handing: Mutex<()>,
    /// Withdrawn when a log file is opened on something that does not keep this promise.
    logs_powersafe: AtomicBool,
    log_directory: Mutex<LogDirectory>,
    /// Its logs are in that directory, or would be: from [`Database::entered`] to [`Database::leave_logs`].
    logs_entered: AtomicBool,
    next_holder: AtomicU64,
}

/// How far the log directory of a database is.
#[derive(Default)]
struct LogDirectory {
    /// `None` if there is none: the database has not entered it, or there was no room.
    open: Option<OpenDirectory>,
    /// There was no room for it.
    absent: bool,
    /// A crash leaves it.
    durable: bool,
    /// It says this opening of the tier.
    named: bool,
    /// Syncs of the directory that it is in that had begun when it was made or found.
    syncs_before: u64,
}

fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The page size that a header states, in bytes.
pub(crate) fn header_page_size(header: &[u8; HEADER_BYTES]) -> Option<u32> {
    if !header.starts_with(b"SQLite format 3\0") {
        return None;
    }
    match u16::from_be_bytes([header[16], header[17]]) {
        1 => Some(65_536),
        size if size >= 512 && size.is_power_of_two() => Some(u32::from(size)),
        _ => None,
    }
}

/// Whether a header says that changes are in a write-ahead log ("Database File Format", section 1.3.3).
pub(crate) fn is_in_wal_mode(header: &[u8; HEADER_BYTES]) -> bool {
    header.starts_with(b"SQLite format 3\0") && header[18..20].contains(&2)
}

impl Database {
    pub(crate) fn new(
        path: PathBuf,
        lock: &ProcessLock,
        file: VolumeFile,
        sidecar: Arc<PathSidecar>,
        mount: Arc<Mount>,
    ) -> Self {
        let (id, disk, writable) = (lock.id(), lock.file(), lock.writable());
        Self {
            path,
            id,
            file,
            disk,
            sidecar,
            mount,
            writable,
            locks: Mutex::default(),
            index: Mutex::default(),
            header: Mutex::new(None),
            warned: AtomicBool::new(false),
            written: AtomicU64::new(0),
            handed: AtomicU64::new(0),
            handing: Mutex::default(),
            logs_powersafe: AtomicBool::new(true),
            log_directory: Mutex::default(),
            logs_entered: AtomicBool::new(false),
            next_holder: AtomicU64::new(0),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn mount(&self) -> &Arc<Mount> {
        &self.mount
    }

    /// Whether its path leads to another file by now, or to none.
    pub(crate) fn has_moved(&self) -> bool {
        let moved = FileId::of(&self.path) != Some(self.id);
        if planted::is(Bug::ReplacedFileUsed) { !self.path.exists() } else { moved }
    }

    /// Nothing that the tier knows of it is to be believed once that is closed.
    pub(crate) fn changed_by_others(&self) {
        self.file.changed_by_others();
    }

    /// Whether the file itself is what the tier knows it to be: nobody had it open here, and its tier was
    /// kept by another database.
    pub(crate) fn is_as_it_was(&self) -> Result<bool, Error> {
        let disk = &*self.disk;
        let (head, guarded) = self.file.look_at_head(|| disk.head());
        let on_disk: [u8; HEADER_BYTES] =
            head.map_err(|source| Error::io("open", self.path.display(), source))?;
        if guarded {
            return Ok(on_disk == *GUARD);
        }
        let mut known = [0; HEADER_BYTES];
        match self.file.read_at(&mut known, 0) {
            Err(error) if !matches!(error.kind(), VolumeErrorKind::ShortRead { .. }) => Err(error.into()),
            // The change counter is in the header ("Database File Format", section 1.3.6).
            // It may be longer: what a full disk took of a write that failed stays behind the end.
            _ => Ok(on_disk == known && disk.len() >= self.file.len()),
        }
    }

    pub(crate) fn writable(&self) -> bool {
        self.writable
    }

    /// A transaction was committed in the write-ahead log.
    pub(crate) fn committed(&self) {
        self.file.committed();
    }

    /// Whoever relies on the pages that were written so far is about to go: a log is emptied, or readers are
    /// let in. A process that is killed from here on leaves those pages behind. With any `synchronous` but
    /// `OFF` a sync has come first, and there is nothing to do.
    pub(crate) fn hand_over(&self) -> Result<(), Error> {
        let written = self.written.load(Ordering::Acquire);
        if self.handed.load(Ordering::Acquire) >= written || planted::is(Bug::PagesKeptBack) {
            return Ok(());
        }
        // Whoever comes meanwhile goes on when it is done, and not when it has begun.
        let _alone = unpoisoned(&self.handing);
        if self.handed.load(Ordering::Acquire) >= written {
            return Ok(());
        }
        match self.file.hand_over() {
            // Closing has brought everything to where it belongs.
            Err(error) if error.kind() != VolumeErrorKind::Closed => return Err(error.into()),
            _ => {}
        }
        self.handed.fetch_max(written, Ordering::AcqRel);
        Ok(())
    }

    /// The log directory was made, or found.
    pub(crate) fn entered(&self, entered: Entered) {
        let mut directory = unpoisoned(&self.log_directory);
        let syncs_before = self.sidecar.syncs_begun();
        let absent = entered.directory.is_none();
        let (open, durable) = (entered.directory, entered.durable);
        *directory = LogDirectory { open, absent, durable, named: false, syncs_before };
        self.logs_entered.store(true, Ordering::Release);
    }

    /// Whether its logs are in its log directory, or come there. They need not where it is read only, or
    /// attached and open to nobody: then a stock SQLite may have left them where it has them.
    pub(crate) fn has_entered_logs(&self) -> bool {
        self.logs_entered.load(Ordering::Acquire)
    }

    /// Before a log is made: its directory is there, also where there was no room for it when the database
    /// was opened.
    pub(crate) fn provide_log_directory(&self) -> Result<(), Error> {
        let mut directory = unpoisoned(&self.log_directory);
        if directory.absent {
            self.refuse_moved("begin a log of")?;
            directory.open = Some(logs::make_up(&self.path)?);
            directory.syncs_before = self.sidecar.syncs_begun();
            directory.absent = false;
        }
        Ok(())
    }

    /// Where its path leads another database may be by now, and SQLite finds logs by that. In its rollback
    /// modes it asks for this itself, and answers the same.
    fn refuse_moved(&self, operation: &'static str) -> Result<(), Error> {
        if !self.has_moved() || planted::is(Bug::LogsOwnedByPath) {
            return Ok(());
        }
        let reason = "its path leads to another file by now, or to none";
        Err(Error::new(ErrorKind::Moved, operation, self.path.display(), reason)
            .advise("close it; then put it back, or open it where it is now"))
    }

    /// Whether its log directory is no longer where SQLite looks for the logs, and what is found there may be
    /// another database's.
    pub(crate) fn are_logs_elsewhere(&self) -> bool {
        let directory = unpoisoned(&self.log_directory);
        let elsewhere = |open: &OpenDirectory| !open.is_at(&logs::directory(&self.path));
        directory.open.as_ref().is_some_and(elsewhere) && !planted::is(Bug::LogsFoundByPath)
    }

    /// Its logs must not be opened by their names where those are no longer its own.
    pub(crate) fn refuse_logs_elsewhere(&self) -> Result<(), Error> {
        if self.are_logs_elsewhere() { self.refuse_moved("open a log of") } else { Ok(()) }
    }

    /// Removes one of its logs from its log directory, wherever that is.
    pub(crate) fn remove_log(&self, name: &Path, durable: bool) -> Result<(), Error> {
        let directory = unpoisoned(&self.log_directory);
        let Some(open) = &directory.open else { return Ok(()) };
        logs::remove(&self.path, open, name, durable)
    }

    /// Whether the first write of a log syncs the log directory ([`Self::log_begins`]), and so has a new log
    /// in it durable as well.
    pub(crate) fn is_log_directory_synced_at_next_write(&self) -> bool {
        self.has_entered_logs() && !unpoisoned(&self.log_directory).named
    }

    /// Before a rollback journal is begun: where it holds something, the database cannot be read before it
    /// has been rolled back, which changes it. So a change that others of its tier stand against is refused
    /// now.
    pub(crate) fn journal_begins(&self) -> Result<(), Error> {
        if !self.writable || planted::is(Bug::JournalUnprepared) {
            return Ok(());
        }
        mount::once_more(&self.mount, &self.path, || Ok(self.file.may_change()?))
    }

    /// Before a log is written: what says whose it is, is durable. With a log that a crash leaves the
    /// database has to be used again, so this is a change of the tier like any other. Says whether what is in
    /// the log directory was made durable for that.
    pub(crate) fn log_begins(&self) -> Result<bool, Error> {
        let mut directory = unpoisoned(&self.log_directory);
        if directory.named || !self.writable || planted::is(Bug::LogUnnamed) {
            return Ok(false);
        }
        self.refuse_moved("begin a log of")?;
        let Some(open) = &directory.open else { return Ok(false) };
        match self.mount.volume.nonce() {
            Some(now) => {
                self.mount.volume.begin()?;
                logs::own(&self.path, open, now)?;
            }
            None => logs::keep_contents(&self.path, open)?,
        }
        // The sidecar stands in the same directory, which was synced for it when the opening started.
        let with_sidecar = self.sidecar.synced() > directory.syncs_before;
        if !directory.durable && !with_sidecar {
            logs::keep(&self.path, open)?;
        }
        (directory.durable, directory.named) = (true, true);
        Ok(true)
    }

    /// The last connection closes: the log directory goes if no log is left.
    pub(crate) fn leave_logs(&self) -> Result<(), Error> {
        let directory = std::mem::take(&mut *unpoisoned(&self.log_directory));
        self.logs_entered.store(false, Ordering::Release);
        directory.open.map_or(Ok(()), |open| logs::leave(&self.path, self.id, &open, directory.durable))
    }

    /// What is in its log directory is there after a crash.
    pub(crate) fn keep_log_directory(&self) -> Result<(), Error> {
        let directory = unpoisoned(&self.log_directory);
        directory.open.as_ref().map_or(Ok(()), |open| logs::keep_contents(&self.path, open))
    }

    pub(crate) fn withdraw_powersafe(&self) {
        self.logs_powersafe.store(false, Ordering::Relaxed);
    }

    /// The database's page size in bytes, once its header has been seen.
    pub(crate) fn page_size(&self) -> Option<u32> {
        unpoisoned(&self.header).as_ref().and_then(header_page_size)
    }
}

/// Whether a read filled its buffer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fill {
    Whole,
    /// The file ended first; the rest of the buffer is zero.
    Short,
}

/// Why a connection does not get a lock.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    Busy,
    /// The file is another one by now.
    WrittenOver,
    /// It was opened to read only.
    ReadOnly,
}

/// One connection's open file.
pub(crate) struct Connection {
    database: Arc<Database>,
    /// The database's file, as this connection uses it.
    file: VolumeFile,
    holder: Holder,
    held: Option<Held>,
    read_only: bool,
    pub(crate) persist_wal: Cell<bool>,
    pub(crate) powersafe: Cell<bool>,
}

impl Connection {
    pub(crate) fn new(database: Arc<Database>, read_only: bool, powersafe: bool) -> Self {
        let number = database.next_holder.fetch_add(1, Ordering::Relaxed);
        let holder = Holder(number);
        // In a recording connections are clients; nobody has as many as would make two of them one.
        let file = database.file.for_client(number as u32);
        Self {
            database,
            file,
            holder,
            held: None,
            read_only,
            persist_wal: Cell::new(false),
            powersafe: Cell::new(powersafe),
        }
    }

    pub(crate) fn database(&self) -> &Arc<Database> {
        &self.database
    }

    /// Fills `buf` from `offset`, with zeros past the end of the file.
    pub(crate) fn read(&self, buf: &mut [u8], offset: u64) -> Result<Fill, Error> {
        let db = &*self.database;
        if offset >= HEADER_BYTES as u64 {
            return self.read_file(buf, offset);
        }
        let mut header = unpoisoned(&db.header);
        let start = offset as usize;
        if let (Some(known), Some(end)) = (&*header, start.checked_add(buf.len())) {
            if end <= HEADER_BYTES {
                buf.copy_from_slice(&known[start..end]);
                return Ok(Fill::Whole);
            }
        }
        let fill = self.read_file(buf, offset)?;
        if offset == 0 && fill == Fill::Whole {
            if let Some(first) = buf.first_chunk() {
                *header = Some(*first);
            }
        }
        Ok(fill)
    }

    fn read_file(&self, buf: &mut [u8], offset: u64) -> Result<Fill, Error> {
        match self.file.read_at(buf, offset) {
            Ok(()) => Ok(Fill::Whole),
            Err(error) => match error.kind() {
                // The volume has filled the rest with zeros, as SQLite wants it.
                VolumeErrorKind::ShortRead { .. } => Ok(Fill::Short),
                _ => Err(error.into()),
            },
        }
    }

    /// Whether it must not change the file, nor take the locks for that. SQLite's pager asks for nothing of
    /// the kind, but a checkpoint does, which the last connection begins when it closes: it fails as with a
    /// descriptor that only reads, and the log stays.
    fn may_not_change(&self) -> bool {
        self.read_only && !planted::is(Bug::ReaderChanges)
    }

    fn refuse_reader(&self, operation: &'static str) -> Result<(), Error> {
        if !self.may_not_change() {
            return Ok(());
        }
        let reason = std::io::Error::new(std::io::ErrorKind::PermissionDenied, "it was opened to read only");
        Err(Error::io(operation, self.database.path.display(), reason))
    }

    /// Writes all of `buf` at `offset`.
    pub(crate) fn write(&self, buf: &[u8], offset: u64) -> Result<(), Error> {
        self.refuse_reader("write")?;
        self.change(|| self.write_known(buf, offset))
    }

    /// A change of the database, made once more if the others of the tier that it was refused for can be had
    /// by now. The caller has nothing in hand.
    fn change(&self, change: impl Fn() -> Result<(), Error>) -> Result<(), Error> {
        mount::once_more(&self.database.mount, &self.database.path, change)
    }

    fn write_known(&self, buf: &[u8], offset: u64) -> Result<(), Error> {
        let db = &*self.database;
        if offset >= HEADER_BYTES as u64 {
            return self.write_counted(buf, offset);
        }
        let mut header = unpoisoned(&db.header);
        let kept = header.take();
        self.write_counted(buf, offset)?;
        *header = match (buf.first_chunk(), kept) {
            (Some(first), _) if offset == 0 => Some(*first),
            (_, Some(mut known)) => {
                let start = offset as usize;
                let len = buf.len().min(HEADER_BYTES - start);
                known[start..start + len].copy_from_slice(&buf[..len]);
                Some(known)
            }
            _ => None,
        };
        Ok(())
    }

    fn write_counted(&self, buf: &[u8], offset: u64) -> Result<(), Error> {
        let written = self.file.write_at(buf, offset);
        // Also one that failed: it may have come half-way.
        self.database.written.fetch_add(1, Ordering::AcqRel);
        Ok(written?)
    }

    /// A sentence about a page size that is not the tier's, the first time that it is asked for.
    pub(crate) fn page_size_warning(&self) -> Option<String> {
        self.page_size_mismatch().filter(|_| !self.database.warned.swap(true, Ordering::Relaxed))
    }

    fn page_size_mismatch(&self) -> Option<String> {
        let db = &*self.database;
        let (ours, theirs) = (db.mount.page_size, db.page_size()?);
        if ours == theirs {
            return None;
        }
        Some(format!(
            "{} has pages of {theirs} bytes and its tier pages of {ours}: it works, but a write of what is no whole \
             page of the tier reads first; for full speed set PRAGMA page_size={ours} and VACUUM (not in WAL mode), \
             or format the flash with page_size={theirs}",
            db.path.display()
        ))
    }

    pub(crate) fn truncate(&self, len: u64) -> Result<(), Error> {
        self.refuse_reader("set the length of")?;
        if len < HEADER_BYTES as u64 {
            *unpoisoned(&self.database.header) = None;
        }
        self.change(|| Ok(self.file.set_len(len)?))
    }

    pub(crate) fn sync(&self) -> Result<(), Error> {
        let written = self.database.written.load(Ordering::Acquire);
        // What is committed in WAL mode is so in the log, which this brings the file up to.
        if self.held.is_some() { self.file.checkpoint() } else { self.file.sync() }?;
        self.database.handed.fetch_max(written, Ordering::AcqRel);
        Ok(())
    }

    pub(crate) fn len(&self) -> u64 {
        self.file.len()
    }

    /// Takes a lock. Whoever takes the first one sees what another program has done to the file meanwhile, as
    /// with SQLite alone, which reads the change counter then.
    pub(crate) fn lock(&self, level: Level) -> Result<(), Refused> {
        let db = &*self.database;
        if level > Level::Shared && self.may_not_change() {
            return Err(Refused::ReadOnly);
        }
        let mut locks = unpoisoned(&db.locks);
        if locks.is_free() && !db.disk.rouse() {
            return Err(Refused::WrittenOver);
        }
        locks.lock(self.holder, level).map_err(|Busy| Refused::Busy)
    }

    pub(crate) fn unlock(&self, level: Level) {
        let db = &*self.database;
        let mut locks = unpoisoned(&db.locks);
        let was_free = locks.is_free();
        locks.unlock(self.holder, level);
        if locks.is_free() && !was_free {
            db.disk.rest();
        }
    }

    pub(crate) fn level(&self) -> Level {
        unpoisoned(&self.database.locks).level(self.holder)
    }

    /// Whether any connection is about to write.
    pub(crate) fn is_reserved(&self) -> bool {
        unpoisoned(&self.database.locks).highest() >= Level::Reserved
    }

    /// Calls `f` with the WAL-index and this connection's locks in it, which it joins if need be.
    pub(crate) fn with_index<T>(&mut self, f: impl FnOnce(&mut WalIndex, &mut Held) -> T) -> T {
        let mut index = unpoisoned(&self.database.index);
        let held = self.held.get_or_insert_with(|| {
            index.enter();
            Held::default()
        });
        f(&mut index, held)
    }

    pub(crate) fn leave_index(&mut self) {
        if let Some(mut held) = self.held.take() {
            unpoisoned(&self.database.index).leave(&mut held);
        }
    }

    /// Whether writing some bytes leaves the bytes beside them as they were, whatever happens.
    ///
    /// On flash a page is replaced as a whole: a group is used only if it verifies, else the version before
    /// it. On disk a page is written while its flash copy is still in force (`durable`), or as any SQLite
    /// writes it (`through`, or after the tier was given up), and then the promise is the one that
    /// SQLite's own VFS makes for that disk. SQLite asks the database's file on behalf of the logs, too,
    /// so they must keep it as well. A file that is still empty promises nothing, since SQLite then takes
    /// the sector size, which is the tier's page size, for the page size of the new database.
    pub(crate) fn is_powersafe(&self) -> bool {
        self.powersafe.get() && self.database.logs_powersafe.load(Ordering::Relaxed) && self.len() > 0
    }

    pub(crate) fn close(mut self) -> Result<(), Error> {
        self.leave_index();
        self.unlock(Level::None);
        let Self { database, file, .. } = self;
        let file = Some(file).filter(|_| planted::is(Bug::FileOutlivesDatabase));
        let closed = mount::close(database);
        planted::outside("close: the registry is free");
        drop(file);
        closed
    }

    /// Lines of `name value`, for people.
    pub(crate) fn status(&self) -> String {
        let db = &*self.database;
        let mount = &db.mount;
        let tier = crate::online::status(mount);
        let warning = self.page_size_mismatch().map(|text| format!("warning {text}\n")).unwrap_or_default();
        let page_size = db.page_size().map_or_else(|| "not known yet".to_owned(), |size| size.to_string());
        format!(
            "database {}\nflash {}\nstate {:?}\n{tier}tier_page_size {}\ndatabase_page_size {page_size}\n{warning}{}",
            db.path.display(),
            mount.flash(),
            mount.volume.state(),
            mount.page_size,
            counters(&mount.volume.statistics()),
        )
    }
}

/// Lines of `name value`. Counters of the tier carry its name, so that two of the same name are told apart.
fn counters(statistics: &VolumeStatistics) -> String {
    let of_tier = statistics.tier.map(|tier| tier.named()).unwrap_or_default();
    let of_tier = of_tier.into_iter().map(|(name, value)| format!("tier_{name} {value}"));
    let own = statistics.named().into_iter().map(|(name, value)| format!("{name} {value}"));
    own.chain(of_tier).collect::<Vec<String>>().join("\n")
}
