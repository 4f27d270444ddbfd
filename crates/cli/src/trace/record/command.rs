//! Running the program that is recorded.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mezzanine_sqlite::DIRECTORY_VARIABLE;
use rustix::process::{Pid, Signal, kill_process};

use crate::failure::Failure;
use crate::output;

/// How often it is looked whether the program has ended.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How long a program has to end by itself when this one is told to. The terminal tells both.
const PATIENCE: Duration = Duration::from_secs(2);

/// This process was told to end.
static IS_INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// How the program ended.
pub(super) struct Ended {
    pub(super) name: String,
    pub(super) seconds: f64,
    /// Unless it ended with exit status 0: "ended with exit status 4".
    pub(super) failed: Option<String>,
}

/// Runs `command` until it ends, its tiers recorded to `directory`. With `json` its output goes to standard
/// error, so that the result alone is on standard output.
pub(super) fn run(command: &[OsString], directory: &Path, json: bool) -> Result<Ended, Failure> {
    let Some((program, arguments)) = command.split_first() else {
        return Err(Failure::usage("COMMAND", "there is none"));
    };
    let name = program.to_string_lossy().into_owned();
    if let Err(error) = ctrlc::set_handler(|| IS_INTERRUPTED.store(true, Ordering::Release)) {
        output::note(&format!("what was recorded is lost when this is interrupted: {error}"));
    }
    let mut command = Command::new(program);
    command.args(arguments).env(DIRECTORY_VARIABLE, directory);
    if json {
        command.stdout(Stdio::from(std::io::stderr()));
    }
    let started = Instant::now();
    let mut child = command
        .spawn()
        .map_err(|e| Failure::refused(&name, format!("it cannot be started: {e}")).next("check the path"))?;
    let status = wait(&mut child).map_err(|e| Failure::refused(&name, e))?;
    Ok(Ended { name, seconds: started.elapsed().as_secs_f64(), failed: failed(status) })
}

/// Waits for the end of the program, and sees to it when this one is to end.
fn wait(child: &mut Child) -> std::io::Result<ExitStatus> {
    let mut told: Option<Instant> = None;
    let mut was_terminated = false;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if IS_INTERRUPTED.load(Ordering::Acquire) {
            let since = *told.get_or_insert_with(Instant::now);
            if !was_terminated && since.elapsed() >= PATIENCE {
                was_terminated = true;
                if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
                    kill_process(pid, Signal::TERM)?;
                }
            }
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

fn failed(status: ExitStatus) -> Option<String> {
    match (status.code(), status.signal()) {
        (Some(0), _) => None,
        (Some(code), _) => Some(format!("ended with exit status {code}")),
        (None, Some(signal)) => Some(format!("was ended by signal {signal}")),
        (None, None) => Some("ended in an unknown way".to_owned()),
    }
}
