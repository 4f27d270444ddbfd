//! Volumes in use by this process, and the databases on them.
//!
//! There is one tier per flash file in a process, whoever opens it. A database file belongs to one tier. All
//! of this is one registry behind one lock, which is held while connections open and close (recovery of a
//! tier included), never while they read or write.
//!
//! Lock order: the registry, then what a [`Database`] has, then the descriptors that are parked.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use mezzanine_device::{Device, DeviceError};
use mezzanine_engine::planted::{self, Bug};
use mezzanine_volume::{AttachOptions, HeaderGuard, Nonce, PathSidecar, Volume, VolumeErrorKind, VolumeFile};

use self::flash::{open_flash, remove_unused_flash};
pub(crate) use self::flash::{replace_flash, sized, with_wishes};
use self::others::Needed;
pub(crate) use self::others::{attach_unopened, may_succeed_now, once_more};
use crate::database::Database;
use crate::database_file::{Asked, FileId, ProcessLock, closing};
use crate::error::{Error, ErrorKind};
use crate::flash_file::{MadeFile, refuse_place_of_database};
use crate::lineage::{OfProcess, Origin};
use crate::logs;
use crate::online;
use crate::open_directory::OpenDirectory;
use crate::params::Params;
use crate::record;

/// Opens the disk copy of a database: the path to a device, which may be a file on a modelled drive.
pub(crate) type OpenDisk = Arc<dyn Fn(&Path) -> Result<Arc<dyn Device>, DeviceError> + Send + Sync>;

/// What stands in place of SQLite's header on disk while the newest pages are on flash only. It is as long as
/// the header, so that no field of it can be read.
pub(crate) const GUARD: &[u8; 100] =
    b"Mezzanine: the newest pages of this database are in its flash tier. Open it through the tier.      \n";

/// A volume in use.
pub(crate) struct Mount {
    origin: Origin,
    pub(crate) volume: Arc<Volume>,
    /// Names of the flash, for messages and for URIs: the last one is that of the present, those before it
    /// of what it has replaced.
    names: Mutex<Vec<PathBuf>>,
    pub(crate) page_size: u32,
    /// Where databases are; `None` if they are plain files.
    disk: Option<OpenDisk>,
    /// Whether the volume was opened for a URI and is closed with its last database.
    owned: bool,
    /// Whether that is to leave ordinary files and an empty tier.
    drained_at_close: AtomicBool,
    /// Whether the other databases of the tier were looked for.
    others_sought: AtomicBool,
    /// When it came into use.
    since: SystemTime,
    /// When its other databases were last waited for, and some were not to be had.
    waited_in_vain: Mutex<Option<Instant>>,
    /// Whether somebody was told which databases are missing.
    told: AtomicBool,
}

/// A database that is attached to a volume, and keeps other processes out as long as it is: the tier may hold
/// its newest pages, or clean ones that would grow old behind it.
struct Attached {
    mount: Arc<Mount>,
    database: Arc<Database>,
    connections: usize,
    lock: ProcessLock,
    /// What its logs have to be of, if nobody has opened it here yet: they may be put beside it later.
    unopened: Option<Unopened>,
}

/// What the sidecar of a database said of the opening in which it was last used.
struct Unopened {
    before: Option<Nonce>,
}

/// The tiers and databases that a process has in use.
#[derive(Default)]
pub(crate) struct Registry {
    /// By canonical path of the flash file, also of one that was replaced since.
    by_flash: HashMap<PathBuf, Arc<Mount>>,
    databases: HashMap<FileId, Attached>,
}

fn lock() -> MutexGuard<'static, Registry> {
    OfProcess::here().registry()
}

/// How SQLite wants a database opened.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wish {
    pub(crate) writable: bool,
    pub(crate) create: bool,
    pub(crate) exclusive: bool,
}

impl Mount {
    /// A volume that its owner opened and will close.
    pub(crate) fn of_owner(
        volume: Arc<Volume>,
        flash: String,
        page_size: u32,
        disk: Option<OpenDisk>,
    ) -> Arc<Self> {
        Arc::new(Self {
            origin: Origin::here(),
            volume,
            names: Mutex::new(vec![PathBuf::from(flash)]),
            page_size,
            disk,
            owned: false,
            drained_at_close: AtomicBool::new(false),
            others_sought: AtomicBool::new(false),
            since: SystemTime::now(),
            waited_in_vain: Mutex::default(),
            told: AtomicBool::new(false),
        })
    }

