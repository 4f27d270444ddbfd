//! A tier that a command opens with the files that use it.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mezzanine_device::{Device, FileDevice, OpenOptions};
use mezzanine_engine::TierConfig;
use mezzanine_engine::format::{ClusterName, Superblock};
use mezzanine_sqlite::MezzanineVfs;
use mezzanine_volume::{
    AttachOptions, PathSidecar, Volume, VolumeConfig, VolumeError, VolumeErrorKind, VolumeFile,
};

use super::open::{Flash, open_failure};
use crate::failure::{Failure, chain};

pub(super) struct InUse {
    flash: PathBuf,
    pub(super) volume: Arc<Volume>,
    pub(super) vfs: MezzanineVfs,
}

impl InUse {
    /// Looks at the tier and closes it again, so that what cannot be opened is refused before anything is
    /// touched. A PostgreSQL cluster's is refused with this `next` step.
    pub(super) fn look(flash: &Path, files: &[PathBuf], next: &str) -> Result<TierConfig, Failure> {
        let mut seen = Flash::open(flash)?;
        let superblock = seen.superblock()?;
        seen.geometry(&superblock)?;
        refuse_cluster(flash, &superblock, next)?;
        if let Some(path) = files.iter().find(|path| !path.exists()) {
            return Err(Failure::refused(path.display(), "it does not exist")
                .next("name the files that use this tier"));
        }
        Ok(superblock.config)
    }

    /// Opens it, none of its files attached, for SQLite as the VFS of this name. Only `to_drain` it is one of
    /// an older format opened.
    pub(super) fn open(flash: &Path, vfs: &str, tier: TierConfig, to_drain: bool) -> Result<InUse, Failure> {
        let options = OpenOptions { exclusive_lock: true, no_follow: true, ..OpenOptions::read_write() };
        let device = FileDevice::open(flash, &options).map_err(|error| open_failure(flash, &error))?;
        let config = VolumeConfig { to_drain, ..VolumeConfig::new(tier.clone()) };
        let volume =
            Volume::open(Arc::new(device), config).map(Arc::new).map_err(|error| failure(flash, &error))?;
        let vfs = MezzanineVfs::builder(vfs)
            .volume(Arc::clone(&volume), &flash.display().to_string(), &tier)
            .register()
            .map_err(|error| Failure::refused(flash.display(), chain(&error)))?;
        Ok(InUse { flash: flash.to_owned(), volume, vfs })
    }

    /// A file that is no database of SQLite's: its pages are all that there is.
    pub(super) fn attach_plain(&self, path: &Path) -> Result<VolumeFile, Failure> {
        let options = OpenOptions { exclusive_lock: true, ..OpenOptions::read_write() };
        let backing = FileDevice::open(path, &options).map_err(|error| open_failure(path, &error))?;
        let sidecar = PathSidecar::of_device(&backing);
        let sidecar = Arc::new(sidecar.map_err(|error| Failure::refused(path.display(), error))?);
        let backing: Arc<dyn Device> = Arc::new(backing);
        self.volume
            .attach(path, backing, sidecar, AttachOptions::default())
            .map_err(|error| failure(&self.flash, &error))
    }

    /// Attaches a file of any kind without reading a page of it.
    pub(super) fn attach_unread(&self, path: &Path) -> Result<VolumeFile, Failure> {
        if !is_sqlite(path) {
            return self.attach_plain(path);
        }
        let refused = |reason: String| Failure::refused(path.display(), reason);
        // Its logs are found by the name under which it is opened.
        let path = path.canonicalize().map_err(|error| refused(chain(&error)))?;
        self.vfs.attach(&path).map_err(|error| refused(chain(&error)))?;
        self.volume.file(&path).ok_or_else(|| refused("it was not attached".to_owned()))
    }
}

/// What a PostgreSQL server that was killed lacks on disk is partly in its log, which only the server can
/// redo.
fn refuse_cluster(flash: &Path, superblock: &Superblock, next: &str) -> Result<(), Failure> {
    let Some(cluster) = ClusterName::of(&superblock.database_uuid) else { return Ok(()) };
    let identifier = cluster.system_identifier;
    let reason =
        format!("it is the tier of the PostgreSQL cluster {identifier}, whose pages may need its log");
    Err(Failure::refused(flash.display(), reason).next(next))
}

/// Whether a file is a SQLite database, current or guarded, by its header and the place of its logs.
pub(super) fn is_sqlite(path: &Path) -> bool {
    let mut header = [0; 16];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut header));
    let mut logs = path.as_os_str().to_owned();
    logs.push("-wal");
    (read.is_ok() && &header == b"SQLite format 3\0") || Path::new(&logs).is_dir()
}

/// What a volume says, with the next step for who is at the terminal.
pub(super) fn failure(flash: &Path, error: &VolumeError) -> Failure {
    let failure = Failure::refused(flash.display(), chain(error));
    match error.kind() {
        VolumeErrorKind::FileNotAttached => failure.next("name every file that uses this tier"),
        VolumeErrorKind::LostPage => failure.next("`mezz tier verify` lists the damaged pages"),
        VolumeErrorKind::NotLost => {
            failure.next("nothing was changed; `mezz tier verify` lists the pages that are lost")
        }
        _ => failure,
    }
}
