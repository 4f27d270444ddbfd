//! Processes, and what they have open: those that can be seen from here.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Whether a process of this number runs that is no corpse. It may be another one than it was.
pub(super) fn is_alive(process: i32) -> bool {
    let state = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // Behind the name, which may hold anything.
    state.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with(['Z', 'X']))
}

/// Whether a process runs and has this file open. One that may not be looked into is taken to have it.
pub(super) fn has_open(process: i32, path: &Path) -> bool {
    match files(process) {
        Ok(mut files) => files.any(|file| file == path),
        Err(error) => error.kind() == io::ErrorKind::PermissionDenied && is_alive(process),
    }
}

/// Processes that have a file open of which this is true, besides this one.
pub(super) fn with_open(is_it: impl Fn(&Path) -> bool) -> Vec<i32> {
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    let numbers = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let others = numbers.filter(|process: &i32| *process as u32 != std::process::id());
    others.filter(|process| files(*process).is_ok_and(|mut files| files.any(|file| is_it(&file)))).collect()
}

/// What a process has open. It is not asked of the files themselves, as their devices may not answer.
fn files(process: i32) -> io::Result<impl Iterator<Item = PathBuf>> {
    let files = fs::read_dir(format!("/proc/{process}/fd"))?;
    Ok(files.flatten().filter_map(|file| fs::read_link(file.path()).ok()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::fs::File;
    use std::process::{Command, Stdio};

    use super::*;

    /// Waits for what never comes.
    fn cat() -> Command {
        let mut cat = Command::new("cat");
        cat.stdin(Stdio::piped());
        cat
    }

    /// So the number of a server that is gone says nothing, whoever has it by now.
    #[test]
    fn a_process_that_runs_has_open_what_it_has_opened_alone() {
        let own = std::process::id() as i32;
        let path = std::env::temp_dir().join(format!("mezz-has-open-{own}"));
        let file = File::create(&path).unwrap();
        let path = path.canonicalize().unwrap();
        let found = |process: i32| (is_alive(process), has_open(process, &path));
        let mut other = cat().stdout(Stdio::null()).spawn().unwrap();
        let others = other.id() as i32;
        assert_eq!((found(own), found(others)), ((true, true), (true, false)));
        drop(file);
        assert_eq!(found(own), (true, false));
        // A corpse, and nobody.
        drop(other.stdin.take());
        while is_alive(others) {
            std::thread::yield_now();
        }
        assert_eq!(found(others), (false, false));
        other.wait().unwrap();
        assert!(!has_open(others, &path));
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn who_has_a_file_open_is_found() {
        let path = std::env::temp_dir().join(format!("mezz-with-open-{}", std::process::id()));
        let file = File::create(&path).unwrap();
        let path = path.canonicalize().unwrap();
        let found = |process: u32| with_open(|file| file == path).contains(&(process as i32));
        let mut child = cat().stdout(file.try_clone().unwrap()).spawn().unwrap();
        assert_eq!([child.id(), std::process::id()].map(found), [true, false], "and not this one");
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(!found(child.id()));
        fs::remove_file(&path).unwrap();
    }
}
