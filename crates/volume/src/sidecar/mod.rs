//! Where the few bytes about a file live that bind it to its tier.

mod record;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

pub use record::{Sidecar, SidecarState};

pub(crate) use record::SidecarError;

/// A small file beside a backing file, replaced as a whole.
pub trait SidecarStore: Send + Sync {
    /// What to call it in a message.
    fn describe(&self) -> String;

    /// Its bytes; `None` if there is none.
    ///
    /// # Errors
    /// Anything but its absence.
    fn read(&self) -> io::Result<Option<Vec<u8>>>;

    /// Replaces it. After a crash it is wholly the old one or wholly the new one; on return the new one is durable.
    ///
    /// # Errors
    /// The failure; old or new may then be in place.
    fn replace(&self, bytes: &[u8]) -> io::Result<()>;

    /// Removes it durably; that there is none is no error.
    ///
    /// # Errors
    /// The failure.
    fn remove(&self) -> io::Result<()>;

    /// Bytes that change when somebody writes to the backing file, as far as that can be known without reading it:
    /// for files the size and the time of the last change. `None` if nothing of the kind is known.
    ///
    /// # Errors
    /// The failure to ask.
    fn fingerprint(&self) -> io::Result<Option<Vec<u8>>> {
        Ok(None)
    }
}

/// The sidecar `<path>.mezzanine` beside a file, readable by its owner only.
#[derive(Debug)]
pub struct PathSidecar {
    backing: PathBuf,
    path: PathBuf,
}

/// No sidecar is nearly as long; more is not read.
const LENGTH_MAX: u64 = 1 << 20;

impl PathSidecar {
    /// The sidecar of the file at `backing`.
    pub fn beside(backing: &Path) -> Self {
        Self { backing: backing.to_owned(), path: Self::path_beside(backing) }
    }

    /// `<path>.mezzanine`.
    pub fn path_beside(backing: &Path) -> PathBuf {
        let mut name = backing.as_os_str().to_owned();
        name.push(".mezzanine");
        PathBuf::from(name)
    }

    /// The tier that holds the file's newest pages, by its path when it was last used, if the sidecar says that they are
    /// not on disk. A sidecar that cannot be read says nothing here; attaching the file will tell what is wrong with it.
    pub fn needed_tier(&self) -> Option<String> {
        let bytes = self.read().ok()??;
        let sidecar = Sidecar::decode(&bytes).ok()?;
        (sidecar.state == SidecarState::Dirty).then_some(sidecar.tier_path)
    }

    fn sync_directory(&self) -> io::Result<()> {
        let directory = match self.path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        File::open(directory)?.sync_all()
    }
}

impl SidecarStore for PathSidecar {
    fn describe(&self) -> String {
        self.path.display().to_string()
    }

    fn read(&self) -> io::Result<Option<Vec<u8>>> {
        let file = match OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut bytes = Vec::new();
        file.take(LENGTH_MAX).read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }

    fn replace(&self, bytes: &[u8]) -> io::Result<()> {
        let mut temporary = self.path.as_os_str().to_owned();
        temporary.push(".new");
        // A file of that name is the leftover of a crash: whatever it holds was never in force.
        match fs::remove_file(&temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        drop(file);
        fs::rename(&temporary, &self.path)?;
        self.sync_directory()
    }

    fn remove(&self) -> io::Result<()> {
        match fs::remove_file(&self.path) {
            Ok(()) => self.sync_directory(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn fingerprint(&self) -> io::Result<Option<Vec<u8>>> {
        let metadata = fs::metadata(&self.backing)?;
        let mut bytes = Vec::with_capacity(24);
        bytes.extend_from_slice(&metadata.len().to_le_bytes());
        bytes.extend_from_slice(&metadata.mtime().to_le_bytes());
        bytes.extend_from_slice(&metadata.mtime_nsec().to_le_bytes());
        Ok(Some(bytes))
    }
}

/// A sidecar in memory, for files that do not outlive the process, and for tests.
#[derive(Debug, Default)]
pub struct MemorySidecar {
    bytes: Mutex<Option<Vec<u8>>>,
}

impl MemorySidecar {
    /// A sidecar that does not exist yet.
    pub fn new() -> Self {
        Self::default()
    }

    fn slot(&self) -> std::sync::MutexGuard<'_, Option<Vec<u8>>> {
        self.bytes.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl SidecarStore for MemorySidecar {
    fn describe(&self) -> String {
        "the sidecar in memory".to_owned()
    }

    fn read(&self) -> io::Result<Option<Vec<u8>>> {
        Ok(self.slot().clone())
    }

    fn replace(&self, bytes: &[u8]) -> io::Result<()> {
        *self.slot() = Some(bytes.to_vec());
        Ok(())
    }

    fn remove(&self) -> io::Result<()> {
        *self.slot() = None;
        Ok(())
    }
}
