//! Hosts that are killed, and caches that are warm afterwards.
//!
//! Invariants checked after every crash: every block that the cache has is the one that its volume's own
//! device has; what is read through the cache is what that device gives; a cache begins empty where nothing
//! vouches for its map. `power` kills a host in this process at any instant, with the power of its devices or
//! without; `kill` kills a process with signal 9 on files; in `hang` the cache device does not answer; in
//! `stopped` nobody looks whether it does; in `resize` the cache gets another size, as it does in `power` all
//! the while.
#![allow(clippy::unwrap_used, missing_docs)]

mod hang;
mod held;
mod kill;
mod life;
mod power;
mod resize;
mod stopped;
