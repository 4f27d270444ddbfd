//! Copies of a cluster at a moment: its data directory, its flash, and what both must have.
//!
//! A copy of a running server stands for an atomic snapshot of a volume that has directory, log and flash:
//! all processes are stopped, each when the system call that it is in is complete, and the copy sees what the
//! kernel's cache holds. A volume's snapshot may lack what was not synced; that is for the simulator, whose
//! devices lose it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::{Checked, demand};
use crate::oracle::Oracle;
use crate::server::Server;
use crate::side::Contents;

/// How a copy was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    /// Of a server that was shut down.
    Cold,
    /// Of one that was killed.
    Crashed,
    /// Of one that was running, all at one instant.
    Running,
    /// None was made: it is what is there, of a server that was killed.
    Now,
}

/// What a copy was made of, to tell the parts of several apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Origin {
    /// Numbers the moments of a life; a later one has a higher number.
    pub(crate) number: u64,
    pub(crate) taken: Taken,
    /// The server had been told to shut down in order: there may be nothing to recover.
    pub(crate) stopping: bool,
    /// And its files were current then: flash had nothing that they lack.
    pub(crate) drained: bool,
    /// Which start of the server it belongs to. `None` after one that was cut off: it may have come to begin
    /// its session, or not.
    pub(crate) session: Option<u64>,
    /// Moments of different branches lie on histories that have parted.
    pub(crate) branch: u64,
    /// Counts the tiers that were made anew.
    pub(crate) tier: u64,
}

/// What the directory of a moment must have once it is recovered.
#[derive(Debug, Clone)]
pub(crate) struct Model {
    /// The journal of commits as it was then: what was acknowledged by then must be there.
    pub(crate) journal: String,
    pub(crate) side: Contents,
    pub(crate) oracle: Oracle,
}

/// A moment that was kept.
#[derive(Debug, Clone)]
pub(crate) struct Moment {
    pub(crate) origin: Origin,
    pub(crate) model: Model,
    /// Where its copies are.
    place: PathBuf,
}

impl Moment {
    /// Copies directory and flash of a server whose processes do nothing just now.
    pub(crate) fn copy(server: &Server, place: PathBuf, origin: Origin, model: Model) -> Checked<Self> {
        fs::create_dir_all(&place)?;
        let moment = Self { origin, model, place };
        copy(&server.data(), &moment.data())?;
        copy(&server.flash(), &moment.flash())?;
        forget_processes(&moment.data())?;
        Ok(moment)
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.place.join("data")
    }

    pub(crate) fn flash(&self) -> PathBuf {
        self.place.join("flash")
    }

    /// Frees its space.
    pub(crate) fn remove(&self) -> Checked {
        Ok(fs::remove_dir_all(&self.place)?)
    }
}

/// Copies a file or directory with owners, modes and times, to a place where nothing is.
pub(crate) fn copy(from: &Path, to: &Path) -> Checked {
    let status = Command::new("cp").args(["--reflink=auto", "-a"]).arg(from).arg(to).status()?;
    demand(status.success(), || format!("\"{}\" could not be copied to \"{}\"", from.display(), to.display()))
}

/// Removes what says that a server uses the directory.
fn forget_processes(data: &Path) -> Checked {
    for name in ["postmaster.pid", "postmaster.opts"] {
        match fs::remove_file(data.join(name)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
    }
    Ok(())
}

/// Which of the two are exchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exchanged {
    pub(crate) data: bool,
    pub(crate) flash: bool,
}

/// Directory and flash as they are, kept while others are in their places.
pub(crate) struct Aside {
    place: PathBuf,
    data: PathBuf,
    flash: PathBuf,
}

impl Aside {
    /// Keeps both. What is about to be exchanged leaves its place, the rest is copied: a directory that comes
    /// back is then the same for the kernel, and the next server there finds the shared memory of the last.
    pub(crate) fn keep(server: &Server, exchanged: Exchanged) -> Checked<Self> {
        let place = server.directory.join("aside");
        fs::create_dir_all(&place)?;
        let aside = Self { place, data: server.data(), flash: server.flash() };
        for (moves, from) in [(exchanged.data, &aside.data), (exchanged.flash, &aside.flash)] {
            let to = aside.place.join(from.file_name().unwrap_or_default());
            if moves {
                fs::rename(from, to)?;
            } else {
                copy(from, &to)?;
            }
        }
        Ok(aside)
    }

    /// Whether what is in the flash's place now is, byte by byte, what was there.
    pub(crate) fn flash_is_unchanged(&self) -> Checked<bool> {
        Ok(fs::read(&self.flash)? == fs::read(self.place.join("flash"))?)
    }

    /// Puts the directory back.
    pub(crate) fn put_back_data(&self) -> Checked {
        replace(&self.place.join("data"), &self.data)
    }

    /// Puts the flash back.
    pub(crate) fn put_back_flash(&self) -> Checked {
        replace(&self.place.join("flash"), &self.flash)
    }

    /// Frees the space of what was not put back.
    pub(crate) fn forget(self) -> Checked {
        Ok(fs::remove_dir_all(self.place)?)
    }
}

/// Moves a file or directory to where another one is.
fn replace(from: &Path, to: &Path) -> Checked {
    remove(to)?;
    Ok(fs::rename(from, to)?)
}

fn remove(path: &Path) -> Checked {
    if path.is_dir() {
        fs::remove_dir_all(path)?;
    } else if path.exists() {
        fs::remove_file(path)?;
    }
    Ok(())
}
