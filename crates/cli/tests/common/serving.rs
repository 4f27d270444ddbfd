//! `mezz device serve`, running.
#![allow(dead_code, clippy::unwrap_used)] // Each test uses a part.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use super::common::Scratch;

/// A program that serves, until it is told to end.
pub(crate) struct Serving {
    child: Option<Child>,
    /// What it tells people.
    pub(crate) told: BufReader<ChildStderr>,
    pub(crate) socket: PathBuf,
}

impl Serving {
    pub(crate) fn start(scratch: &Scratch, arguments: &[&str]) -> Serving {
        let socket = scratch.0.join("s");
        let mut command = Command::new(env!("CARGO_BIN_EXE_mezz"));
        command.args(["device", "serve", "--json", "--socket"]).arg(&socket).args(arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let told = BufReader::new(child.stderr.take().unwrap());
        let mut serving = Serving { child: Some(child), told, socket };
        let begun = Instant::now();
        while !serving.socket.exists() {
            let ended = serving.child.as_mut().unwrap().try_wait().unwrap();
            if ended.is_some() {
                let mut said = String::new();
                let _ = serving.told.read_to_string(&mut said);
                panic!("{arguments:?} is not served: {said}");
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "nothing listens");
            std::thread::sleep(Duration::from_millis(5));
        }
        serving
    }

    /// Reads what it tells up to the line with this text.
    pub(crate) fn wait_for(&mut self, text: &str) {
        let mut all = String::new();
        while !all.contains(text) {
            assert!(self.told.read_line(&mut all).unwrap() > 0, "{text:?} is not in:\n{all}");
        }
    }

    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.as_ref().unwrap().id().to_string();
        assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
    }

    /// What it has said, once it has ended by itself.
    pub(crate) fn end(mut self) -> serde_json::Value {
        let mut said = String::new();
        self.told.read_to_string(&mut said).unwrap();
        let output = self.child.take().unwrap().wait_with_output().unwrap();
        assert!(output.status.success(), "{said}");
        assert!(!self.socket.exists(), "the socket is removed");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    pub(crate) fn end_by(self, signal: &str) -> serde_json::Value {
        self.signal(signal);
        self.end()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
