//! Loads TPC-C into a stock SQLite and runs it: `tpcc_sqlite WAREHOUSES CLIENTS SECONDS [PATH [wal|delete
//! [PAGE_SIZE]]]`. Without a path the database is in memory.

use std::time::Duration;

use mezzanine_workload::sqlite::{JournalMode, SqliteDatabase, SqliteOptions};
use mezzanine_workload::{
    Command, Database, RunConfig, Scale, TransactionType, Until, check_consistency, load, run,
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [warehouses, clients, seconds, rest @ ..] = arguments.as_slice() else {
        return Err("usage: tpcc_sqlite WAREHOUSES CLIENTS SECONDS [PATH [wal|delete [PAGE_SIZE]]]".into());
    };
    let journal_mode = match rest.get(1).map(String::as_str) {
        Some("delete") => JournalMode::Delete,
        _ => JournalMode::Wal,
    };
    let page_size = rest.get(2).map_or(Ok(8192), |bytes| bytes.parse())?;
    let options = SqliteOptions { page_size: Some(page_size), journal_mode, ..SqliteOptions::default() };
    let database = match rest.first() {
        Some(path) => SqliteDatabase::new(path, None, options),
        None => SqliteDatabase::in_memory(options)?,
    };
    let loaded = load(&database, Scale::standard(warehouses.parse()?), 1, &|_| {})?;
    println!(
        "loaded {} rows, {:.1} MB in {:.2} s: {:.1} MB/s, {:.2} MB per warehouse and {:.2} MB of items",
        loaded.rows,
        loaded.database_bytes as f64 / 1e6,
        loaded.elapsed.as_secs_f64(),
        loaded.bytes_per_second() / 1e6,
        loaded.bytes_per_warehouse() as f64 / 1e6,
        loaded.shared_bytes as f64 / 1e6,
    );
    let config = RunConfig {
        clients: clients.parse()?,
        seed: 1,
        warm_up: Some(Until::Elapsed(Duration::from_secs(1))),
        measure: Until::Elapsed(Duration::from_secs(seconds.parse()?)),
    };
    let report = run(&database, &config, None, &mut |_| Command::Continue)?;
    println!(
        "{:.0} transactions per second, {:.0} New-Orders per minute (no audited figure), {} run again",
        report.transactions_per_second(),
        report.new_orders_per_minute(),
        report.retries()
    );
    for kind in TransactionType::ALL {
        let of = report.of(kind);
        println!(
            "{:>12}: {:>7} committed, mean {:>8.1?}, 90 % {:>8.1?}, 99 % {:>8.1?}, longest {:>8.1?}",
            kind.name(),
            of.committed,
            of.latency.mean(),
            of.latency.quantile(0.9),
            of.latency.quantile(0.99),
            of.latency.max()
        );
    }
    println!(
        "grown by {:.2} MB in {} transactions, the warm-up included",
        (database.size_bytes()? - loaded.database_bytes) as f64 / 1e6,
        report.committed() + report.warm_up_transactions
    );
    let mut session = database.open_session()?;
    for checked in check_consistency(session.as_mut())? {
        if !checked.holds() {
            return Err(checked.to_string().into());
        }
    }
    println!("all twelve consistency conditions hold");
    Ok(())
}
