//! The report of a demo run: one HTML file that needs nothing else.

use mezzanine_report::{
    Axis, Bar, BarPlot, Card, Colour, Content, Fact, LinePlot, Page, RenderError, Section, Series, Tile,
    Tone, Width, duration, number, percent,
};

use super::result::{DemoResult, Row};
use crate::size::Size;

/// Intervals of the samples are joined until they are this long, so that a slow drive's line shows its rate
/// and not its grain.
const PLOT_INTERVAL_SECONDS: f64 = 2.0;

/// The colour of a configuration wherever it is shown.
fn colour(configuration: &str) -> Colour {
    match configuration {
        "disk" => Colour::Grey,
        "flash" => Colour::Blue,
        _ => Colour::Orange,
    }
}

/// What a configuration is called where there is room for words.
fn title(configuration: &str) -> &str {
    match configuration {
        "disk" => "disks alone",
        "face-gsc" => "with the tier",
        "flash" => "flash alone",
        other => other,
    }
}

/// Renders the report.
pub(crate) fn render(result: &DemoResult) -> Result<String, RenderError> {
    Page {
        title: "Mezzanine demo".to_owned(),
        over: format!("Mezzanine {} \u{b7} mezz demo \u{b7} {}", result.version, result.date),
        heading: headline(result),
        lead: lead(result),
        sections: vec![
            Section::Tiles(tiles(result)),
            Section::Card(throughput(result)),
            Section::Card(throughput_over_time(result)),
            Section::Columns(hits_and_drives(result)),
            Section::Card(Card {
                heading: "All figures".to_owned(),
                text: String::new(),
                content: Content::Table(
                    super::figures(result),
                    result.rows.iter().map(|row| colour(&row.configuration)).collect(),
                ),
            }),
            Section::Card(safety(result)),
            Section::Card(conditions(result)),
        ],
    }
    .html()
}

fn row<'a>(result: &'a DemoResult, configuration: &str) -> Option<&'a Row> {
    result.rows.iter().find(|row| row.configuration == configuration)
}

/// How many times the throughput of disks alone the tier gives.
pub(crate) fn speed_up(result: &DemoResult) -> Option<f64> {
    let disk = row(result, "disk")?.transactions_per_minute;
    (disk > 0.0).then_some(row(result, "face-gsc")?.transactions_per_minute / disk)
}

fn headline(result: &DemoResult) -> String {
    speed_up(result).map_or_else(
        || "A database on a flash tier".to_owned(),
        |factor| {
            format!(
                "{factor:.1} times the transactions, with {} of the database on flash",
                percent(result.settings.flash_share, 0)
            )
        },
    )
}

fn lead(result: &DemoResult) -> String {
    let s = &result.settings;
    format!(
        "TPC-C in SQLite, {} warehouses, {} of data, SQLite\u{2019}s own cache {}. The data lie on {}; the tier has {} of {}. \
         Each run was ended by kill\u{a0}-9, opened again, and checked for every acknowledged commit.",
        result.warehouses,
        Size(s.database_bytes),
        Size(s.sqlite_cache_bytes),
        s.disk_description,
        Size(s.flash_bytes),
        s.flash_description,
    )
}

fn tiles(result: &DemoResult) -> Vec<Tile> {
    let tile = |value: String, tone, text: &str| Tile { value, tone, text: text.to_owned() };
    let mut tiles = Vec::new();
    if let (Some(tier), Some(factor)) = (row(result, "face-gsc"), speed_up(result)) {
        tiles.push(tile(
            format!("{factor:.1}\u{d7}"),
            Tone::Plain,
            "New-Order transactions per minute, against disks alone",
        ));
        tiles.extend(tier.flash_hit_ratio.map(|ratio| {
            tile(percent(ratio, 0), Tone::Plain, "of the pages that SQLite asked for came from flash")
        }));
        tiles.extend(tier.write_reduction.map(|reduction| {
            tile(percent(reduction, 0), Tone::Plain, "of the page writes never reached the disks")
        }));
    }
    let commits: u64 = result.rows.iter().map(|row| row.acknowledged_commits).sum();
    let consistent = result.rows.iter().all(|row| row.consistent);
    let (value, tone) = if consistent { ("0 lost", Tone::Good) } else { ("not consistent", Tone::Bad) };
    let commits = number(commits as f64, 0);
    let text = format!("of {commits} acknowledged commits, after {} kills", result.rows.len());
    tiles.push(tile(value.to_owned(), tone, &text));
    tiles
}

