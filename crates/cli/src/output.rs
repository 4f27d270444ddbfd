//! What the user sees: tables and JSON on stdout, progress on stderr and only where somebody looks.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use crate::failure::Failure;

/// Prints a value as one JSON object.
pub(crate) fn json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|e| Failure::refused("output", format!("not serialisable: {e}")))?;
    print(&format!("{text}\n"))
}

/// Prints text to stdout. A reader that has gone away (`mezz ... | head`) is no error.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => Err(Failure::refused("standard output", e)),
        _ => Ok(()),
    }
}

/// A message for the person at the terminal that is not the result: stderr.
pub(crate) fn note(text: &str) {
    eprintln!("{text}");
}

/// A progress bar with a known length, shown only when stderr is a terminal.
pub(crate) fn progress(len: u64, what: &str) -> ProgressBar {
    let style = "{msg:<44} {bar:30} {percent:>3} %  {elapsed}, {eta} left";
    bar(ProgressBar::new(len), style, what)
}

/// A progress line for work of unknown length.
pub(crate) fn spinner(what: &str) -> ProgressBar {
    let bar = bar(ProgressBar::new_spinner(), "{msg:<44} {spinner} {elapsed}", what);
    bar.enable_steady_tick(std::time::Duration::from_millis(200));
    bar
}

fn bar(bar: ProgressBar, template: &str, what: &str) -> ProgressBar {
    let target = if std::io::stderr().is_terminal() {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    };
    bar.set_draw_target(target);
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.set_message(what.to_owned());
    bar
}

/// 12,345 or 0.25: thousands apart, with so many decimals.
pub(crate) fn number(value: f64, decimals: usize) -> String {
    let text = format!("{:.decimals$}", value.abs());
    let (whole, fraction) = text.split_once('.').map_or((text.as_str(), None), |(w, f)| (w, Some(f)));
    let mut out = if value < 0.0 { "-".to_owned() } else { String::new() };
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    if let Some(fraction) = fraction {
        out.push('.');
        out.push_str(fraction);
    }
    out
}

/// A table of text: the first column to the left, the others to the right.
pub(crate) struct Table {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new<S: Into<String>>(header: impl IntoIterator<Item = S>) -> Table {
        Table { header: header.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }

    pub(crate) fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    pub(crate) fn render(&self) -> String {
        let columns = self.header.len();
        let width = |column: usize| {
            let cells = std::iter::once(&self.header).chain(&self.rows).filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let rule: Vec<String> = widths.iter().map(|w| "-".repeat(*w)).collect();
        let mut text = String::new();
        for row in [&self.header, &rule].into_iter().chain(&self.rows) {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let width = widths.get(column).copied().unwrap_or(0);
                // Writing into a String cannot fail.
                let _ = if column == 0 {
                    write!(line, "{cell:<width$}")
                } else {
                    write!(line, "  {cell:>width$}")
                };
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// Names with their values, one a line, values aligned.
pub(crate) fn facts(pairs: &[(&str, String)]) -> String {
    let width = pairs.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    pairs.iter().fold(String::new(), |mut text, (name, value)| {
        let _ = writeln!(text, "{name:<width$}  {value}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_their_thousands_apart() {
        assert_eq!(number(1_234_567.0, 0), "1,234,567");
        assert_eq!(number(999.0, 0), "999");
        assert_eq!(number(-1234.5, 1), "-1,234.5");
    }

    #[test]
    fn a_table_aligns_names_left_and_values_right() {
        let mut table = Table::new(["name", "value"]);
        table.row(["a", "1"]);
        table.row(["longer", "23456"]);
        assert_eq!(table.render(), "name    value\n------  -----\na           1\nlonger  23456\n");
    }
}
