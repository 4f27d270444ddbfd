//! A run: lives one after the other, until all cycles are done or a check fails.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use clap::ValueEnum as _;

use crate::Arguments;
use crate::configuration::Configuration;
use crate::cycle::{Kill, Life, Statistics};
use crate::failure::{Checked, Failure, While as _, demand};
use crate::histories::Kind as History;
use crate::processes;
use crate::random::Random;
use crate::server::{Installation, Server};

/// Runs everything asked for. False if a check failed.
///
/// # Errors
/// If the test could not be run.
pub(crate) fn run(arguments: &Arguments) -> Checked<bool> {
    check_faults(arguments)?;
    processes::adopt_orphans()?;
    let variable = std::env::var_os("MEZZANINE_PG_BINDIR").map(PathBuf::from);
    let bindir = arguments.bindir.clone().or(variable).map_or_else(built, Ok)?;
    let installation = Installation::find(&bindir, arguments.user.as_deref())?;
    let scratch = arguments
        .directory
        .clone()
        .unwrap_or_else(roomy_directory)
        .join(format!("mezz-pgtest-{}", std::process::id()));
    installation.own_directory(&scratch)?;
    let template = make_template(&installation, &scratch)?;
    let begin = Instant::now();
    let lives = arguments.cycles.div_ceil(arguments.cycles_per_life.max(1));
    let mut total = Statistics::default();
    let mut by_setting = Vec::new();
    for life in (arguments.first_life..lives).filter(|life| arguments.life.is_none_or(|only| only == *life)) {
        let cycles = arguments.cycles_per_life.min(arguments.cycles - life * arguments.cycles_per_life);
        let configuration = Configuration::draw(arguments.seed, life);
        let directory = scratch.join(format!("life-{life}"));
        let mut statistics = Statistics::default();
        let done = live(
            arguments,
            &installation,
            &template,
            &directory,
            life,
            cycles,
            &configuration,
            &mut statistics,
        );
        total.add(&statistics);
        println!("life {life} ({configuration}): {statistics}");
        by_setting.push((configuration, statistics));
        if let Err((cycle, kill, Failure(what))) = done {
            report_failure(arguments, life, &cycle, kill, &what, &directory);
            return Ok(false);
        }
        fs::remove_dir_all(&directory)?;
    }
    fs::remove_dir_all(&scratch)?;
    for line in tabulate(&by_setting).into_iter().chain(total.histories.lines()) {
        println!("{line}");
    }
    println!("{total}, none lost, {} s", begin.elapsed().as_secs());
    Ok(true)
}

/// A full disk is a library's doing, which has to be there.
fn check_faults(arguments: &Arguments) -> Checked {
    let Some(library) = &arguments.faults else {
        return demand(!arguments.histories.contains(&History::Full), || {
            "--histories=full needs --faults, a library made of postgres/mezzanine/t/faults.c".into()
        });
    };
    demand(library.is_absolute() && library.is_file(), || {
        format!("--faults: \"{}\" is no file with an absolute path", library.display())
    })
}

/// What a life of some ten cycles takes, with all of its log, twice.
const ROOM_BYTES: u64 = 4 << 30;

/// Memory if it has room, or the folder for temporary files.
fn roomy_directory() -> PathBuf {
    let memory = Path::new("/dev/shm");
    let room = rustix::fs::statvfs(memory).map_or(0, |found| found.f_bavail * found.f_frsize);
    if room >= ROOM_BYTES { memory.to_path_buf() } else { std::env::temp_dir() }
}

/// The programs of the server that `mezz pg build`, beside this program, makes or has made.
fn built() -> Checked<PathBuf> {
    let mezz = std::env::current_exe()?.with_file_name("mezz");
    let output = Command::new(&mezz).args(["pg", "build", "--json"]).stderr(Stdio::inherit()).output().during(|| {
        format!(
            "\"{}\" cannot build a server; give the directory of another's programs with --bindir or in MEZZANINE_PG_BINDIR",
            mezz.display()
        )
    })?;
    let report: serde_json::Value =
        serde_json::from_slice(&output.stdout).map_err(|error| Failure(format!("mezz pg build: {error}")))?;
    match report["prefix"].as_str() {
        Some(prefix) => Ok(Path::new(prefix).join("bin")),
        None => Err(Failure(format!("mezz pg build named no prefix: {report}"))),
    }
}

/// One line that says what to run to see it again.
fn report_failure(
    arguments: &Arguments,
    life: u64,
    cycle: &str,
    kill: Option<Kill>,
    what: &str,
    directory: &Path,
) {
    let Arguments { seed, cycles, cycles_per_life, histories, .. } = arguments;
    let kill = kill.map_or(String::new(), |kill| format!(" ({kill:?})"));
    println!(
        "FAILED: seed {seed}, life {life}, {cycle}{kill}: {}; kept in {}; again: mezz-pgtest --seed {seed} --cycles {cycles} \
         --cycles-per-life {cycles_per_life} --life {life}{}",
        what.replace('\n', " "),
        directory.display(),
        asked_for(histories)
    );
}

