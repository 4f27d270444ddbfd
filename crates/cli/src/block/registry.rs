//! The caches that are attached on this machine by this user: a small file for each, in a folder of this
//! user's. A process that was killed leaves its file; whoever finds that nobody answers removes it.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// Names the folder, where it is not to be the usual one.
const FOLDER_VARIABLE: &str = "MEZZ_RUN_DIR";

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

/// The folder, made if it is missing.
pub(super) fn folder() -> Result<PathBuf, Failure> {
    let user = rustix::process::geteuid().as_raw();
    let path = match (std::env::var_os(FOLDER_VARIABLE), std::env::var_os("XDG_RUNTIME_DIR")) {
        (Some(path), _) => PathBuf::from(path),
        (None, Some(path)) => Path::new(&path).join("mezz"),
        (None, None) if user == 0 => PathBuf::from("/run/mezz"),
        (None, None) => std::env::temp_dir().join(format!("mezz-{user}")),
    };
    let refused = |error: io::Error| {
        Failure::refused(path.display(), format!("cannot be used to find caches by: {error}"))
            .next(format!("name another folder with the variable {FOLDER_VARIABLE}"))
    };
    match DirBuilder::new().mode(0o700).create(&path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(refused(error)),
        _ => {}
    }
    let metadata = fs::symlink_metadata(&path).map_err(refused)?;
    if !metadata.is_dir() || metadata.uid() != user {
        return Err(refused(io::Error::other("it is another user's, or no folder")));
    }
    Ok(path)
}

impl Attached {
    /// Lets others find this process.
    pub(super) fn register(&self) -> Result<Registered, Failure> {
        let path = folder()?.join(format!("{}.json", self.process));
        let making = path.with_extension("new");
        let text = serde_json::to_string(self).unwrap_or_default();
        fs::write(&making, text).and_then(|()| fs::rename(&making, &path)).map_err(|error| {
            Failure::refused(path.display(), error)
                .next(format!("name another folder with the variable {FOLDER_VARIABLE}"))
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
    let folder = folder()?;
    let entries = fs::read_dir(&folder).map_err(|error| Failure::refused(folder.display(), error))?;
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
