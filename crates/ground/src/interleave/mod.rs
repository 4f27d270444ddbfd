//! What threads share, and the places where a test lets another one run: of the engines, and of the hosts
//! around them.
//!
//! In shipped builds the types are the standard library's and a point is nothing. With the feature
//! `interleave` every access to them is preceded by a point, at which the scheduler of the crate `shuttle`
//! decides who goes on: so a test explores orders of the accesses of the real code, and each order can be
//! replayed. `shuttle` has one thread run at a time, so it finds what a wrong order of accesses does, not
//! what a weak memory order would; see the crate's README for what looks at that.
//!
//! The words of a region are made of the atomics here. A host takes what its threads share from
//! [`sync`], their beginning and end from [`thread`], and the time from [`now`], which stands still in an
//! explored order. A loop that waits calls [`rest`], and locks that are held while a device is waited for are
//! taken by [`lock`], [`shared`] and [`exclusive`]. What is counted for statistics alone need not come from
//! here: nothing depends on its order.

pub mod turns;

#[cfg(not(feature = "interleave"))]
mod plain;

#[cfg(feature = "interleave")]
mod explored;

#[cfg(feature = "interleave")]
mod locks;

#[cfg(not(feature = "interleave"))]
pub use plain::{AtomicU32, AtomicU64, sleep_at, spin, wake_at, word_point};
#[cfg(not(feature = "interleave"))]
pub use plain::{exclusive, lock, now, rest, shared, sync, thread};

#[cfg(feature = "interleave")]
pub(crate) use explored::explored_thread;
#[cfg(feature = "interleave")]
pub use explored::spin;
#[cfg(feature = "interleave")]
pub use explored::words::{AtomicU32, AtomicU64, point as word_point, sleep_at, wake_at};
#[cfg(feature = "interleave")]
pub use explored::{exclusive, explore, lock, now, over_the_engine, point, rest, shared, sync, thread};