/// A card with bars: the name of a bar, its configuration, its value, and how that is told.
fn bars(
    width: Width,
    [heading, text, label]: [&str; 3],
    bars: impl Iterator<Item = (String, String, f64, String)>,
) -> Card {
    let bars = bars
        .map(|(name, configuration, value, text)| Bar { name, colour: colour(&configuration), value, text })
        .collect();
    Card {
        heading: heading.to_owned(),
        text: text.to_owned(),
        content: Content::Bars(BarPlot { width, label: label.to_owned(), bars }),
    }
}

/// A bar for each configuration of which a figure is known.
fn of_configurations<'a>(
    result: &'a DemoResult,
    figure: impl Fn(&Row) -> Option<f64> + 'a,
    text: impl Fn(f64) -> String + 'a,
) -> impl Iterator<Item = (String, String, f64, String)> + 'a {
    result.rows.iter().filter_map(move |row| {
        let value = figure(row)?;
        Some((title(&row.configuration).to_owned(), row.configuration.clone(), value, text(value)))
    })
}

fn throughput(result: &DemoResult) -> Card {
    bars(
        Width::Full,
        [
            "Throughput",
            "New-Order transactions per minute (tpmC), mean of the measured time.",
            "tpmC by configuration",
        ],
        of_configurations(result, |row| Some(row.transactions_per_minute), |rate| number(rate, 0)),
    )
}

fn seconds() -> Axis {
    Axis { title: "seconds since measuring began".to_owned(), unit: "s".to_owned(), max: None }
}

fn throughput_over_time(result: &DemoResult) -> Card {
    let series = result.rows.iter().map(|row| Series {
        name: title(&row.configuration).to_owned(),
        colour: colour(&row.configuration),
        points: plot_points(row)
            .into_iter()
            .map(|p| (p.seconds, p.new_orders_per_second * 60.0 * result.time_scale))
            .collect(),
    });
    let plot = LinePlot {
        width: Width::Full,
        label: "tpmC over time".to_owned(),
        x: seconds(),
        y: Axis { title: "tpmC".to_owned(), unit: "tpmC".to_owned(), max: None },
        series: series.collect(),
    };
    Card {
        heading: "Throughput over time".to_owned(),
        text: "New-Order transactions per minute in every two seconds of the measured time. Point at a line for its values."
            .to_owned(),
        content: Content::Lines(plot),
    }
}

fn hits_over_time(tier: &Row) -> Card {
    let points =
        plot_points(tier).into_iter().filter_map(|p| Some((p.seconds, p.flash_hit_ratio? * 100.0))).collect();
    let plot = LinePlot {
        width: Width::Half,
        label: "flash hit ratio over time".to_owned(),
        x: seconds(),
        y: Axis { title: "hits, %".to_owned(), unit: "%".to_owned(), max: Some(100.0) },
        series: vec![Series { name: "hit ratio".to_owned(), colour: colour(&tier.configuration), points }],
    };
    Card {
        heading: "Flash hit ratio over time".to_owned(),
        text: "Of the pages that SQLite did not have in its cache, how many the tier had, in percent."
            .to_owned(),
        content: Content::Lines(plot),
    }
}

/// How busy each drive was, but for those that hold logs.
fn utilisations(result: &DemoResult) -> impl Iterator<Item = (String, String, f64, String)> {
    let drives = result.rows.iter().flat_map(|row| row.drives.iter().map(move |drive| (row, drive)));
    drives.filter(|(_, drive)| drive.role != "log").map(|(row, drive)| {
        let is_flash = drive.role == "flash" || row.configuration == "flash";
        let name = format!("{}: {}", row.configuration, if is_flash { "flash" } else { "disks" });
        (name, row.configuration.clone(), drive.utilisation, percent(drive.utilisation, 0))
    })
}

fn hits_and_drives(result: &DemoResult) -> Vec<Card> {
    let mut cards: Vec<Card> = row(result, "face-gsc").map(hits_over_time).into_iter().collect();
    cards.push(bars(
        Width::Half,
        [
            "How busy the drives were",
            "Mean share of a drive\u{2019}s spindles or channels that had something to do. SQLite has one writer at a time, so most of the disks wait for the next request.",
            "utilisation",
        ],
        utilisations(result),
    ));
    cards.push(bars(
        Width::Half,
        [
            "Restart after kill -9",
            "From the start of the process until the first transaction could run: the tier\u{2019}s recovery on the modelled drive, and that of SQLite\u{2019}s log, which is read at this machine\u{2019}s own speed.",
            "restart time by configuration",
        ],
        of_configurations(result, |row| Some(row.restart_seconds), duration),
    ));
    cards.push(bars(
        Width::Half,
        [
            "How long a transaction took",
            "Mean over all types, from its start until its commit was durable; waiting for SQLite\u{2019}s one writer included.",
            "mean transaction time",
        ],
        of_configurations(
            result,
            |row| row.transaction_ms_mean,
            |ms| format!("{} ms", number(ms, if ms < 10.0 { 1 } else { 0 })),
        ),
    ));
    cards
}

