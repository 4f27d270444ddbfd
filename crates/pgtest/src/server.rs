//! One database cluster and its server.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use postgres::{Client, Config, NoTls};
use rustix::process::{Pid, Signal, kill_process};

use crate::failure::{Checked, Failure, While as _, demand};
use crate::log::Log;
use crate::{files, processes};

/// Recovery of what a life has written takes a second or two; on a machine with much else to do, more.
const START_SECONDS_MAX: u64 = 240;

/// Who runs the server, and from where.
#[derive(Debug, Clone)]
pub(crate) struct Installation {
    bindir: PathBuf,
    /// User and group, if this process is root: PostgreSQL refuses to run as root.
    identity: Option<(u32, u32)>,
}

impl Installation {
    /// Looks the programs and the user up.
    pub(crate) fn find(bindir: &Path, user: Option<&str>) -> Checked<Self> {
        demand(bindir.join("postgres").is_file(), || {
            format!(
                "there is no PostgreSQL server in \"{}\": give the directory of its programs with --bindir",
                bindir.display()
            )
        })?;
        let identity = if rustix::process::geteuid().is_root() {
            Some(identity(&fs::read_to_string("/etc/passwd")?, user)?)
        } else {
            None
        };
        Ok(Self { bindir: bindir.to_path_buf(), identity })
    }

    /// A program of the server, to be run as its user.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.bindir.join(program));
        command.current_dir("/").stdin(Stdio::null());
        if let Some((user, group)) = self.identity {
            command.uid(user).gid(group);
        }
        command
    }

    /// Runs a program of the server to its end.
    pub(crate) fn run(&self, program: &str, arguments: &[&str]) -> Checked<String> {
        let output =
            self.command(program).args(arguments).output().during(|| format!("{program} cannot be run"))?;
        let said =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        demand(output.status.success(), || format!("{program} {}: {said}", arguments.join(" ")))?;
        Ok(said)
    }

    /// Makes a directory that belongs to the server's user.
    pub(crate) fn own_directory(&self, path: &Path) -> Checked {
        fs::create_dir_all(path).during(|| format!("\"{}\" cannot be created", path.display()))?;
        if let Some((user, group)) = self.identity {
            chown(path, Some(user), Some(group))?;
        }
        Ok(())
    }

    /// Copies a directory with owners and modes.
    pub(crate) fn copy(&self, from: &Path, to: &Path) -> Checked {
        let status = Command::new("cp").arg("-a").arg(from).arg(to).status()?;
        demand(status.success(), || {
            format!("\"{}\" could not be copied to \"{}\"", from.display(), to.display())
        })
    }
}

/// Users that root's servers run as, if none is named: a system on which PostgreSQL never was has the second
/// alone.
const CANDIDATES: [&str; 2] = ["postgres", "nobody"];

/// A user's number and group's, by the lines of /etc/passwd.
fn identity(known: &str, user: Option<&str>) -> Checked<(u32, u32)> {
    let numbers = |user: &str| {
        let words = known.lines().map(|line| line.split(':').collect::<Vec<_>>()).find(|it| it[0] == user)?;
        Some((words.get(2)?.parse().ok()?, words.get(3)?.parse().ok()?))
    };
    let names = user.map_or(CANDIDATES.to_vec(), |name| vec![name]);
    names.iter().find_map(|name| numbers(name)).ok_or_else(|| {
        Failure(format!(
            "there is no user \"{}\" to run the server as, and PostgreSQL refuses root: name one with --user",
            names.join("\" or \"")
        ))
    })
}

/// Whether this start met an unlogged relation whose transaction aborted, and whose abort record a kill took
/// with it. Its init fork was removed and is made again by redo, and its main fork waits, empty, for the next
/// checkpoint: the end of recovery copies the one to the other, which must not be there
/// (`ResetUnloggedRelations`). The next start finds the init fork from its beginning, and removes the main
/// fork before redo. All this with a tier or without.
fn could_not_empty_unlogged(log: &str) -> bool {
    log.lines().any(|line| {
        line.contains("FATAL:  could not create file \"base/") && line.trim_end().ends_with(": File exists")
    })
}

