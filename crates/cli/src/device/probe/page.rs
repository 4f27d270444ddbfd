//! The page of a probe: one HTML file that needs nothing else.

use std::path::Path;

use mezzanine_report::{
    Axis, Bar, BarPlot, Card, Colour, Content, Fact, LinePlot, Page, RenderError, Section, Series, Tile,
    Tone, Width, number,
};

use super::advice::Verdict;
use super::load::{PAGE_BYTES, Row, Rows, WRITES_PER_FSYNC};
use super::{Probe, Size, text};
use crate::failure::Failure;

/// The colours of page sizes, from the smallest.
const COLOURS: [Colour; 3] = [Colour::Orange, Colour::Blue, Colour::Grey];

/// Refuses what would fail only after minutes.
pub(super) fn check_place(path: &Path) -> Result<(), Failure> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if path.is_dir() || !parent.is_dir() {
        return Err(Failure::refused(path.display(), "the page cannot be written there")
            .next("give --report a file in a directory that exists"));
    }
    Ok(())
}

/// Writes the page.
pub(super) fn write(path: &Path, probe: &Probe) -> Result<(), Failure> {
    let html = render(probe).map_err(|error| {
        Failure::refused(path.display(), format!("no page was made: {error}"))
            .next("the figures are those above")
    })?;
    std::fs::write(path, html).map_err(|error| {
        Failure::refused(path.display(), format!("cannot write the page: {error}"))
            .next("choose another place with --report; the figures are those above")
    })
}

fn render(probe: &Probe) -> Result<String, RenderError> {
    let rows = Rows(&probe.rows);
    let table = |heading: &str, text: &str, table| {
        Section::Card(Card {
            heading: heading.to_owned(),
            text: text.to_owned(),
            content: Content::Table(table, Vec::new()),
        })
    };
    Page {
        title: format!("Probe of {}", probe.target),
        over: format!(
            "Mezzanine {} \u{b7} mezz device probe \u{b7} {}",
            env!("CARGO_PKG_VERSION"),
            probe.date
        ),
        heading: heading(probe),
        lead: lead(probe),
        sections: vec![
            Section::Tiles(tiles(rows)),
            Section::Card(writes_per_fsync(rows)),
            Section::Columns(vec![
                by_page("Reads, many clients", rows, |rows, bytes| rows.reads(bytes)),
                by_page("Writes, many clients, no fsync", rows, |rows, bytes| rows.many_writes(bytes)),
            ]),
            Section::Card(groups(rows)),
            Section::Card(advice(probe)),
            Section::Card(system(probe)),
            table("Writes per fsync", "Random writes a second of one client.", text::by_fsync(rows)),
            table("Page sizes", "Requests a second at random places.", text::by_page_size(rows)),
            table("One after the other", "Logs of databases, and groups of a tier.", text::in_order(rows)),
        ],
    }
    .html()
}

fn heading(probe: &Probe) -> String {
    let rows = Rows(&probe.rows);
    let (none, each) = (rows.writes(4096, None), rows.writes(4096, Some(1)));
    match (none, each) {
        (Some(none), Some(each)) if each.per_second > 0.0 => format!(
            "{} writes a second, and {} with an fsync after each",
            number(none.per_second, 0),
            number(each.per_second, 0)
        ),
        _ => "A probe that ended early".to_owned(),
    }
}

fn lead(probe: &Probe) -> String {
    let mut lead = format!("{}, over {}.", probe.description, Size(probe.span_bytes));
    if let Some(stopped) = &probe.stopped {
        lead += &format!(" It ended early, in {stopped}.");
    }
    lead
}

fn tiles(rows: Rows<'_>) -> Vec<Tile> {
    let tile = |value: String, text: &str| Tile { value, tone: Tone::Plain, text: text.to_owned() };
    let each = rows.writes(4096, Some(1));
    let mut tiles = Vec::new();
    if let Some(us) = each.and_then(|row| row.fsync_us_p50) {
        tiles
            .push(tile(format!("{} \u{b5}s", number(us, 0)), "for an fsync after a write of 4 KiB (median)"));
    }
    if let (Some(each), Some(none)) = (each, rows.writes(4096, None)) {
        let factor = none.per_second / each.per_second.max(1e-9);
        tiles.push(tile(format!("{}\u{d7}", number(factor, 1)), "the writes without fsync"));
    }
    for (row, text) in [
        (rows.reads(4096), "reads of 4 KiB a second, many clients"),
        (rows.many_writes(4096), "writes of 4 KiB a second, many clients, no fsync"),
    ] {
        tiles.extend(row.map(|row| tile(number(row.per_second, 0), text)));
    }
    tiles
}

