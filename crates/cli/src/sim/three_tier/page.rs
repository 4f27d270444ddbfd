//! The page with plots.

use std::path::Path;

use mezzanine_report::{
    Axis, Bar, BarPlot, Card, Colour, Content, Fact, LinePlot, Page, Section, Series, Width, now_utc, number,
};

use super::outcome::{Outcome, Row};
use crate::failure::Failure;

/// Refuses a place where no page can be written, before anything runs.
pub(super) fn check_place(path: &Path) -> Result<(), Failure> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if path.is_dir() || !parent.is_dir() {
        return Err(Failure::refused(path.display(), "the report cannot be written there")
            .next("give --report a file in a directory that exists"));
    }
    Ok(())
}

pub(super) fn write(path: &Path, outcome: &Outcome) -> Result<(), Failure> {
    let html = page(outcome).html().map_err(|error| {
        Failure::refused(path.display(), format!("no report was made: {error}"))
            .next("leave --report out; --json has all figures")
    })?;
    std::fs::write(path, html).map_err(|error| {
        Failure::refused(path.display(), format!("cannot write the report: {error}"))
            .next("choose another place with --report")
    })
}

fn colour(row: &Row) -> Colour {
    match row.approach {
        "bl" => Colour::Grey,
        "lpd" => Colour::Orange,
        _ => Colour::Blue,
    }
}

fn page(outcome: &Outcome) -> Page {
    let conditions = outcome.conditions().into_iter().map(|(name, value)| Fact::new(name, value));
    let colours = outcome.approaches.iter().map(colour).collect();
    let card = |heading: &str, text: &str, content| {
        Section::Card(Card { heading: heading.to_owned(), text: text.to_owned(), content })
    };
    Page {
        title: "Three-tier caches".to_owned(),
        over: format!(
            "Mezzanine {} \u{b7} mezz sim three-tier \u{b7} {}",
            env!("CARGO_PKG_VERSION"),
            now_utc()
        ),
        heading: "A cache on flash between a buffer pool and a disk".to_owned(),
        lead: "Times are sums of what operations cost; only ratios mean something.".to_owned(),
        sections: vec![
            card("Requests a second", "Seen by the buffer pool.", Content::Bars(throughput(outcome))),
            card(
                "Pages moved out of collected blocks",
                "How often a block was collected out of which so many pages had to be moved.",
                Content::Lines(moved(outcome)),
            ),
            card("Erases of blocks", "The most erased ones first.", Content::Lines(erases(outcome))),
            card("All figures", "", Content::Table(outcome.table(), colours)),
            card("Conditions", "", Content::Facts(conditions.collect())),
        ],
    }
}

fn throughput(outcome: &Outcome) -> BarPlot {
    let bar = |row: &Row| Bar {
        name: row.name(),
        colour: colour(row),
        value: row.requests_per_second,
        text: number(row.requests_per_second, 1),
    };
    BarPlot {
        width: Width::Full,
        label: "Requests a second by approach".to_owned(),
        bars: outcome.approaches.iter().map(bar).collect(),
    }
}

fn lines(outcome: &Outcome, label: &str, x: &str, y: &str, points: impl Fn(&Row) -> Vec<f64>) -> LinePlot {
    let series = |row: &Row| Series {
        name: row.name(),
        colour: colour(row),
        points: points(row).into_iter().enumerate().map(|(x, y)| (x as f64, y)).collect(),
    };
    let axis = |title: &str| Axis { title: title.to_owned(), ..Axis::default() };
    LinePlot {
        width: Width::Full,
        label: label.to_owned(),
        x: axis(x),
        y: axis(y),
        series: outcome.approaches.iter().map(series).collect(),
    }
}

fn moved(outcome: &Outcome) -> LinePlot {
    let points = |row: &Row| row.collected.by_moved.iter().map(|blocks| *blocks as f64).collect();
    lines(outcome, "Collected blocks by pages moved", "pages moved", "blocks", points)
}

fn erases(outcome: &Outcome) -> LinePlot {
    let points = |row: &Row| {
        let mut erases = row.erases_by_block.clone();
        erases.sort_unstable_by(|a, b| b.cmp(a));
        erases.into_iter().map(f64::from).collect()
    };
    lines(outcome, "Erases of blocks, the most erased first", "blocks", "erases", points)
}