    fn refuse_in_child(&self, operation: &'static str, subject: &Path) -> Result<(), Error> {
        if self.origin.is_here() { Ok(()) } else { Err(self.origin.refuse(operation, subject.display())) }
    }

    /// Writes every page to its disk. A tier that was opened for a URI leaves ordinary databases behind when
    /// it is closed; of another its owner decides. Says which.
    pub(crate) fn drain(&self) -> Result<bool, Error> {
        self.volume.drain()?;
        self.drained_at_close.store(self.owned, Ordering::Relaxed);
        Ok(self.owned)
    }

    /// A sentence about databases that the tier waits for, for the first who opens another one.
    pub(crate) fn warning(&self) -> Option<String> {
        // An owner attaches one after the other.
        if !self.owned || self.told.swap(true, Ordering::Relaxed) { None } else { online::waits_for(self) }
    }

    fn names(&self) -> MutexGuard<'_, Vec<PathBuf>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Names the flash in messages.
    pub(crate) fn flash(&self) -> String {
        self.names().last().map(|name| name.display().to_string()).unwrap_or_default()
    }

    fn name(&self) -> PathBuf {
        self.names().last().cloned().unwrap_or_default()
    }

    /// Whether a URI with this flash file means this tier. One that the present file has replaced while the
    /// tier was in use still does: a program goes on with the URI that it was told.
    fn is_on(&self, flash: &Path) -> bool {
        self.names().contains(&name_of(flash))
    }

    /// The number that the tier has for the database of this path, as its sidecar says.
    fn number_of(&self, path: &Path) -> Option<u32> {
        PathSidecar::beside(path).found().and_then(|sidecar| self.volume.number_of(&sidecar))
    }

    fn database(self: &Arc<Self>, path: &Path, lock: &ProcessLock) -> Result<Arc<Database>, Error> {
        let sidecar = Arc::new(PathSidecar::of(path, lock.id().numbers()));
        let options = AttachOptions { guard: Some(HeaderGuard { bytes: GUARD.to_vec() }) };
        // An earlier opening through a volume that its owner keeps may have left the file attached.
        let file: VolumeFile = match self.volume.file(path) {
            Some(file) => file,
            None => {
                if let Some(now) = self.volume.nonce() {
                    logs::claim(path, sidecar.opening(), now, lock.writable())?;
                }
                let backing = match &self.disk {
                    None => lock.file().disk(),
                    Some(open) => {
                        open(path).map_err(|source| Error::device("open", path.display(), source))?
                    }
                };
                self.volume.attach(path, backing, Arc::<PathSidecar>::clone(&sidecar), options)?
            }
        };
        Ok(Arc::new(Database::new(path.to_owned(), lock, file, sidecar, Arc::clone(self))))
    }
}

/// Opens a database for one more connection: on `mount`, or on the tier that `params` name.
///
/// Another one's descriptor of it may be on its way to be closed. That is waited for with nothing in hand:
/// all openings and closings of the process go through the registry.
pub(crate) fn open(
    path: &Path,
    wish: Wish,
    mount: Option<&Arc<Mount>>,
    params: &Params,
) -> Result<Arc<Database>, Error> {
    open_waiting(path, wish, mount, params, std::thread::sleep)
}

fn open_waiting(
    path: &Path,
    wish: Wish,
    mount: Option<&Arc<Mount>>,
    params: &Params,
    mut sleep: impl FnMut(Duration),
) -> Result<Arc<Database>, Error> {
    let existed = path.exists();
    let (mut waits, mut in_hand, mut asked) = (closing(), None, None);
    loop {
        let mut registry = in_hand.take().unwrap_or_else(lock);
        let held = match registry.open_at_once(path, wish, existed, mount, params, &mut asked)? {
            Attempt::Held(error) => error,
            Attempt::Opened(database) => {
                drop(registry);
                others::attach_at_opening(database.mount(), path, sleep);
                return Ok(database);
            }
        };
        let Some(wait) = waits.next() else { return Err(held) };
        in_hand = planted::is(Bug::LockAwaitedInRegistry).then_some(registry);
        sleep(wait);
    }
}

/// What became of an attempt to open a database.
enum Attempt {
    Opened(Arc<Database>),
    /// Somebody else has a file that is needed for it just now.
    Held(Error),
}

