//! `mezz pg`: PostgreSQL with the tier.

mod build;

use clap::Subcommand;

use crate::failure::Failure;

#[derive(Debug, Subcommand)]
pub(crate) enum PgVerb {
    /// Build PostgreSQL from its released source with the hooks that the tier needs, into a cache.
    #[command(after_help = build::EXAMPLES, disable_version_flag = true)]
    Build(build::BuildArgs),
}

pub(crate) fn run(verb: &PgVerb, json: bool) -> Result<(), Failure> {
    match verb {
        PgVerb::Build(args) => build::run(args, json),
    }
}
