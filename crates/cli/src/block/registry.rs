//! The caches that are attached on this machine by this user: a small file for each, in a folder of this
//! user's. A process that was killed leaves its file; whoever finds that nobody answers removes it.

use std::fs;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::folders::{self, RUN_VARIABLE};
use crate::failure::Failure;

/// An attached cache.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Attached {
    pub(super) process: u32,
    /// Absolute path of the cache device; none without a cache.
    pub(super) cache: Option<PathBuf>,
    /// Absolute path of its control socket.
    pub(super) control: PathBuf,
}

/// The file of this process, which goes with it.
pub(super) struct Registered(PathBuf);

impl Attached {
    /// Lets others find this process.
    pub(super) fn register(&self) -> Result<Registered, Failure> {
        let path = folders::run()?.join(format!("{}.json", self.process));
        let making = path.with_extension("new");
        let text = serde_json::to_string(self).unwrap_or_default();
        fs::write(&making, text).and_then(|()| fs::rename(&making, &path)).map_err(|error| {
            Failure::refused(path.display(), error)
                .next(format!("name another folder with the variable {RUN_VARIABLE}"))
        })?;
        Ok(Registered(path))
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Those that answer.
pub(super) fn attached() -> Result<Vec<Attached>, Failure> {
    let folder = folders::run()?;
    let entries = fs::read_dir(&folder).map_err(|error| {
        Failure::refused(folder.display(), error)
            .next(format!("name another folder with the variable {RUN_VARIABLE}"))
    })?;
    let mut all = Vec::new();
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let Ok(one) = serde_json::from_str::<Attached>(&text) else { continue };
        // Another process may have its socket by now.
        let is_alive = Path::new("/proc").join(one.process.to_string()).exists();
        if is_alive && UnixStream::connect(&one.control).is_ok() {
            all.push(one);
        } else {
            let _ = fs::remove_file(&path);
        }
    }
    all.sort_by_key(|one| one.process);
    Ok(all)
}

/// Where the control socket lies of a server with this socket.
pub(super) fn control_beside(socket: &Path) -> PathBuf {
    let mut path = socket.as_os_str().to_owned();
    path.push(".control");
    PathBuf::from(path)
}

/// The control socket of what somebody names: a cache device, the socket that clients use, or the control
/// socket itself.
pub(super) fn find(named: &Path) -> Result<PathBuf, Failure> {
    let is_socket = |path: &Path| path.metadata().is_ok_and(|metadata| metadata.file_type().is_socket());
    let beside = control_beside(named);
    if is_socket(&beside) {
        return Ok(beside);
    }
    if is_socket(named) {
        return Ok(named.to_owned());
    }
    let canonical = named.canonicalize().ok();
    let found = attached()?.into_iter().find(|one| one.cache.is_some() && one.cache == canonical);
    found.map(|one| one.control).ok_or_else(|| {
        let failure = Failure::refused(named.display(), "no attached cache goes by it");
        failure.next(
            "name a cache device that is attached, or the socket that it is served at; `mezz block list` shows what is \
             attached, and `mezz block check` looks at a cache that is not",
        )
    })
}
