//! A folder with a cache device and volumes, and `mezz block` in it.
#![allow(dead_code)]

use std::io::Read as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::client::Client;
use crate::common::{Done, Scratch};

pub(crate) const MIB: u64 = 1 << 20;

/// Such a folder.
pub(crate) struct Place(pub(crate) Scratch);

impl Place {
    pub(crate) fn new() -> Place {
        Place(Scratch::new())
    }

    /// With a volume `disk` of 4 MiB, and a cache of 4 MiB for it.
    pub(crate) fn with_cache() -> Place {
        let place = Place::new();
        place.disk("disk", 4 * MIB);
        place
            .mezz(&["create", "cache", "--size", "4MiB", "--fragment", "128KiB", "--backing", "disk"])
            .expect(0);
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.0.join(name)
    }

    pub(crate) fn disk(&self, name: &str, bytes: u64) {
        std::fs::File::create(self.path(name)).unwrap().set_len(bytes).unwrap();
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mezz"));
        command.env("MEZZ_RUN_DIR", self.path("run")).env("MEZZ_STATE_DIR", self.path("state"));
        command.current_dir(&self.0.0).arg("block").args(arguments);
        command
    }

    /// Runs `mezz block` with these arguments.
    pub(crate) fn mezz(&self, arguments: &[&str]) -> Done {
        let output = self.command(arguments).output().unwrap();
        Done {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        self.mezz(&[arguments, &["--json"]].concat()).expect(0).json()
    }

    /// Attaches at the socket `s`.
    pub(crate) fn attach(&self, arguments: &[&str]) -> Attached {
        // One that was killed has left its own.
        let _ = std::fs::remove_file(self.path("s"));
        let mut command = self.command(&["attach", "--json", "--socket", "s"]);
        let mut child =
            command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let begun = Instant::now();
        while !self.path("s").exists() {
            let ended = child.try_wait().unwrap();
            assert!(ended.is_none(), "{arguments:?} is not attached: {ended:?}");
            assert!(begun.elapsed() < Duration::from_secs(60), "nothing listens");
            std::thread::sleep(Duration::from_millis(5));
        }
        let attached = Attached { child: Some(child) };
        // Its entry in the list comes last.
        self.wait("an entry", || self.json(&["list"]).as_array().unwrap().len() == 1);
        attached
    }

    /// Attaches the cache as the file `file`; none, with the reason on standard output, where there is no
    /// FUSE.
    pub(crate) fn show(&self, arguments: &[&str]) -> Option<Attached> {
        let mut command = self.command(&["attach", "--json", "cache", "--backing", "disk", "--fuse", "file"]);
        let child = command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut attached = Attached { child: Some(child) };
        while self.json(&["list"]).as_array().unwrap().is_empty() {
            let child = attached.child.as_mut().unwrap();
            if child.try_wait().unwrap().is_some() {
                let mut told = String::new();
                child.stderr.as_mut().unwrap().read_to_string(&mut told).unwrap();
                assert!(told.contains("no file can be shown there"), "{told}");
                println!("skipped: {told}");
                return None;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Some(attached)
    }

    pub(crate) fn client(&self, name: &str) -> Client {
        Client::begin(&self.path("s"), name, true)
    }

    pub(crate) fn wait(&self, what: &str, mut done: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !done() {
            assert!(begun.elapsed() < Duration::from_secs(60), "{what} does not come");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub(crate) fn counter(&self, name: &str) -> u64 {
        self.json(&["status", "s"])["cache"]["counters"][name].as_u64().unwrap()
    }

    /// Files that vouch for a map.
    pub(crate) fn vouchers(&self) -> usize {
        std::fs::read_dir(self.path("state")).unwrap().count()
    }

    /// Reads a block until its fragment is in the cache.
    pub(crate) fn warm(&self, client: &mut Client, offset: u64) {
        let before = self.counter("populations_done");
        client.read(offset, 4096);
        self.wait("a population", || self.counter("populations_done") > before);
    }
}

pub(crate) struct Attached {
    pub(crate) child: Option<Child>,
}

impl Attached {
    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.as_ref().unwrap().id().to_string();
        assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
    }

    /// Ends it at once, with the socket that it leaves.
    pub(crate) fn kill(mut self) {
        let mut child = self.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// What it has said, and what it has told people, once it has ended by itself.
    pub(crate) fn end(mut self) -> (Value, String) {
        let mut child = self.child.take().unwrap();
        let mut told = String::new();
        child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{told}");
        (serde_json::from_slice(&output.stdout).unwrap(), told)
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
