//! `mezz pg drain`: the data files complete without the tier, whatever became of the server.
//!
//! What is newer on flash than in the files goes there; a running server does that itself. Of one that was
//! killed the newest pages are partly in the log: only redo makes them, and redo reads what the tier has. So
//! a server that does not run is started for it, alone: its socket lies in a directory that nobody else can
//! enter, it listens to no network, and it is stopped again. Its shutdown takes the mark off pg_control.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use mezzanine_report::facts;
use serde::Serialize;

use super::cluster::{Cluster, ClusterArgs, Running};
use super::start::{self, default_log};
use super::status::{control_file, marker};
use super::unsaved::{self, Unsaved};
use crate::benchmark::{leave_to_handler, when_interrupted};
use crate::failure::Failure;
use crate::output;

pub(crate) const EXAMPLES: &str = "Examples:
  mezz pg drain --pgdata /srv/db
  mezz pg drain --pgdata /srv/db --json

A running server makes a checkpoint, writes every page that is newer in the tier than on disk to \
disk, and goes on. One that was stopped or killed is started for the drain without connections from \
outside, recovers, and is stopped again: then the data files are complete without the tier, and a \
stock server may use them. The tier must be there as it was left.

Pages that cannot be saved stop nothing else from being: they are listed, by file and block, and the \
exit code is 1. Those that flash does not give back are lost; those whose file is missing or takes \
nothing stay in the tier.";

/// What the server says of pages that it cannot save.
const OF_LOST_PAGES: &str = "cannot be read";
const OF_REFUSED_PAGES: &str = "cannot be written to their files";

/// How long after the failure of what was interrupted this process may learn of it.
const SIGNAL_LATE_MAX: Duration = Duration::from_millis(200);
/// How often the handler looks for a server to stop, and the pause between.
const STOPS_MAX: u32 = 10;
const STOP_PAUSE: Duration = Duration::from_millis(100);
/// How long a server takes to end at once.
const SECONDS_TO_DIE: u32 = 60;
/// Bytes of a socket's path that every system takes, the file's own name taken off.
const SOCKET_DIRECTORY_MAX: usize = 80;
/// What the data directory of a server has that was restored and has not been started since, and of one that
/// follows a log.
const FROM_BACKUP: &str = "backup_label";
const TO_A_POINT: &str = "recovery.signal";
const STANDBY: &str = "standby.signal";
/// The options that the server was last started with; `pg_ctl restart` takes them from there.
const OPTIONS_FILE: &str = "postmaster.opts";

#[derive(Debug, Args)]
pub(crate) struct DrainArgs {
    #[command(flatten)]
    cluster: ClusterArgs,

    /// How many seconds the server may take to recover, and again to stop, if it has to be started.
    #[arg(long, value_name = "SECONDS", default_value_t = 3600)]
    timeout: u32,
}

#[derive(Serialize)]
struct Drained {
    pgdata: PathBuf,
    /// Whether the server ran, and so goes on.
    running: bool,
    /// Whether it was started for the drain.
    started: bool,
    /// Pages that the tier wrote to disk; unknown (null) where the server could not be asked.
    pages: Option<u64>,
    /// Why they are unknown.
    pages_unknown: Option<String>,
    cluster_state: String,
    /// pg_control says that the data files alone may be out of date.
    files_out_of_date: bool,
    /// Pages of the tier that could not be written to disk.
    unsaved: Vec<Unsaved>,
    seconds: f64,
}

pub(crate) fn run(args: &DrainArgs, json: bool) -> Result<(), Failure> {
    let cluster = Cluster::open(&args.cluster)?;
    let began = Instant::now();
    let (running, done) = match cluster.running()? {
        Some(server) => (true, drain_running(&cluster, &server)?),
        None => (false, drain_stopped(&cluster, args.timeout)?),
    };
    let (cluster_state, files_out_of_date) = control_file(&cluster)?;
    let (pages, pages_unknown) = match done.pages {
        Ok(pages) => (Some(pages), None),
        Err(reason) => (None, Some(reason)),
    };
    let drained = Drained {
        pgdata: cluster.directory,
        running,
        started: done.started,
        pages,
        pages_unknown,
        cluster_state,
        files_out_of_date,
        unsaved: done.unsaved,
        seconds: began.elapsed().as_secs_f64(),
    };
    if json {
        output::json(&drained)?;
    } else {
        output::print(&text(&drained))?;
    }
    if !drained.unsaved.is_empty() {
        let reason = format!("{} of its pages could not be written to disk", drained.unsaved.len());
        return Err(
            Failure::check(drained.pgdata.display(), reason).next(unsaved::next_steps(&drained.unsaved))
        );
    }
    if running || (!drained.files_out_of_date && is_in_order(&drained.cluster_state)) {
        return Ok(());
    }
    Err(Failure::check(
        drained.pgdata.display(),
        format!("its files are not complete: pg_control says \"{}\"", drained.cluster_state),
    )
    .next("the end of the server's log says what happened; nothing is lost while the tier is there"))
}

