//! A server of the benchmark: its own directory with data, socket and flash file; started, asked, killed.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use mezzanine_workload::postgres::{PostgresDatabase, PostgresOptions};
use mezzanine_workload::{Database as _, Session, Statement};
use rustix::process::{Pid, Signal, kill_process};

use super::super::cluster::end_of;
use super::super::settings::{FILE, Settings};
use super::super::user::ServerUser;
use crate::failure::{Failure, chain};

/// The database that everything happens in.
const DATABASE: &str = "postgres";
/// The superuser that initdb makes.
const SUPERUSER: &str = "mezz";
/// How long a server may take to come up, be it recovering on modelled disks.
const START_MAX: Duration = Duration::from_secs(1800);
const STOP_MAX: Duration = Duration::from_secs(900);
const LINES_SHOWN: usize = 15;
/// Bytes of a socket's path that every system takes, the file's own name taken off.
const SOCKET_DIRECTORY_MAX: usize = 80;

pub(super) struct Server {
    /// Holds everything of this server.
    pub(super) directory: PathBuf,
    postgres: PathBuf,
    user: ServerUser,
    child: Option<Child>,
}

/// A failure of the workload or the database, in words.
pub(super) fn database_failure(error: &mezzanine_workload::Error) -> Failure {
    Failure::refused("TPC-C", chain(error))
}

impl Server {
    /// A server that does not run yet; its directory is made.
    pub(super) fn new(directory: PathBuf, postgres: &Path, user: &ServerUser) -> Result<Server, Failure> {
        if directory.as_os_str().len() > SOCKET_DIRECTORY_MAX {
            return Err(Failure::refused(directory.display(), "the path is too long for a socket")
                .next("choose a shorter --directory"));
        }
        fs::create_dir_all(&directory).map_err(|e| Failure::refused(directory.display(), e))?;
        user.give(&directory)?;
        Ok(Server { directory, postgres: postgres.to_owned(), user: user.clone(), child: None })
    }

    fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    fn log(&self) -> PathBuf {
        self.directory.join("log")
    }

    /// The file that a tier would use.
    pub(super) fn flash(&self) -> PathBuf {
        self.directory.join("flash")
    }

