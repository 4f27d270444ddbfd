//! `mezz experiment`: what the papers print and state, and what comes out here.

mod list;
mod run;
mod text;

use clap::Subcommand;

use crate::failure::Failure;

/// The verbs of `mezz experiment`.
#[derive(Debug, Subcommand)]
pub(crate) enum ExperimentVerb {
    /// List the experiments: tables, figures and passages of the papers.
    #[command(after_help = list::EXAMPLES)]
    List,
    /// Run experiments and compare with what was published.
    #[command(after_help = run::EXAMPLES)]
    Run(run::RunArgs),
}

pub(crate) fn run(verb: &ExperimentVerb, json: bool) -> Result<(), Failure> {
    match verb {
        ExperimentVerb::List => list::run(json),
        ExperimentVerb::Run(args) => run::run(args, json),
    }
}