/// The tier for a database.
struct Mounted {
    mount: Arc<Mount>,
    /// The flash file, if it was made for that.
    made: Option<MadeFile>,
    /// Whether somebody else has another database of the tier just now.
    others_held: bool,
}

impl Mounted {
    fn known(mount: Arc<Mount>, others_held: bool) -> Self {
        Self { mount, made: None, others_held }
    }
}

impl Attached {
    /// A database that nobody had open while another kept the tier is opened again.
    fn enter_again(&mut self, path: &Path) -> Result<(), Error> {
        if !self.is_as_it_was()? && !planted::is(Bug::ReplacedFileUsed) {
            return Err(written_over(path));
        }
        if let (Some(unopened), Some(now)) = (&self.unopened, self.mount.volume.nonce()) {
            if !planted::is(Bug::LateLogsBelieved) {
                logs::claim(path, unopened.before, now, self.lock.writable())?;
            }
        }
        self.unopened = None;
        if self.lock.writable() {
            self.database.entered(logs::enter(path)?);
        } else {
            refuse_wal_that_others_write(path, &self.lock)?;
        }
        self.lock.file().take_up();
        Ok(())
    }

    /// Whether the file is what the tier knows it to be.
    fn is_as_it_was(&self) -> Result<bool, Error> {
        Ok(self.lock.file().is_as_left() && self.database.is_as_it_was()?)
    }
}

pub(crate) fn written_over(path: &Path) -> Error {
    changed(path, "it was written over by another program")
}

/// The tier goes on with the file that it had: what it knows of that must not come into another.
fn changed(path: &Path, what: &str) -> Error {
    let reason = format!("{what} while its tier was open");
    Error::new(ErrorKind::Volume(VolumeErrorKind::ChangedFile), "open", path.display(), reason).advise(
        "close all databases of the tier; then put the file back that was there, or see what opening this one says",
    )
}

fn attach(mount: &Arc<Mount>, path: &Path, lock: &ProcessLock) -> Result<Arc<Database>, Error> {
    if !lock.writable() {
        refuse_wal_that_others_write(path, lock)?;
        return mount.database(path, lock);
    }
    let entered = logs::enter(path)?;
    let database = mount.database(path, lock);
    match &database {
        Ok(database) => database.entered(entered),
        // The first error is the one to report.
        Err(_) => {
            // Where the folder was moved meanwhile, what has that name by now is another one's.
            let is_here = |open: &OpenDirectory| open.is_at(&logs::directory(path));
            let is_here = entered.directory.as_ref().is_some_and(is_here);
            let unused = entered.unused && is_here && !belongs_to_tier(mount, path);
            let _ = match unused && !planted::is(Bug::RefusedLogKept) {
                true => logs::give_back(path),
                false => entered
                    .directory
                    .as_ref()
                    .map_or(Ok(()), |directory| logs::leave(path, lock.id(), directory, entered.durable)),
            };
        }
    }
    database
}

/// Of a database that cannot be written here, whoever may write it has only to be kept out while it is read.
/// In WAL mode that cannot be done: a writer then needs no more than the lock of a reader.
fn refuse_wal_that_others_write(path: &Path, lock: &ProcessLock) -> Result<(), Error> {
    let mut header = [0; 100];
    let read = lock.file().read_at(&mut header, 0);
    let in_wal_mode = read.is_ok() && crate::database::is_in_wal_mode(&header);
    if !in_wal_mode || logs::directory(path).is_dir() || planted::is(Bug::WalReadBesideWriters) {
        return Ok(());
    }
    let reason = "it is in WAL mode, it cannot be written by this process, and an SQLite that writes it without the tier could not be kept out";
    Err(Error::new(ErrorKind::Busy, "open", path.display(), reason)
        .advise("open it as a user who may write it, or without the tier (vfs=unix)"))
}

/// Whether a stock SQLite has to be kept from the database and its logs although it could not be opened: it
/// is attached all the same, or the tier it needs is another one.
fn belongs_to_tier(mount: &Mount, path: &Path) -> bool {
    mount.volume.file(path).is_some() || PathSidecar::beside(path).needed_tier().is_some()
}

