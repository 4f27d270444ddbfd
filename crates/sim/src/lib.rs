//! The tier in a world where time, devices and scheduling are simulated, all from one seed.
//!
//! [`crash`] drives what ships over devices whose power fails anywhere, and checks what is found afterwards
//! against a model that shares no code with it: files on a volume, the engine alone under a database with a
//! log and a redo pointer, and the host that ships for PostgreSQL, with its processes, its marker and its
//! memory. [`policy`] runs a design's replacement alone on a trace, for its hit ratio. [`timed`] runs the
//! engine under a database's clients and buffer pool, over modelled devices, for throughput and latency.
//! [`three_tier`] runs caches that know the inside of their flash, which are not the engine's.
//! [`experiment`] compares what comes out with what was published.
//!
//! *Architecture invariant:* nothing here reimplements what it tests. Devices are replaced, the code above
//! them is not.

#![deny(unsafe_code)]

pub mod crash;

mod hollow;

pub mod policy;

pub mod timed;

pub mod three_tier;

pub mod experiment;

/// A hash of the sources that a result of [`policy`] or [`timed`] depends on, for results that are kept: with
/// equal hashes, versions and settings results are equal. Versions of libraries and of the compiler are not
/// in it.
pub const SOURCES: &str = env!("MEZZANINE_SIM_CODE");
