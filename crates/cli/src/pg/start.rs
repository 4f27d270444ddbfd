//! `mezz pg start` and `mezz pg stop`.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use mezzanine_report::facts;
use serde::Serialize;

use super::cluster::{Cluster, ClusterArgs, Running, end_of};
use crate::failure::Failure;
use crate::output;

pub(crate) const START_EXAMPLES: &str = "Examples:
  mezz pg start --pgdata /srv/db
  mezz pg start --pgdata ./db --postgres ~/.cache/mezzanine/postgresql/17.11-0123456789ab --json

Waits until the server accepts connections. If it does not come up, the end of its log is shown.";

pub(crate) const STOP_EXAMPLES: &str = "Examples:
  mezz pg stop --pgdata /srv/db
  mezz pg stop --pgdata /srv/db --mode smart --timeout 600
  mezz pg stop --pgdata ./db --mode immediate --json

smart waits for sessions to end, fast (the default) ends them, immediate is a crash: the next start recovers from the log. After smart and fast the \
files are current without the tier, unless mezzanine.drain_on_shutdown is turned off.";

/// How many lines of the log a failure shows.
const LINES_SHOWN: usize = 15;

#[derive(Debug, Args)]
pub(crate) struct StartArgs {
    #[command(flatten)]
    cluster: ClusterArgs,

    /// Where the server's messages go [default: server.log in the data directory].
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,

    /// How many seconds to wait for the server.
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    timeout: u32,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Mode {
    Smart,
    Fast,
    Immediate,
}

#[derive(Debug, Args)]
pub(crate) struct StopArgs {
    #[command(flatten)]
    cluster: ClusterArgs,

    /// What becomes of sessions, and whether there is a checkpoint.
    #[arg(long, value_enum, default_value_t = Mode::Fast)]
    mode: Mode,

    /// How many seconds to wait for the server; draining a large tier takes its time.
    #[arg(long, value_name = "SECONDS", default_value_t = 3600)]
    timeout: u32,
}

#[derive(Serialize)]
struct Started<'a> {
    pgdata: &'a Path,
    postgres: &'a Path,
    user: &'a str,
    /// The command line that connects to it.
    connect: String,
    log: PathBuf,
    #[serde(flatten)]
    server: Running,
}

#[derive(Serialize)]
struct Stopped<'a> {
    pgdata: &'a Path,
    pid: u32,
    mode: String,
}

pub(crate) fn start(args: &StartArgs, json: bool) -> Result<(), Failure> {
    let cluster = Cluster::open(&args.cluster)?;
    if let Some(running) = cluster.running()? {
        return Err(Failure::refused(
            cluster.directory.display(),
            format!("its server is running already, as process {}", running.pid),
        ));
    }
    if args.cluster.postgres.is_some() {
        cluster.write_note()?;
    }
    let log = match &args.log {
        Some(path) => std::path::absolute(path).map_err(|e| Failure::refused(path.display(), e))?,
        None => default_log(&cluster),
    };
    let server = bring_up(&cluster, &log, args.timeout)?;
    told(&cluster, log, server, json)
}

/// The log's name if none is asked for.
pub(crate) fn default_log(cluster: &Cluster) -> PathBuf {
    cluster.directory.join("server.log")
}

/// Starts the server and waits for it.
pub(crate) fn bring_up(cluster: &Cluster, log: &Path, timeout: u32) -> Result<Running, Failure> {
    bring_up_with(cluster, log, timeout, None)
}

/// The same with options for the server's command line, as a shell takes them.
pub(crate) fn bring_up_with(
    cluster: &Cluster,
    log: &Path,
    timeout: u32,
    options: Option<&str>,
) -> Result<Running, Failure> {
    let timeout = timeout.to_string();
    let log_text = log.to_string_lossy();
    let log_bytes = log.metadata().map_or(0, |metadata| metadata.len());
    let bar = output::spinner("starting the server");
    let mut arguments = vec!["start", "--wait", "--timeout", &timeout, "--log", &log_text];
    arguments.extend(options.iter().flat_map(|options| ["--options", options]));
    let done = cluster.run("pg_ctl", &arguments);
    bar.finish_and_clear();
    let done = done?;
    let server = cluster.running()?;
    match server {
        Some(server) if done.status.success() => Ok(server),
        _ => {
            let when = if server.is_some() { format!(" within {timeout} s") } else { String::new() };
            let end = end_of(log, log_bytes, LINES_SHOWN);
            // Where there is no log, pg_ctl says why.
            let said = if log.metadata().is_ok_and(|metadata| metadata.len() > log_bytes) {
                format!("the end of {} is\n{end}", log.display())
            } else {
                String::from_utf8_lossy(&done.stderr).trim().to_owned()
            };
            let reason = format!("the server did not come up{when}; {said}");
            Err(Failure::refused(cluster.directory.display(), reason).next("mend that, then start it again"))
        }
    }
}

fn told(cluster: &Cluster, log: PathBuf, server: Running, json: bool) -> Result<(), Failure> {
    // initdb gives the superuser the name of the user that it runs as.
    let connect = cluster.user.line(&format!(
        "{} -h {} -p {} postgres",
        cluster.postgres.join("bin/psql").display(),
        server.socket_directory,
        server.port
    ));
    let started = Started {
        pgdata: &cluster.directory,
        postgres: &cluster.postgres,
        user: &cluster.user.name,
        connect,
        log,
        server,
    };
    if json {
        return output::json(&started);
    }
    let server = &started.server;
    output::print(&facts(&[
        ("server", format!("{}, process {}, user {}", server.status, server.pid, started.user)),
        ("port", server.port.to_string()),
        ("socket", server.socket_directory.clone()),
        ("log", started.log.display().to_string()),
        ("connect", started.connect.clone()),
    ]))
}

pub(crate) fn stop(args: &StopArgs, json: bool) -> Result<(), Failure> {
    let cluster = Cluster::open(&args.cluster)?;
    let Some(running) = cluster.running()? else {
        return Err(Failure::refused(cluster.directory.display(), "no server is running in it"));
    };
    let mode = format!("{:?}", args.mode).to_lowercase();
    bring_down(&cluster, &mode, args.timeout)?;
    let stopped = Stopped { pgdata: &cluster.directory, pid: running.pid, mode };
    if json {
        return output::json(&stopped);
    }
    output::print(&facts(&[("server", format!("stopped ({}), was process {}", stopped.mode, stopped.pid))]))
}

/// Stops the server and waits until it has gone.
pub(crate) fn bring_down(cluster: &Cluster, mode: &str, timeout: u32) -> Result<(), Failure> {
    let timeout = timeout.to_string();
    let bar = output::spinner("stopping the server");
    let done = cluster.run("pg_ctl", &["stop", "--mode", mode, "--wait", "--timeout", &timeout]);
    bar.finish_and_clear();
    let done = done?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr).trim().to_owned();
    Err(Failure::refused(
        cluster.directory.display(),
        format!("the server has not stopped within {timeout} s: {said}"),
    )
    .next("its log says what it is doing; --mode fast ends sessions"))
}