/// A connection closes.
pub(crate) fn close(database: Arc<Database>) -> Result<(), Error> {
    let mut registry = lock();
    // Whoever opens the flash file next, once the registry is free, must find it free as well.
    let database = database;
    let attached = registry.databases.values_mut().find(|a| Arc::ptr_eq(&a.database, &database));
    let Some(attached) = attached else {
        return Ok(());
    };
    attached.connections -= 1;
    if attached.connections > 0 {
        return Ok(());
    }
    let (mount, file) = (Arc::clone(&attached.mount), attached.lock.file());
    let left = if database.writable() { database.leave_logs() } else { Ok(()) };
    // Other databases of the tier may still be open; only together do they close it, so this one stays
    // attached, and locked, until then.
    let unused = |attached: &Attached| !Arc::ptr_eq(&attached.mount, &mount) || attached.connections == 0;
    if mount.owned && registry.databases.values().all(unused) {
        drop(file);
        let closed = registry.close(&mount);
        return left.and(closed);
    }
    file.leave();
    left
}

/// Gives back a volume that its owner closes, `drained` or not: its databases are no longer locked against
/// other processes. Refused while connections are open.
pub(crate) fn release(
    mount: &Arc<Mount>,
    drained: bool,
    close: impl FnOnce(&Volume) -> Result<(), Error>,
) -> Result<(), Error> {
    mount.refuse_in_child("close the tier", Path::new(&mount.flash()))?;
    let mut registry = lock();
    let open = registry.databases.values().find(|a| Arc::ptr_eq(&a.mount, mount) && a.connections > 0);
    if let Some(attached) = open {
        let reason = format!("{} connection(s) to it are open", attached.connections);
        return Err(Error::new(
            ErrorKind::Busy,
            "close the tier of",
            attached.database.path().display(),
            reason,
        )
        .advise("close the connections first"));
    }
    registry.look_before_closing(mount);
    let closed =
        close(&mount.volume).and_then(|()| if drained { registry.give_back_logs(mount) } else { Ok(()) });
    registry.databases.retain(|_, attached| !Arc::ptr_eq(&attached.mount, mount));
    let recorded = record::end(&mount.volume);
    closed.and(recorded)
}

fn held_elsewhere(path: &Path) -> Error {
    let holder =
        logs::holder(path).unwrap_or_else(|| "another process, or an SQLite without the tier".to_owned());
    Error::new(ErrorKind::Busy, "open", path.display(), format!("it is in use by {holder}"))
        .advise("a tier serves one process at a time: close the database there, or connect to that process")
}

/// A database that is open stays on its tier, and is known by one name, since its logs are found by it.
fn same_tier(
    attached: &Attached,
    path: &Path,
    mount: Option<&Arc<Mount>>,
    params: &Params,
) -> Result<(), Error> {
    let name = attached.database.path();
    if name != path {
        let (reason, advice) = match attached.connections {
            0 => (
                "its tier, which other databases have in use, knows it as",
                "close those, or open it by that name",
            ),
            _ => ("its logs are named after that: it is open as", "open it by that name"),
        };
        let reason = format!("{reason} {}", name.display());
        return Err(Error::new(ErrorKind::Busy, "open", path.display(), reason).advise(advice));
    }
    let same = match (mount, &params.flash) {
        (Some(mount), _) => Arc::ptr_eq(mount, &attached.mount),
        (None, Some(flash)) => attached.mount.is_on(flash),
        (None, None) => true,
    };
    if same {
        return Ok(());
    }
    let reason = format!("it is open with the tier {}", attached.mount.flash());
    Err(Error::new(ErrorKind::Busy, "open", path.display(), reason).advise("name the same flash file"))
}

fn flash_of<'a>(database: &Path, params: &'a Params) -> Result<&'a Path, Error> {
    params.flash.as_deref().ok_or_else(|| {
        Error::new(ErrorKind::NoFlash, "open", database.display(), "no flash file is named").advise(
            "add flash=/path/to/file&flash_size=1GiB to the URI, or vfs=unix to open it without a tier",
        )
    })
}

