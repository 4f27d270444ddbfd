//! Changes of a tier in use, as pragmas ask for them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use mezzanine_device::Device as _;
use mezzanine_engine::planted::{self, Bug};
use mezzanine_volume::{Forgotten, PathSidecar, ResizeProgress, SidecarState, SyncMode, VolumeErrorKind};

use crate::database_file::{Acquired, ProcessLock};
use crate::error::{Error, ErrorKind};
use crate::mount::{GUARD, Mount, Wish};
use crate::params::{bad, choose, size, sync_mode as mode_of};

/// `PRAGMA mezzanine_resize`.
pub(crate) fn resize(mount: &Mount, argument: Option<&str>) -> Result<String, Error> {
    let progress = match argument {
        None => mount.volume.resize_progress(),
        Some("cancel") => {
            mount.volume.cancel_resize();
            mount.volume.resize_progress()
        }
        Some(value) => Some(mount.volume.resize(size("mezzanine_resize", value)?)?),
    };
    Ok(progress.map_or_else(|| "no tier is in use".to_owned(), |progress| words(&progress)))
}

fn words(progress: &ResizeProgress) -> String {
    let ResizeProgress { bytes, bytes_max, frames, wanted } = progress;
    let now = format!("{bytes} bytes of flash in {frames} frames, at most {bytes_max}");
    match wanted {
        None => format!("{now}; no resize is under way"),
        Some(wanted) => format!(
            "{now}; to be {} bytes in {} frames when {} more have been written, at least",
            wanted.bytes, wanted.frames, wanted.frames_to_go
        ),
    }
}

/// `PRAGMA mezzanine_forget`.
pub(crate) fn forget(mount: &Mount, argument: Option<&str>) -> Result<String, Error> {
    let waits_for = mount.volume.unattached();
    let Some(argument) = argument else {
        return Ok(match waits_for.is_empty() {
            true => "the tier waits for no file".to_owned(),
            false => format!("the tier waits for {}", listed(&waits_for)),
        });
    };
    if argument.is_empty() {
        return Err(bad("mezzanine_forget", "", "it names no file; give the path of one that is gone"));
    }
    // Several are forgotten together or not at all, by the list in which they are told.
    let all = argument == listed(&waits_for);
    let paths = if all { waits_for } else { vec![PathBuf::from(argument)] };
    for path in &paths {
        if let Some(reason) = needs_tier(mount, path)? {
            let kind = ErrorKind::Volume(VolumeErrorKind::OnlyCopy);
            return Err(Error::new(kind, "forget", path.display(), reason).advise(
                "open it, or remove it first; mezz tier forget --force forgets what the tier has of it",
            ));
        }
    }
    let forgotten = mount.volume.forget(&paths)?;
    let line = |gone: &Forgotten| {
        format!("{} is forgotten, with {} pages that flash alone had", gone.path.display(), gone.pages)
    };
    Ok(forgotten.iter().map(line).collect::<Vec<_>>().join("\n"))
}

fn listed(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// What the tier waits for, and what to do: for whoever opens another database of it. Nobody but a person can
/// tell a database that was removed from one that is elsewhere for a while.
pub(crate) fn waits_for(mount: &Mount) -> Option<String> {
    let paths = mount.volume.unattached();
    if paths.is_empty() {
        return None;
    }
    let each: Vec<String> =
        paths.iter().map(|path| format!("{} ({})", path.display(), how_it_is_missing(path))).collect();
    Some(format!(
        "the tier {} may have the newest pages of databases that it waits for, and until then its others can be read and \
         not changed: {}; put back what is to be kept; PRAGMA mezzanine_forget = '{}' gives up what is gone for good",
        mount.flash(),
        each.join(", "),
        listed(&paths).replace('\'', "''"),
    ))
}

fn how_it_is_missing(path: &Path) -> &'static str {
    let absent = |path: &Path| path.try_exists().is_ok_and(|is_there| !is_there);
    match path.parent() {
        _ if !absent(path) => "it is there; opening it says why it could not be had",
        Some(folder) if absent(folder) => "it is not there, nor is its folder: see whether that is mounted",
        _ if absent(&PathSidecar::path_beside(path)) => "it is not there, nor is its sidecar",
        _ => "it is not there, its sidecar is",
    }
}

