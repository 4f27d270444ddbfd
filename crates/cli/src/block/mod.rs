//! `mezz block`: block devices behind a flash cache.

mod answers;
mod attach;
mod begun;
mod cache_device;
mod check;
mod control;
mod create;
mod detach;
mod devices;
mod ending;
mod folders;
mod label;
mod local;
mod metrics;
mod notify;
mod open;
mod page;
mod prometheus;
mod registry;
mod report;
mod resize;
mod served;
mod text;
mod verbs;

use clap::Subcommand;

use crate::failure::Failure;

#[derive(Debug, Subcommand)]
pub(crate) enum BlockVerb {
    /// Make a cache device for one or several volumes. Nothing is written to these.
    #[command(after_help = create::EXAMPLES)]
    Create(create::CreateArgs),
    /// Serve volumes with their cache over NBD or as a file, until a signal or `detach`.
    #[command(after_help = attach::EXAMPLES)]
    Attach(Box<attach::AttachArgs>),
    /// Show what an attached cache does: hits, misses, why requests went past it, latencies.
    #[command(after_help = verbs::STATUS_EXAMPLES)]
    Status(verbs::StatusArgs),
    /// List the caches that are attached on this machine by this user.
    #[command(after_help = verbs::LIST_EXAMPLES)]
    List(verbs::ListArgs),
    /// Make durable what was written, and bring the cache device up to it.
    #[command(after_help = verbs::FLUSH_EXAMPLES)]
    Flush(verbs::FlushArgs),
    /// Change how an attached cache works: population, write mode.
    #[command(after_help = verbs::SET_EXAMPLES)]
    Set(verbs::SetArgs),
    /// Make a cache larger or smaller, attached or not.
    #[command(after_help = resize::EXAMPLES)]
    Resize(resize::ResizeArgs),
    /// End an attached cache in good order.
    #[command(after_help = verbs::DETACH_EXAMPLES)]
    Detach(verbs::DetachArgs),
    /// Look at the superblocks of a cache device; compare what an attached one holds with its volumes.
    #[command(after_help = check::EXAMPLES)]
    Check(check::CheckArgs),
}

pub(crate) fn run(verb: &BlockVerb, json: bool) -> Result<(), Failure> {
    match verb {
        BlockVerb::Create(args) => create::run(args, json),
        BlockVerb::Attach(args) => attach::run(args, json),
        BlockVerb::Status(args) => verbs::status(args, json),
        BlockVerb::List(args) => verbs::list(args, json),
        BlockVerb::Flush(args) => verbs::flush(args, json),
        BlockVerb::Set(args) => verbs::set(args, json),
        BlockVerb::Resize(args) => resize::run(args, json),
        BlockVerb::Detach(args) => verbs::detach(args, json),
        BlockVerb::Check(args) => check::run(args, json),
    }
}
