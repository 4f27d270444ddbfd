//! Recording a PostgreSQL server with the extension.
//!
//! A background worker of the server writes the trace into the data directory, where it may, for as long as
//! was asked for. What the relations are called is asked afterwards, and the trace written anew with their
//! names.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mezzanine_engine::PageId;
use mezzanine_trace::{Compression, Format, Op, Writer, open};

use super::RecordArgs;
use crate::failure::Failure;
use crate::output;
use crate::pg::{Cluster, ClusterArgs, Running};
use crate::trace::refused;

/// How often it is looked whether this process is to end.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How much longer than asked for the server goes on recording if nobody tells it to stop.
const SLACK_SECONDS: f64 = 30.0;

/// This process was told to end: recording ends, and what was recorded is kept.
static IS_INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// What a recording came to.
pub(super) struct Served {
    pub(super) page_bytes: u32,
    pub(super) kinds: [u64; Op::ALL.len()],
    /// Events that came faster than the server could write them.
    pub(super) lost: u64,
    pub(super) file_bytes: u64,
    pub(super) seconds: f64,
}

/// Records the server of a data directory for some seconds.
pub(super) fn record(args: &RecordArgs, seconds: f64) -> Result<Served, Failure> {
    let cluster =
        Cluster::open(&ClusterArgs { pgdata: args.pgdata.clone(), postgres: None, user: args.user.clone() })?;
    let subject = cluster.directory.display().to_string();
    let Some(server) = cluster.running()? else {
        return Err(Failure::refused(&subject, "its server is not running")
            .next(format!("mezz pg start --pgdata {subject}")));
    };
    let ask = |query: &str| cluster.query(&server, query).map_err(|said| Failure::refused(&subject, said));
    let known = ask("SELECT to_regprocedure('mezzanine_trace_start(text, double precision)') IS NOT NULL")?;
    if known.trim() != "t" {
        return Err(Failure::refused(
            &subject,
            "the database postgres has no function mezzanine_trace_start",
        )
        .next("CREATE EXTENSION mezzanine in the database postgres, with the extension of this mezz"));
    }
    let there = cluster.directory.join(format!("mezzanine.trace.{}", std::process::id()));
    let quoted = there.display().to_string().replace('\'', "''");
    if let Err(error) = ctrlc::set_handler(|| IS_INTERRUPTED.store(true, Ordering::Release)) {
        output::note(&format!("the server goes on recording when this is interrupted: {error}"));
    }
    let started = Instant::now();
    ask(&format!("SELECT mezzanine_trace_start('{quoted}', {})", seconds + SLACK_SECONDS))?;
    let bar = output::progress((seconds * 1000.0) as u64, &format!("recording {subject}"));
    while started.elapsed().as_secs_f64() < seconds && !IS_INTERRUPTED.load(Ordering::Acquire) {
        bar.set_position(started.elapsed().as_millis() as u64);
        std::thread::sleep(LOOK_EVERY);
    }
    let stopped = ask("SELECT events, lost FROM mezzanine_trace_stop()")?;
    let seconds = started.elapsed().as_secs_f64();
    bar.finish_and_clear();
    let numbers: Vec<u64> = stopped.trim().split('|').map_while(|number| number.parse().ok()).collect();
    let [events, lost] = numbers[..] else {
        return Err(Failure::refused(&subject, format!("its server said {:?} at the end", stopped.trim())));
    };
    if events == 0 {
        let reason =
            "nothing was recorded: nothing went in or out of shared buffers, and nothing was committed";
        return Err(Failure::refused(args.output.display(), reason).next("record while the server has work"));
    }
    let names = names(&cluster, &server);
    let (page_bytes, kinds, file_bytes) = rewrite(args, &there, &names)?;
    if let Err(error) = std::fs::remove_file(&there) {
        output::note(&format!("{}: cannot be removed: {error}", there.display()));
    }
    Ok(Served { page_bytes, kinds, lost, file_bytes, seconds })
}

/// Names of relations by database, tablespace and number of the file.
type Names = HashMap<(u32, u32, u32), String>;

/// Asks every database. One that cannot be asked has relations without names.
fn names(cluster: &Cluster, server: &Running) -> Names {
    const DATABASES: &str = "SELECT oid, dattablespace, datname FROM pg_database WHERE datallowconn";
    // Shared relations stand in every database's pg_class, and belong to none.
    let relations = |tablespace: &str| {
        format!(
            "SELECT CASE WHEN c.relisshared THEN 0 ELSE 1 END, \
             CASE WHEN c.reltablespace = 0 THEN {tablespace} ELSE c.reltablespace END, pg_relation_filenode(c.oid), \
             CASE c.relkind WHEN 'i' THEN 'index' WHEN 'S' THEN 'sequence' WHEN 't' THEN 'toast' WHEN 'm' THEN 'view' ELSE 'table' END, \
             n.nspname || '.' || c.relname \
             FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE pg_relation_filenode(c.oid) IS NOT NULL"
        )
    };
    let mut names = Names::new();
    let databases = cluster.query(server, DATABASES).unwrap_or_default();
    for database in databases.lines() {
        let mut fields = database.splitn(3, '|');
        let (Some(oid), Some(tablespace), Some(name)) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        match cluster.query_in(server, name, &relations(tablespace)) {
            Ok(rows) => names.extend(rows.lines().filter_map(|row| relation(row, oid, name))),
            Err(said) => output::note(&format!("relations of {name} have no names: {said}")),
        }
    }
    names
}

fn relation(row: &str, database: &str, database_name: &str) -> Option<((u32, u32, u32), String)> {
    let mut fields = row.splitn(5, '|');
    let is_own: u32 = fields.next()?.parse().ok()?;
    let tablespace = fields.next()?.parse().ok()?;
    let file = fields.next()?.parse().ok()?;
    let (kind, name) = (fields.next()?, fields.next()?);
    let database: u32 = database.parse().ok()?;
    let place = if is_own == 0 { "shared" } else { database_name };
    Some(((database * is_own, tablespace, file), format!("{place}: {kind} {name}")))
}

fn name_of(id: &PageId, names: &Names) -> String {
    let [database, tablespace, relation, fork, _] = id.relation_parts();
    let Some(name) = names.get(&(database, tablespace, relation)) else { return String::new() };
    let fork = ["", " (free space)", " (visibility)", " (init)"].get(fork as usize).copied().unwrap_or("");
    format!("{name}{fork}")
}

/// Writes the server's trace to where it is wanted, with names.
fn rewrite(
    args: &RecordArgs,
    there: &Path,
    names: &Names,
) -> Result<(u32, [u64; Op::ALL.len()], u64), Failure> {
    let mut reader = open(there, Format::Mezzanine, 1).map_err(refused)?;
    let compression = if args.zstd { Compression::Zstd } else { Compression::None };
    let mut writer =
        Writer::create(&args.output, Format::Mezzanine, compression, reader.header()).map_err(refused)?;
    let mut kinds = [0; Op::ALL.len()];
    let mut named = 0;
    while let Some(request) = reader.next() {
        let request = request.map_err(refused)?;
        // In the order of the server's trace, so that relations and pages keep their numbers.
        while named < reader.relations().len() {
            named += 1;
            if let Some(id) = u32::try_from(named).ok().and_then(|number| reader.first_page_id(number)) {
                writer.name(&id, &name_of(&id, names)).map_err(refused)?;
            }
        }
        kinds[request.op.index()] += 1;
        writer.write(&request).map_err(refused)?;
    }
    let written = writer.finish().map_err(refused)?;
    Ok((reader.page_bytes(), kinds, written.file_bytes))
}
