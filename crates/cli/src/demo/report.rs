//! The report of a demo run: one HTML file that needs nothing else.

use std::fmt::Write as _;

use super::result::{DemoResult, Row};
use super::svg::{self, Bar, Series, Width, escape};
use crate::output::number;
use crate::size::Size;

/// Intervals of the samples are joined until they are this long, so that a slow drive's line shows its rate
/// and not its grain.
const PLOT_INTERVAL_SECONDS: f64 = 2.0;

/// The class of a configuration in the style sheet.
fn class(configuration: &str) -> &'static str {
    match configuration {
        "disk" => "disk",
        "flash" => "flash",
        _ => "tier",
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
pub(crate) fn render(result: &DemoResult) -> String {
    let mut html = String::from("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n");
    html.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>Mezzanine demo</title>\n<style>\n");
    html.push_str(include_str!("report.css"));
    html.push_str("</style></head><body><main>\n");
    header(&mut html, result);
    tiles(&mut html, result);
    throughput(&mut html, result);
    hits_and_drives(&mut html, result);
    table(&mut html, result);
    safety(&mut html, result);
    conditions(&mut html, result);
    html.push_str("</main></body></html>\n");
    html
}

fn row<'a>(result: &'a DemoResult, configuration: &str) -> Option<&'a Row> {
    result.rows.iter().find(|row| row.configuration == configuration)
}

/// How many times the throughput of disks alone the tier gives.
pub(crate) fn speed_up(result: &DemoResult) -> Option<f64> {
    let disk = row(result, "disk")?.transactions_per_minute;
    (disk > 0.0).then_some(row(result, "face-gsc")?.transactions_per_minute / disk)
}

fn header(html: &mut String, result: &DemoResult) {
    let s = &result.settings;
    let headline = speed_up(result).map_or_else(
        || "A database on a flash tier".to_owned(),
        |factor| {
            format!(
                "{factor:.1} times the transactions, with {:.0} % of the database on flash",
                s.flash_share * 100.0
            )
        },
    );
    let _ = writeln!(
        html,
        "<p class=\"over\">Mezzanine {} &middot; mezz demo &middot; {}</p>\n<h1>{}</h1>",
        escape(&result.version),
        escape(&result.date),
        escape(&headline)
    );
    let _ = writeln!(
        html,
        "<p class=\"lead\">TPC-C in SQLite, {} warehouses, {} of data, SQLite&rsquo;s own cache {}. The data lie on {}; the tier has {} of {}. \
         Each run was ended by kill&nbsp;-9, opened again, and checked for every acknowledged commit.</p>",
        result.warehouses,
        Size(s.database_bytes),
        Size(s.sqlite_cache_bytes),
        escape(&s.disk_description),
        Size(s.flash_bytes),
        escape(&s.flash_description),
    );
}

fn tile(html: &mut String, value: &str, class: &str, text: &str) {
    let _ = writeln!(
        html,
        "<div class=\"tile\"><b class=\"{class}\">{}</b><span>{}</span></div>",
        escape(value),
        escape(text)
    );
}

fn tiles(html: &mut String, result: &DemoResult) {
    html.push_str("<div class=\"tiles\">\n");
    if let (Some(tier), Some(factor)) = (row(result, "face-gsc"), speed_up(result)) {
        tile(
            html,
            &format!("{factor:.1}\u{d7}"),
            "",
            "New-Order transactions per minute, against disks alone",
        );
        if let Some(ratio) = tier.flash_hit_ratio {
            tile(html, &percent(ratio), "", "of the pages that SQLite asked for came from flash");
        }
        if let Some(reduction) = tier.write_reduction {
            tile(html, &percent(reduction), "", "of the page writes never reached the disks");
        }
    }
    let commits: u64 = result.rows.iter().map(|row| row.acknowledged_commits).sum();
    let consistent = result.rows.iter().all(|row| row.consistent);
    let (value, class) = if consistent { ("0 lost", "good") } else { ("not consistent", "bad") };
    tile(
        html,
        value,
        class,
        &format!("of {} acknowledged commits, after {} kills", number(commits as f64, 0), result.rows.len()),
    );
    html.push_str("</div>\n");
}