fn text(drained: &Drained) -> String {
    let server = match (drained.running, drained.started) {
        (true, _) => "running; it goes on",
        (false, true) => "was started for the drain, and stopped",
        (false, false) => "not running; there was nothing to do",
    };
    let files = match (drained.running, drained.files_out_of_date) {
        (false, false) => "complete without the tier",
        (true, false) => "current as of the drain",
        (true, true) => "current as of the drain; marked for as long as the server runs",
        (false, true) => "OUT OF DATE without the tier",
    };
    let pages = match (drained.pages, &drained.pages_unknown) {
        (Some(pages), _) => pages.to_string(),
        (None, reason) => format!("not counted: {}", reason.as_deref().unwrap_or("the server was not asked")),
    };
    let facts = facts(&[
        ("data directory", drained.pgdata.display().to_string()),
        ("server", server.to_owned()),
        ("pages written", pages),
        ("state", drained.cluster_state.clone()),
        ("files", files.to_owned()),
        ("took", format!("{:.1} s", drained.seconds)),
    ]);
    facts + &unsaved::lines(&drained.unsaved)
}

/// Whether the server was stopped in order, by the state that pg_control names.
fn is_in_order(state: &str) -> bool {
    state == "shut down" || state == "shut down in recovery"
}

/// What a drain did.
struct Done {
    started: bool,
    /// How many pages were written, or why nobody knows.
    pages: Result<u64, String>,
    unsaved: Vec<Unsaved>,
}

/// What a server answered that was asked to drain.
struct Answer {
    pages: u64,
    unsaved: Vec<Unsaved>,
}

fn drain_running(cluster: &Cluster, server: &Running) -> Result<Done, Failure> {
    if server.status != "ready" && server.status != "standby" {
        return Err(Failure::refused(
            cluster.directory.display(),
            format!("its server is {}, as process {}", server.status, server.pid),
        )
        .next("wait until it has done that"));
    }
    let answer = ask_for_drain(cluster, server).map_err(|said| {
        let next = if said.contains(OF_LOST_PAGES) || said.contains(OF_REFUSED_PAGES) {
            "every other page was written; stop the server and drain it then, which lists those that could not be"
        } else {
            "it needs a tier, and CREATE EXTENSION mezzanine in the database postgres; ask as a superuser"
        };
        Failure::refused(cluster.directory.display(), format!("its server cannot drain the tier: {said}"))
            .next(next)
    })?;
    Ok(Done { started: false, pages: Ok(answer.pages), unsaved: answer.unsaved })
}

/// A checkpoint, because pages that only shared buffers have are not the tier's to write; then the drain. A
/// page that cannot be saved fails the drain once all others of the tier are on disk, and in some modes the
/// checkpoint before it, which does not keep the drain from being asked for.
fn ask_for_drain(cluster: &Cluster, server: &Running) -> Result<Answer, String> {
    let bar = output::spinner("draining the tier");
    let before = pages_drained(cluster, server)?;
    let said: Vec<String> = ["CHECKPOINT", "SELECT mezzanine_drain()"]
        .into_iter()
        .filter_map(|command| cluster.query(server, command).err())
        .collect();
    let unsaved = if said.is_empty() { Vec::new() } else { unsaved::ask(cluster, server)? };
    match said.into_iter().next() {
        Some(said) if unsaved.is_empty() => return Err(said),
        _ => {}
    }
    let pages = pages_drained(cluster, server)?.saturating_sub(before);
    bar.finish_and_clear();
    Ok(Answer { pages, unsaved })
}