/// Why a file is not to be forgotten: it is there, and may need what the tier has of it.
fn needs_tier(mount: &Mount, path: &Path) -> Result<Option<&'static str>, Error> {
    if !path.exists() {
        return Ok(None);
    }
    match PathSidecar::beside(path).found() {
        Some(found) if found.state == SidecarState::Dirty => {
            let ours = mount.volume.number_of(&found).is_some();
            return Ok(ours.then_some("it is there, and its newest pages are in this tier"));
        }
        None if PathSidecar::path_beside(path).try_exists().unwrap_or(true)
            && !planted::is(Bug::UnreadSidecarForgotten) =>
        {
            return Ok(Some(
                "it is there, and its sidecar, which says whether its newest pages are in this tier, cannot be read",
            ));
        }
        _ => {}
    }
    // Of others the volume says that it does not wait for them, and nobody's lock is to be in the way of
    // that.
    let waited_for = std::path::absolute(path).is_ok_and(|path| mount.volume.unattached().contains(&path));
    let guarded = waited_for && begins_with_guard(path)? && !planted::is(Bug::UnreadSidecarForgotten);
    Ok(guarded.then_some("it is there, and begins with the words of a file whose newest pages are in a tier"))
}

/// Asked of a file that is locked: see [`crate::database_file`] for what it costs to close another one.
fn begins_with_guard(path: &Path) -> Result<bool, Error> {
    match ProcessLock::acquire(path, Wish { writable: false, create: false, exclusive: false })? {
        Acquired::Locked(lock) => {
            let mut head = [0; GUARD.len()];
            let read = lock.file().read_at_or_zero(&mut head, 0);
            read.map_err(|source| Error::device("forget", path.display(), source))?;
            Ok(head == *GUARD)
        }
        Acquired::HeldElsewhere => {
            let reason = "it is there, and in use without this tier";
            Err(Error::new(ErrorKind::Busy, "forget", path.display(), reason).advise("close it there first"))
        }
    }
}

/// `PRAGMA mezzanine_sync_mode`.
pub(crate) fn sync_mode(mount: &Mount, argument: Option<&str>) -> Result<String, Error> {
    if let Some(value) = argument {
        mount.volume.set_sync_mode(mode_of("mezzanine_sync_mode", value)?)?;
    }
    Ok(mount.volume.sync_mode().map_or("no tier is in use", SyncMode::name).to_owned())
}

/// `PRAGMA mezzanine_admission`.
pub(crate) fn admission(mount: &Mount, argument: Option<&str>) -> Result<String, Error> {
    if let Some(value) = argument {
        if choose("mezzanine_admission", value, &[("on", true), ("off", false)])? {
            mount.volume.resume_admission()?;
        } else {
            mount.volume.stop_admission()?;
        }
    }
    let answer = match mount.volume.takes_pages() {
        Some(true) => "on",
        Some(false) => {
            "off: the databases are current on disk, and changes go there alone; pages that the tier has are read from it \
             until they change; on again at the next opening, or with mezzanine_admission = on"
        }
        None => "no tier is in use",
    };
    Ok(answer.to_owned())
}

/// Lost pages that are named one by one; more are counted.
const LOST_NAMED_MAX: usize = 100;

/// The lines about what is wrong with the tier: its lost pages, and a number of it that comes to its end.
fn wrong(mount: &Mount) -> String {
    let volume = &mount.volume;
    let lost = volume.lost_pages();
    let mut lines = format!("lost_pages {}\n", lost.len());
    let page_size = u64::from(mount.page_size);
    for (path, offset) in lost.iter().take(LOST_NAMED_MAX) {
        let (block, last) = (offset / page_size, offset + page_size - 1);
        let _ = writeln!(lines, "lost_page {}: block {block}, bytes {offset} to {last}", path.display());
    }
    if let Some(more) = lost.len().checked_sub(LOST_NAMED_MAX).filter(|more| *more > 0) {
        let _ = writeln!(lines, "lost_page and {more} more");
    }
    if let Some(why) = volume.statistics().used_up {
        let _ = writeln!(lines, "used_up {why}");
    }
    lines
}

/// The lines of `PRAGMA mezzanine_status` about what can be changed, and what is wrong.
pub(crate) fn status(mount: &Mount) -> String {
    let volume = &mount.volume;
    let mut lines = format!("sync_mode {}\n", volume.sync_mode().map_or("none", SyncMode::name));
    let admission = volume.takes_pages().map_or("none", |takes| if takes { "on" } else { "off" });
    let _ = writeln!(lines, "admission {admission}");
    for path in volume.unattached() {
        let _ = writeln!(lines, "waits_for {} ({})", path.display(), how_it_is_missing(&path));
    }
    if let Some(progress) = volume.resize_progress() {
        let _ = writeln!(lines, "queue {}", words(&progress));
    }
    if let Some(permille) = volume.disk_utilisation() {
        let _ = writeln!(lines, "disk_utilisation_permille {permille}");
    }
    lines + &wrong(mount)
}
