//! A data directory and the server that belongs to it.

use std::fs::{OpenOptions, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use clap::Args;
use serde::{Deserialize, Serialize};

use super::user::{ServerUser, WHO};
use crate::failure::Failure;

/// What a data directory says of the build that it is used with; written by `mezz pg init`.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Note {
    postgres: PathBuf,
}

/// The note's name in the data directory.
const NOTE: &str = "mezzanine.server";

/// The options that name a cluster.
#[derive(Debug, Args)]
pub(crate) struct ClusterArgs {
    /// The data directory [default: $PGDATA].
    #[arg(long, value_name = "DIR")]
    pub(crate) pgdata: Option<PathBuf>,

    /// Where the server is installed; `start` remembers it [default: what the data directory was last used
    /// with].
    #[arg(long, value_name = "DIR")]
    pub(crate) postgres: Option<PathBuf>,

    #[arg(long, value_name = "NAME", help = WHO)]
    pub(crate) user: Option<String>,
}

/// A data directory, its server's programs and its user.
pub(crate) struct Cluster {
    pub(crate) directory: PathBuf,
    pub(crate) postgres: PathBuf,
    pub(crate) user: ServerUser,
}

/// What `postmaster.pid` says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Running {
    pub(crate) pid: u32,
    pub(crate) started: u64,
    pub(crate) port: u16,
    pub(crate) socket_directory: String,
    /// `starting`, `ready`, `standby` or `stopping`.
    pub(crate) status: String,
}

/// The data directory that is asked for, or `$PGDATA`.
pub(crate) fn data_directory(asked: Option<&Path>) -> Result<PathBuf, Failure> {
    let path = match asked {
        Some(path) => path.to_owned(),
        None => std::env::var_os("PGDATA").filter(|value| !value.is_empty()).map(PathBuf::from).ok_or_else(
            || Failure::usage("--pgdata", "name the data directory with --pgdata or in PGDATA"),
        )?,
    };
    std::path::absolute(&path).map_err(|e| Failure::refused(path.display(), e))
}

impl Cluster {
    /// An existing data directory.
    pub(crate) fn open(args: &ClusterArgs) -> Result<Cluster, Failure> {
        let directory = data_directory(args.pgdata.as_deref())?;
        if !directory.join("PG_VERSION").exists() {
            return Err(Failure::refused(directory.display(), "this is not a data directory of PostgreSQL")
                .next("check --pgdata; `mezz pg init` makes one"));
        }
        let user = ServerUser::find(args.user.as_deref(), &directory)?;
        let postgres = match &args.postgres {
            Some(path) => std::path::absolute(path).map_err(|e| Failure::refused(path.display(), e))?,
            None => read_note(&directory)?,
        };
        let cluster = Cluster { directory, postgres, user };
        cluster.check_programs()?;
        Ok(cluster)
    }

    /// Refuses a build that is not there or that the server's user cannot run.
    pub(crate) fn check_programs(&self) -> Result<(), Failure> {
        let program = self.postgres.join("bin/postgres");
        if !program.exists() {
            return Err(Failure::refused(program.display(), "no such program")
                .next("`mezz pg build` builds the server and says where; name it with --postgres"));
        }
        if !self.user.may("-x", &program) {
            return Err(Failure::refused(
                program.display(),
                format!("the user {} cannot run it", self.user.name),
            )
            .next("open the directories on the way to it, or build into another MEZZANINE_CACHE"));
        }
        Ok(())
    }

    /// Remembers the build in the data directory.
    pub(crate) fn write_note(&self) -> Result<(), Failure> {
        let path = self.directory.join(NOTE);
        let note = Note { postgres: self.postgres.clone() };
        let text = serde_json::to_string(&note).map_err(|e| Failure::refused(path.display(), e))?;
        self.write_file(&path, &(text + "\n"))
    }