/// A cluster in a directory of its own: `data`, `flash`, `log`, and the socket.
pub(crate) struct Server {
    installation: Installation,
    pub(crate) directory: PathBuf,
    /// A rule of the engine that is taken out, by the postmaster's environment.
    planted: Option<String>,
    /// A library that has writes fail as the file `faults` says (`postgres/mezzanine/t/faults.c`).
    pub(crate) faults: Option<PathBuf>,
    postmaster: Option<Child>,
    /// Whether a kill may tear a write of a block. Without images of blocks in its log PostgreSQL survives
    /// no torn block, with a tier or without.
    pub(crate) kills_tear: bool,
    /// What it writes.
    pub(crate) log: Log,
    /// How long the last start took until connections were accepted.
    pub(crate) started_in: Duration,
    /// Starts and restarts that came to accept connections: each is a session of the tier.
    pub(crate) sessions: u64,
}

impl Server {
    /// The cluster in `directory`, which is not running.
    pub(crate) fn new(installation: &Installation, directory: &Path, planted: Option<&str>) -> Self {
        Self {
            installation: installation.clone(),
            directory: directory.to_path_buf(),
            planted: planted.map(str::to_owned),
            faults: None,
            postmaster: None,
            kills_tear: true,
            log: Log::new(directory.join("log")),
            started_in: Duration::from_millis(300),
            sessions: 0,
        }
    }

    /// The data directory.
    pub(crate) fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    /// The flash file.
    pub(crate) fn flash(&self) -> PathBuf {
        self.directory.join("flash")
    }

    /// Appends settings.
    pub(crate) fn configure(&self, settings: &str) -> Checked {
        let path = self.data().join("postgresql.conf");
        let mut file = OpenOptions::new().append(true).open(path)?;
        Ok(writeln!(file, "{settings}")?)
    }

