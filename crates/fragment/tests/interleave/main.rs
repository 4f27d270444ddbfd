//! Threads of the real cache in thousands of orders.
//!
//! Invariants checked: a read gets, of each block, what the backing device had at some moment of the read, or
//! before a write that was not answered then, and nothing older than a read that had ended before; at the end
//! each block that is valid is the same on both devices; while a block changes on the backing device, or a
//! slot, no crash could leave a record of it that counts; the cache's whole-structure rules.
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

mod records;

mod world;

mod populations;

mod copies;

mod evictions;

mod sizes;

mod map;
