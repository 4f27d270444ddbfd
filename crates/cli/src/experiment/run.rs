//! `mezz experiment run`.

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;

use clap::Args;
use mezzanine_sim::experiment::{
    Bed, CATALOGUE, Experiment, LeftAside, Published, RunError, Runs, SCALE_MAX, find, left_aside,
};

use mezzanine_sim::timed::Refusal;

use super::text;
use crate::failure::Failure;
use crate::machine::memory_available;
use crate::output;
use crate::size::Size;

pub(super) const EXAMPLES: &str = "Examples:
  mezz experiment run face.table1                computed from the models of drives, at once
  mezz experiment run face.table4                ten points in virtual time
  mezz experiment run face.fig6 face.fig7        their points are run once
  mezz experiment run all --keep points.jsonl    everything; stopped and started again it goes on
  mezz experiment run face.fig8 --scale 1        at the published size: hours, and gigabytes of memory
  mezz experiment run nfa.fig5 nfa.fig8          three-tier caches, at the published size: a minute
  mezz experiment run sce.table1 sce.fig9        block caches under SCE's test bed: two minutes

--scale divides the database, the buffer pool and the flash cache; disks, drives and the 50 clients stay as published. Of nfa.* only --seed and --threads have a meaning: they \
run at the published size, and are not kept. sce.* run for the published hours divided by the scale, and are not kept either. Verdicts: reproduced \
(within 5 points for percentages, 15 % for everything else), same direction, differs. docs/experiments.md has the rules.";

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Experiments, as `mezz experiment list` has them, or 'all'.
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,

    /// So many times smaller than published: 1 is the published size.
    #[arg(long, value_name = "N", default_value_t = Bed::default().scale, value_parser = clap::value_parser!(u32).range(1..=i64::from(SCALE_MAX)))]
    scale: u32,

    /// Simulated seconds that are measured at each point, after the flash has been filled three times.
    #[arg(long, value_name = "S", default_value_t = Bed::default().seconds, value_parser = positive)]
    seconds: f64,

    /// Seed of the clients.
    #[arg(long, value_name = "N", default_value_t = Bed::default().seed)]
    seed: u64,

    /// Points at a time (default: as many as there are cores and memory for).
    #[arg(long, value_name = "N")]
    threads: Option<NonZero<usize>>,

    /// Keep points in this file and take those that are in it already, if this program, built of the same
    /// sources, ran them with the same parameters.
    #[arg(long, value_name = "FILE")]
    keep: Option<PathBuf>,
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() && value > 0.0 => Ok(value),
        _ => Err("not a number above 0".to_owned()),
    }
}

pub(super) fn run(args: &RunArgs, json: bool) -> Result<(), Failure> {
    let chosen = choose(&args.ids)?;
    let bed = Bed { scale: args.scale, seconds: args.seconds, seed: args.seed };
    let threads = threads(args, &chosen, &bed)?;
    let mut runs = match &args.keep {
        Some(path) => Runs::kept(bed, path).map_err(|error| kept(path, &error))?,
        None => Runs::new(bed),
    };
    if let Some(path) = &args.keep {
        say_left_aside(path, &left_aside(&chosen, &runs));
    }
    let published = Published::shipped();
    let mut reports = Vec::new();
    for experiment in chosen {
        let missing = experiment.points_missing(&mut runs) as u64;
        let bar = output::progress(missing, experiment.id);
        let report = experiment.run(&published, &mut runs, threads, &|| bar.inc(1));
        bar.finish_and_clear();
        let report = report.map_err(|error| failed(args, error))?;
        if !json {
            output::print(&text::report(&report))?;
        }
        reports.push(report);
    }
    if json { output::json(&reports) } else { output::print(&text::summary(&reports)) }
}

/// Says how many kept points are run again, and why.
fn say_left_aside(path: &Path, aside: &LeftAside) {
    let reasons = [
        (aside.code, "another version of the program, or one of other sources, ran them"),
        (aside.setup, "their parameters have changed"),
        (aside.bed, "another --scale, --seconds or --seed"),
    ];
    for (points, reason) in reasons.into_iter().filter(|(points, _)| *points > 0) {
        let points = format!("{points} kept point{} left aside", if points == 1 { "" } else { "s" });
        output::note(&format!("{}: {points} and run again: {reason}", path.display()));
    }
}

fn failed(args: &RunArgs, error: RunError) -> Failure {
    match error {
        RunError::Refused(refusal) => refused_by(refusal),
        RunError::Kept(error) => kept(args.keep.as_deref().unwrap_or(Path::new("--keep")), &error),
    }
}

fn refused_by(refusal: Refusal) -> Failure {
    Failure::refused(refusal.parameter, refusal.reason).next(refusal.advice)
}

fn kept(path: &Path, error: &std::io::Error) -> Failure {
    Failure::refused(path.display(), error).next("give another file with --keep, or delete this one")
}

/// The experiments of the command line, in the order of the catalogue, each once.
fn choose(ids: &[String]) -> Result<Vec<&'static Experiment>, Failure> {
    if let Some(unknown) = ids.iter().find(|id| *id != "all" && find(id).is_none()) {
        let reason = format!("'{unknown}' is no experiment");
        return Err(Failure::usage("ID", reason).next("`mezz experiment list` has them all"));
    }
    let is_chosen = |experiment: &&Experiment| ids.iter().any(|id| id == "all" || id == experiment.id);
    Ok(CATALOGUE.iter().filter(is_chosen).collect())
}

/// How many points at a time: as many as asked for, or as there are cores and memory for.
fn threads(args: &RunArgs, chosen: &[&Experiment], bed: &Bed) -> Result<NonZero<usize>, Failure> {
    let points = chosen.iter().map(|experiment| experiment.point_bytes_max(bed));
    let point =
        points.collect::<Result<Vec<_>, _>>().map_err(refused_by)?.into_iter().max().unwrap_or(0).max(1);
    let fit = memory_available().map_or(usize::MAX, |available| (available / point) as usize);
    let refused = |threads: usize| {
        let reason =
            format!("{threads} points at a time need up to {} of memory", Size(point * threads as u64));
        let available =
            memory_available().map_or_else(|| "unknown".to_owned(), |bytes| Size(bytes).to_string());
        Failure::refused("memory", format!("{reason}, and the machine has {available} left"))
            .next("use a larger --scale or fewer --threads")
    };
    if let Some(threads) = args.threads {
        return if threads.get() > fit { Err(refused(threads.get())) } else { Ok(threads) };
    }
    let cores = available_parallelism().map_or(1, NonZero::get);
    NonZero::new(cores.min(fit)).ok_or_else(|| refused(1))
}