/// The option that asks for these histories.
fn asked_for(histories: &[History]) -> String {
    let name = |history: &History| history.to_possible_value().map(|value| value.get_name().to_owned());
    let names: Vec<String> = histories.iter().filter_map(name).collect();
    if names.is_empty() { String::new() } else { format!(" --histories={}", names.join(",")) }
}

/// A cluster with the extensions that are needed for checking, made once and copied for each life.
fn make_template(installation: &Installation, scratch: &Path) -> Checked<PathBuf> {
    let directory = scratch.join("template");
    installation.own_directory(&directory)?;
    let mut server = Server::new(installation, &directory, None);
    let data = server.data();
    // Small segments of the log let checkpoints come early.
    installation.run(
        "initdb",
        &[
            "-k",
            "--no-sync",
            "-A",
            "trust",
            "-U",
            "postgres",
            "-E",
            "UTF8",
            "--locale=C",
            "--wal-segsize=1",
            "-D",
            &data.to_string_lossy(),
        ],
    )?;
    server.configure(&format!(
        "listen_addresses = ''\nunix_socket_directories = '{}'\nfsync = off",
        directory.display()
    ))?;
    server.start()?;
    let mut db = server.connect()?;
    for extension in ["amcheck", "pageinspect", "pg_walinspect"] {
        db.batch_execute(&format!("CREATE EXTENSION {extension}"))
            .during(|| format!("the server was built without the extension {extension}"))?;
    }
    let asserts: String = db.query_one("SHOW debug_assertions", &[])?.try_get(0)?;
    if asserts == "on" {
        eprintln!(
            "mezz-pgtest: this server has assertions. PostgreSQL 17's own BufferIsDirty(buffer) in xloginsert.c fails when a vacuum comes upon \
             a page that one before it froze when it was killed: that failure is not the tier's"
        );
    }
    drop(db);
    server.stop()?;
    server.configure("fsync = on")?;
    Ok(directory)
}

/// One life. An error has the place where it happened.
#[allow(clippy::too_many_arguments)]
fn live(
    arguments: &Arguments,
    installation: &Installation,
    template: &Path,
    directory: &Path,
    life: u64,
    cycles: u64,
    configuration: &Configuration,
    statistics: &mut Statistics,
) -> Result<(), (String, Option<Kill>, Failure)> {
    let at = |place: &str| {
        let place = place.to_owned();
        move |failure| (place, None, failure)
    };
    installation.copy(template, directory).map_err(at("begin"))?;
    // The extension's rules are named in lower case in a setting, the engine's in camel case in the
    // environment.
    let is_setting = |rule: &&str| !rule.contains(char::is_uppercase);
    let planted = arguments.planted.as_deref();
    let mut server = Server::new(installation, directory, planted.filter(|rule| !is_setting(rule)));
    server.faults.clone_from(&arguments.faults);
    if let Some(rule) = planted.filter(is_setting) {
        server.configure(&format!("mezzanine.planted = '{rule}'")).map_err(at("begin"))?;
    }
    let mut lived = Life::begin(server, configuration.clone(), arguments.clients, &arguments.histories)
        .map_err(at("begin"))?;
    for cycle in 0..cycles {
        let mut random = Random::new(arguments.seed, life << 8 | (cycle + 1) << 32);
        // Apart, so that what is killed and when is the same without histories.
        let of_histories = Random::new(arguments.seed, 1 << 63 | life << 8 | (cycle + 1) << 32);
        lived.histories.note(format!("cycle {cycle}")).map_err(at("histories"))?;
        let done = lived.cycle(&mut random, of_histories, cycle + 1 == cycles);
        *statistics = lived.statistics.clone();
        done.map_err(|(kill, Failure(what))| {
            let steps = &lived.histories.steps;
            let steps =
                if steps.is_empty() { String::new() } else { format!("; steps: {}", steps.join("; ")) };
            (format!("cycle {cycle}"), Some(kill), Failure(what + &steps))
        })?;
    }
    let ended = lived.end();
    *statistics = lived.statistics.clone();
    ended.map_err(at("end"))
}

/// Cycles and commits by the settings that take turns.
fn tabulate(lives: &[(Configuration, Statistics)]) -> Vec<String> {
    let name = |c: &Configuration| {
        let switch = |on: bool, word: &'static str| if on { word } else { "off" };
        format!(
            "{} | {} | {}",
            c.sync_mode,
            switch(c.full_page_writes, "on"),
            switch(c.consistency_checking, "all")
        )
    };
    let mut names: Vec<String> = lives.iter().map(|(configuration, _)| name(configuration)).collect();
    names.sort();
    names.dedup();
    let head = [
        "| sync mode | full_page_writes | wal_consistency_checking | cycles | kills | in recovery | in checkpoints | acknowledged commits | lost |",
        "|---|---|---|---|---|---|---|---|---|",
    ];
    let rows = names.iter().map(|row| {
        let mut sum = Statistics::default();
        lives
            .iter()
            .filter(|(configuration, _)| name(configuration) == *row)
            .for_each(|(_, more)| sum.add(more));
        let Statistics { cycles, kills, in_recovery, in_checkpoint, commits, .. } = sum;
        format!("| {row} | {cycles} | {kills} | {in_recovery} | {in_checkpoint} | {commits} | 0 |")
    });
    head.iter().map(|line| (*line).to_owned()).chain(rows).collect()
}
