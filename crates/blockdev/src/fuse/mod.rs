//! A device as one file, through FUSE.
//!
//! The file system consists of its root alone, which is a regular file, so it is mounted over a file. Reads
//! and writes go past the page cache (`FOPEN_DIRECT_IO`), several at a time; `losetup --direct-io=on` makes a
//! block device of the file.
//!
//! What holds, numbered for reference:
//! 1. *Durability.* `fsync` is the device's own flush. A write that is to be durable (`O_DSYNC`, `O_SYNC`,
//!    `RWF_DSYNC`) is so when it is answered: the kernel says so with the write, and asks for no flush.
//! 2. *Lengths.* The file is as long as the device was when it was mounted. What lies beyond is not written,
//!    and it is not truncated.
//! 3. *Holes.* A range is punched only where the device says afterwards that it is zeros, as files do;
//!    zeros are written where they are asked for (`FALLOC_FL_ZERO_RANGE`).
//! 4. *Ends.* A file that is in use is not unmounted, unless by [`FuseFile::close`]: nothing reaches the
//!    device any more then but what is in it already and does not come back in time. When the process is gone, whoever has it open gets errors, and the mount stays
//!    until somebody unmounts it.

mod file;

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use fuser::{BackgroundSession, Config, MountOption, Session};
use mezzanine_device::{Device, DeviceError};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};

use crate::gate::Gate;
use file::File;

/// How long the end waits for the threads of a file that was unmounted.
const END_WITHIN: Duration = Duration::from_secs(10);

/// How a device is shown.
pub struct FuseOptions {
    /// Nothing is written.
    pub read_only: bool,
    /// Holes can be punched: a range that the device gives up is zeros afterwards, as in files.
    pub zeroes_are_holes: bool,
    /// Requests that are carried out at a time; each has a thread.
    pub threads: usize,
    /// Is told of requests that the device has failed.
    pub on_failure: Box<dyn Fn(&DeviceError) + Send + Sync>,
}

impl Default for FuseOptions {
    fn default() -> Self {
        Self { read_only: false, zeroes_are_holes: false, threads: 8, on_failure: Box::new(|_| ()) }
    }
}

/// A device that is shown as a file until this is dropped.
pub struct FuseFile {
    path: PathBuf,
    session: Option<BackgroundSession>,
    gate: Arc<Gate>,
    /// The file that it is mounted over was made for that.
    is_made: bool,
}

impl FuseFile {
    /// Shows a device at a path: over an empty file that is there, or over one that is made for it and goes
    /// with it.
    ///
    /// # Errors
    /// If something else than an empty file is at the path, or the system does not mount it: there is no
    /// /dev/fuse, or this user may not, or fusermount3 is missing.
    pub fn mount(device: Arc<dyn Device>, path: &Path, options: FuseOptions) -> io::Result<Self> {
        let is_made = prepare(path)?;
        let mut config = Config::default();
        config.n_threads = Some(options.threads.max(1));
        config.clone_fd = true;
        config.mount_options = vec![
            MountOption::FSName("mezzanine".to_owned()),
            MountOption::Subtype("mezzanine".to_owned()),
            MountOption::NoAtime,
            MountOption::NoExec,
            if options.read_only { MountOption::RO } else { MountOption::RW },
        ];
        let mounted = fs::canonicalize(path).and_then(|path| {
            let gate = Arc::new(Gate::default());
            let file = File::new(device, &path, options, Arc::clone(&gate))?;
            let session = Session::new(file, &path, &config)?.spawn()?;
            Ok(Self { path, session: Some(session), gate, is_made })
        });
        mounted.inspect_err(|_| {
            if is_made {
                let _ = fs::remove_file(path);
            }
        })
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Unmounts the file, when what is under way is finished.
    ///
    /// # Errors
    /// If it is in use (`ResourceBusy`), or cannot be unmounted by this user. It is shown as before then.
    pub fn unmount(&mut self) -> io::Result<()> {
        let Some(session) = &self.session else { return Ok(()) };
        match unmount(&self.path, UnmountFlags::empty()) {
            // Only root unmounts; for others there is a program that does.
            Err(Errno::PERM) => by_program(&self.path, "-u")?,
            // Somebody else has unmounted it, and may have it open still.
            Err(Errno::INVAL) => {
                self.gate.close(END_WITHIN);
            }
            unmounted => unmounted?,
        }
        let begun = Instant::now();
        while !session.guard.is_finished() && begun.elapsed() < END_WITHIN {
            thread::sleep(Duration::from_millis(1));
        }
        self.session = None;
        self.remove_made()
    }
}

impl FuseFile {
    /// Ends it whoever uses it: what is under way is finished, for which there is so much time, everything
    /// later fails, and the path is as it was before.
    ///
    /// # Errors
    /// If it cannot be unmounted by this user, or the device does not give requests back in time
    /// (`TimedOut`). Later requests fail all the same.
    pub fn close(&mut self, within: Duration) -> io::Result<()> {
        let left = self.gate.close(within);
        self.unmount_in_use()?;
        match left {
            0 => Ok(()),
            _ => {
                let reason = format!("{left} requests are still in the device after {within:?}");
                Err(io::Error::new(io::ErrorKind::TimedOut, reason))
            }
        }
    }

    fn unmount_in_use(&mut self) -> io::Result<()> {
        match self.unmount() {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {}
            unmounted => return unmounted,
        }
        match unmount(&self.path, UnmountFlags::DETACH) {
            Err(Errno::PERM) => by_program(&self.path, "-uz")?,
            unmounted => unmounted?,
        }
        // Its threads end when the last user is gone.
        self.session = None;
        self.remove_made()
    }

    fn remove_made(&self) -> io::Result<()> {
        if self.is_made { fs::remove_file(&self.path) } else { Ok(()) }
    }
}

impl Drop for FuseFile {
    fn drop(&mut self) {
        // If it is in use it goes with the process.
        let _ = self.unmount();
    }
}

/// Looks at what is at the path; true if an empty file was made there.
fn prepare(path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            OpenOptions::new().write(true).create_new(true).open(path).map(|_| true)
        }
        // ENOTCONN: a server that is gone has left its mount.
        Err(error) if error.raw_os_error() == Some(Errno::NOTCONN.raw_os_error()) => {
            let reason = "a server that is gone has left its mount there; `umount` it (fusermount3 -u) first";
            Err(io::Error::new(error.kind(), reason))
        }
        Err(error) => Err(error),
        Ok(found) if found.is_file() && found.len() == 0 => Ok(false),
        Ok(_) => {
            let reason = "something else than an empty file is there; name another path, or remove it";
            Err(io::Error::new(io::ErrorKind::AlreadyExists, reason))
        }
    }
}

fn by_program(path: &Path, how: &str) -> io::Result<()> {
    let done = Command::new("fusermount3").args([how, "--"]).arg(path).output()?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr).trim().to_owned();
    let kind = if said.contains("busy") { io::ErrorKind::ResourceBusy } else { io::ErrorKind::Other };
    Err(io::Error::new(kind, said))
}
