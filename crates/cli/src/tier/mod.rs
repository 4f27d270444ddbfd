//! `mezz tier`: a flash tier at rest.

mod drain;
mod forget;
mod format;
mod give_up;
mod in_use;
mod inspect;
mod lost;
mod only_copies;
mod open;
mod postgres;
mod verify;

use clap::Subcommand;

pub(crate) use format::new_flash;
pub(crate) use only_copies::{OnlyCopy, only_copies};
pub(crate) use open::Flash;
pub(crate) use postgres::{file_of, page_name};

use crate::failure::Failure;

#[derive(Debug, Subcommand)]
pub(crate) enum TierVerb {
    /// Make a tier on a file or block device. Refuses what it does not recognise.
    #[command(after_help = format::EXAMPLES)]
    Format(format::FormatArgs),
    /// Show what a tier says of itself and what recovery would find. Changes nothing.
    #[command(after_help = inspect::EXAMPLES)]
    Inspect(inspect::InspectArgs),
    /// Check a tier: superblocks, metadata, the groups after it, and every page of which flash holds the only
    /// copy, or every page. Changes nothing.
    #[command(after_help = verify::EXAMPLES)]
    Verify(verify::VerifyArgs),
    /// Write every page that is newer in the tier to its file, so that the files can be used without the
    /// tier.
    #[command(after_help = drain::EXAMPLES)]
    Drain(drain::DrainArgs),
    /// Go on without a page that is lost: nothing brings it back then.
    #[command(after_help = give_up::EXAMPLES)]
    GiveUp(give_up::GiveUpArgs),
    /// Go on without a file that is gone: what flash alone had of it is lost.
    #[command(after_help = forget::EXAMPLES)]
    Forget(forget::ForgetArgs),
}

pub(crate) fn run(verb: &TierVerb, json: bool) -> Result<(), Failure> {
    match verb {
        TierVerb::Format(args) => format::run(args, json),
        TierVerb::Inspect(args) => inspect::run(args, json),
        TierVerb::Verify(args) => verify::run(args, json),
        TierVerb::Drain(args) => drain::run(args, json),
        TierVerb::GiveUp(args) => give_up::run(args, json),
        TierVerb::Forget(args) => forget::run(args, json),
    }
}
