//! The parent's side of a child: start it, follow it, kill it.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::SIGNAL_LATE_MAX;
use super::protocol::{ChildSpec, Event};
use crate::benchmark::leave_to_handler;
use crate::failure::Failure;

/// How long a child may say nothing before it counts as hung. The longest silences are the indexes and the
/// check of a large database.
const SILENCE_MAX: Duration = Duration::from_secs(3600);

/// A running child; killed when dropped, so that none outlives an error of the demo.
pub(crate) struct Process {
    child: Child,
    pub(crate) started: Instant,
    events: Receiver<Event>,
    acknowledged: Option<JoinHandle<std::io::Result<Vec<u8>>>>,
}

impl Process {
    /// Starts this program again as the child that `spec` describes; `spec_path` is where the spec is written
    /// to.
    pub(crate) fn start(spec: &ChildSpec, spec_path: &Path) -> Result<Process, Failure> {
        let refused =
            |e: &dyn std::fmt::Display| Failure::refused(spec_path.display(), format!("cannot write: {e}"));
        let file = File::create(spec_path).map_err(|e| refused(&e))?;
        serde_json::to_writer_pretty(file, spec).map_err(|e| refused(&e))?;
        let program = std::env::current_exe()
            .map_err(|e| Failure::refused("mezz", format!("cannot find itself: {e}")))?;
        let started = Instant::now();
        let mut child = Command::new(program)
            .arg("demo-child")
            .arg(spec_path)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| Failure::refused("mezz", format!("cannot start a process: {e}")))?;
        let acknowledged = child.stdout.take().map(|mut pipe| {
            std::thread::spawn(move || {
                let mut bytes = Vec::new();
                pipe.read_to_end(&mut bytes).map(|_| bytes)
            })
        });
        let (sender, events) = channel();
        if let Some(pipe) = child.stderr.take() {
            std::thread::spawn(move || {
                for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                    match serde_json::from_str::<Event>(&line) {
                        Ok(event) => drop(sender.send(event)),
                        Err(_) => eprintln!("{line}"),
                    }
                }
            });
        }
        Ok(Process { child, started, events, acknowledged })
    }

    /// The next event; a child that failed, ended or says nothing any more is an error.
    pub(crate) fn next(&mut self) -> Result<Event, Failure> {
        match self.events.recv_timeout(SILENCE_MAX) {
            Ok(Event::Failed { thing, reason, next }) => {
                let failure = Failure::refused(thing, reason);
                Err(match next {
                    Some(next) => failure.next(next),
                    None => failure,
                })
            }
            Ok(event) => Ok(event),
            Err(RecvTimeoutError::Timeout) => Err(Failure::refused(
                "demo",
                format!("the process that runs a configuration said nothing for {} s", SILENCE_MAX.as_secs()),
            )
            .next("run it again with --keep and look at the files in --directory")),
            Err(RecvTimeoutError::Disconnected) => {
                let status = self.child.wait();
                if status.as_ref().is_ok_and(|status| status.signal().is_some()) {
                    // Ctrl-C ends children and parent, in any order.
                    leave_to_handler(SIGNAL_LATE_MAX);
                }
                let status = status.map_or_else(|e| e.to_string(), |status| status.to_string());
                Err(Failure::refused(
                    "demo",
                    format!("the process that runs a configuration ended by itself ({status})"),
                ))
            }
        }
    }

    /// kill -9, and then all that the child had acknowledged.
    pub(crate) fn kill(mut self) -> Result<Vec<u8>, Failure> {
        let failed =
            |e: std::io::Error| Failure::refused("demo", format!("cannot end the process of a run: {e}"));
        self.child.kill().map_err(failed)?;
        self.child.wait().map_err(failed)?;
        match self.acknowledged.take().map(JoinHandle::join) {
            Some(Ok(bytes)) => bytes.map_err(failed),
            _ => Ok(Vec::new()),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only when the child has ended, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
