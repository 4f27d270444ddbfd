//! A file system on a cached volume.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::common::Scratch;
use super::mounting::{detach, run, umount};

/// A volume with its cache, served as a file by a process, with a file system on it; taken apart again
/// whatever happens.
pub(crate) struct Mounted<'s> {
    scratch: &'s Scratch,
    child: Child,
    loop_device: Option<String>,
    pub(crate) folder: PathBuf,
}

fn mezz(scratch: &Scratch, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mezz"));
    command.current_dir(&scratch.0).arg("block").args(arguments);
    command.env("MEZZ_RUN_DIR", scratch.0.join("run")).env("MEZZ_STATE_DIR", scratch.0.join("state"));
    command
}

pub(crate) fn json(scratch: &Scratch, arguments: &[&str]) -> Value {
    let output = mezz(scratch, &[arguments, &["--json"]].concat()).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

impl<'s> Mounted<'s> {
    /// These devices, by their paths from the scratch folder on, mounted at this folder.
    pub(crate) fn on(scratch: &'s Scratch, cache: &str, backing: &str, folder: &Path) -> Self {
        std::fs::create_dir_all(folder).unwrap();
        let backing = format!("disk={backing}");
        let arguments =
            ["attach", cache, "--backing", &backing, "--fuse", "file", "--settle", "300ms", "--json"];
        let log = std::fs::File::options().append(true).create(true).open(scratch.0.join("log")).unwrap();
        let child = mezz(scratch, &arguments).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        let mut mounted = Self { scratch, child, loop_device: None, folder: folder.to_owned() };
        let begun = Instant::now();
        while json(scratch, &["list"]).as_array().unwrap().is_empty() {
            let log = || std::fs::read_to_string(scratch.0.join("log"));
            assert!(mounted.child.try_wait().unwrap().is_none(), "{:?}", log());
            assert!(begun.elapsed() < Duration::from_secs(30), "it is not attached: {:?}", log());
            std::thread::sleep(Duration::from_millis(10));
        }
        let file = scratch.0.join("file");
        let device = run("losetup", &["-f", "--show", "--direct-io=on", &file.to_string_lossy()]);
        mounted.loop_device = Some(device.clone());
        run("mount", &[&device, &folder.to_string_lossy()]);
        mounted
    }

    pub(crate) fn status(&self) -> Value {
        json(self.scratch, &["status", "file"])["cache"].clone()
    }

    /// Killed at this moment.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        umount(&self.folder);
        if let Some(device) = &self.loop_device {
            detach(device);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        umount(&self.scratch.0.join("file"));
    }
}
