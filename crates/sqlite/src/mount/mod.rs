//! Volumes in use by this process, and the databases on them.
//!
//! There is one tier per flash file in a process, whoever opens it. A database file belongs to one tier. All
//! of this is one registry behind one lock, which is held while connections open and close (recovery of a
//! tier included), never while they read or write.
//!
//! Lock order: the registry, then what a [`Database`] has, then the descriptors that are parked.

mod opening;

mod flash;

mod others;

mod closing;

mod log_files;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};

use mezzanine_device::{Device, DeviceError};
use mezzanine_volume::{AttachOptions, HeaderGuard, Nonce, PathSidecar, Volume, VolumeErrorKind, VolumeFile};

pub(crate) use self::closing::{close, release};
pub(crate) use self::flash::{replace_flash, sized, with_wishes};
pub(crate) use self::log_files::{
    database_of_log, hand_over_before_removal, place_of_log, refuse_inherited_log, withdraw_powersafe,
};
pub(crate) use self::opening::open;
pub(crate) use self::others::{attach_unopened, may_succeed_now, once_more};
use crate::database::Database;
use crate::database_file::{FileId, ProcessLock};
use crate::error::{Error, ErrorKind};
use crate::lineage::{OfProcess, Origin};
use crate::{logs, online};

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

impl Attached {
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