impl Registry {
    /// Attaches a database that this process has locked and not had open yet.
    fn add(
        &mut self,
        path: &Path,
        mount: Option<&Arc<Mount>>,
        params: &Params,
        lock: &ProcessLock,
    ) -> Result<Attempt, Error> {
        let Mounted { mount, made, others_held } = match mount {
            Some(mount) => Mounted::known(Arc::clone(mount), false),
            None => self.mount_for(path, params, lock)?,
        };
        match attach(&mount, path, lock) {
            Ok(database) => Ok(Attempt::Opened(database)),
            Err(error) => {
                // The first error is the one to report.
                let _ = self.unmount_if_unused(&mount);
                if let Some(made) = made {
                    remove_unused_flash(&made, path);
                }
                // A database that is new to the tier needs all others.
                if others_held && others::is_for_others(&error) {
                    Ok(Attempt::Held(error))
                } else {
                    Err(error)
                }
            }
        }
    }

    /// The tier that a URI names, opened or formatted if it is not yet.
    fn mount_for(&mut self, database: &Path, params: &Params, lock: &ProcessLock) -> Result<Mounted, Error> {
        // Sidecars name it, and are read wherever a process is.
        let flash = &*std::path::absolute(flash_of(database, params)?)
            .map_err(|source| Error::io("open the flash file", database.display(), source))?;
        refuse_place_of_database(flash, |file| file == lock.id() || self.databases.contains_key(&file))?;
        if let Some(mount) = self.by_flash.get(&name_of(flash)) {
            let mount = Arc::clone(mount);
            let others_held = self.attach_others(&mount, database, Needed::ByOpening);
            return Ok(Mounted::known(mount, others_held));
        }
        let (mount, made) = open_flash(flash, database, params, lock)?;
        let mount = Arc::new(mount);
        if let Err(error) = record::begin(&mount.volume, params.trace.as_deref()) {
            if let Some(made) = made {
                remove_unused_flash(&made, database);
            }
            return Err(error);
        }
        self.by_flash.insert(mount.name(), Arc::clone(&mount));
        let others_held = self.attach_others(&mount, database, Needed::ByOpening);
        Ok(Mounted { mount, made, others_held })
    }

    /// One attempt of [`open`]. If somebody else has the file just now, it is in `asked` afterwards, open.
    /// `existed` says whether it was there before the first one.
    fn open_at_once(
        &mut self,
        path: &Path,
        wish: Wish,
        existed: bool,
        mount: Option<&Arc<Mount>>,
        params: &Params,
        asked: &mut Option<Asked>,
    ) -> Result<Attempt, Error> {
        if let Some(id) = FileId::of(path) {
            if let Some(attached) = self.databases.get_mut(&id) {
                same_tier(attached, path, mount, params)?;
                if wish.create && wish.exclusive {
                    return Err(Error::new(ErrorKind::Io, "create", path.display(), "it exists already"));
                }
                if attached.connections == 0 {
                    attached.enter_again(path)?;
                }
                attached.connections += 1;
                return Ok(Attempt::Opened(Arc::clone(&attached.database)));
            }
        }
        if is_open(path) && !planted::is(Bug::ReplacedFileUsed) {
            return Err(changed(path, "another file has taken its place"));
        }
        match mount {
            None => flash_of(path, params).map(|_| ())?,
            Some(mount) => mount.refuse_in_child("open", path)?,
        }
        let mut file = match asked.take().filter(|asked| asked.is_at(path)) {
            Some(file) => file,
            None => Asked::open(path, wish)?,
        };
        let Some(lock) = file.lock(path)? else {
            *asked = Some(file);
            return Ok(Attempt::Held(held_elsewhere(path)));
        };
        let added = self.add(path, mount, params, &lock);
        if let Ok(Attempt::Opened(database)) = &added {
            OfProcess::here().name(database);
            let (mount, database) = (Arc::clone(database.mount()), Arc::clone(database));
            let attached = Attached { mount, database, connections: 1, lock, unopened: None };
            self.databases.insert(attached.lock.id(), attached);
            return added;
        }
        let empty = |found: fs::Metadata| found.len() == 0 && FileId::from(&found) == lock.id();
        if !existed && fs::metadata(path).is_ok_and(empty) {
            // Leave no empty file behind that was not there, as long as nobody else can have it; the error
            // says more than one about its removal would.
            let _ = fs::remove_file(path);
        }
        added
    }

    fn unmount_if_unused(&mut self, mount: &Arc<Mount>) -> Result<(), Error> {
        let in_use = |attached: &Attached| Arc::ptr_eq(&attached.mount, mount) && attached.connections > 0;
        if mount.owned && !self.databases.values().any(in_use) {
            return self.close(mount);
        }
        Ok(())
    }