fn drain_stopped(cluster: &Cluster, timeout: u32) -> Result<Done, Failure> {
    let (state, files_out_of_date) = control_file(cluster)?;
    let marker = marker(&cluster.directory)?;
    if marker.is_none() && !files_out_of_date {
        return Err(Failure::refused(cluster.directory.display(), "no tier was ever used with it")
            .next("set mezzanine.flash_path, or use the files as they are: they are complete"));
    }
    let only_copies = marker.as_ref().is_some_and(|marker| marker.only_copies);
    if is_in_order(&state) && !files_out_of_date && !only_copies {
        return Ok(Done { started: false, pages: Ok(0), unsaved: Vec::new() });
    }
    refuse_recovery_to_come(cluster)?;
    let private = Private::create(cluster)?;
    // Ctrl-C ends what runs for us as well; then the handler has the last word.
    let done = drain_alone(cluster, &private, timeout, marker.as_ref().map(|marker| &*marker.flash_path));
    done.inspect_err(|_| leave_to_handler(SIGNAL_LATE_MAX))
}

/// `flash`: where the tier is, if that is known before.
fn drain_alone(
    cluster: &Cluster,
    private: &Private,
    timeout: u32,
    flash: Option<&Path>,
) -> Result<Done, Failure> {
    let options = private.options(cluster);
    let server = start::bring_up_with(cluster, &default_log(cluster), timeout, Some(&options))
        .inspect_err(|_| end_what_recovers(cluster))?;
    // Whatever the answer is: the shutdown drains as well.
    let pages = ask_since_start(cluster, &server);
    let stopped = start::bring_down(cluster, "fast", timeout);
    let (state, files_out_of_date) = control_file(cluster)?;
    let unsaved = match flash {
        Some(flash) if files_out_of_date || !is_in_order(&state) => {
            unsaved::at_rest(flash, &cluster.directory)?
        }
        _ => Vec::new(),
    };
    // In the mode `drained` a server whose files do not take their pages ends as after a crash: what it could
    // not save says more than that.
    if unsaved.is_empty() {
        stopped?;
    }
    Ok(Done { started: true, pages, unsaved })
}

/// A server that did not come up in time must not stay behind, where nobody can connect. It goes on from its
/// log the next time.
fn end_what_recovers(cluster: &Cluster) {
    if let Ok(Some(_)) = cluster.running() {
        // What it would say is less than what is said already.
        let _ = start::bring_down(cluster, "immediate", SECONDS_TO_DIE);
    }
}

/// Starting a server that is about to be restored would do what the restore is for, and not only a drain.
fn refuse_recovery_to_come(cluster: &Cluster) -> Result<(), Failure> {
    let has = |name: &str| cluster.directory.join(name).exists();
    let refused = |reason: &str| Failure::refused(cluster.directory.display(), reason);
    if has(FROM_BACKUP) {
        return Err(refused(
            "it was restored from a base backup and has not been started since (backup_label is there): files and log suffice, no tier holds anything of it",
        )
        .next("start it as the restore demands"));
    }
    if has(TO_A_POINT) {
        return Err(refused("it is to be recovered to a point in time (recovery.signal is there)")
            .next("start it, let the recovery end, and drain it then"));
    }
    Ok(())
}

/// Pages written since the server was started for it, recovery included.
fn ask_since_start(cluster: &Cluster, server: &Running) -> Result<u64, String> {
    // What it could not write shows once it is stopped.
    let said = ask_for_drain(cluster, server).err();
    pages_drained(cluster, server).map_err(|error| said.unwrap_or(error))
}

/// Pages that drains have written since the server was started.
fn pages_drained(cluster: &Cluster, server: &Running) -> Result<u64, String> {
    let answer = cluster.query(server, "SELECT pages_drained FROM pg_stat_mezzanine")?;
    answer.trim().parse().map_err(|_| format!("pg_stat_mezzanine counts '{}' pages", answer.trim()))
}

/// A directory that only the server's user can enter: its socket, and who may connect there. While this
/// lives, an interruption stops the server.
struct Private {
    directory: PathBuf,
    /// The data directory's note of the options of the last start, which must not be ours.
    options_file: PathBuf,
    options_before: Option<Vec<u8>>,
}

