//! A database under power cuts: a buffer pool, a log and a redo pointer over the page engine that ships.
//!
//! A [`volume`](super::volume) has nothing above it that could repeat a change. A database has a log, so it
//! relies on less and on other things: a page may come back old after a crash, but never older than the redo
//! pointer of the last completed checkpoint promises, and never newer than the durable log. [`life`] says
//! what is checked, and when.
//!
//! *Architecture invariant:* the database here is a host of the engine like any other, with a pool of pages,
//! a log and a control file; what it expects after a crash ([`history`]) is worked out from the log alone and
//! shares no code with the engine.

pub mod places;

pub mod contents;

pub mod log;

pub mod history;

pub mod machine;

pub mod scenario;

pub(crate) mod pool;

pub(crate) mod logging;

pub mod world;

mod server;

mod reading;

mod jobs;

mod checkpoint;

mod drops;

mod operations;

mod online;

mod redo;

mod recovery;

mod swaps;

mod damage;

mod errors;

mod giving_up;

pub(crate) mod checkers;

pub(crate) mod relied;

pub mod life;

pub mod exhaustive;

pub use scenario::Scenario;
pub use world::World;
