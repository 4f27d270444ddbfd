//! `mezz pg status`: the server, and the tier as the server or else the files tell it.

use std::path::{Path, PathBuf};

use clap::Args;
use mezzanine_report::facts;
use serde::Serialize;
use serde_json::Value;

use mezzanine_ffi::marker::{DataDirectory, MARKER_FILE, Marker};

use super::cluster::{Cluster, ClusterArgs, Running};
use crate::failure::Failure;
use crate::output;

pub(crate) const EXAMPLES: &str = "Examples:
  mezz pg status --pgdata /srv/db
  mezz pg status --pgdata /srv/db --json

The exit code is 0 if the server is running and 1 if it is not. What the tier does comes from pg_stat_mezzanine when the server has it, else from the files in \
the data directory.";

/// What pg_control shows beside the version when the files alone are out of date.
const TIER_DIRTY: u64 = 0x4D5A_0000;

#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
}

#[derive(Serialize)]
struct Status {
    pgdata: PathBuf,
    postgres: PathBuf,
    user: String,
    running: bool,
    server: Option<Running>,
    /// As `pg_controldata` names it.
    cluster_state: String,
    tier: TierStatus,
}

#[derive(Serialize)]
struct TierStatus {
    /// pg_control says that the data files alone are out of date.
    files_out_of_date: bool,
    /// The extension's marker: which tier this data directory has.
    marker: Option<Marker>,
    /// A row of pg_stat_mezzanine.
    statistics: Option<Value>,
}

pub(crate) fn run(args: &StatusArgs, json: bool) -> Result<(), Failure> {
    let cluster = Cluster::open(&args.cluster)?;
    let server = cluster.running()?;
    let (cluster_state, files_out_of_date) = control_file(&cluster)?;
    let tier = TierStatus {
        files_out_of_date,
        marker: marker(&cluster.directory)?,
        statistics: server.as_ref().and_then(|server| statistics(&cluster, server)),
    };
    let status = Status {
        running: server.is_some(),
        pgdata: cluster.directory,
        postgres: cluster.postgres,
        user: cluster.user.name,
        server,
        cluster_state,
        tier,
    };
    if json {
        output::json(&status)?;
    } else {
        output::print(&text(&status))?;
    }
    if status.running {
        return Ok(());
    }
    Err(Failure::check(status.pgdata.display(), "its server is not running")
        .next(format!("mezz pg start --pgdata {}", status.pgdata.display())))
}

fn text(status: &Status) -> String {
    let server = status.server.as_ref().map_or_else(
        || "not running".to_owned(),
        |server| format!("{}, process {}, port {}", server.status, server.pid, server.port),
    );
    let mut lines = vec![
        ("data directory", status.pgdata.display().to_string()),
        ("installed in", status.postgres.display().to_string()),
        ("user", status.user.clone()),
        ("server", server),
        ("state", status.cluster_state.clone()),
        (
            "files",
            if status.tier.files_out_of_date {
                "may be out of date without the tier".to_owned()
            } else {
                "current as of the last checkpoint".to_owned()
            },
        ),
    ];
    match &status.tier.marker {
        None => lines.push(("tier", "none so far".to_owned())),
        Some(marker) => {
            lines.push(("tier", marker.tier.clone()));
            lines.push(("flash", marker.flash_path.display().to_string()));
            lines.push(("only copies", marker.only_copies.to_string()));
        }
    }
    let mut text = facts(&lines);
    if let Some(Value::Object(row)) = &status.tier.statistics {
        let pairs: Vec<(&str, String)> = row
            .iter()
            .map(|(name, value)| {
                (name.as_str(), value.as_str().map_or_else(|| value.to_string(), str::to_owned))
            })
            .collect();
        text.push('\n');
        text.push_str(&facts(&pairs));
    }
    text
}

/// The cluster's state, and whether the files alone are out of date, from pg_control.
pub(crate) fn control_file(cluster: &Cluster) -> Result<(String, bool), Failure> {
    let path = cluster.postgres.join("bin/pg_controldata");
    let done = cluster
        .user
        .command(&path)
        .arg(&cluster.directory)
        .env("LC_ALL", "C")
        .output()
        .map_err(|e| Failure::refused(path.display(), e))?;
    let said = String::from_utf8_lossy(&done.stdout);
    let field = |name: &str| {
        said.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            .map(|value| value.trim().to_owned())
    };
    let version = field("pg_control version number").and_then(|text| text.parse::<u64>().ok());
    match (version, field("Database cluster state")) {
        (Some(version), Some(state)) => Ok((state, version & 0xFFFF_0000 == TIER_DIRTY)),
        _ => Err(Failure::refused(
            cluster.directory.display(),
            format!("its pg_control cannot be read: {}", String::from_utf8_lossy(&done.stderr).trim()),
        )),
    }
}

/// What the extension leaves in a data directory, judged as the server judges it.
pub(crate) fn marker(directory: &Path) -> Result<Option<Marker>, Failure> {
    let path = directory.join(MARKER_FILE);
    match std::fs::File::open(&path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(Failure::refused(path.display(), e)),
        _ => Marker::read(&DataDirectory(directory.to_path_buf()))
            .map_err(|refusal| Failure::check(path.display(), refusal.message).next(refusal.hint)),
    }
}

/// The view's row, if the server has the view and lets us ask. Asked in two steps, so that no error gets into
/// the server's log.
fn statistics(cluster: &Cluster, server: &Running) -> Option<Value> {
    let ask = |query| cluster.query(server, query).ok();
    if ask("SELECT to_regclass('pg_stat_mezzanine') IS NOT NULL")?.trim() != "t" {
        return None;
    }
    serde_json::from_str(&ask("SELECT row_to_json(s) FROM pg_stat_mezzanine s")?).ok()
}
