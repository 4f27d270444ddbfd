//! `mezz-pgtest`: a PostgreSQL server with the tier, killed with SIGKILL again and again, and everything it
//! acknowledged checked.
//!
//! A run is made of lives. A life is one database cluster with one configuration; it goes through some cycles
//! of load, kill, recovery and checks, and ends with a stop in order, after which the files alone have to be
//! the database.
//!
//! Invariants checked after every kill:
//! 1. Every acknowledged commit is there, as it was acknowledged; of each client's commit in doubt either
//!    nothing or all; nothing else is ([`ledger`]).
//! 2. Each account's versions in the ledger are exactly 1..n, and n is the account's version; balances are
//!    what the ledger says, and their sum never changes. The same is read through indexes alone.
//! 3. Rows, out of line or not, hold the bytes that were written. No client sees an account go back
//!    ([`load`]).
//! 4. Tables that were truncated, dropped, recreated, shortened or emptied by the crash hold what they should
//!    ([`side`]).
//! 5. Every block that the log names has at least the version of its newest record ([`oracle`]).
//! 6. Indexes have every row, and heaps are sound, by amcheck ([`structure`]); after the stop also by
//!    `pg_checksums`.
//!
//! With histories, directory and flash of several moments are put together between kills, and more is
//! checked: see [`histories`].
#![forbid(unsafe_code)]

mod failure;
mod random;

mod files;
mod log;
mod processes;
mod server;

mod configuration;
mod journal;
mod load;
mod side;

mod ledger;
mod oracle;
mod structure;

mod cycle;

mod histories;

mod run;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, value_parser};

use crate::histories::Kind;

/// Kills a PostgreSQL server with the flash tier again and again, and checks what it had acknowledged.
///
/// Needs a patched server with the extension `mezzanine` and the extensions amcheck, pageinspect and
/// pg_walinspect. As root it runs the server as another user. Exit code 1: a check failed; 2: the test could
/// not be run.
#[derive(Parser, Debug)]
#[command(name = "mezz-pgtest", version)]
struct Arguments {
    /// Where the server's programs are. Otherwise the environment variable MEZZANINE_PG_BINDIR says it, or
    /// else what `mezz pg build` makes is used.
    #[arg(long)]
    bindir: Option<PathBuf>,
    /// Kills, all lives together.
    #[arg(long, default_value_t = 50, value_parser = value_parser!(u64).range(1..))]
    cycles: u64,
    /// Kills in each life. The configurations take turns with the lives: twelve lives have every combination
    /// of `full_page_writes`, `wal_consistency_checking` and sync mode.
    #[arg(long, default_value_t = 4, value_parser = value_parser!(u64).range(1..))]
    cycles_per_life: u64,
    /// Decides the configurations, what clients do, and how and when the server is killed. The same seed
    /// does not repeat the interleaving of processes.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Run this life alone.
    #[arg(long, conflicts_with = "first_life")]
    life: Option<u64>,
    /// Leave out the lives before this one.
    #[arg(long, default_value_t = 0)]
    first_life: u64,
    /// Folder for the clusters, one at a time; that of a life that failed is kept. The server's user must be
    /// able to reach it. Otherwise memory (/dev/shm) if it has room, since a kill loses nothing that the
    /// kernel has, or the folder for temporary files.
    #[arg(long)]
    directory: Option<PathBuf>,
    /// The user to run servers as, if started by root [default: postgres or nobody, whichever this system
    /// has]
    #[arg(long)]
    user: Option<String>,
    /// Break this rule of the tier (a build of the extension with the feature `planted`): the run should
    /// fail.
    #[arg(long)]
    planted: Option<String>,
    /// Draw histories as well, of these kinds. Without a value: copies,rot,absent. Lives with more cycles
    /// than four have more to put together; each takes up to five times the room.
    #[arg(
        long,
        value_name = "KINDS",
        num_args = 0..=1,
        require_equals = true,
        value_delimiter = ',',
        default_missing_value = "copies,rot,absent"
    )]
    histories: Vec<Kind>,
    /// The library made of postgres/mezzanine/t/faults.c (cc -shared -fPIC faults.c -ldl), for a full disk.
    #[arg(long, value_name = "LIBRARY")]
    faults: Option<PathBuf>,
    /// Clients that transfer between accounts.
    #[arg(long, default_value_t = 4, value_parser = value_parser!(u32).range(1..))]
    clients: u32,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run::run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("mezz-pgtest: {error}");
            ExitCode::from(2)
        }
    }
}
