//! Cuts the power of simulated volumes and databases: `cargo run --release -p mezzanine-sim --example cuts --
//! SEED`

use std::error::Error;

use mezzanine_sim::crash::{Options, run};

fn main() -> Result<(), Box<dyn Error>> {
    let seed = std::env::args().nth(1).map_or(Ok(1), |seed| seed.parse())?;
    let report = run(&Options::new(seed, 2000));
    println!("{} cuts, {} of them inside a recovery", report.cuts, report.coverage.cuts_inside_recovery);
    match report.violations.first() {
        None => println!("nothing that was acknowledged was lost"),
        // It can be replayed by its seed.
        Some(violation) => println!("{violation:?}"),
    }
    Ok(())
}
