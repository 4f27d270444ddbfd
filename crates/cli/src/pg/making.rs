//! What `mezz pg init` has made so far, to be taken away again if it comes to no good end.

use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::cluster::Cluster;
use crate::failure::Failure;

/// Directories and files that were not there before, and a directory that was empty.
#[derive(Default)]
pub(super) struct Making {
    /// In the order in which they were made.
    made: Vec<PathBuf>,
    filled: Option<PathBuf>,
}

impl Making {
    /// Makes the data directory for the server's user alone; initdb itself could not, below a directory of
    /// root's. Whatever is missing on the way to it is made as other directories are, so that this user gets
    /// through.
    pub(super) fn directory(&mut self, cluster: &Cluster) -> Result<(), Failure> {
        let directory = &cluster.directory;
        let failed = |path: &Path, error: io::Error| Failure::refused(path.display(), error);
        let missing: Vec<_> = directory.ancestors().skip(1).take_while(|path| !path.exists()).collect();
        for path in missing.into_iter().rev() {
            self.make(path, 0o755).map_err(|error| failed(path, error))?;
        }
        if directory.exists() {
            self.filled = Some(directory.clone());
        } else {
            self.make(directory, 0o700).map_err(|error| failed(directory, error))?;
        }
        cluster.user.give(directory)?;
        if cluster.user.may("-w", directory) {
            return Ok(());
        }
        Err(Failure::refused(directory.display(), format!("the user {} cannot get to it", cluster.user.name))
            .next("open the directories on the way to it, or choose another place"))
    }

    /// Whatever this process's mask says.
    fn make(&mut self, path: &Path, mode: u32) -> io::Result<()> {
        DirBuilder::new().mode(mode).create(path)?;
        self.made.push(path.to_owned());
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode))
    }

    /// Makes an empty file for the server's user alone.
    pub(super) fn file(&mut self, cluster: &Cluster, path: &Path) -> Result<(), Failure> {
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .map_err(|error| Failure::refused(path.display(), format!("cannot be made: {error}")))?;
        self.made.push(path.to_owned());
        cluster.user.give(path)
    }

    /// Takes everything away, and tells who asked for it. Of what cannot be removed the message says so.
    pub(super) fn undo(self, failure: Failure) -> Failure {
        let clear =
            |directory: &PathBuf| std::fs::read_dir(directory)?.try_for_each(|entry| remove(&entry?.path()));
        let filled = self.filled.iter().map(|directory| (directory, clear(directory)));
        let made = self.made.iter().rev().map(|path| (path, remove(path)));
        let left: Vec<_> = filled
            .chain(made)
            .filter_map(|(path, outcome)| outcome.err().map(|error| format!("{}: {error}", path.display())))
            .collect();
        if left.is_empty() {
            return failure.and("nothing of it was left; mend that, and run mezz pg init again");
        }
        failure.and(format!("what it made could not be removed ({}): see to that first", left.join(", ")))
    }
}

fn remove(path: &Path) -> io::Result<()> {
    if path.symlink_metadata()?.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) }
}