fn safety(result: &DemoResult) -> Card {
    let facts = result.rows.iter().map(|row| {
        let commits = number(row.acknowledged_commits as f64, 0);
        let (verdict, tone, value) = if row.consistent {
            ("consistent", Tone::Good, format!(", all {commits} acknowledged commits present"))
        } else {
            ("not consistent", Tone::Bad, format!(": {}", row.violations.join("; ")))
        };
        Fact { verdict: verdict.to_owned(), tone, ..Fact::new(title(&row.configuration), value) }
    });
    Card {
        heading: "Was anything lost?".to_owned(),
        text: "Each client writes down a commit only after SQLite has acknowledged it, through a pipe that survives the process. The process is \
               killed while transactions are running. Then the database is opened again, the consistency conditions of TPC-C (clause 3.3.2) are \
               evaluated, SQLite checks the structure of every page, and each commit that was written down is looked for."
            .to_owned(),
        content: Content::Facts(facts.collect()),
    }
}

fn conditions(result: &DemoResult) -> Card {
    let facts = facts(result).into_iter().filter(|(_, value)| !value.is_empty());
    Card {
        heading: "What was measured, and on what".to_owned(),
        text: "The bytes are in files of this machine. The drives are models: every request is held back until the moment at which the modelled drive \
               would have completed it, so that the figures do not depend on the disk of the machine. The three configurations run the same code over the same \
               files; they differ in the drive under the data and in whether the tier is there. The database was loaded once and copied for each. Each \
               configuration first ran without delays, until the flash queue had gone round, then with delays, and only then was measured. The transactions are those of TPC-C, \
               without think times; the figures are no audited TPC results."
            .to_owned(),
        content: Content::Facts(facts.map(|(name, value)| Fact::new(name, value)).collect()),
    }
}

fn facts(result: &DemoResult) -> Vec<(&'static str, String)> {
    let s = &result.settings;
    let m = &result.machine;
    let wraps = row(result, "face-gsc").and_then(|row| row.queue_wraps_before);
    vec![
        ("Seed", result.seed.to_string()),
        (
            "Time scale",
            format!(
                "{} (modelled drives take this many times as long; throughput and restart are in modelled time)",
                result.time_scale
            ),
        ),
        (
            "Processor busy",
            format!(
                "{} by the run itself, {} by everything on the machine, at most",
                percent(result.cpu_busy, 0),
                percent(result.machine_busy, 0)
            ),
        ),
        (
            "Measured",
            format!(
                "{} s for each configuration, after {} s of warm-up with delays",
                s.seconds, s.warm_up_seconds
            ),
        ),
        (
            "Queue before measuring",
            wraps.map_or_else(String::new, |wraps| format!("gone round {wraps:.1} times")),
        ),
        ("Clients", format!("{}, without think time, standard mix", s.clients)),
        (
            "SQLite",
            format!(
                "{}, synchronous = {}, pages of {} bytes, cache {} over all connections",
                s.journal,
                s.synchronous,
                s.page_bytes,
                Size(s.sqlite_cache_bytes)
            ),
        ),
        ("Tier", s.tier.clone()),
        ("Data drive", format!("{} ({})", s.disk_description, s.disk_model)),
        ("Flash drive", format!("{} ({})", s.flash_description, s.flash_model)),
        ("Log drive", format!("{} ({})", s.log_description, s.log_model)),
        (
            "Machine",
            format!(
                "{}, {} cores, {} of memory, Linux {}",
                m.processor,
                m.cores,
                Size(m.memory_bytes),
                m.kernel
            ),
        ),
    ]
}

struct PlotPoint {
    seconds: f64,
    new_orders_per_second: f64,
    flash_hit_ratio: Option<f64>,
}

