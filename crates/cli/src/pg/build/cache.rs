//! Where builds lie, and how one tells a finished one from a broken-off one.
//!
//! 1. A build's directory is named by its version and a hash of all that goes into it, so that a build is
//!    never changed, only made.
//! 2. It is complete if and only if it has a stamp, which is written last, by a rename.
//! 3. Whoever makes or removes a build holds the lock of its name.

use std::fs::{DirBuilder, File, OpenOptions};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::output;

/// What a finished build says of itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Stamp {
    pub(crate) version: String,
    pub(crate) source_sha256: String,
    pub(crate) patches: Vec<String>,
    pub(crate) configure: Vec<String>,
    pub(crate) built: String,
    pub(crate) seconds: f64,
    /// The regression and isolation tests have passed in it before it was installed.
    pub(crate) checked: bool,
    /// The checksum of the extension's sources, if it is installed in it.
    #[serde(default)]
    pub(crate) extension: Option<String>,
}

/// The stamp's name in a build.
pub(crate) const STAMP: &str = "mezzanine-build.json";

/// The directory for what can be made again: `$MEZZANINE_CACHE`, or the user's, or for root the system's,
/// which other users can read.
pub(crate) fn root() -> Result<PathBuf, Failure> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(path) = variable("MEZZANINE_CACHE") {
        return absolute(&path);
    }
    if let Some(path) = variable("XDG_CACHE_HOME") {
        return absolute(&path.join("mezzanine"));
    }
    if rustix::process::geteuid().is_root() {
        return Ok(PathBuf::from("/var/cache/mezzanine"));
    }
    match variable("HOME") {
        Some(home) => absolute(&home.join(".cache/mezzanine")),
        None => {
            Err(Failure::refused("the cache", "neither MEZZANINE_CACHE nor XDG_CACHE_HOME nor HOME is set")
                .next("set MEZZANINE_CACHE to a directory with 1 GB of room"))
        }
    }
}

/// PostgreSQL's build knows its own place, so it has to be an absolute one.
fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    let path = std::path::absolute(path).map_err(|e| Failure::refused(path.display(), e))?;
    if path.to_str().is_none_or(|text| text.contains(|c: char| c.is_whitespace() || "'\"\\$#:".contains(c))) {
        return Err(Failure::refused(
            path.display(),
            "PostgreSQL cannot be built into a path with spaces, quotes or any of \\ $ # :",
        )
        .next("set MEZZANINE_CACHE to another directory"));
    }
    Ok(path)
}

/// Makes a directory that everybody can read, with its parents.
pub(crate) fn make_directory(path: &Path) -> Result<(), Failure> {
    DirBuilder::new().recursive(true).mode(0o755).create(path).map_err(|e| {
        Failure::refused(path.display(), format!("cannot make this directory: {e}"))
            .next("set MEZZANINE_CACHE to a directory that you can write")
    })
}

/// A place for one build.
pub(crate) struct Place {
    /// Where it is installed.
    pub(crate) prefix: PathBuf,
    /// Where it is built; goes when it is done.
    pub(crate) workshop: PathBuf,
    /// What the tools said.
    pub(crate) log: PathBuf,
    lock: PathBuf,
    stamp: PathBuf,
}

impl Place {
    /// The build of this name in the directory of builds.
    pub(crate) fn new(builds: &Path, name: &str) -> Place {
        let beside = |suffix: &str| builds.join(format!("{name}.{suffix}"));
        let prefix = builds.join(name);
        Place {
            stamp: prefix.join(STAMP),
            workshop: beside("building"),
            log: beside("log"),
            lock: beside("lock"),
            prefix,
        }
    }

    /// The stamp, if the build is complete.
    pub(crate) fn stamp(&self) -> Option<Stamp> {
        let text = std::fs::read_to_string(&self.stamp).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// Declares the build complete.
    pub(crate) fn finish(&self, stamp: &Stamp) -> Result<(), Failure> {
        let text =
            serde_json::to_string_pretty(stamp).map_err(|e| Failure::refused(self.stamp.display(), e))?;
        let new = self.stamp.with_extension("new");
        std::fs::write(&new, text + "\n")
            .and_then(|()| std::fs::rename(&new, &self.stamp))
            .map_err(|e| Failure::refused(self.stamp.display(), e))
    }

    /// Waits until nobody else makes this build. The lock goes with the file, also if the process is killed.
    pub(crate) fn lock(&self) -> Result<File, Failure> {
        let failed = |e: std::io::Error| Failure::refused(self.lock.display(), e);
        let file = OpenOptions::new().create(true).append(true).open(&self.lock).map_err(failed)?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            output::note(&format!("waiting for another build ({})", self.lock.display()));
            flock(&file, FlockOperation::LockExclusive).map_err(|e| failed(e.into()))?;
        }
        Ok(file)
    }

    /// Removes what a build that did not finish, or is to be made again, has left.
    pub(crate) fn clear(&self) -> Result<(), Failure> {
        // The stamp first: a removal that breaks off must not leave something that looks complete.
        for file in [&self.stamp, &self.log] {
            remove(std::fs::remove_file(file), file)?;
        }
        for directory in [&self.prefix, &self.workshop] {
            remove(std::fs::remove_dir_all(directory), directory)?;
        }
        Ok(())
    }
}

pub(crate) fn remove(result: std::io::Result<()>, path: &Path) -> Result<(), Failure> {
    match result {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(Failure::refused(path.display(), format!("cannot remove it: {e}")))
        }
        _ => Ok(()),
    }
}
