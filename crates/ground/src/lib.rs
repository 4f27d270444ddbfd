//! What the cache engines of Mezzanine stand on.
//!
//! An engine keeps its state in one [`Region`](region::Region) of memory, which processes may share: words,
//! [locks](lock) that tell when their owner died, [`counters`] that cost nothing to speak of, and the
//! structures of [replacement policies](replacement) over plain frame numbers. What is to outlive the memory
//! is bytes, written and read by one list of [`fields`] for each structure. Hosts take what their threads
//! share from [`interleave`], so that tests explore the orders in which those go on; [`failpoint`]s are where
//! tests have a process die, and [`planted`] faults are rules that they take out. What is drawn from a seed,
//! anywhere, is drawn with [`random`].
//!
//! Nothing here knows what is cached: no page, no tier, no device. Nothing here does I/O or maps memory; what
//! waits, and what begins threads for hosts, are the standard library's types behind [`interleave`].

pub mod config;
pub mod counters;
pub mod failpoint;
pub mod fields;
pub mod interleave;
pub mod lock;
#[cfg(all(target_arch = "x86_64", not(miri), not(feature = "interleave")))]
mod page_copy;
pub mod planted;
pub mod random;
pub mod region;
pub mod replacement;
