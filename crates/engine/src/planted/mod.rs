//! Faults that can be switched on to prove that the tests would notice them, and points where a process can
//! be killed.
//!
//! Each switch takes out one rule behind a durability invariant, at the line where the rule stands. They
//! exist only with the feature `planted`, which no shipped build turns on; without it every switch is a
//! constant `false` and every point nothing. The modules list them by subject. Where each is found, and after
//! how many power cuts, is in `docs/planted-bugs.md`.

#[macro_use]
mod reads;
#[macro_use]
mod durability;
#[macro_use]
mod checkpoints;
#[macro_use]
mod reuse;
#[macro_use]
mod resurrection;
#[macro_use]
mod versions;
#[macro_use]
mod torn_groups;
#[macro_use]
mod recovery;
#[macro_use]
mod copies;
#[macro_use]
mod clusters;
#[macro_use]
mod failures;
#[macro_use]
mod sqlite;
#[macro_use]
mod silence;
#[macro_use]
mod bad_frames;
#[macro_use]
mod refusals;
#[macro_use]
mod losses;
#[macro_use]
mod deaths;
#[macro_use]
mod zones;

mezzanine_ground::planted_bugs! {
    /// A rule of the engine, or of the volume, that a test can take out.
    parts: reads, durability, checkpoints, reuse, resurrection, versions, torn_groups, recovery, copies,
    clusters, failures, sqlite, silence, bad_frames, refusals, losses, deaths, zones
}

#[cfg(not(feature = "planted"))]
pub(crate) use mezzanine_ground::failpoint::inside;
pub use mezzanine_ground::failpoint::outside;
#[cfg(feature = "planted")]
pub use mezzanine_ground::failpoint::{at_points, inside};
