//! A directory of its own for the files of one benchmark, removed at the end and when it is interrupted.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::failure::Failure;
use crate::output;

/// What shells report for a program that was interrupted.
const INTERRUPTED: i32 = 130;

/// The process was told to end: from then on the handler ends the process, whatever its parts come to
/// meanwhile.
static IS_INTERRUPTED: AtomicBool = AtomicBool::new(false);
/// Longer than the handler takes to remove some gigabytes.
const HANDLER_MAX: Duration = Duration::from_secs(60);
/// A child or a server that is still ending may write once more: how often the handler removes, and the pause
/// between.
const REMOVALS_MAX: u32 = 100;
const REMOVAL_PAUSE: Duration = Duration::from_millis(50);

/// If this process is told to end within `patience`, waits for that: what fails meanwhile, fails because its
/// files and children are on their way out.
pub(crate) fn leave_to_handler(patience: Duration) {
    let until = Instant::now() + patience;
    while !IS_INTERRUPTED.load(Ordering::Acquire) {
        if Instant::now() >= until {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(HANDLER_MAX);
}

/// Has `clean_up` done, and the process ended, when it is told to end.
pub(crate) fn when_interrupted(clean_up: impl Fn() + Send + 'static) -> Result<(), ctrlc::Error> {
    ctrlc::set_handler(move || {
        IS_INTERRUPTED.store(true, Ordering::Release);
        clean_up();
        std::process::exit(INTERRUPTED);
    })
}

/// The directory, and whether it stays.
pub(crate) struct Workspace {
    pub(crate) path: PathBuf,
    keep: bool,
}

impl Workspace {
    /// Makes it below `parent`, which is made if it does not exist; `name` is followed by the number of this
    /// process.
    pub(crate) fn create(parent: &Path, name: &str, keep: bool) -> Result<Workspace, Failure> {
        let refused = |path: &Path, e: std::io::Error| {
            Failure::refused(path.display(), e).next("choose another place with --directory")
        };
        std::fs::create_dir_all(parent).map_err(|e| refused(parent, e))?;
        let parent = std::path::absolute(parent).map_err(|e| refused(parent, e))?;
        let path = parent.join(format!("{name}-{}", std::process::id()));
        if !keep {
            // Before there is anything to leave behind.
            remove_when_interrupted(path.clone());
        }
        std::fs::create_dir(&path).map_err(|e| refused(&path, e))?;
        Ok(Workspace { path, keep })
    }
}

/// Ctrl-C ends children and servers as well, since the terminal tells the whole group; their gigabytes should
/// not stay behind.
fn remove_when_interrupted(path: PathBuf) {
    let shown = path.display().to_string();
    let handled = when_interrupted(move || {
        for _ in 0..REMOVALS_MAX {
            let _ = std::fs::remove_dir_all(&path);
            std::thread::sleep(REMOVAL_PAUSE);
            if !path.exists() {
                break;
            }
        }
    });
    if let Err(error) = handled {
        output::note(&format!("{shown} will stay when this is interrupted: {error}"));
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        if self.keep {
            output::note(&format!("the databases are in {}", self.path.display()));
        } else if let Err(e) = std::fs::remove_dir_all(&self.path) {
            output::note(&format!("{}: cannot be removed: {e}", self.path.display()));
        }
    }
}
