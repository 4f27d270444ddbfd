//! `mezz device fit`: the drive behind a probe, as a model file.

use std::path::{Path, PathBuf};

use clap::Args;
use mezzanine_device::Model;
use mezzanine_report::{Table, now_utc, number, wrapped};
use mezzanine_ssd::fit::{self, Compared, Facts, Fit, Measurements, Parameter};
use mezzanine_ssd::load::Measured;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::probe::FORMAT;
use crate::failure::{Failure, chain};
use crate::output;
use crate::size::Size;

pub(super) const FIT_EXAMPLES: &str = "Examples:
  mezz device fit probe.json --output drive.toml
  mezz device fit probe.json --output drive.toml --overwrite --json
  mezz sim run --flash-model ./drive.toml        what the drive does below a tier

PROBE is what `mezz device probe TARGET --json` prints.";

/// Columns of a line of prose.
const COLUMNS: usize = 100;
/// A model that is further off than this, on average, is said to be far from the drive.
const FAR: f64 = 0.15;

/// The options of `device fit`.
#[derive(Debug, Args)]
pub(crate) struct FitArgs {
    /// The result of a probe: what `mezz device probe --json` printed.
    #[arg(value_name = "PROBE")]
    probe: PathBuf,

    /// Where the model file goes.
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,

    /// Write over a model file that exists.
    #[arg(long)]
    overwrite: bool,

    /// Bytes of the whole drive, which a probe of a file does not know (default: those that it measured).
    #[arg(long, value_name = "SIZE")]
    capacity: Option<Size>,
}

/// What of a probe's result is used.
#[derive(Deserialize)]
struct ProbeFile {
    target: String,
    date: String,
    description: String,
    capacity_bytes: Option<u64>,
    span_bytes: u64,
    fua: bool,
    volatile_cache: Option<bool>,
    rows: Vec<Measured>,
    identifying: Vec<Measured>,
    collection: Vec<Measured>,
    stopped: Option<String>,
}

/// The result.
#[derive(Serialize)]
struct Fitted<'f> {
    probe: String,
    target: &'f str,
    model: String,
    capacity_bytes: u64,
    /// By how much the model is off from what was measured, as a mean over all loads.
    off_mean: f64,
    parameters: &'f [Parameter],
    loads: &'f [Compared],
}

pub(super) fn run(args: &FitArgs, json: bool) -> Result<(), Failure> {
    if !args.overwrite && args.output.symlink_metadata().is_ok() {
        let failure = Failure::refused(args.output.display(), "it exists, and nothing was overwritten");
        return Err(failure.next("choose another name, or give --overwrite"));
    }
    let probe = read(&args.probe)?;
    let name =
        args.output.file_stem().map_or_else(|| "fitted".to_owned(), |stem| stem.to_string_lossy().into());
    let measured = measurements(args, &probe)?;
    let working = output::spinner(&format!("fitting {}", probe.target));
    let fitted = fit::fit(&measured);
    working.finish_and_clear();
    let fitted = fitted.map_err(|error| {
        Failure::refused(
            args.probe.display(),
            format!("what was measured leads to no drive that can be: {error}"),
        )
        .next("probe it again, with longer loads (--seconds)")
    })?;
    write(args, &probe, &fitted, &name)?;
    if json {
        output::json(&Fitted {
            probe: args.probe.display().to_string(),
            target: &probe.target,
            model: args.output.display().to_string(),
            capacity_bytes: fitted.config.capacity_bytes,
            off_mean: fitted.off_mean(),
            parameters: &fitted.parameters,
            loads: &fitted.compared,
        })?;
    } else {
        output::print(&text(&probe, &measured, &fitted))?;
        output::note(&format!("model: {}", args.output.display()));
    }
    if fitted.off_mean() > FAR {
        output::note(
            "the model is far from what was measured: it is that of a flash drive, and this may be none, or others \
             may have used it meanwhile",
        );
    }
    Ok(())
}

/// Reads what a probe has printed.
fn read(path: &Path) -> Result<ProbeFile, Failure> {
    let refused = |reason: String| Failure::refused(path.display(), reason);
    let again = "give it what `mezz device probe TARGET --json` prints";
    let text = std::fs::read_to_string(path)
        .map_err(|error| refused(format!("cannot be read: {error}")).next(again))?;
    let value: Value = serde_json::from_str(&text).map_err(|error| {
        let what = if error.is_eof() { "it ends too early" } else { "it is no JSON" };
        refused(format!("{what}: {error}")).next(again)
    })?;
    if value.get("advice").is_none() || value.get("rows").is_none() {
        return Err(refused("it is JSON, but no result of a probe".to_owned()).next(again));
    }
    match value.get("format").map(Value::as_u64) {
        None => {
            let reason = "it comes from a version of mezz whose probes did not measure enough for a fit";
            return Err(refused(reason.to_owned()).next("probe the drive again with this version"));
        }
        Some(Some(format)) if format == u64::from(FORMAT) => {}
        Some(format) => {
            let found = format.map_or("none".to_owned(), |format| format.to_string());
            let reason = format!("its format is {found}, and this version reads format {FORMAT}");
            return Err(
                refused(reason).next("use the version of mezz that made it, or probe the drive again")
            );
        }
    }
    let probe: ProbeFile = serde_json::from_value(value)
        .map_err(|error| refused(format!("it is a damaged result of a probe: {error}")).next(again))?;
    if let Some(stopped) = &probe.stopped {
        return Err(refused(format!("the probe ended early, in {stopped}")).next("probe the drive again"));
    }
    if probe.identifying.iter().all(|row| row.requests == 0) {
        return Err(refused("it has no loads that a fit could use".to_owned()).next("probe the drive again"));
    }
    Ok(probe)
}

