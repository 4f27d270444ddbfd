//! What belongs to this process, as opposed to one that it was forked from.
//!
//! A child has copies of its parent's registry, volumes and connections. Their locks may be held by threads
//! that it does not have, their descriptors are let go of ([`mezzanine_device::fork`]), and whatever it wrote
//! through them would be behind the back of its parent. So none of them is used or freed in a child: it has a
//! registry of its own, in which there is nothing yet, and a connection that it inherited answers an error.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use mezzanine_device::fork::generation;
use mezzanine_engine::planted::{self, Bug};

use crate::database::Database;
use crate::database_file::Parked;
use crate::error::{Error, ErrorKind};
use crate::mount::Registry;

/// Everything of one process that is not behind a connection.
pub(crate) struct OfProcess {
    origin: Origin,
    registry: Mutex<Registry>,
    parked: Mutex<Parked>,
    /// Databases of the registry by their paths: who asks for one must not wait until another has been
    /// opened.
    named: Mutex<HashMap<PathBuf, Weak<Database>>>,
    /// That of a child of this process, or of a child's child.
    next: OnceLock<Box<OfProcess>>,
}

static FIRST: OnceLock<OfProcess> = OnceLock::new();

impl OfProcess {
    fn new() -> Self {
        Self {
            origin: Origin::here(),
            registry: Mutex::default(),
            parked: Mutex::default(),
            named: Mutex::default(),
            next: OnceLock::new(),
        }
    }

    /// That of the calling process.
    pub(crate) fn here() -> &'static Self {
        let mut known = FIRST.get_or_init(Self::new);
        while !known.origin.is_here() {
            known = known.next.get_or_init(|| Box::new(Self::new()));
        }
        known
    }

    pub(crate) fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the calling thread does not have it: others let go of it soon.
    #[cfg(test)]
    pub(crate) fn registry_can_be_had(&self) -> bool {
        let until = std::time::Instant::now() + std::time::Duration::from_millis(500);
        loop {
            match (self.registry.try_lock(), std::time::Instant::now() < until) {
                (Ok(_), _) => return true,
                (Err(_), true) => std::thread::yield_now(),
                (Err(_), false) => return false,
            }
        }
    }

    /// The database of this path, if it is in the registry.
    pub(crate) fn database(&self, path: &Path) -> Option<Arc<Database>> {
        self.named.lock().unwrap_or_else(PoisonError::into_inner).get(path)?.upgrade()
    }

    /// Refuses the log of a database that a process has open from which this one was forked, where this one
    /// has not opened it for itself. One that has no log directory by now is on no tier any more; of a
    /// process that was not forked nothing is asked.
    pub(crate) fn refuse_inherited(path: &Path, has_log_directory: impl Fn() -> bool) -> Result<(), Error> {
        let here = Self::here();
        let has_it = |process: &Self| {
            // A thread that this process does not have may hold the lock, and then just opens or closes
            // something.
            let named = process.named.try_lock();
            named.is_ok_and(|named| named.get(path).is_some_and(|known| known.strong_count() > 0))
        };
        let mut known = FIRST.get();
        while let Some(process) = known.filter(|process| !std::ptr::eq(*process, here)) {
            if has_it(process) && here.database(path).is_none() && has_log_directory() {
                return Err(process.origin.refuse("use the log of", path.display()));
            }
            known = process.next.get().map(Box::as_ref);
        }
        Ok(())
    }

    /// A database comes to the registry; those that have left are forgotten.
    pub(crate) fn name(&self, database: &Arc<Database>) {
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        named.retain(|_, known| known.strong_count() > 0);
        named.insert(database.path().to_owned(), Arc::downgrade(database));
    }

    pub(crate) fn parked(&self) -> MutexGuard<'_, Parked> {
        self.parked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The process that made something.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin {
    generation: u64,
    process: u32,
}

impl Origin {
    pub(crate) fn here() -> Self {
        Self { generation: generation(), process: std::process::id() }
    }

    /// Whether it is the calling process.
    #[inline]
    pub(crate) fn is_here(&self) -> bool {
        self.generation == generation() || planted::is(Bug::ForkUnnoticed)
    }

    /// Refuses what another process has made.
    pub(crate) fn refuse(&self, operation: &'static str, subject: impl std::fmt::Display) -> Error {
        let reason = format!(
            "it was opened by process {}, and this is a process that was forked from it",
            self.process
        );
        Error::new(ErrorKind::Forked, operation, subject, reason)
            .advise("open the database anew in this process, once that one has closed it; what was opened before a fork is the parent's")
    }
}