    /// Sets a parameter, or sets it back, and waits until the postmaster has it: a shutdown that is asked for
    /// before it has looked at its files goes first.
    pub(crate) fn set(&self, parameter: &str, value: Option<&str>) -> Checked {
        let mut db = self.connect()?;
        match value {
            Some(value) => db.batch_execute(&format!("ALTER SYSTEM SET {parameter} = {value}"))?,
            None => db.batch_execute(&format!("ALTER SYSTEM RESET {parameter}"))?,
        }
        let sql = "SELECT coalesce($1, boot_val) FROM pg_settings WHERE name = $2";
        let wanted: String = db.query_one(sql, &[&value, &parameter])?.try_get(0)?;
        db.batch_execute("SELECT pg_reload_conf()")?;
        let begin = Instant::now();
        loop {
            let is: String =
                self.connect()?.query_one("SELECT current_setting($1)", &[&parameter])?.try_get(0)?;
            if is == wanted {
                return Ok(());
            }
            demand(begin.elapsed().as_secs() < START_SECONDS_MAX, || format!("{parameter} stays {is}"))?;
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Has relation files not grow any more, or grow again.
    pub(crate) fn fill_disk(&self, full: bool) -> Checked {
        let faults = if full { "full /base/\n" } else { "" };
        Ok(fs::write(self.directory.join("faults"), faults)?)
    }

    /// Whether the start that is under way has begun to recover and is not done.
    pub(crate) fn is_recovering(&self) -> bool {
        let log = self.log.of_start();
        log.contains("database system was interrupted") && !log.contains("ready to accept connections")
    }

    /// Begins a start without waiting for it.
    pub(crate) fn launch(&mut self) -> Checked {
        assert!(self.postmaster.is_none(), "the server is running");
        let log = self.log.open()?;
        let mut command = self.installation.command("postgres");
        command.arg("-D").arg(self.data()).stdout(log.try_clone()?).stderr(log);
        if let Some(rule) = &self.planted {
            command.env("MEZZANINE_PLANTED", rule);
        }
        if let Some(library) = &self.faults {
            command.env("LD_PRELOAD", library).env("MEZZ_FAULTS", self.directory.join("faults"));
        }
        self.postmaster = Some(command.spawn().during(|| "the server cannot be started".into())?);
        Ok(())
    }

    /// Starts the server and waits until it accepts connections.
    pub(crate) fn start(&mut self) -> Checked {
        let begin = Instant::now();
        self.launch()?;
        self.wait_ready()?;
        self.started_in = begin.elapsed();
        Ok(())
    }

    /// Starts the server, and waits until it accepts connections or has refused to. How it ended, if it has.
    pub(crate) fn try_start(&mut self) -> Checked<Option<String>> {
        self.launch()?;
        self.wait_ready_or_ended()
    }

    /// Waits until connections are accepted, after a start or while the postmaster restarts its processes.
    pub(crate) fn wait_ready(&mut self) -> Checked {
        match self.wait_ready_or_ended()? {
            None => Ok(()),
            Some(status) => Err(Failure(format!("the server did not start ({status}): {}", self.log.tail()))),
        }
    }

    /// Waits until connections are accepted, or the server has ended. How it ended, if it has; one that could
    /// not empty an unlogged relation is started again, once.
    pub(crate) fn wait_ready_or_ended(&mut self) -> Checked<Option<String>> {
        let begin = Instant::now();
        let mut again = false;
        loop {
            if let Some(status) = self.ended()? {
                if again || !could_not_empty_unlogged(&self.log.of_start()) {
                    return Ok(Some(status));
                }
                again = true;
                self.launch()?;
                continue;
            }
            match self.connect().and_then(|mut client| Ok(client.simple_query("SELECT 1").map(|_| ())?)) {
                Ok(()) => {
                    self.sessions += 1;
                    return Ok(None);
                }
                // A page of the catalogs: it accepts connections, and has nothing to say to them.
                Err(Failure(why)) if why.contains("cannot be read from the flash tier") => return Ok(None),
                Err(error) => demand(begin.elapsed().as_secs() < START_SECONDS_MAX, || {
                    format!("the server accepts no connections: {error}: {}", self.log.tail())
                })?,
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// How the postmaster ended, if it has.
    pub(crate) fn ended(&mut self) -> Checked<Option<String>> {
        let Some(postmaster) = &mut self.postmaster else { return Ok(Some("it was never started".into())) };
        let status = postmaster.try_wait()?;
        if status.is_some() {
            self.postmaster = None;
            processes::reap_orphans();
        }
        Ok(status.map(|status| status.to_string()))
    }

    /// A new connection.
    pub(crate) fn connect(&self) -> Checked<Client> {
        self.connect_to("postgres")
    }

    /// A new connection to another database.
    pub(crate) fn connect_to(&self, database: &str) -> Checked<Client> {
        Ok(self.try_connect_to(database)?)
    }

    /// A new connection, or what the server says instead.
    pub(crate) fn try_connect_to(&self, database: &str) -> Result<Client, postgres::Error> {
        let mut config = Config::new();
        config.host_path(&self.directory).user("postgres").dbname(database);
        config.connect(NoTls)
    }

    /// The postmaster's children.
    pub(crate) fn children(&self) -> Vec<(u32, String)> {
        self.postmaster.as_ref().map_or_else(Vec::new, |postmaster| processes::children(postmaster.id()))
    }

    /// Stops every process where it is, each when the system call that it is in is complete, and does
    /// something meanwhile.
    pub(crate) fn while_frozen<T>(&self, what: impl FnOnce() -> T) -> Option<T> {
        let postmaster = self.postmaster.as_ref()?.id();
        // The postmaster first: it begets no more of them then.
        processes::stop(postmaster);
        let children = processes::children(postmaster);
        children.iter().for_each(|(pid, _)| processes::stop(*pid));
        let done = what();
        children.iter().for_each(|(pid, _)| processes::go_on(*pid));
        processes::go_on(postmaster);
        Some(done)
    }

    /// Kills every process, the postmaster before or after the others.
    pub(crate) fn kill(&mut self, postmaster_first: bool) -> Checked {
        let Some(mut postmaster) = self.postmaster.take() else { return Ok(()) };
        let begin = self.log.length();
        if !self.kills_tear {
            // The postmaster first: it begets no more of them then.
            processes::stop(postmaster.id());
            processes::children(postmaster.id()).into_iter().for_each(|(pid, _)| processes::stop(pid));
        }
        if postmaster_first {
            processes::kill(postmaster.id());
        }
        for (pid, _) in processes::children(postmaster.id()) {
            processes::kill(pid);
        }
        processes::kill(postmaster.id());
        postmaster.wait()?;
        processes::reap_orphans();
        self.log.was_killed(begin);
        files::remove_empty_lock_files(&self.directory)
    }

    /// Kills one of the postmaster's children.
    pub(crate) fn kill_child(&self, pid: u32) {
        if !self.kills_tear {
            processes::stop(pid);
        }
        processes::kill(pid);
    }

    /// Asks for a fast shutdown without waiting for it.
    pub(crate) fn request_stop(&self) {
        if let Some(pid) = self.postmaster.as_ref().and_then(|child| Pid::from_raw(child.id() as i32)) {
            let _ = kill_process(pid, Signal::INT);
        }
    }

    /// Stops the server in order.
    pub(crate) fn stop(&mut self) -> Checked {
        self.request_stop();
        let begin = Instant::now();
        loop {
            if let Some(status) = self.ended()? {
                return demand(status == "exit status: 0", || {
                    format!("the shutdown failed ({status}): {}", self.log.tail())
                });
            }
            demand(begin.elapsed().as_secs() < START_SECONDS_MAX, || {
                format!("the server does not stop: {}", self.log.tail())
            })?;
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Stops the server as a crash does, but for the shared memory, which nobody would clean up if its
    /// directory went.
    pub(crate) fn stop_at_once(&mut self) -> Checked {
        let Some(postmaster) = &self.postmaster else { return Ok(()) };
        processes::quit(postmaster.id());
        let begin = Instant::now();
        while self.ended()?.is_none() {
            demand(begin.elapsed().as_secs() < START_SECONDS_MAX, || {
                format!("the server does not stop at once: {}", self.log.tail())
            })?;
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// Compares the checksums of all files of the stopped cluster.
    pub(crate) fn check_checksums(&self) -> Checked {
        let data = self.data();
        self.installation.run("pg_checksums", &["--check", "-D", &data.to_string_lossy()]).map(|_| ())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.kill(true);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// A machine that has just been set up has no user `postgres`: root's servers were refused there.
    #[test]
    fn without_postgres_it_is_nobody() {
        let fresh =
            "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n";
        assert_eq!(identity(fresh, None).unwrap(), (65534, 65534));
        let installed = format!("{fresh}postgres:x:101:104::/var/lib/postgresql:/bin/bash\n");
        assert_eq!(identity(&installed, None).unwrap(), (101, 104));
        assert_eq!(identity(&installed, Some("nobody")).unwrap(), (65534, 65534));
        let refused = identity(fresh, Some("postgres")).unwrap_err();
        assert!(refused.0.contains("\"postgres\"") && refused.0.contains("--user"), "{}", refused.0);
        assert!(identity("", None).unwrap_err().0.contains("\"postgres\" or \"nobody\""));
    }

    #[test]
    fn a_start_that_another_one_mends_is_told_by_its_last_words() {
        let said = |words: &str| format!("[7] startup LOG:  redo done at 0/1\n[7] startup {words}\n");
        let exists = |name: &str| format!("FATAL:  could not create file \"{name}\": File exists");
        assert!(could_not_empty_unlogged(&said(&exists("base/5/16402"))));
        assert!(!could_not_empty_unlogged(&said(&exists("pg_wal/xlogtemp.7"))));
        let full = "FATAL:  could not create file \"base/5/16402\": No space left on device";
        assert!(!could_not_empty_unlogged(&said(full)));
    }
}
