//! Virtual time: a database's clients, its buffer pool and the tier below it, over modelled devices.
//!
//! A client runs transactions: it asks for pages, and waits when one is not in the pool. What it waits for is
//! the shipped engine's doing, and that of the drive models of `mezzanine_device`, whose code is the one that
//! holds back real operations; here it is asked for times, and the clock goes on to them. The engine's jobs
//! are carried out by threads of the simulated host, and by clients that find staging memory full, as in real
//! hosts.
//!
//! Pages have no contents: every page is the same page of zeros (`hollow`), so that a database of any size
//! fits.
//!
//! [`Setup`] says what is simulated, [`run`] does it and answers with an [`Outcome`]. The same setup gives
//! the same outcome, to the last bit.
//!
//! What is simplified, all of it stated in `docs/simulator.md`: there are no locks of rows or pages; a
//! transaction's work in the processor is spent in pieces, each before the page that is waited for next; the
//! log is a time, or a device of its own.

mod clock;
mod latency;
mod processor;

mod drive;
mod log;
mod pool;

mod setup;
mod source;

mod counts;

mod world;

mod task;

mod cleaning;

mod checkpoint;
mod jobs;

mod measure;
mod measuring;

mod outcome;

pub mod block;

#[cfg(test)]
mod tests;

pub use counts::Requests;
pub use latency::Latency;
pub use outcome::{
    Flash, Hits, Interval, Kind, Latencies, Outcome, Resource, Throughput, Waits, WarmedUp, Writes,
};
pub use pool::PoolPolicy;
pub use setup::{Configuration, LogDevice, Refusal, Setup, WarmUp, Workload};

use crate::hollow::new_tier;

/// Runs what a setup says.
///
/// # Errors
/// Names the parameter that cannot be used, before memory is taken; or what is wrong with the trace.
///
/// # Panics
/// If an invariant of the tier does not hold at the end, in builds with debug assertions.
pub fn run(setup: &Setup) -> Result<Outcome, Refusal> {
    run_with(setup, None).map(|(outcome, _)| outcome)
}

/// What a flash drive from the inside keeps when it is switched off: a state of
/// [`Ssd`](mezzanine_ssd::Ssd).
pub type FlashState = Box<[u64]>;

/// [`run`] on a flash drive as an earlier run left it, and what this one leaves, if the flash model is a
/// drive from the inside. With none it begins as its model says.
///
/// # Errors
/// As of [`run`].
///
/// # Panics
/// As of that, and if the state is that of another drive.
pub fn run_with(
    setup: &Setup,
    flash_state: Option<FlashState>,
) -> Result<(Outcome, Option<FlashState>), Refusal> {
    let sizes = setup.sizes()?;
    let source = setup.source(sizes.pages)?;
    let tier = sizes.geometry.as_ref().map(|geometry| new_tier(geometry, world::OWNER));
    let mut world = world::World::new(setup, &sizes, tier.as_ref(), source, flash_state)?;
    world.run()?;
    if cfg!(debug_assertions) {
        world.check();
    }
    Ok((world.outcome(), world.flash_state()))
}
