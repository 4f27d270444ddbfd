//! `mezz sim mrc`: misses by size of the cache, in one pass.

use std::fmt::Write as _;
use std::str::FromStr;
use std::time::Instant;

use clap::Args;
use mezzanine_report::{Table, number};
use mezzanine_sim::policy::{Counts, Design};
use serde::Serialize;
use serde_json::{Map, Value};

use super::parameters::{self, Parameters};
use super::requests::{Counted, RequestArgs, Seen};
use super::run::with_pages;
use crate::failure::Failure;
use crate::output;

pub(super) const EXAMPLES: &str = "Examples:
  mezz sim mrc --trace pages.txt --format plain --design lru --sizes 1000,10000,100000
  mezz sim mrc --trace w89.oracleGeneral.zst --format oracle-general --design lru,clock,lc --sizes 1000..1000000/20 --csv
  mezz sim mrc --synthetic prod3 --design fifo,lru --sizes 100..40000/8 --json

A size is a number of frames; 1000..1000000/20 are twenty from the first to the last, each larger than the one before by the same factor. The \
trace is read once for all sizes and designs. With many sizes LRU costs no more than with few, because all of them follow from the distances \
between requests for the same page; other designs run side by side.

Each size counts what mezz sim run counts with as many frames.";

/// From how many sizes on a mistake is likelier than a wish.
const SIZES_MAX: usize = 10_000;

#[derive(Debug, Args)]
pub(crate) struct MrcArgs {
    #[command(flatten)]
    requests: RequestArgs,

    /// The designs, with commas in between: fifo, lru, clock, lc (its replacement, LRU-2), cac
    /// (Greedy-Dual), tac (temperature), exadata (LRU), face-basic, face-gr, face-gsc.
    #[arg(long, required = true, value_delimiter = ',')]
    design: Vec<Design>,

    /// Sizes in frames, with commas in between; FROM..TO/N for N sizes.
    #[arg(long, required = true, value_delimiter = ',', value_name = "FRAMES")]
    sizes: Vec<Sizes>,

    /// Print comma-separated values, one line for each design and size.
    #[arg(long)]
    csv: bool,

    #[command(flatten, next_help_heading = "Parameters of designs")]
    parameters: Parameters,
}

/// One size or several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sizes {
    from: u64,
    to: u64,
    count: usize,
}

impl FromStr for Sizes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("'{text}' is no number of frames; write 5000, or 1000..1000000/20 for twenty sizes");
        let frames = |text: &str| text.parse::<u64>().map_err(|_| wrong());
        let Some((from, rest)) = text.split_once("..") else {
            let size = frames(text)?;
            return Ok(Self { from: size, to: size, count: 1 });
        };
        let (to, count) = rest.split_once('/').ok_or_else(wrong)?;
        let (from, to, count) = (frames(from)?, frames(to)?, count.parse().map_err(|_| wrong())?);
        if from == 0 || from >= to || !(2..=SIZES_MAX).contains(&count) {
            return Err(format!(
                "'{text}': the first size is above 0 and below the last, and there are 2 to {SIZES_MAX} of them"
            ));
        }
        Ok(Self { from, to, count })
    }
}

impl Sizes {
    pub(super) fn all(self) -> impl Iterator<Item = u64> {
        let last = (self.count - 1).max(1) as f64;
        let (from, ratio) = (self.from as f64, self.to as f64 / self.from.max(1) as f64);
        (0..self.count).map(move |nth| match nth {
            0 => self.from,
            nth if nth + 1 == self.count => self.to,
            nth => (from * ratio.powf(nth as f64 / last)).round() as u64,
        })
    }
}

#[derive(Serialize)]
struct Mrc<'a> {
    #[serde(flatten)]
    seen: &'a Seen,
    points: Vec<Row>,
    seconds: f64,
}

#[derive(Serialize)]
struct Row {
    design: &'static str,
    frames: u64,
    parameters: Map<String, Value>,
    #[serde(flatten)]
    counts: Counts,
    miss_ratio: f64,
}

impl Row {
    fn of((setting, counts): &Counted) -> Self {
        Self {
            design: setting.design().name(),
            frames: setting.frames(),
            parameters: parameters::as_json(setting),
            counts: *counts,
            miss_ratio: counts.miss_ratio(),
        }
    }
}

pub(super) fn run(args: &MrcArgs, json: bool) -> Result<(), Failure> {
    if json && args.csv {
        return Err(
            Failure::usage("--csv", "--json asks for another form of output").next("leave one of them out")
        );
    }
    let started = Instant::now();
    let mut sizes: Vec<u64> = args.sizes.iter().flat_map(|sizes| sizes.all()).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut designs = args.design.clone();
    designs.dedup();
    let points = |parameters: &Parameters| parameters.points(&designs, &sizes, "--sizes");
    let points = with_pages(&args.requests, &args.parameters, points)?;
    let (seen, counted) = args.requests.make(points)?;
    let rows: Vec<Row> = counted.iter().map(Row::of).collect();
    if json {
        return output::json(&Mrc { seen: &seen, points: rows, seconds: started.elapsed().as_secs_f64() });
    }
    output::print(&if args.csv { csv(&rows) } else { table(&rows, &designs, &sizes) })
}

fn csv(rows: &[Row]) -> String {
    let mut text =
        "design,frames,requests,hits,misses,miss_ratio,reads,read_misses,writes,write_misses\n".to_owned();
    for Row { design, frames, counts: c, miss_ratio, .. } in rows {
        let (requests, hits, misses) = (c.requests, c.hits, c.misses);
        // Writing into a String cannot fail.
        let _ = writeln!(
            text,
            "{design},{frames},{requests},{hits},{misses},{miss_ratio:.6},{},{},{},{}",
            c.reads, c.read_misses, c.writes, c.write_misses
        );
    }
    text
}

/// Miss ratios in per cent: a line for each size, a column for each design. Rows come design by design.
fn table(rows: &[Row], designs: &[Design], sizes: &[u64]) -> String {
    let names = designs.iter().map(|design| format!("{design}, % missed"));
    let mut table = Table::new(std::iter::once("frames".to_owned()).chain(names));
    for (line, frames) in sizes.iter().enumerate() {
        let ratios = rows.iter().skip(line).step_by(sizes.len()).map(|row| number(100.0 * row.miss_ratio, 3));
        table.row(std::iter::once(number(*frames as f64, 0)).chain(ratios));
    }
    table.render()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn sizes_are_numbers_and_rows_of_numbers() {
        let all = |text: &str| text.parse::<Sizes>().unwrap().all().collect::<Vec<_>>();
        assert_eq!(all("5000"), [5000]);
        assert_eq!(all("1000..1000000/4"), [1000, 10_000, 100_000, 1_000_000]);
        assert_eq!(all("1..3/5"), [1, 1, 2, 2, 3], "doubles are left to whoever collects them");
        for text in ["", "x", "1..2", "1..2/", "0..9/3", "9..9/3", "9..1/3", "1..9/1", "1..9/100000", "-4"] {
            let error = text.parse::<Sizes>().unwrap_err();
            assert!(error.contains(&format!("'{text}'")), "{text}: {error}");
        }
    }
}