fn plot_points(row: &Row) -> Vec<PlotPoint> {
    let mut points = Vec::new();
    let (mut seconds, mut orders, mut ratios) = (0.0, 0, Vec::new());
    for sample in &row.samples {
        seconds += sample.interval_seconds;
        orders += sample.new_orders;
        ratios.extend(sample.flash_hit_ratio);
        if seconds + 0.1 >= PLOT_INTERVAL_SECONDS {
            let flash_hit_ratio =
                (!ratios.is_empty()).then(|| ratios.iter().sum::<f64>() / ratios.len() as f64);
            points.push(PlotPoint {
                seconds: sample.seconds,
                new_orders_per_second: orders as f64 / seconds,
                flash_hit_ratio,
            });
            (seconds, orders) = (0.0, 0);
            ratios.clear();
        }
    }
    points
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use mezzanine_report::Machine;

    use super::*;
    use crate::demo::result::{DriveUse, Sample, Settings};

    fn sample_row(configuration: &str, rate: f64) -> Row {
        let drive =
            |role: &str, utilisation| DriveUse { role: role.to_owned(), utilisation, ..DriveUse::default() };
        let tier = configuration == "face-gsc";
        let mut drives = vec![drive("data", 0.9), drive("log", 0.2)];
        if tier {
            drives.push(drive("flash", 0.3));
        }
        Row {
            configuration: configuration.to_owned(),
            transactions_per_minute: rate,
            flash_hit_ratio: tier.then_some(0.734),
            write_reduction: tier.then_some(0.61),
            restart_seconds: if tier { 0.31 } else { 0.74 },
            transaction_ms_mean: Some(60_000.0 / rate),
            consistent: true,
            acknowledged_commits: 4_321,
            drives,
            samples: (1..=40)
                .map(|second| Sample {
                    seconds: f64::from(second),
                    interval_seconds: 1.0,
                    new_orders: (rate / 60.0 * (1.0 + 0.1 * f64::from(second).sin())) as u64,
                    transactions: 0,
                    flash_hit_ratio: tier.then_some(0.7 + 0.02 * (f64::from(second) / 3.0).sin()),
                })
                .collect(),
            ..Row::default()
        }
    }

    fn sample() -> DemoResult {
        DemoResult {
            rows: vec![sample_row("disk", 820.0), sample_row("face-gsc", 2_610.0), sample_row("flash", 3_930.0)],
            seed: 1,
            warehouses: 3,
            time_scale: 1.0,
            cpu_busy: 0.4,
            machine_busy: 0.5,
            date: "2026-01-31 14:05 UTC".to_owned(),
            version: "0.1.0".to_owned(),
            settings: Settings {
                database_bytes: 231_000_000,
                page_bytes: 4096,
                sqlite_cache_bytes: 2_310_000,
                clients: 4,
                flash_bytes: 46_200_000,
                flash_share: 0.2,
                disk_model: "disks<8>".to_owned(),
                disk_description: "eight 15,000 rpm disks, RAID-0".to_owned(),
                flash_model: "ssd".to_owned(),
                flash_description: "a Samsung 840 Pro".to_owned(),
                log_model: "ssd".to_owned(),
                log_description: "a Samsung 840 Pro".to_owned(),
                journal: "WAL mode".to_owned(),
                synchronous: "FULL".to_owned(),
                tier: "face-gsc, pages of 4,096 bytes in groups of 64, admission of clean and dirty pages, sync mode durable".to_owned(),
                seconds: 40.0,
                warm_up_seconds: 6.0,
            },
            machine: Machine {
                processor: "processor".to_owned(),
                cores: 2,
                memory_bytes: 16_000_000_000,
                kernel: "6.1".to_owned(),
            },
        }
    }

    #[test]
    fn the_report_has_each_configuration_and_where_it_ran() {
        let html = render(&sample()).unwrap();
        for wanted in ["disks alone", "with the tier", "flash alone"] {
            // Three bars, the name of a line, what it is pointed at, and whether it lost anything.
            assert!(html.matches(wanted).count() >= 5, "{wanted}");
        }
        for wanted in
            ["tpmC at 2 s</title>", "hits, %", "3,930", "310 ms", "disks&#60;8&#62;", "2026-01-31 14:05 UTC"]
        {
            assert!(html.contains(wanted), "{wanted}");
        }
    }

    #[test]
    fn the_report_says_when_something_was_lost() {
        let good = render(&sample()).unwrap();
        assert!(good.contains("0 lost") && !good.contains("not consistent"));
        let mut lost = sample();
        lost.rows[1].consistent = false;
        lost.rows[1].violations = vec!["order 5 of district 3 is missing".to_owned()];
        let bad = render(&lost).unwrap();
        assert!(!bad.contains("0 lost") && bad.contains("order 5 of district 3 is missing"));
    }

    #[test]
    fn headline_is_the_ratio_of_the_two_throughputs() {
        assert!(render(&sample()).unwrap().contains("<h1>3.2 times the transactions"));
    }
}
