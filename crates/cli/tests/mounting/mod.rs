//! What tests need that mount file systems.
#![allow(dead_code)] // Each test uses a part.

pub(crate) mod database;

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|id| String::from_utf8_lossy(&id.stdout).trim() == "0")
}

/// Why it cannot be tried here, with these programs.
pub(crate) fn missing(programs: &[&str]) -> Option<String> {
    let is_there = |program: &&str| {
        let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
        found.is_ok_and(|found| found.status.success())
    };
    if !is_root() {
        return Some("only root makes loop devices".to_owned());
    }
    if let Some(program) = programs.iter().find(|program| !is_there(program)) {
        return Some(format!("{program} is not installed"));
    }
    let devices = ["/dev/fuse", "/dev/loop-control"];
    let device = devices.iter().find(|device| !Path::new(device).exists());
    device.map(|device| format!("there is no {device}"))
}

/// What a program says that succeeds.
pub(crate) fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Waits for half a minute.
pub(crate) fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Unmounts what is there, or lets it go when nobody has it open any more.
pub(crate) fn umount(path: &Path) {
    for options in [&[][..], &["-l"]] {
        let status = Command::new("umount").args(options).arg(path).stderr(Stdio::null()).status();
        if status.is_ok_and(|status| status.success()) {
            return;
        }
    }
}

/// Takes the file of a loop device away from it, if it still has one.
pub(crate) fn detach(device: &str) {
    let _ = Command::new("losetup").arg("-d").arg(device).stderr(Stdio::null()).status();
    // It is let go a little later.
    let backing = format!("/sys/block/{}/loop/backing_file", device.trim_start_matches("/dev/"));
    let begun = Instant::now();
    while Path::new(&backing).exists() && begun.elapsed() < Duration::from_secs(5) {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A file of contents after a cut, in memory if there is some: they are made and synced hundreds of times.
pub(crate) struct Image(pub(crate) String);

impl Image {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let memory = Path::new("/dev/shm");
        let folder = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let name = format!("mezz-test-{}-{}.img", std::process::id(), NEXT.fetch_add(1, Relaxed));
        Self(folder.join(name).display().to_string())
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
