//! Processes of the server: found in /proc, killed, waited for.
//!
//! This process is a subreaper: what the postmaster leaves behind becomes its child and is waited for here.
//! Otherwise a process that is gone could still look alive to the next postmaster, and its lock file valid.

use std::fs;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, waitpid};

use crate::failure::Checked;

/// Makes this process the one that orphans come to.
pub(crate) fn adopt_orphans() -> Checked {
    set_child_subreaper(Some(getpid())).map_err(|error| std::io::Error::from(error).into())
}

/// The processes whose parent is `parent`, with their titles.
pub(crate) fn children(parent: u32) -> Vec<(u32, String)> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    numbers.filter(|pid| parent_of(*pid) == Some(parent)).map(|pid| (pid, title(pid))).collect()
}

/// State and parent of a process that is there.
fn status_of(pid: u32) -> Option<(String, u32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may have anything in it; after it come the state and the parent.
    let mut words = stat.rsplit_once(')')?.1.split_whitespace();
    Some((words.next()?.to_owned(), words.next()?.parse().ok()?))
}

/// The parent of a process that is there.
fn parent_of(pid: u32) -> Option<u32> {
    status_of(pid).map(|(_, parent)| parent)
}

/// What the process calls itself; empty for one that has ended and was not waited for.
fn title(pid: u32) -> String {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', " ").trim().to_owned()
}

/// Kills one process at once. It may be gone already.
pub(crate) fn kill(pid: u32) {
    signal(pid, Signal::KILL);
}

/// Stops one process when the system call that it is in is complete: a write to a file is whole then, which
/// it need not be after a kill (the kernel looks for a fatal signal after every 4 KiB). It may be gone
/// already.
pub(crate) fn stop(pid: u32) {
    signal(pid, Signal::STOP);
    let runs = |state: &str| !matches!(state, "T" | "t" | "Z" | "X");
    while status_of(pid).is_some_and(|(state, _)| runs(&state)) {
        std::thread::sleep(Duration::from_micros(100));
    }
}

/// Asks a postmaster to end all at once, and to leave the files as they are.
pub(crate) fn quit(pid: u32) {
    signal(pid, Signal::QUIT);
}

/// Lets a stopped process go on.
pub(crate) fn go_on(pid: u32) {
    signal(pid, Signal::CONT);
}

fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid as i32) {
        let _ = kill_process(pid, signal);
    }
}

/// Kills the server's processes that have become our children, those that they leave behind too, and waits
/// for all.
pub(crate) fn reap_orphans() {
    loop {
        let orphans = children(std::process::id());
        if orphans.is_empty() {
            return;
        }
        for (pid, _) in &orphans {
            kill(*pid);
        }
        for (pid, _) in orphans {
            let _ = waitpid(Pid::from_raw(pid as i32), WaitOptions::empty());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