fn throughput(html: &mut String, result: &DemoResult) {
    let labels: Vec<(String, &Row)> =
        result.rows.iter().map(|row| (number(row.transactions_per_minute, 0), row)).collect();
    let bars: Vec<Bar<'_>> = labels
        .iter()
        .map(|(label, row)| Bar {
            name: title(&row.configuration),
            class: class(&row.configuration),
            value: row.transactions_per_minute,
            label: label.clone(),
        })
        .collect();
    card(
        html,
        "Throughput",
        "New-Order transactions per minute (tpmC), mean of the measured time.",
        &svg::bars(Width::Full, &bars, "tpmC by configuration"),
    );

    let series: Vec<Series<'_>> = result
        .rows
        .iter()
        .map(|row| Series {
            name: title(&row.configuration),
            class: class(&row.configuration),
            points: plot_points(row)
                .into_iter()
                .map(|p| (p.seconds, p.new_orders_per_second * 60.0 * result.time_scale))
                .collect(),
        })
        .collect();
    card(
        html,
        "Throughput over time",
        "New-Order transactions per minute in every two seconds of the measured time. Point at a line for its values.",
        &svg::line_plot(Width::Full, &series, "seconds since measuring began", "tpmC over time", None),
    );
}

fn hits_and_drives(html: &mut String, result: &DemoResult) {
    html.push_str("<div class=\"grid2\">\n");
    if let Some(tier) = row(result, "face-gsc") {
        let points: Vec<(f64, f64)> = plot_points(tier)
            .into_iter()
            .filter_map(|p| Some((p.seconds, p.flash_hit_ratio? * 100.0)))
            .collect();
        let series = [Series { name: "hit ratio", class: "tier", points }];
        card(
            html,
            "Flash hit ratio over time",
            "Of the pages that SQLite did not have in its cache, how many the tier had, in percent.",
            &svg::line_plot(
                Width::Half,
                &series,
                "seconds since measuring began",
                "flash hit ratio over time",
                Some(100.0),
            ),
        );
    }
    let mut names: Vec<(String, &'static str, f64)> = Vec::new();
    for row in &result.rows {
        for drive in row.drives.iter().filter(|drive| drive.role != "log") {
            let name = format!(
                "{}: {}",
                row.configuration,
                if drive.role == "flash" || row.configuration == "flash" { "flash" } else { "disks" }
            );
            names.push((name, class(&row.configuration), drive.utilisation * 100.0));
        }
    }
    let bars: Vec<Bar<'_>> = names
        .iter()
        .map(|(name, class, value)| Bar { name, class, value: *value, label: format!("{value:.0} %") })
        .collect();
    card(
        html,
        "How busy the drives were",
        "Mean share of a drive&rsquo;s spindles or channels that had something to do. SQLite has one writer at a time, so most of the disks wait for the next request.",
        &svg::bars(Width::Half, &bars, "utilisation"),
    );
    let restarts: Vec<(String, &Row)> =
        result.rows.iter().map(|row| (crate::benchmark::duration(row.restart_seconds), row)).collect();
    let bars: Vec<Bar<'_>> = restarts
        .iter()
        .map(|(label, row)| Bar {
            name: title(&row.configuration),
            class: class(&row.configuration),
            value: row.restart_seconds,
            label: label.clone(),
        })
        .collect();
    card(
        html,
        "Restart after kill -9",
        "From the start of the process until the first transaction could run: the tier&rsquo;s recovery on the modelled drive, and that of SQLite&rsquo;s log, which is read at this machine&rsquo;s own speed.",
        &svg::bars(Width::Half, &bars, "restart time by configuration"),
    );
    let waits: Vec<(String, &Row, f64)> = result
        .rows
        .iter()
        .filter_map(|row| {
            row.transaction_ms_mean
                .map(|ms| (format!("{} ms", number(ms, if ms < 10.0 { 1 } else { 0 })), row, ms))
        })
        .collect();
    let bars: Vec<Bar<'_>> = waits
        .iter()
        .map(|(label, row, ms)| Bar {
            name: title(&row.configuration),
            class: class(&row.configuration),
            value: *ms,
            label: label.clone(),
        })
        .collect();
    card(
        html,
        "How long a transaction took",
        "Mean over all types, from its start until its commit was durable; waiting for SQLite&rsquo;s one writer included.",
        &svg::bars(Width::Half, &bars, "mean transaction time"),
    );
    html.push_str("</div>\n");
}

/// A card with a plot. `text` may hold character references; `plot` is markup.
fn card(html: &mut String, heading: &str, text: &str, plot: &str) {
    let _ =
        writeln!(html, "<section class=\"card\"><h2>{}</h2><p>{text}</p>{plot}</section>", escape(heading));
}

fn table(html: &mut String, result: &DemoResult) {
    html.push_str("<section class=\"card\"><h2>All figures</h2><div class=\"scroll\"><table><thead><tr>");
    for heading in super::HEADINGS {
        let _ = write!(html, "<th>{}</th>", escape(heading));
    }
    html.push_str("</tr></thead><tbody>\n");
    for row in &result.rows {
        html.push_str("<tr>");
        for (column, cell) in super::cells(row).iter().enumerate() {
            let class = if column == 0 {
                format!(" class=\"key {}\"", class(&row.configuration))
            } else {
                String::new()
            };
            let _ = write!(html, "<td{class}>{}</td>", escape(cell));
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody></table></div></section>\n");
}

fn safety(html: &mut String, result: &DemoResult) {
    html.push_str("<section class=\"card\"><h2>Was anything lost?</h2>\n");
    html.push_str(
        "<p>Each client writes down a commit only after SQLite has acknowledged it, through a pipe that survives the process. The process is \
         killed while transactions are running. Then the database is opened again, the consistency conditions of TPC-C (clause 3.3.2) are \
         evaluated, SQLite checks the structure of every page, and each commit that was written down is looked for.</p>\n<dl>\n",
    );
    for row in &result.rows {
        let commits = number(row.acknowledged_commits as f64, 0);
        let verdict = if row.consistent {
            format!("<span class=\"good\">consistent</span>, all {commits} acknowledged commits present")
        } else {
            format!("<span class=\"bad\">not consistent</span>: {}", escape(&row.violations.join("; ")))
        };
        let _ = writeln!(html, "<dt>{}</dt><dd>{verdict}</dd>", escape(title(&row.configuration)));
    }
    html.push_str("</dl></section>\n");
}

fn conditions(html: &mut String, result: &DemoResult) {
    let s = &result.settings;
    let m = &result.machine;
    html.push_str("<section class=\"card\"><h2>What was measured, and on what</h2>\n");
    html.push_str(
        "<p>The bytes are in files of this machine. The drives are models: every request is held back until the moment at which the modelled drive \
         would have completed it, so that the figures do not depend on the disk of the machine. The three configurations run the same code over the same \
         files; they differ in the drive under the data and in whether the tier is there. The database was loaded once and copied for each. Each \
         configuration first ran without delays, until the flash queue had gone round, then with delays, and only then was measured. The transactions are those of TPC-C, \
         without think times; the figures are no audited TPC results.</p>\n<dl>\n",
    );
    let wraps = row(result, "face-gsc").and_then(|row| row.queue_wraps_before);
    let facts: Vec<(&str, String)> = vec![
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
                percent(result.cpu_busy),
                percent(result.machine_busy)
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
    ];
    for (name, value) in facts.iter().filter(|(_, value)| !value.is_empty()) {
        let _ = writeln!(html, "<dt>{}</dt><dd>{}</dd>", escape(name), escape(value));
    }
    html.push_str("</dl></section>\n");
}

/// `0.734` as `73 %`.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
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
    use super::*;
    use crate::demo::result::{DriveUse, Sample, Settings};
    use crate::machine::Machine;

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
    fn the_report_needs_nothing_from_elsewhere() {
        let html = render(&sample());
        for foreign in ["http:", "https:", "<script", "<link", "<img", "@import", "url("] {
            assert!(!html.contains(foreign), "{foreign}");
        }
        assert!(html.contains("disks&lt;8&gt;"), "names are escaped");
    }

    #[test]
    fn the_report_says_when_something_was_lost() {
        let good = render(&sample());
        assert!(good.contains("0 lost") && !good.contains("not consistent"));
        let mut lost = sample();
        lost.rows[1].consistent = false;
        lost.rows[1].violations = vec!["order 5 of district 3 is missing".to_owned()];
        let bad = render(&lost);
        assert!(!bad.contains("0 lost") && bad.contains("order 5 of district 3 is missing"));
    }

    #[test]
    fn headline_is_the_ratio_of_the_two_throughputs() {
        assert!(render(&sample()).contains("<h1>3.2 times the transactions"));
    }
}
