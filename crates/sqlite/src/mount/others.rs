//! The other databases of a tier: as long as one that may have pages there is not attached, none can be
//! changed.
//!
//! They are attached when the tier is opened. One that somebody else has just then, or that comes back later,
//! is attached when a change needs it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mezzanine_engine::planted::{self, Bug};
use mezzanine_volume::{PathSidecar, VolumeErrorKind};

use super::{Attached, Mount, Registry, Wish, held_elsewhere, lock};
use crate::database_file::{Asked, FileId, closing};
use crate::error::{Error, ErrorKind};
use crate::lineage::OfProcess;

/// Whether a database is that of a tier which `mount` is a copy of: its sidecar names another flash file, and
/// that is there.
fn is_of_another_tier(mount: &Mount, database: &Path) -> bool {
    let Some(sidecar) = PathSidecar::beside(database).found() else { return false };
    let (other, ours) = (FileId::of(Path::new(&sidecar.tier_path)), FileId::of(&mount.name()));
    other.is_some() && other != ours && !planted::is(Bug::CopiesTakeOriginals)
}

/// Has a database that nobody has open here belong to the tier all the same, none of its pages read.
pub(crate) fn attach_unopened(mount: &Arc<Mount>, path: &Path) -> Result<(), Error> {
    mount.refuse_in_child("attach", path)?;
    let mut waits = closing();
    loop {
        match (attach_idle(&mut lock(), mount, path)?, waits.next()) {
            (Idle::Attached, _) => return Ok(()),
            (Idle::HeldElsewhere, Some(wait)) => std::thread::sleep(wait),
            (Idle::HeldElsewhere, None) => return Err(held_elsewhere(path)),
        }
    }
}

/// Attaches what else has pages in the tier that `database` was opened with: once for each tier. What cannot
/// be attached is named by the volume's error as soon as somebody wants to change a file.
pub(super) fn attach_at_opening(mount: &Arc<Mount>, database: &Path, sleep: impl FnMut(Duration)) {
    if !mount.others_sought.swap(true, Ordering::Relaxed) {
        attach_others(mount, database, sleep);
    }
}

/// Whether something was refused for the sake of other databases of the tier.
pub(super) fn is_for_others(error: &Error) -> bool {
    error.kind() == ErrorKind::Volume(VolumeErrorKind::FileNotAttached)
}

/// Whether what was refused with `error` is worth another attempt: it was for the sake of other databases of
/// the tier, and those that were missing are attached now.
pub(crate) fn may_succeed_now(error: &Error, mount: &Arc<Mount>, database: &Path) -> bool {
    if !is_for_others(error) || !mount.origin.is_here() || planted::is(Bug::OthersSoughtOnce) {
        return false;
    }
    attach_others(mount, database, std::thread::sleep);
    mount.volume.unattached_files().is_empty()
}

/// What somebody else has just now is waited for, with nothing in hand.
fn attach_others(mount: &Arc<Mount>, database: &Path, mut sleep: impl FnMut(Duration)) {
    let mut waits = closing();
    while lock().attach_others(mount, database) {
        let Some(wait) = waits.next() else { return };
        sleep(wait);
    }
}

/// What became of an attempt to attach a database that nobody has open here.
enum Idle {
    Attached,
    HeldElsewhere,
}

impl Registry {
    /// One attempt of [`attach_others`]. Whether somebody else has one of them just now. An owner attaches
    /// his databases himself.
    pub(super) fn attach_others(&mut self, mount: &Arc<Mount>, database: &Path) -> bool {
        if !mount.owned {
            return false;
        }
        let its_own = mount.number_of(database);
        let mut held = false;
        for (number, known) in mount.volume.unattached_files() {
            let is_named = *known == *database || Some(number) == its_own;
            if is_named && !planted::is(Bug::CopiesTakeOriginals) {
                continue;
            }
            let mut attach = |path: &Path| match attach_idle(self, mount, path) {
                Ok(Idle::Attached) => true,
                Ok(Idle::HeldElsewhere) => {
                    held = true;
                    false
                }
                Err(_) => false,
            };
            let is_there = *known != *database && known.exists() && !is_of_another_tier(mount, &known);
            if is_there && attach(&known) {
                continue;
            }
            // A copy of the tier goes with copies of its databases, and what was moved with it was moved too:
            // they stand beside the one that was named. What else has that name there is none of ours.
            let beside = known.file_name().map(|name| database.with_file_name(name));
            let beside = beside.filter(|beside| beside != database && *beside != known);
            if let Some(beside) = beside.filter(|beside| mount.number_of(beside) == Some(number)) {
                attach(&beside);
            }
        }
        held
    }
}

/// One attempt to attach a database that nobody has open here, but whose pages are in the tier: it must be
/// there before any can leave it.
fn attach_idle(registry: &mut Registry, mount: &Arc<Mount>, path: &Path) -> Result<Idle, Error> {
    let attached = FileId::of(path).and_then(|id| registry.databases.get(&id));
    if attached.is_some_and(|attached| Arc::ptr_eq(&attached.mount, mount)) {
        return Ok(Idle::Attached);
    }
    let mut file = Asked::open(path, Wish { writable: true, create: false, exclusive: false })?;
    let Some(lock) = file.lock(path)? else { return Ok(Idle::HeldElsewhere) };
    let database = mount.database(path, &lock)?;
    lock.file().leave();
    OfProcess::here().name(&database);
    let attached = Attached { mount: Arc::clone(mount), database, connections: 0, lock };
    registry.databases.insert(attached.lock.id(), attached);
    Ok(Idle::Attached)
}