fn measurements(args: &FitArgs, probe: &ProbeFile) -> Result<Measurements, Failure> {
    let capacity_bytes =
        args.capacity.map(|size| size.0).or(probe.capacity_bytes).unwrap_or(probe.span_bytes);
    let span_bytes = probe.span_bytes.min(capacity_bytes);
    let rows: Vec<Measured> = probe.identifying.iter().chain(&probe.rows).cloned().collect();
    let fits = |row: &Measured| {
        let load = row.load;
        let bytes = load.request_bytes.saturating_mul(load.run);
        (1..=capacity_bytes).contains(&bytes)
            && (1..=4096).contains(&load.clients)
            && load.writes_per_fsync.is_none_or(|writes| (1..=1 << 20).contains(&writes))
            && load.reads_percent <= 100
            && load.rest_ms <= 10_000
            && load.request_bytes % 512 == 0
    };
    let all_fit = rows.iter().all(|row| fits(row) && row.load.request_bytes * row.load.run <= span_bytes);
    if !(all_fit && probe.collection.iter().all(fits)) {
        let reason = format!("it has loads that do not fit into {}", Size(span_bytes));
        return Err(Failure::refused(args.probe.display(), reason).next(
            "give the drive's --capacity; if it was given, the file is damaged: probe the drive again",
        ));
    }
    let facts =
        Facts { capacity_bytes, span_bytes, volatile_cache: probe.volatile_cache, has_fua: probe.fua };
    Ok(Measurements { facts, rows, collection: probe.collection.clone() })
}

/// Writes the model, and reads it as everybody else will.
fn write(args: &FitArgs, probe: &ProbeFile, fitted: &Fit, name: &str) -> Result<(), Failure> {
    let shown = args.output.display().to_string();
    let refused = |reason: String| Failure::refused(&shown, reason);
    let title = format!("Fitted to {}", probe.target);
    let source = format!(
        "`mezz device fit` from a probe of {} ({}); {:.1} % off on average",
        probe.description,
        probe.date,
        100.0 * fitted.off_mean()
    );
    let text = fitted
        .to_toml(name, &title, &source)
        .map_err(|error| refused(format!("no model file was made: {error}")))?;
    let model = Model::from_toml(&text, &shown).map_err(|error| refused(chain(&error)))?;
    mezzanine_ssd::timing(&model).map_err(|error| refused(chain(&error)))?;
    let text = format!("# A drive as it was measured from outside, {}.\n{text}", now_utc());
    std::fs::write(&args.output, text).map_err(|error| {
        refused(format!("cannot write the model: {error}")).next("choose another place with --output")
    })
}

fn text(probe: &ProbeFile, measured: &Measurements, fitted: &Fit) -> String {
    let mut text = format!("{}, {}\n\n", probe.description, Size(measured.facts.capacity_bytes));
    let mut table = Table::new(["parameter", "value"]);
    for parameter in fitted.parameters.iter().filter(|parameter| parameter.determined) {
        table.row([parameter.name, &parameter.value]);
    }
    text += &format!("Determined by what was measured\n\n{}\n", table.render());
    text += "Not determined, and taken as they are usual\n";
    for parameter in fitted.parameters.iter().filter(|parameter| !parameter.determined) {
        let line = format!("{}: {}. {}.", parameter.name, parameter.value, capital(&parameter.why));
        text += &format!("\n{}", wrapped(&line, COLUMNS, "  "));
    }
    if probe.capacity_bytes.is_none() {
        let line = "capacity: a file does not tell that of its drive; --capacity does.";
        text += &format!("\n{}", wrapped(line, COLUMNS, "  "));
    }
    text += &format!("\n\n{}", loads(fitted));
    text
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().collect::<String>() + letters.as_str())
}

/// How far the model is from what was measured.
fn loads(fitted: &Fit) -> String {
    let mut table = Table::new(["load", "measured", "model", "off, %"]);
    for Compared { load, measured, fitted, off } in &fitted.compared {
        let figure = |value: f64| {
            if load.rest_ms > 0 {
                format!("{} us", number(value, 0))
            } else {
                format!("{}/s", number(value, 0))
            }
        };
        table.row([load.describe(), figure(*measured), figure(*fitted), format!("{:+.1}", 100.0 * off)]);
    }
    let mut text = format!("What was measured, and what the model does\n\n{}", table.render());
    text += &format!("\n{:.1} % off on average", 100.0 * fitted.off_mean());
    if let Some(furthest) = fitted.furthest() {
        text += &format!(", most of all {}: {:+.1} %", furthest.load.describe(), 100.0 * furthest.off);
    }
    text + "\n"
}
