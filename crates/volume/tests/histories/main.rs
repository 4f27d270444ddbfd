//! A file, its sidecar and a flash device from different moments of one life, or from the lives of two copies
//! (invariant 10).
//!
//! Invariants checked: whatever is put together is refused, or the file has what was synced last by either;
//! what belongs together is never refused. One exception: older flash of the same opening, since which
//! nothing was staged out, may not be told; the file then has what it had then.

#![allow(clippy::unwrap_used, unreachable_pub)]

#[path = "../common/mod.rs"]
mod common;

mod machine;

mod life;

mod mixes;

mod disks;

mod files;
