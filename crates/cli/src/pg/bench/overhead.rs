//! What the tier costs when nothing ever leaves shared buffers: pairs of runs with and without it, one after
//! the other, on the same data.

use std::fmt;
use std::time::Duration;

use mezzanine_report::{Machine, Table, now_utc};
use mezzanine_workload::{Command, RunConfig, Until, run as run_workload};
use serde::Serialize;

use super::args::BenchArgs;
use super::server::{Server, database_failure};
use super::{Bench, common};
use crate::failure::Failure;
use crate::output;
use crate::size::Size;

/// Transactions before the first pair: everything is then in shared buffers and prepared.
const WARM_UP_TRANSACTIONS: u64 = 3_000;

/// After a run the server's processes for its sessions end; what they used is counted when they have.
const SESSIONS_END: Duration = Duration::from_millis(200);

/// What was found.
#[derive(Debug, Serialize)]
struct Overhead {
    /// The runs, in order.
    pairs: Vec<Pair>,
    /// By how much the tier slows transactions.
    overhead: Estimate,
    /// By how much the tier adds to the processor time that the server takes for a transaction: neighbours
    /// on the machine that slow a run down change this less.
    processor_overhead: Estimate,
    /// With at least this confidence the intervals hold the true medians.
    confidence: f64,
    warehouses: u32,
    clients: u32,
    seconds: f64,
    database_bytes: u64,
    seed: u64,
    date: String,
    machine: Machine,
}

/// A median and its interval: 0.01 = 1 %; negative if the tier was better.
#[derive(Debug, Clone, Copy, Serialize)]
struct Estimate {
    median: f64,
    low: f64,
    high: f64,
}

impl Estimate {
    /// Of values of which the interval leaves out so many at each end.
    fn of(values: impl Iterator<Item = f64>, rank: usize) -> Estimate {
        let mut sorted: Vec<f64> = values.collect();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let median =
            if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 };
        Estimate { median, low: sorted[rank], high: sorted[sorted.len() - 1 - rank] }
    }
}

impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Estimate { median, low, high } = self;
        write!(f, "{} (between {} and {})", percent(*median), percent(*low), percent(*high))
    }
}

/// What one run did.
#[derive(Debug, Clone, Copy, Serialize)]
struct OneRun {
    transactions_per_second: f64,
    /// Processor time of the server for one transaction, in microseconds.
    processor_us: f64,
}

#[derive(Debug, Clone, Copy, Serialize)]
struct Pair {
    without: OneRun,
    with: OneRun,
}

impl Pair {
    fn overhead(self) -> f64 {
        self.without.transactions_per_second / self.with.transactions_per_second.max(1e-9) - 1.0
    }

    fn processor_overhead(self) -> f64 {
        self.with.processor_us / self.without.processor_us.max(1e-9) - 1.0
    }
}

/// A share that may be negative.
fn percent(share: f64) -> String {
    format!("{:+.2} %", share * 100.0)
}

pub(super) fn run(bench: &mut Bench<'_>, json: bool) -> Result<(), Failure> {
    let loaded = bench.load()?;
    let mut without = bench.server("without")?;
    let mut with = bench.server("with")?;
    for (server, tier) in [(&mut without, false), (&mut with, true)] {
        server.copy_data(&loaded)?;
        configure(bench, server, tier)?;
        server.start()?;
        one(bench.args, server, Until::Transactions(WARM_UP_TRANSACTIONS), 0)?;
    }
    let bar = output::progress(u64::from(bench.args.pairs), "pairs of runs");
    let mut pairs = Vec::new();
    for number in 1..=bench.args.pairs {
        let seconds = Until::Elapsed(Duration::from_secs_f64(bench.args.seconds));
        let seed = u64::from(number);
        // Whatever changes with time falls on both alike when the order alternates.
        let pair = if number % 2 == 0 {
            let with = one(bench.args, &with, seconds, seed)?;
            Pair { without: one(bench.args, &without, seconds, seed)?, with }
        } else {
            let without = one(bench.args, &without, seconds, seed)?;
            Pair { without, with: one(bench.args, &with, seconds, seed)? }
        };
        pairs.push(pair);
        bar.inc(1);
    }
    bar.finish_and_clear();
    without.stop()?;
    with.stop()?;
    let found = evaluate(bench, pairs);
    if json {
        return output::json(&found);
    }
    output::print(&text(&found))
}

