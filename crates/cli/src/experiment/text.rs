//! Reports for people.

use std::fmt::Write as _;

use mezzanine_report::{Table, facts, number, wrapped};
use mezzanine_sim::experiment::{Claim, Line, Mark, Ours, Report, Verdict};

/// How wide a reason is written.
const WIDTH: usize = 110;

/// Figures with as many decimals as they deserve.
fn figure(value: f64) -> String {
    if value.is_infinite() {
        return "none".to_owned();
    }
    let decimals = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 2.0 => 2,
        _ => 3,
    };
    number(value, decimals)
}

/// A published figure with the decimals that it was published with.
fn printed(value: f64) -> String {
    let text = value.to_string();
    number(value, text.split_once('.').map_or(0, |(_, decimals)| decimals.len()))
}

fn published(claim: &Claim) -> String {
    match claim {
        Claim::Row { values, .. } => {
            values.iter().map(|value| printed(*value)).collect::<Vec<_>>().join("  ")
        }
        Claim::Value { op, value } => format!("{} {}", op.words(), printed(*value)),
        Claim::Range([least, most]) => format!("{} to {}", printed(*least), printed(*most)),
        Claim::Shape => "as said".to_owned(),
    }
}

fn value(ours: &Ours) -> String {
    match ours {
        Ours::Row(values) => row(values),
        Ours::Value(value) => figure(*value),
        Ours::Range([least, most]) => format!("{} to {}", figure(*least), figure(*most)),
        Ours::Shape(parts) => {
            let hold = parts.iter().filter(|part| part.holds).count();
            format!("{hold} of {} hold", parts.len())
        }
    }
}

fn row(values: &[f64]) -> String {
    values.iter().map(|value| figure(*value)).collect::<Vec<_>>().join("  ")
}

/// Published and ours, one above the other, and the verdict.
fn figures(line: &Line, whose: &str) -> String {
    let verdict = ("verdict", line.verdict.to_string());
    match (&line.published, &line.ours) {
        (Claim::Row { along, values }, Ours::Row(row)) => {
            let name = if along.unit.is_empty() {
                along.name.clone()
            } else {
                format!("{}, {}", along.name, along.unit)
            };
            let mut table = Table::new([vec![name], along.values.iter().map(mark).collect()].concat());
            let mut figures = |whose: &str, values: &[f64], text: fn(f64) -> String| {
                let values = values.iter().map(|value| text(*value));
                table.row(std::iter::once(whose.to_owned()).chain(values));
            };
            figures("published", values, printed);
            figures(whose, row, figure);
            table.render() + &facts(&[verdict])
        }
        (claim, ours) => facts(&[("published", published(claim)), (whose, value(ours)), verdict]),
    }
}

fn mark(mark: &Mark) -> String {
    match mark {
        Mark::Number(value) => number(*value, 0),
        Mark::Name(name) => name.clone(),
    }
}

/// One experiment.
pub(super) fn report(report: &Report) -> String {
    let mut text = format!("{}: {}\n", report.id, report.title);
    let _ = writeln!(text, "{}, section {}, {}", report.document.title, report.section, report.item);
    if let Some(bed) = &report.bed {
        let _ = writeln!(
            text,
            "ours: 1/{} of the published size (database, memory and flash), {} simulated seconds a point, seed {}",
            bed.scale, bed.seconds, bed.seed
        );
    }
    for stream in &report.streams {
        let count = |value: u64| number(value as f64, 0);
        let _ = writeln!(
            text,
            "ours: published sizes; for the {} trace stand {} references to {} pages, seed {}: {} requests",
            stream.trace,
            count(stream.references),
            count(stream.distinct_pages),
            stream.seed,
            count(stream.requests)
        );
    }
    // The scale stands beside each figure.
    let whose = report.bed.map_or_else(|| "ours".to_owned(), |bed| format!("ours, 1/{}", bed.scale));
    for line in &report.statements {
        let _ = write!(text, "\n{}", wrapped(&format!("{} [{}]", line.what, line.unit), WIDTH, "  "));
        text.extend(figures(line, &whose).lines().map(|line| format!("    {line}\n")));
        if let Ours::Shape(parts) = &line.ours {
            for part in parts {
                text.push_str(&wrapped(
                    &format!("{} {}", if part.holds { "holds:" } else { "does not hold:" }, part.said),
                    WIDTH,
                    "      ",
                ));
            }
        }
        if line.verdict != Verdict::Reproduced {
            let reason = line.reason.as_deref().unwrap_or("not known");
            text.push_str(&wrapped(&format!("reason: {reason}"), WIDTH, "    "));
        }
    }
    text.push('\n');
    text
}

/// How many statements got which verdict, of each experiment and in all.
pub(super) fn summary(reports: &[Report]) -> String {
    let verdicts = [Verdict::Reproduced, Verdict::SameDirection, Verdict::Differs];
    let mut table = Table::new(["experiment", "reproduced", "same direction", "differs"]);
    for report in reports {
        let counts = verdicts.map(|verdict| report.count(verdict).to_string());
        table.row([vec![report.id.clone()], counts.to_vec()].concat());
    }
    let sums =
        verdicts.map(|verdict| reports.iter().map(|report| report.count(verdict)).sum::<usize>().to_string());
    table.row([vec!["all".to_owned()], sums.to_vec()].concat());
    table.render()
}
