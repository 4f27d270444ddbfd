//! The other databases of a tier: as long as one that may have pages there is not attached, none can be
//! changed.
//!
//! They are attached when the tier is opened. One that somebody else has just then, or that comes back later,
//! is attached when a change needs it.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use mezzanine_engine::planted::{self, Bug};
use mezzanine_volume::{PathSidecar, VolumeErrorKind};

use super::opening::held_elsewhere;
use super::{Attached, Mount, Registry, Unopened, Wish, changed, is_open, lock};
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
        // What the registry was asked for is let go of before anything is waited for.
        let attempt = attach_idle(&mut lock(), mount, path)?;
        match (attempt, waits.next()) {
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
        attach_others(mount, database, Needed::ByOpening, sleep);
    }
}

/// Whether something was refused for the sake of other databases of the tier.
pub(super) fn is_for_others(error: &Error) -> bool {
    error.kind() == ErrorKind::Volume(VolumeErrorKind::FileNotAttached)
}

/// Makes a change, once more if the other databases of the tier that it was refused for can be had by now.
/// The caller has nothing in hand.
pub(crate) fn once_more(
    mount: &Arc<Mount>,
    database: &Path,
    change: impl Fn() -> Result<(), Error>,
) -> Result<(), Error> {
    change().or_else(|error| match may_succeed_now(&error, mount, database) {
        true => change(),
        false => Err(error),
    })
}

/// Whether what was refused with `error` is worth another attempt: it was for the sake of other databases of
/// the tier, and those that were missing are attached now.
pub(crate) fn may_succeed_now(error: &Error, mount: &Arc<Mount>, database: &Path) -> bool {
    if !is_for_others(error) || !mount.origin.is_here() || planted::is(Bug::OthersSoughtOnce) {
        return false;
    }
    let vain = || mount.waited_in_vain.lock().unwrap_or_else(PoisonError::into_inner);
    let waits = vain().is_none_or(|when| when.elapsed() > PATIENCE);
    if waits {
        attach_others(mount, database, Needed::ByChange, std::thread::sleep);
    } else {
        lock().attach_others(mount, database, Needed::ByChange);
    }
    let attached = mount.volume.unattached_files().is_empty();
    if waits && !attached {
        *vain() = Some(Instant::now());
    }
    attached
}

/// What somebody else has just now is waited for, with nothing in hand.
fn attach_others(mount: &Arc<Mount>, database: &Path, needed: Needed, mut sleep: impl FnMut(Duration)) {
    let mut waits = closing();
    while lock().attach_others(mount, database, needed) {
        let Some(wait) = waits.next() else { return };
        sleep(wait);
    }
}

/// For so long nobody waits again for databases that were waited for in vain: they are asked for once.
const PATIENCE: Duration = Duration::from_secs(5);

/// A file that is written by somebody else is whole when nobody has done so for this long.
const COMING: Duration = Duration::from_secs(2);

/// Whether somebody may just be putting the file back, under its name: what the tier wrote to it would be
/// written over, and what is not there yet be taken for the end of the file.
fn is_coming(mount: &Mount, path: &Path) -> bool {
    let Ok(changed) = std::fs::metadata(path).and_then(|found| found.modified()) else { return false };
    // A time that is yet to come says nothing.
    let lately = SystemTime::now().duration_since(changed).is_ok_and(|ago| ago < COMING);
    changed > mount.since && lately && !planted::is(Bug::ComingFileAttached)
}

/// What the other databases of a tier are looked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Needed {
    /// Somebody opens one: what is there then is meant to be.
    ByOpening,
    /// A program changes one, at any moment.
    ByChange,
}

/// What became of an attempt to attach a database that nobody has open here.
enum Idle {
    Attached,
    HeldElsewhere,
}

impl Registry {
    /// One attempt of [`attach_others`]. Whether somebody else has one of them just now. An owner attaches
    /// his databases himself.
    pub(super) fn attach_others(&mut self, mount: &Arc<Mount>, database: &Path, needed: Needed) -> bool {
        let unattached = mount.volume.unattached_files();
        if !mount.owned || unattached.is_empty() {
            return false;
        }
        let its_own = mount.number_of(database);
        let mut held = false;
        for (number, known) in unattached {
            let is_named = *known == *database || Some(number) == its_own;
            if is_named && !planted::is(Bug::CopiesTakeOriginals) {
                continue;
            }
            let is_there = *known != *database && known.exists() && !is_of_another_tier(mount, &known);
            // By the name that is in use now, where it has two.
            let beside = known.file_name().map(|name| database.with_file_name(name));
            let beside = beside.filter(|beside| beside != database && *beside != known);
            let renamed = beside.as_ref().filter(|beside| FileId::of(beside) == FileId::of(&known));
            let path = renamed.unwrap_or(&known);
            let attempt = is_there.then(|| match needed == Needed::ByChange && is_coming(mount, path) {
                true => Ok(Idle::HeldElsewhere),
                false => attach_idle(self, mount, path),
            });
            match attempt {
                Some(Ok(Idle::Attached)) => continue,
                Some(Ok(Idle::HeldElsewhere)) => {
                    held = true;
                    // It is the one, and no copy of it is.
                    if mount.number_of(&known) == Some(number) && !planted::is(Bug::CopyTakenForHeld) {
                        continue;
                    }
                }
                _ => {}
            }
            // A copy of the tier goes with copies of its databases, and what was moved with it was moved too:
            // they stand beside the one that was named. What else has that name there is none of ours.
            if let Some(beside) = beside.filter(|beside| mount.number_of(beside) == Some(number)) {
                held |= matches!(attach_idle(self, mount, &beside), Ok(Idle::HeldElsewhere));
            }
        }
        held
    }
}

/// One attempt to attach a database that nobody has open here, but whose pages are in the tier: it must be
/// there before any can leave it.
fn attach_idle(registry: &mut Registry, mount: &Arc<Mount>, path: &Path) -> Result<Idle, Error> {
    let attached = FileId::of(path).and_then(|id| registry.databases.get(&id));
    match attached {
        Some(attached) if Arc::ptr_eq(&attached.mount, mount) => return Ok(Idle::Attached),
        None if is_open(path) => return Err(changed(path, "another file has taken its place")),
        _ => {}
    }
    let mut file = Asked::open(path, Wish { writable: true, create: false, exclusive: false })?;
    let Some(lock) = file.lock(path)? else { return Ok(Idle::HeldElsewhere) };
    let before = PathSidecar::beside(path).opening();
    let database = mount.database(path, &lock)?;
    lock.file().leave();
    OfProcess::here().name(&database);
    let unopened = Some(Unopened { before });
    let attached = Attached { mount: Arc::clone(mount), database, connections: 0, lock, unopened };
    registry.databases.insert(attached.lock.id(), attached);
    Ok(Idle::Attached)
}
