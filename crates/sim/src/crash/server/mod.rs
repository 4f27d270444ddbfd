//! A database server written in C under power cuts: the tier as its processes see it, by the code of
//! `crates/ffi` that ships.
//!
//! The databases of [`super::database`] are hosts of the engine themselves. Here
//! [`mezzanine_ffi::host::Host`] is the host: it judges the tier at the start by marker, control file and
//! superblock, recovers it in memory that was used before, takes pages from several processes, checkpoints,
//! closes and gives the tier up. Files, marker and control file are simulated and lose what they lose in a
//! power cut.
//!
//! Invariants checked:
//! - `redo-promise`, `log-first`: on every page that redo needs.
//! - `versions`, `no-resurrection`: on every page that is read, and on all of them after redo. A tier that
//!   was emptied has no page.
//! - `disk-alone`: after a checkpoint where the control file says that the files lack nothing, after a
//!   shutdown that drained the tier, and after the tier was given up, disk and log are the whole database.
//! - `commits`: whatever was acknowledged is in the log.
//! - `known-tier`, `damage-noticed`: by `tamper`.
//! - `no-unprovoked-error`, `assertion`: everywhere.

mod machine;

mod scenario;

mod kept;

pub mod world;

mod running;

mod redo;

mod start;

mod errors;

mod directory;

mod tamper;

mod later;

mod life;

pub use world::World;