    /// Whether anybody has written over a database of the tier that was closed before the others: nothing of
    /// it is to be believed at the next opening.
    fn look_before_closing(&self, mount: &Arc<Mount>) {
        for attached in self.databases.values().filter(|attached| Arc::ptr_eq(&attached.mount, mount)) {
            // What cannot be read is no better.
            let same = attached.is_as_it_was().unwrap_or(false);
            if !same && !planted::is(Bug::ReplacedFileVouched) {
                attached.database.changed_by_others();
            }
        }
    }

    /// Closes a tier that was opened for a URI. What cannot be closed cleanly is recovered at the next
    /// opening.
    fn close(&mut self, mount: &Arc<Mount>) -> Result<(), Error> {
        let drained = mount.drained_at_close.load(Ordering::Relaxed);
        self.look_before_closing(mount);
        let closed = match drained {
            true => {
                mount.volume.close_drained().map_err(Error::from).and_then(|()| self.give_back_logs(mount))
            }
            false => mount.volume.close().map_err(Error::from),
        };
        self.by_flash.retain(|_, known| !Arc::ptr_eq(known, mount));
        self.databases.retain(|_, attached| !Arc::ptr_eq(&attached.mount, mount));
        let recorded = record::end(&mount.volume);
        closed.and(recorded)
    }

    /// Puts the logs that are left where an SQLite without the tier looks for them, when its databases are
    /// ordinary ones: as long as a log directory stands it opens none. What stands in the place of one has
    /// logs of its own.
    fn give_back_logs(&self, mount: &Arc<Mount>) -> Result<(), Error> {
        let ours = self.databases.values().filter(|attached| Arc::ptr_eq(&attached.mount, mount));
        let writable = ours.map(|attached| &attached.database).filter(|database| database.writable());
        let theirs = writable.filter(|database| !database.has_moved() && !planted::is(Bug::DrainedLogsKept));
        theirs.map(|database| logs::give_back(database.path())).fold(Ok(()), Result::and)
    }
}

fn canonical(path: &Path) -> std::io::Result<PathBuf> {
    fs::canonicalize(path)
}

/// The name under which a flash file is known; one that is no longer there has kept it.
fn name_of(flash: &Path) -> PathBuf {
    canonical(flash).or_else(|_| std::path::absolute(flash)).unwrap_or_else(|_| flash.to_owned())
}

/// Whether the database of this path is on a tier of this process.
pub(crate) fn is_open(path: &Path) -> bool {
    OfProcess::here().database(path).is_some()
}

/// The database that a log belongs to, by the name that SQLite has for the log.
pub(crate) fn database_of_log(log: &Path) -> Option<Arc<Database>> {
    OfProcess::here().database(&logs::database_of(log)?)
}

/// A child must not make or remove the log of a database that it has inherited and not opened: SQLite finds
/// out that it may not write there, but for a database in which there is nothing yet.
pub(crate) fn refuse_inherited_log(log: &Path) -> Result<(), Error> {
    let Some(database) = logs::database_of(log) else { return Ok(()) };
    OfProcess::refuse_inherited(&database, || logs::directory(&database).is_dir())
}

/// Where the log that SQLite calls `name` is, or would be.
pub(crate) fn place_of_log(name: &Path) -> PathBuf {
    // SQLite asks at each transaction: nothing is asked of the file system where the answer is known.
    let known = database_of_log(name).is_some_and(|database| database.has_entered_logs());
    logs::place_in_directory(name).filter(|_| known).unwrap_or_else(|| logs::place(name))
}

/// A log is about to be removed, or a super-journal, with which the logs of all databases in its transaction
/// lose their meaning.
pub(crate) fn hand_over_before_removal(log: &Path) -> Result<(), Error> {
    let hand_over =
        |path: PathBuf| OfProcess::here().database(&path).map_or(Ok(()), |known| known.hand_over());
    match logs::database_of(log) {
        Some(path) => hand_over(path),
        None => logs::named_in_super_journal(log).into_iter().try_for_each(hand_over),
    }
}

/// A log of an open database is kept by something that does not keep the bytes beside a write as they were.
pub(crate) fn withdraw_powersafe(log: &Path) {
    if let Some(database) = database_of_log(log) {
        database.withdraw_powersafe();
    }
}

mod flash;
mod others;
#[cfg(test)]
mod tests;
