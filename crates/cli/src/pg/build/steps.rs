//! Running the tools of a build: what they say goes to a log file, and its end into the message if one fails.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::failure::Failure;
use crate::output;

/// How much of the log a failure shows.
const LINES_SHOWN: usize = 15;
const BYTES_SHOWN: u64 = 8192;

/// The log of a build.
pub(crate) struct Log {
    path: PathBuf,
    file: File,
}

impl Log {
    pub(crate) fn create(path: &Path) -> Result<Log, Failure> {
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .map_err(|e| Failure::refused(path.display(), e))?;
        Ok(Log { path: path.to_owned(), file })
    }

    /// Runs a tool to its end. `what` is for people, `next` what to do if it fails.
    pub(crate) fn run(&mut self, what: &str, command: &mut Command, next: &str) -> Result<(), Failure> {
        let failed = |path: &Path, e: std::io::Error| Failure::refused(path.display(), e);
        writeln!(self.file, "== {what}: {command:?}").map_err(|e| failed(&self.path, e))?;
        let output = self.file.try_clone().map_err(|e| failed(&self.path, e))?;
        let errors = self.file.try_clone().map_err(|e| failed(&self.path, e))?;
        if command.get_envs().all(|(name, _)| name != "MAKEFLAGS") {
            // A make around this command is not ours to share jobs with.
            command.env_remove("MAKEFLAGS").env_remove("MAKELEVEL");
        }
        let bar = output::spinner(what);
        let started = Instant::now();
        let status = command.stdin(Stdio::null()).stdout(output).stderr(errors).status();
        bar.finish_and_clear();
        let status = status.map_err(|e| failed(Path::new(command.get_program()), e))?;
        if status.success() {
            output::note(&format!("{what}: {:.0} s", started.elapsed().as_secs_f64()));
            return Ok(());
        }
        Err(Failure::refused(
            what,
            format!("{status}; the end of {} is\n{}", self.path.display(), self.end()),
        )
        .next(next))
    }

    fn end(&self) -> String {
        let mut text = String::new();
        let read = File::open(&self.path).and_then(|mut file| {
            let length = file.metadata()?.len();
            file.seek(SeekFrom::Start(length.saturating_sub(BYTES_SHOWN)))?;
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            text = String::from_utf8_lossy(&bytes).into_owned();
            Ok(())
        });
        if let Err(e) = read {
            return format!("    (not readable: {e})");
        }
        let lines: Vec<&str> = text.lines().collect();
        let shown = &lines[lines.len().saturating_sub(LINES_SHOWN)..];
        shown.iter().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
    }
}