impl Private {
    fn create(cluster: &Cluster) -> Result<Private, Failure> {
        let directory = std::env::temp_dir().join(format!("mezz-drain-{}", std::process::id()));
        let shown = directory.to_string_lossy();
        if shown.len() > SOCKET_DIRECTORY_MAX || shown.contains(['"', '\'', '\\', ',']) {
            return Err(Failure::refused(
                &shown,
                "the server's socket cannot lie there: the path is too long or has quotes",
            )
            .next("set TMPDIR to another directory, such as /tmp"));
        }
        DirBuilder::new().mode(0o700).create(&directory).map_err(|e| {
            Failure::refused(directory.display(), e).next("set TMPDIR to another directory, such as /tmp")
        })?;
        let options_file = cluster.directory.join(OPTIONS_FILE);
        let options_before = fs::read(&options_file).ok();
        let private = Private { directory, options_file, options_before };
        // Before there is more to leave behind.
        private.stop_when_interrupted(cluster);
        private.admit_only_the_owner(cluster)?;
        Ok(private)
    }

    /// Whoever gets to the socket may connect: that is the server's user, and root.
    fn admit_only_the_owner(&self, cluster: &Cluster) -> Result<(), Failure> {
        let rules = self.rules();
        fs::write(&rules, "local all all trust\n").map_err(|e| Failure::refused(rules.display(), e))?;
        cluster.user.give(&rules)?;
        cluster.user.give(&self.directory)?;
        if cluster.user.may("-w", &self.directory) {
            return Ok(());
        }
        Err(Failure::refused(
            self.directory.display(),
            format!("the user {} cannot get to it", cluster.user.name),
        )
        .next("set TMPDIR to another directory, such as /tmp"))
    }

    fn rules(&self) -> PathBuf {
        self.directory.join("pg_hba.conf")
    }

    /// The server's command line, for a shell.
    fn options(&self, cluster: &Cluster) -> String {
        let mut settings = vec![
            ("listen_addresses", String::new()),
            ("unix_socket_directories", format!("\"{}\"", self.directory.display())),
            ("hba_file", self.rules().display().to_string()),
            ("mezzanine.drain_on_shutdown", "on".to_owned()),
            ("max_logical_replication_workers", "0".to_owned()),
            ("autovacuum", "off".to_owned()),
        ];
        if cluster.directory.join(STANDBY).exists() {
            // It goes on with the log that it has, and fetches none.
            settings.extend([
                ("hot_standby", "on".to_owned()),
                ("primary_conninfo", String::new()),
                ("restore_command", String::new()),
            ]);
        }
        settings.iter().map(|(name, value)| format!("-c {name}='{value}'")).collect::<Vec<_>>().join(" ")
    }

    /// Ctrl-C ends the server as a crash would: the tier and the files are as useful as before.
    fn stop_when_interrupted(&self, cluster: &Cluster) {
        let (user, directory) = (cluster.user.clone(), self.directory.clone());
        let (program, data) = (cluster.postgres.join("bin/pg_ctl"), cluster.directory.clone());
        let (options_file, options_before) = (self.options_file.clone(), self.options_before.clone());
        let handled = when_interrupted(move || {
            // A server that has only just begun is not known to pg_ctl yet.
            for _ in 0..STOPS_MAX {
                let mut stop = user.command(&program);
                stop.args(["stop", "--silent", "--mode", "immediate", "--pgdata"]).arg(&data);
                if stop.output().is_ok_and(|done| done.status.success()) {
                    break;
                }
                std::thread::sleep(STOP_PAUSE);
            }
            restore(&options_file, options_before.as_deref());
            let _ = fs::remove_dir_all(&directory);
        });
        if let Err(error) = handled {
            output::note(&format!(
                "the server will stay when this is interrupted; mezz pg stop ends it: {error}"
            ));
        }
    }
}

/// Puts a file of the data directory back as it was; its owner and mode are the server's.
fn restore(path: &Path, before: Option<&[u8]>) {
    let done = match before {
        Some(bytes) => fs::write(path, bytes),
        None => fs::remove_file(path),
    };
    match done {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            output::note(&format!(
                "{}: {e}; pg_ctl restart would take the options of the drain",
                path.display()
            ));
        }
        _ => {}
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        restore(&self.options_file, self.options_before.as_deref());
        if let Err(e) = fs::remove_dir_all(&self.directory) {
            output::note(&format!("{}: cannot be removed: {e}", self.directory.display()));
        }
    }
}