fn configure(bench: &Bench<'_>, server: &Server, tier: bool) -> Result<(), Failure> {
    let mut settings = common(server.directory.as_path(), bench.args);
    // Twice the database, for it grows: nothing is ever evicted.
    settings.kibibytes("shared_buffers", bench.database_bytes * 2 + (64 << 20));
    if tier {
        settings.text("shared_preload_libraries", "mezzanine");
        let flash = server.flash();
        settings.text("mezzanine.flash_path", &flash.to_string_lossy());
        settings.mebibytes("mezzanine.flash_size", bench.flash_bytes());
    }
    server.configure(&settings)
}

fn one(args: &BenchArgs, server: &Server, measure: Until, seed: u64) -> Result<OneRun, Failure> {
    let database = server.database(1)?;
    let config = RunConfig { clients: args.clients, seed: args.seed ^ seed << 32, warm_up: None, measure };
    let before = server.processor_time();
    let report = run_workload(&database, &config, None, &mut |_| Command::Continue)
        .map_err(|e| database_failure(&e))?;
    std::thread::sleep(SESSIONS_END);
    let used = server.processor_time().saturating_sub(before);
    let transactions_per_second = report.transactions_per_second();
    let transactions = transactions_per_second * report.elapsed.as_secs_f64();
    Ok(OneRun { transactions_per_second, processor_us: used.as_secs_f64() * 1e6 / transactions.max(1.0) })
}

fn evaluate(bench: &Bench<'_>, pairs: Vec<Pair>) -> Overhead {
    let (rank, confidence) = interval(pairs.len());
    Overhead {
        overhead: Estimate::of(pairs.iter().map(|pair| pair.overhead()), rank),
        processor_overhead: Estimate::of(pairs.iter().map(|pair| pair.processor_overhead()), rank),
        confidence,
        pairs,
        warehouses: bench.args.warehouses,
        clients: bench.args.clients,
        seconds: bench.args.seconds,
        database_bytes: bench.database_bytes,
        seed: bench.args.seed,
        date: now_utc(),
        machine: Machine::this(),
    }
}

/// How many values to leave out at each end so that the rest holds the median with at least 95 % confidence,
/// and with how much it does: the number of values below the median is binomial. With few values none can be
/// left out, and the confidence is what it is.
fn interval(count: usize) -> (usize, f64) {
    let mut probability = 0.5_f64.powi(count as i32);
    let mut tail = probability;
    let (mut rank, mut confidence) = (0, 1.0 - 2.0 * tail);
    for left_out in 1..count.div_ceil(2) {
        probability *= (count + 1 - left_out) as f64 / left_out as f64;
        tail += probability;
        if 1.0 - 2.0 * tail < 0.95 {
            break;
        }
        (rank, confidence) = (left_out, 1.0 - 2.0 * tail);
    }
    (rank, confidence.max(0.0))
}

fn text(found: &Overhead) -> String {
    let mut table =
        Table::new(["pair", "without tier (tx/s)", "with tier (tx/s)", "overhead", "processor time"]);
    for (number, pair) in (1..).zip(&found.pairs) {
        table.row([
            format!("{number}"),
            format!("{:.0}", pair.without.transactions_per_second),
            format!("{:.0}", pair.with.transactions_per_second),
            percent(pair.overhead()),
            percent(pair.processor_overhead()),
        ]);
    }
    format!(
        "{}\nIn the median of {} pairs, with intervals of {:.1} % confidence, the tier slows transactions by {}\n\
         and adds {} to the server's processor time for a transaction.\n\
         {} of TPC-C in shared buffers, {} clients, {} s a run, no modelled devices.\n",
        table.render(),
        found.pairs.len(),
        found.confidence * 100.0,
        found.overhead,
        found.processor_overhead,
        Size(found.database_bytes),
        found.clients,
        found.seconds,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_that_of_the_binomial_distribution() {
        // Of ten values the second and the ninth enclose the median in 97.9 % of all cases, of 20 the sixth
        // and the fifteenth in 95.9 %.
        let (rank, confidence) = interval(10);
        assert_eq!(rank, 1);
        assert!((confidence - 0.978_5).abs() < 1e-3, "{confidence}");
        let (rank, confidence) = interval(20);
        assert_eq!(rank, 5);
        assert!((confidence - 0.958_6).abs() < 1e-3, "{confidence}");
        assert_eq!(interval(1), (0, 0.0));
        assert_eq!(interval(3).0, 0);
    }
}
