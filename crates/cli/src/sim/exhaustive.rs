//! `mezz sim crash --exhaustive`: every case of short traces.

use mezzanine_report::{facts, number};
use mezzanine_sim::crash::exhaustive::{DatabaseStep, Options, Report, Step, replay, run as run_traces};
use serde::Serialize;

use super::{CrashArgs, verdict};
use crate::failure::Failure;
use crate::output;

#[derive(Serialize)]
struct Exhaustive<'a> {
    #[serde(flatten)]
    report: &'a Report,
    ok: bool,
    seconds: f64,
    cuts_per_second: f64,
}

pub(super) fn run(args: &CrashArgs, json: bool) -> Result<(), Failure> {
    let started = std::time::Instant::now();
    let report = match &args.case {
        Some(case) => replay(case),
        None => {
            let bar = output::progress(1, "trying every case");
            let progress = |done, of| {
                bar.set_length(of);
                bar.set_position(done);
            };
            let report = run_traces(&Options {
                length: args.length.into(),
                worlds: args.world,
                sync_mode: args.sync_mode,
                design: args.design,
                threads: args.threads(),
                progress: Some(&progress),
            });
            bar.finish_and_clear();
            if report.settings == 0 {
                let reason = "a volume has no log that could repeat what is lost with the tier";
                let failure = Failure::usage("--sync-mode drained", reason);
                return Err(failure.next("use through or durable, or --world database"));
            }
            report
        }
    };
    let seconds = started.elapsed().as_secs_f64();
    let cuts_per_second = report.counts.cuts as f64 / seconds.max(1e-9);
    let ok = report.violations.is_empty();
    let exhaustive = Exhaustive { report: &report, ok, seconds, cuts_per_second };
    if json {
        output::json(&exhaustive)?;
    } else {
        output::print(&text(&exhaustive))?;
    }
    verdict(&report.violations)
}

fn text(exhaustive: &Exhaustive<'_>) -> String {
    let (report, counts) = (exhaustive.report, &exhaustive.report.counts);
    let count = |value: u64| number(value as f64, 0);
    let steps: Vec<_> = Step::ALL.iter().map(|step| format!("{step} {}", step.text())).collect();
    let of_databases: Vec<_> =
        DatabaseStep::ALL.iter().map(|step| format!("{step} {}", step.text())).collect();
    let mut text = facts(&[
        (
            "traces",
            format!(
                "{} of up to {} steps, in {} settings",
                count(counts.traces),
                report.length,
                report.settings
            ),
        ),
        ("steps", steps.join("; ")),
        ("of databases", of_databases.join("; ")),
        (
            "stops",
            format!(
                "{} in a trace or after it, {} in the recoveries that followed",
                count(counts.stops),
                count(counts.stops_inside_recovery)
            ),
        ),
        (
            "power cuts",
            format!(
                "{} ({} inside a recovery), {} a second",
                count(counts.cuts),
                count(counts.cuts_inside_recovery),
                number(exhaustive.cuts_per_second, 0)
            ),
        ),
        ("writes torn", count(counts.torn)),
        ("violations", if exhaustive.ok { "none".to_owned() } else { count(report.violations.len() as u64) }),
    ]);
    for violation in &report.violations {
        text.push_str(&format!("- {violation}\n"));
    }
    text
}
