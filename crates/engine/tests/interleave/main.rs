//! Threads of the real engine in thousands of orders (invariant 15 of the list of what a tier must keep: read
//! fill, write, stage-out and invalidation in any order never leave a stale page).
//!
//! Invariants checked: a reader never sees an older version after a newer one; nothing that is read is torn
//! or another page's; what a finished sync covers survives a power cut; at the end every page has its newest
//! version, also after a power cut; the tier's whole-structure rules.
#![allow(clippy::unwrap_used, missing_docs)]

mod orders;

use mezzanine_engine::planted;

/// Of an order of a model here.
const COST: u64 = 1;

mod schedules;

mod world;

mod host;

mod readers;

mod offers;

mod given_up;

mod second_chances;

mod workers;

mod ranges;

mod syncs;

mod owners;

mod drains;

mod resizes;

mod in_place;

mod slots;
