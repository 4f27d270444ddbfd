//! `mezz sim crash`: worlds drawn from seeds.

use mezzanine_engine::SyncMode;
use mezzanine_report::{facts, number};
use mezzanine_sim::crash::{Focus, Kind, Options, Report, Terms, Worlds, run as run_worlds};
use serde::Serialize;

use super::{CrashArgs, verdict};
use crate::failure::Failure;
use crate::output;

#[derive(Serialize)]
struct Crash<'a> {
    #[serde(flatten)]
    report: &'a Report,
    ok: bool,
    /// With 95 % confidence violations are rarer than this per cut; null when one was found.
    violations_per_cut_below: Option<f64>,
    seconds: f64,
    cuts_per_second: f64,
}

pub(super) fn run(args: &CrashArgs, json: bool) -> Result<(), Failure> {
    let terms = terms(args)?;
    let bar = output::progress(args.cuts, "cutting the power");
    let started = std::time::Instant::now();
    let progress = |done| bar.set_position(done);
    // Nothing else can be done about it: the world has the thread that it runs on.
    let endless = |replay: &str| {
        let found = format!("a world does not come to its end, which is a violation; replay: {replay}");
        Failure::check("sim crash", found).end()
    };
    let options = Options {
        seed: args.seed,
        cuts: args.cuts,
        worlds: args.world,
        terms,
        threads: args.threads(),
        progress: Some(&progress),
        endless: Some(&endless),
    };
    let report = run_worlds(&options);
    bar.finish_and_clear();
    let seconds = started.elapsed().as_secs_f64();
    let ok = report.violations.is_empty();
    let crash = Crash {
        report: &report,
        ok,
        // The rule of three: nothing seen in n trials.
        violations_per_cut_below: ok.then(|| 3.0 / report.cuts.max(1) as f64),
        seconds,
        cuts_per_second: report.cuts as f64 / seconds.max(1e-9),
    };
    if json {
        output::json(&crash)?;
    } else {
        output::print(&text(&crash))?;
    }
    verdict(&report.violations)
}

/// What the options ask of the worlds.
fn terms(args: &CrashArgs) -> Result<Terms, Failure> {
    if args.sync_mode == Some(SyncMode::Drained)
        && matches!(args.world, Worlds::Only(Kind::Volume | Kind::Histories | Kind::Runners | Kind::Drives))
    {
        let reason = "a volume has no log that this sync mode could fall back on";
        return Err(
            Failure::usage("--sync-mode drained", reason).next("use through or durable, or --world database")
        );
    }
    if !args.anomalies.is_empty() && args.world != Worlds::Only(Kind::Drives) {
        let reason = "only modelled drives have anomalies";
        return Err(Failure::usage("--anomalies", reason).next("use --world drives with it"));
    }
    let focus = Focus { sync_mode: args.sync_mode, design: args.design };
    let (without, anomalies) = (args.without.clone(), args.anomalies.clone());
    Ok(Terms { focus, without, anomalies, only: args.only.clone() })
}

fn text(crash: &Crash<'_>) -> String {
    let (r, c) = (crash.report, &crash.report.coverage);
    let count = |value: u64| number(value as f64, 0);
    let rate = number(crash.cuts_per_second, 0);
    let verdict = match crash.violations_per_cut_below {
        Some(bound) => format!("none; with 95 % confidence fewer than {bound:.1e} per cut"),
        None => count(r.violations.len() as u64),
    };
    let mut text = facts(&[
        ("seed", r.seed.to_string()),
        (
            "power cuts",
            format!(
                "{} ({} inside a recovery), {rate} a second",
                count(r.cuts),
                count(c.cuts_inside_recovery)
            ),
        ),
        (
            "worlds",
            format!(
                "{} of a volume ({} of histories put together, {} with runners), {} of a database, {} operations",
                count(r.worlds - r.worlds_database),
                count(r.worlds_histories),
                count(r.worlds_runners),
                count(r.worlds_database),
                count(r.operations)
            ),
        ),
        ("processes", format!("{} killed, {} closed in order", count(c.kills), count(c.closes))),
        (
            "writes torn",
            format!("{} on flash, {} on disk", count(c.torn_flash_writes), count(c.torn_disk_writes)),
        ),
        ("writes lost", count(c.lost_writes)),
        (
            "interrupted",
            format!(
                "{} reads and {} jobs, by other writes",
                count(c.reads_interrupted),
                count(c.jobs_interrupted)
            ),
        ),
        (
            "runners",
            format!("{} turns, {} pages read beside an operation", count(c.turns), count(c.reads_beside)),
        ),
        (
            "queue",
            format!(
                "{} times round, {} second chances, {} stage-outs",
                count(c.wraps),
                count(c.second_chances),
                count(c.stage_outs)
            ),
        ),
        ("groups", format!("{}, of several pages {}", count(c.groups), count(c.groups_of_several_pages))),
        (
            "databases",
            format!(
                "{} checkpoints, {} records redone and {} lost, {} drops, {} owners killed",
                count(c.checkpoints),
                count(c.records_redone),
                count(c.records_lost),
                count(c.drops),
                count(c.owners_killed)
            ),
        ),
        (
            "devices",
            format!(
                "{} flash devices lost and {} replaced in use, {} of them in vain, {} errors planned; {} operations failed on them and {} processes",
                count(c.flash_losses),
                count(c.replacements + c.replacements_failed),
                count(c.replacements_failed),
                count(c.errors_planned),
                count(c.errors_outlived),
                count(c.errors_fatal)
            ),
        ),
        (
            "histories",
            format!(
                "{} mixes, {} refused, {} lived on with, {} machines put back, {} openings without a file",
                count(c.mixes),
                count(c.mixes_refused),
                count(c.mixes_lived_on),
                count(c.rollbacks),
                count(c.openings_without_a_file)
            ),
        ),
        ("recoveries repeated", count(c.recoveries_compared)),
        ("violations", verdict),
    ]);
    for violation in &r.violations {
        text.push_str(&format!("- {violation}\n"));
    }
    text
}