fn writes_per_fsync(rows: Rows<'_>) -> Card {
    let series = PAGE_BYTES.iter().zip(COLOURS).map(|(bytes, colour)| {
        let point = |count: &u64| Some((*count as f64, rows.writes(*bytes, Some(*count))?.per_second));
        let points = WRITES_PER_FSYNC.iter().filter_map(point).collect();
        Series { name: format!("{} KiB", bytes / 1024), colour, points }
    });
    Card {
        heading: "What fsync costs".to_owned(),
        text: "One client that writes at random places, with an fsync after so many writes. The rate without any is \
               in the table."
            .to_owned(),
        content: Content::Lines(LinePlot {
            width: Width::Full,
            label: "Writes a second by writes per fsync, for three page sizes".to_owned(),
            x: Axis { title: "writes per fsync".to_owned(), unit: "writes per fsync".to_owned(), max: Some(256.0) },
            y: Axis { title: "writes a second".to_owned(), unit: "writes/s".to_owned(), max: None },
            series: series.collect(),
        }),
    }
}

fn by_page<'r>(heading: &str, rows: Rows<'r>, find: impl Fn(Rows<'r>, u64) -> Option<&'r Row>) -> Card {
    let bars = PAGE_BYTES.iter().zip(COLOURS).filter_map(|(bytes, colour)| {
        let row = find(rows, *bytes)?;
        let text = format!("{}/s", number(row.per_second, 0));
        Some(Bar { name: format!("{} KiB", bytes / 1024), colour, value: row.per_second, text })
    });
    Card {
        heading: heading.to_owned(),
        text: String::new(),
        content: Content::Bars(BarPlot {
            width: Width::Half,
            label: heading.to_owned(),
            bars: bars.collect(),
        }),
    }
}

fn groups(rows: Rows<'_>) -> Card {
    let bars = rows.groups().map(|row| Bar {
        name: format!("{} KiB", row.load.request_bytes / 1024),
        colour: Colour::Orange,
        value: row.mb_per_s,
        text: format!("{:.1} MB/s", row.mb_per_s),
    });
    Card {
        heading: "Groups, flushed after each".to_owned(),
        text: "What a tier writes: one request for a group of pages, and a flush.".to_owned(),
        content: Content::Bars(BarPlot {
            width: Width::Full,
            label: "Bytes a second by size of a group".to_owned(),
            bars: bars.collect(),
        }),
    }
}

fn advice(probe: &Probe) -> Card {
    let facts = probe.advice.iter().map(|advice| Fact {
        name: format!("{}: {}", advice.of, advice.setting),
        verdict: format!("{} {}", text::verdict(advice.verdict), advice.value),
        tone: match advice.verdict {
            Verdict::Keep => Tone::Plain,
            Verdict::Consider => Tone::Good,
            Verdict::Repair => Tone::Bad,
        },
        value: format!("{} Gain: {} Risk: {}", advice.why, advice.gain, advice.risk),
    });
    Card {
        heading: "What it means".to_owned(),
        text: "A fast flush proves nothing about what outlives a power cut.".to_owned(),
        content: Content::Facts(facts.collect()),
    }
}

fn system(probe: &Probe) -> Card {
    let mut facts: Vec<Fact> =
        text::system(probe).into_iter().map(|(name, value)| Fact::new(name, value)).collect();
    let machine = &probe.machine;
    facts.push(Fact::new(
        "machine",
        format!("{}, {} cores, Linux {}", machine.processor, machine.cores, machine.kernel),
    ));
    Card { heading: "What the system says".to_owned(), text: String::new(), content: Content::Facts(facts) }
}
