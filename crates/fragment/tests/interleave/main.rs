//! Threads of the real cache in thousands of orders.
//!
//! Invariants checked: a read gets, of each block, what the backing device had at some moment of the read; at
//! the end each block that is valid is the same on both devices; the cache's whole-structure rules.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "../../../engine/tests/interleave/orders.rs"]
mod orders;

use mezzanine_fragment::planted;

/// Of an order of a model here.
const COST: u64 = 1;

#[path = "../../../engine/tests/interleave/schedules.rs"]
mod schedules;

#[path = "../world/history.rs"]
mod history;

mod world;

mod populations;

mod copies;

mod evictions;