    pub(super) fn initdb(&self) -> Result<(), Failure> {
        let program = self.postgres.join("bin/initdb");
        let output = self
            .user
            .command(&program)
            .args(["--no-sync", "--data-checksums", "--auth=trust", "--encoding=UTF8", "--locale=C"])
            .arg(format!("--username={SUPERUSER}"))
            .arg("-D")
            .arg(self.data())
            .stdin(Stdio::null())
            .output()
            .map_err(|e| Failure::refused(program.display(), e))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(Failure::refused(self.data().display(), format!("initdb failed:\n{said}")));
        }
        let main = self.data().join("postgresql.conf");
        let failed = |e: std::io::Error| Failure::refused(main.display(), e);
        let text = fs::read_to_string(&main).map_err(failed)?;
        fs::write(&main, format!("{text}\ninclude = '{FILE}'\n")).map_err(failed)
    }

    /// Replaces the settings; they hold from the next start.
    pub(super) fn configure(&self, settings: &Settings) -> Result<(), Failure> {
        let file = self.data().join(FILE);
        fs::write(&file, settings.file()).map_err(|e| Failure::refused(file.display(), e))?;
        self.user.give(&file)
    }

    /// Takes over a copy of another server's data.
    pub(super) fn copy_data(&self, other: &Server) -> Result<(), Failure> {
        let output = self
            .user
            .command("cp")
            .args(["--archive", "--reflink=auto"])
            .arg(other.data())
            .arg(self.data())
            .stdin(Stdio::null())
            .output()
            .map_err(|e| Failure::refused("cp", e))?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(Failure::refused(self.data().display(), format!("the loaded database cannot be copied: {said}")))
    }

    /// Starts it; returns the time until it answered for the first time.
    pub(super) fn start(&mut self) -> Result<Duration, Failure> {
        assert!(self.child.is_none(), "a server is started once at a time");
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.log())
            .map_err(|e| Failure::refused(self.log().display(), e))?;
        let program = self.postgres.join("bin/postgres");
        let began = Instant::now();
        let child = self
            .user
            .command(&program)
            .arg("-D")
            .arg(self.data())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .map_err(|e| Failure::refused(program.display(), e))?;
        self.child = Some(child);
        let database = self.database(1)?;
        while began.elapsed() < START_MAX {
            if let Ok(mut session) = database.open_session() {
                session.define("SELECT 1").map_err(|e| database_failure(&e))?;
                return Ok(began.elapsed());
            }
            if self.child.as_mut().is_some_and(|child| !matches!(child.try_wait(), Ok(None))) {
                self.child = None;
                return Err(self.failed("the server has ended"));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Err(self.failed("the server does not come up"))
    }

    fn failed(&self, what: &str) -> Failure {
        let end = end_of(&self.log(), 0, LINES_SHOWN);
        Failure::refused("PostgreSQL", format!("{what}; the end of its log is\n{end}"))
    }

    pub(super) fn database(&self, load_sessions: usize) -> Result<PostgresDatabase, Failure> {
        let connection = format!("host='{}' user={SUPERUSER} dbname={DATABASE}", self.directory.display());
        let options = PostgresOptions { load_sessions, ..PostgresOptions::default() };
        PostgresDatabase::new(&connection, options).map_err(|e| database_failure(&e))
    }

    fn postmaster(&self) -> Option<Pid> {
        Pid::from_raw(i32::try_from(self.child.as_ref()?.id()).ok()?)
    }

    /// Processor time of all of the server's processes that are there now.
    pub(super) fn processor_time(&self) -> Duration {
        let Some(postmaster) = self.postmaster() else { return Duration::ZERO };
        let ticks = processes()
            .filter(|process| {
                process.pid == postmaster || process.parent == postmaster.as_raw_nonzero().get()
            })
            .map(|process| process.ticks + if process.pid == postmaster { process.ticks_of_ended } else { 0 })
            .sum::<u64>();
        // The kernel's unit for this file is a hundredth of a second, whatever its own clock is.
        Duration::from_millis(ticks * 10)
    }

    /// kill -9 of the postmaster and all of its children at once, and waits until they are gone.
    pub(super) fn kill(&mut self) -> Result<(), Failure> {
        let Some(postmaster) = self.postmaster() else { return Ok(()) };
        let raw = postmaster.as_raw_nonzero().get();
        let children: Vec<Pid> = processes().filter(|p| p.parent == raw).map(|p| p.pid).collect();
        for pid in std::iter::once(postmaster).chain(children.iter().copied()) {
            // One that ended by itself meanwhile is just as dead.
            let _ = kill_process(pid, Signal::KILL);
        }
        if let Some(mut child) = self.child.take() {
            child.wait().map_err(|e| Failure::refused("PostgreSQL", e))?;
        }
        let began = Instant::now();
        while processes().any(|process| children.contains(&process.pid) && !process.dead) {
            if began.elapsed() > Duration::from_secs(60) {
                return Err(Failure::refused("PostgreSQL", "a killed process does not go away"));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// An orderly stop with a checkpoint.
    pub(super) fn stop(&mut self) -> Result<(), Failure> {
        let Some(postmaster) = self.postmaster() else { return Ok(()) };
        kill_process(postmaster, Signal::INT).map_err(|e| Failure::refused("PostgreSQL", e))?;
        let began = Instant::now();
        while let Some(child) = &mut self.child {
            match child.try_wait() {
                Ok(None) if began.elapsed() > STOP_MAX => return Err(self.failed("the server does not stop")),
                Ok(None) => std::thread::sleep(Duration::from_millis(10)),
                Ok(Some(status)) if status.success() => self.child = None,
                _ => return Err(self.failed("the server has not stopped in order")),
            }
        }
        Ok(())
    }

    /// Removes everything of it. What is left over goes with the workspace.
    pub(super) fn remove(&self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // On the way out after another failure, which is the one to report.
        let _ = self.kill();
    }
}

struct Process {
    pid: Pid,
    parent: i32,
    ticks: u64,
    /// Of its children that have ended and were waited for.
    ticks_of_ended: u64,
    dead: bool,
}

/// All processes of this machine, from /proc/PID/stat: number, (name), state, parent, ..., user and system
/// time as 14th and 15th field, those of its ended children as 16th and 17th.
fn processes() -> impl Iterator<Item = Process> {
    fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(|entry| {
        let pid = Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)?;
        parse(pid, &fs::read_to_string(entry.path().join("stat")).ok()?)
    })
}

fn parse(pid: Pid, stat: &str) -> Option<Process> {
    // A name may hold spaces and parentheses.
    let fields: Vec<&str> = stat.get(stat.rfind(')')? + 1..)?.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(Process {
        pid,
        parent: fields.get(1)?.parse().ok()?,
        ticks: ticks(11)? + ticks(12)?,
        ticks_of_ended: ticks(13)? + ticks(14)?,
        dead: matches!(*fields.first()?, "Z" | "X"),
    })
}

/// The numbers in the one row of a query; NULL is 0.
pub(super) fn numbers(session: &mut dyn Session, sql: &'static str) -> Result<Vec<i64>, Failure> {
    let mut found = Vec::new();
    session
        .query(Statement { name: "the benchmark's question", sql }, &[], &mut |row| {
            found = (0..row.count())
                .map(|column| Ok(row.optional_int(column)?.unwrap_or(0)))
                .collect::<mezzanine_workload::Result<_>>()?;
            Ok(())
        })
        .map_err(|e| database_failure(&e))?;
    Ok(found)
}

/// Executes one statement for its effect.
pub(super) fn execute(session: &mut dyn Session, sql: &str) -> Result<(), Failure> {
    session.define(sql).map_err(|e| database_failure(&e))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_process_is_understood_whatever_its_name() {
        let stat = "42 (postgres: a) b) S 7 42 42 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 1 0 12345 1 2";
        let process = parse(Pid::from_raw(42).unwrap(), stat).unwrap();
        assert_eq!((process.parent, process.ticks, process.dead), (7, 300, false));
        assert!(parse(Pid::from_raw(42).unwrap(), "42 (x").is_none());
        assert!(processes().any(|process| process.pid == rustix::process::getpid()));
    }
}
