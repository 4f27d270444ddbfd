//! A connection is closed, and a tier with its last one.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use mezzanine_engine::planted::{self, Bug};
use mezzanine_volume::Volume;

use super::{Attached, Mount, Registry, lock};
use crate::database::Database;
use crate::error::{Error, ErrorKind};
use crate::{logs, record};

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

impl Registry {
    pub(super) fn unmount_if_unused(&mut self, mount: &Arc<Mount>) -> Result<(), Error> {
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
