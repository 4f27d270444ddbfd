//! What the tier costs when nothing ever leaves shared buffers: pairs of runs with and without it, one after the other, on the same data.

use mezzanine_workload::{Command, RunConfig, Until, run as run_workload};
use serde::Serialize;

use super::args::BenchArgs;
use super::server::{Server, database_failure};
use super::{Bench, common};
use crate::failure::Failure;
use crate::machine::Machine;
use crate::output::{self, Table};
use crate::size::Size;

/// Transactions before the first pair: everything is then in shared buffers and prepared.
const WARM_UP_TRANSACTIONS: u64 = 3_000;

/// What was found.
#[derive(Debug, Serialize)]
struct Overhead {
    /// Transactions per second in each run, in order.
    pairs: Vec<Pair>,
    /// By how much the tier slows transactions, in the median of the pairs: 0.01 = 1 %; negative if it was faster.
    overhead_median: f64,
    /// An interval that holds the true median with at least the confidence below.
    overhead_low: f64,
    overhead_high: f64,
    confidence: f64,
    warehouses: u32,
    clients: u32,
    seconds: f64,
    database_bytes: u64,
    seed: u64,
    date: String,
    machine: Machine,
}

#[derive(Debug, Clone, Copy, Serialize)]
struct Pair {
    without: f64,
    with: f64,
}

impl Pair {
    fn overhead(self) -> f64 {
        self.without / self.with.max(1e-9) - 1.0
    }
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
        let seconds = Until::Elapsed(std::time::Duration::from_secs_f64(bench.args.seconds));
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

/// Transactions per second of one run.
fn one(args: &BenchArgs, server: &Server, measure: Until, seed: u64) -> Result<f64, Failure> {
    let database = server.database(1)?;
    let config = RunConfig { clients: args.clients, seed: args.seed ^ seed << 32, warm_up: None, measure };
    let report = run_workload(&database, &config, None, &mut |_| Command::Continue);
    report.map(|report| report.transactions_per_second()).map_err(|e| database_failure(&e))
}

fn evaluate(bench: &Bench<'_>, pairs: Vec<Pair>) -> Overhead {
    let mut sorted: Vec<f64> = pairs.iter().map(|pair| pair.overhead()).collect();
    sorted.sort_by(f64::total_cmp);
    let (rank, confidence) = interval(sorted.len());
    let middle = sorted.len() / 2;
    let median =
        if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 };
    Overhead {
        overhead_median: median,
        overhead_low: sorted[rank],
        overhead_high: sorted[sorted.len() - 1 - rank],
        confidence,
        pairs,
        warehouses: bench.args.warehouses,
        clients: bench.args.clients,
        seconds: bench.args.seconds,
        database_bytes: bench.database_bytes,
        seed: bench.args.seed,
        date: crate::machine::now_utc(),
        machine: Machine::this(),
    }
}

/// How many values to leave out at each end so that the rest holds the median with at least 95 % confidence, and with how much it does: the
/// number of values below the median is binomial. With few values none can be left out, and the confidence is what it is.
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
    let percent = |share: f64| format!("{:+.2} %", share * 100.0);
    let mut table = Table::new(["pair", "without tier (tx/s)", "with tier (tx/s)", "overhead"]);
    for (number, pair) in (1..).zip(&found.pairs) {
        table.row([
            format!("{number}"),
            format!("{:.0}", pair.without),
            format!("{:.0}", pair.with),
            percent(pair.overhead()),
        ]);
    }
    format!(
        "{}\nThe tier slows transactions by {} in the median of {} pairs; the median lies between {} and {} with {:.1} % confidence.\n\
         {} of TPC-C in shared buffers, {} clients, {} s a run, no modelled devices.\n",
        table.render(),
        percent(found.overhead_median),
        found.pairs.len(),
        percent(found.overhead_low),
        percent(found.overhead_high),
        found.confidence * 100.0,
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
        // Of ten values the second and the ninth enclose the median in 97.9 % of all cases, of 20 the sixth and the fifteenth in 95.9 %.
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