    /// Puts a file into the data directory that may be read by whoever may read those that initdb made: with
    /// `--allow-group-access` a member of the group backs all of them up.
    pub(crate) fn write_file(&self, path: &Path, text: &str) -> Result<(), Failure> {
        let write = || {
            let mode = self.directory.join("PG_VERSION").metadata()?.permissions().mode() & 0o777;
            let mut open = OpenOptions::new();
            open.write(true).create(true).truncate(true).mode(0o600);
            // The directory belongs to the server's user, and this process may be root's.
            open.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32);
            let mut file = open.open(path)?;
            // Apart from opening it, so that this process's mask does not count.
            file.set_permissions(Permissions::from_mode(mode))?;
            file.write_all(text.as_bytes())
        };
        write().map_err(|e: std::io::Error| Failure::refused(path.display(), e))?;
        self.user.give(path)
    }

    /// Runs one of the server's programs to its end and returns what it said.
    pub(crate) fn run(&self, program: &str, arguments: &[&str]) -> Result<Output, Failure> {
        let path = self.postgres.join("bin").join(program);
        self.user
            .command(&path)
            .args(arguments)
            .env("PGDATA", &self.directory)
            .stdin(Stdio::null())
            .output()
            .map_err(|e| Failure::refused(path.display(), e))
    }

    /// What psql answers in the database postgres, as the server's own user; if it cannot, what it says.
    pub(crate) fn query(&self, server: &Running, query: &str) -> Result<String, String> {
        self.query_in(server, "postgres", query)
    }

    /// The same in another database.
    pub(crate) fn query_in(&self, server: &Running, database: &str, query: &str) -> Result<String, String> {
        let port = server.port.to_string();
        let quiet = [
            "--no-psqlrc",
            "--no-password",
            "--quiet",
            "--tuples-only",
            "--no-align",
            "--set=ON_ERROR_STOP=1",
        ];
        let target = ["--host", &server.socket_directory, "--port", &port, "--dbname", database];
        let arguments = [&quiet[..], &target, &["--command", query]].concat();
        let done = self.run("psql", &arguments).map_err(|failure| failure.to_string())?;
        if done.status.success() {
            return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
        }
        Err(String::from_utf8_lossy(&done.stderr).trim().to_owned())
    }

    /// The running server, if there is one.
    pub(crate) fn running(&self) -> Result<Option<Running>, Failure> {
        // pg_ctl knows how to tell a server from another process with an old server's number.
        match self.run("pg_ctl", &["status"])?.status.code() {
            Some(0) => {}
            Some(3) => return Ok(None),
            _ => {
                return Err(Failure::refused(
                    self.directory.display(),
                    format!("the user {} cannot use this data directory", self.user.name),
                )
                .next("name its owner with --user"));
            }
        }
        let path = self.directory.join("postmaster.pid");
        match std::fs::read_to_string(&path) {
            Ok(text) => Ok(parse_pid_file(&text)),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(Failure::refused(path.display(), e)),
        }
    }
}

fn read_note(directory: &Path) -> Result<PathBuf, Failure> {
    let path = directory.join(NOTE);
    let next = "name the server's build with --postgres";
    let text = std::fs::read_to_string(&path).map_err(|e| Failure::refused(path.display(), e).next(next))?;
    let note: Note =
        serde_json::from_str(&text).map_err(|e| Failure::refused(path.display(), e).next(next))?;
    Ok(note.postgres)
}

/// Lines of `postmaster.pid`: number, data directory, time of start, port, socket directory, address, shared
/// memory, status.
fn parse_pid_file(text: &str) -> Option<Running> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    Some(Running {
        pid: lines.first()?.parse().ok()?,
        started: lines.get(2)?.parse().ok()?,
        port: lines.get(3)?.parse().ok()?,
        socket_directory: (*lines.get(4)?).to_owned(),
        status: lines.get(7).map_or("starting", |status| *status).to_owned(),
    })
}

/// The last lines of what a server's log has after its first `skipped` bytes, indented, for a message.
pub(crate) fn end_of(log: &Path, skipped: u64, lines: usize) -> String {
    let text = match std::fs::read(log) {
        Ok(bytes) => {
            let skipped = usize::try_from(skipped).unwrap_or(usize::MAX).min(bytes.len());
            String::from_utf8_lossy(&bytes[skipped..]).into_owned()
        }
        Err(e) => return format!("    (not readable: {e})"),
    };
    let all: Vec<&str> = text.lines().collect();
    let shown = &all[all.len().saturating_sub(lines)..];
    shown.iter().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_pid_file_of_a_server_is_understood_also_while_it_starts() {
        let text = "4711\n/data\n1763776800\n5433\n/tmp\nlocalhost\n  1234 56\nready   \n";
        let running = parse_pid_file(text).unwrap();
        assert_eq!((running.pid, running.port, running.status.as_str()), (4711, 5433, "ready"));
        assert_eq!(running.socket_directory, "/tmp");
        assert_eq!(parse_pid_file("4711\n/data\n1763776800\n5433\n/tmp\n\n").unwrap().status, "starting");
        assert_eq!(parse_pid_file("4711\n"), None);
    }
}
