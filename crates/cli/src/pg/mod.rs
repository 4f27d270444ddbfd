//! `mezz pg`: PostgreSQL with the tier.

mod bench;
mod build;

mod cluster;
mod settings;
mod user;

mod init;
mod making;
mod start;
mod status;

mod drain;
mod unsaved;

use clap::Subcommand;

pub(crate) use cluster::{Cluster, ClusterArgs, Running};

use crate::failure::Failure;

#[derive(Debug, Subcommand)]
pub(crate) enum PgVerb {
    /// Build PostgreSQL from its released source with the hooks that the tier needs, and the extension, into
    /// a cache.
    #[command(after_help = build::EXAMPLES, disable_version_flag = true)]
    Build(build::BuildArgs),
    /// Make a data directory with the tier's settings.
    #[command(after_help = init::EXAMPLES)]
    Init(Box<init::InitArgs>),
    /// Start the server of a data directory.
    #[command(after_help = start::START_EXAMPLES)]
    Start(start::StartArgs),
    /// Stop the server of a data directory.
    #[command(after_help = start::STOP_EXAMPLES)]
    Stop(start::StopArgs),
    /// Tell whether the server runs, and what the tier does.
    #[command(after_help = status::EXAMPLES)]
    Status(status::StatusArgs),
    /// Write every page that is newer in the tier than on disk to disk, also for a server that was killed.
    #[command(after_help = drain::EXAMPLES)]
    Drain(drain::DrainArgs),
    /// Measure TPC-C with and without the tier on modelled devices, kill the server, and check what it has
    /// kept.
    #[command(after_help = bench::EXAMPLES)]
    Bench(Box<bench::BenchArgs>),
}

pub(crate) fn run(verb: &PgVerb, json: bool) -> Result<(), Failure> {
    match verb {
        PgVerb::Build(args) => build::run(args, json),
        PgVerb::Init(args) => init::run(args, json),
        PgVerb::Start(args) => start::start(args, json),
        PgVerb::Stop(args) => start::stop(args, json),
        PgVerb::Status(args) => status::run(args, json),
        PgVerb::Drain(args) => drain::run(args, json),
        PgVerb::Bench(args) => bench::run(args, json),
    }
}
