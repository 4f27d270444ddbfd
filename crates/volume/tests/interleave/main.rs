//! Threads on the real volume in many orders: its runners of jobs, those that read, write and sync, and an
//! operator who truncates a file, changes the mode, the size of the tier or its device, attaches files or
//! closes the volume meanwhile. Every request to a device is a point as well, and the power may fail at any
//! of them.
//!
//! Invariants checked: a reader never sees an older version after a newer one, nor one that nobody wrote; at
//! the end every page has its newest version; after the power has failed each has one between the last that a
//! sync has acknowledged and the last issued, and keeps it when the volume is opened once more; the
//! whole-structure rules of the tier; nobody waits for ever.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "../../../engine/tests/interleave/orders.rs"]
mod orders;

use mezzanine_engine::planted;

/// What an order of a model takes, in orders of the engine's models.
const COST: u64 = 2;

#[path = "../../../engine/tests/interleave/schedules.rs"]
mod schedules;

mod device;

mod pages;

mod world;

mod left;

mod threads;

mod reads;

mod parts;

mod syncs;

mod truncates;

mod discards;

mod guards;

mod switches;

mod stops;

mod drains;

mod resizes;

mod replaces;

mod failures;

mod flushes;

mod disks;

mod attaches;

mod closes;
