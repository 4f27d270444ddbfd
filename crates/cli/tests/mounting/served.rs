//! A file system on a served device, and what its client says of it.
#![allow(dead_code)] // Each test uses a part.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::mounting::{detach, run, umount, wait_for};

/// A served device as a file.
pub(crate) struct Shown {
    folder: PathBuf,
    nbdfuse: Child,
}

impl Shown {
    /// In the folder `fuse` of this one.
    pub(crate) fn on(below: &Path, socket: &Path) -> Self {
        let folder = below.join("fuse");
        std::fs::create_dir_all(&folder).unwrap();
        let mut command = Command::new("nbdfuse");
        command.arg(&folder).arg("--unix").arg(socket).stderr(Stdio::null());
        let shown = Self { folder, nbdfuse: command.spawn().unwrap() };
        wait_for("nbdfuse shows a file", || shown.file().exists());
        shown
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.folder.join("nbd")
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        umount(&self.folder);
        let begun = Instant::now();
        while self.nbdfuse.try_wait().is_ok_and(|ended| ended.is_none()) {
            if begun.elapsed() > Duration::from_secs(30) {
                let _ = self.nbdfuse.kill();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// A file system on a served device, taken apart again whatever happens.
pub(crate) struct Mounted {
    pub(crate) folder: PathBuf,
    loop_device: String,
    _shown: Shown,
}

impl Mounted {
    /// In the folder `fs` of this one, with these options of mount.
    pub(crate) fn on(below: &Path, socket: &Path, options: &[&str]) -> Self {
        let folder = below.join("fs");
        std::fs::create_dir_all(&folder).unwrap();
        let shown = Shown::on(below, socket);
        let device = run("losetup", &["-f", "--show", "--direct-io=on", &shown.file().to_string_lossy()]);
        let mounted = Self { folder, loop_device: device, _shown: shown };
        run("mount", &[options, &[&mounted.loop_device, &mounted.folder.to_string_lossy()]].concat());
        mounted
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        umount(&self.folder);
        detach(&self.loop_device);
    }
}

/// Where a client says what was acknowledged to it.
pub(crate) struct Marks(BufReader<UnixStream>);

impl Marks {
    pub(crate) fn to(socket: &str) -> Self {
        Self(BufReader::new(UnixStream::connect(socket).unwrap()))
    }

    /// Returns once it is recorded.
    pub(crate) fn say(&mut self, what: &str) {
        self.0.get_mut().write_all(format!("{what}\n").as_bytes()).unwrap();
        let mut answer = String::new();
        self.0.read_line(&mut answer).unwrap();
        assert_eq!(answer, "ok\n");
    }
}
