//! A database is opened for one more connection, and its tier for its first one.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mezzanine_device::Device as _;
use mezzanine_engine::planted::{self, Bug};
use mezzanine_volume::PathSidecar;

use super::flash::{open_flash, remove_unused_flash};
use super::others::{self, Needed};
use super::{Attached, Mount, Registry, Wish, changed, is_open, lock, name_of, written_over};
use crate::database::Database;
use crate::database_file::{Asked, FileId, ProcessLock, closing};
use crate::error::{Error, ErrorKind};
use crate::flash_file::{MadeFile, refuse_place_of_database};
use crate::lineage::OfProcess;
use crate::open_directory::OpenDirectory;
use crate::params::Params;
use crate::{logs, record};

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

pub(super) fn open_waiting(
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

pub(super) fn held_elsewhere(path: &Path) -> Error {
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
}
