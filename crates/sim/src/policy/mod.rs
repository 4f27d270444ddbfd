//! A design's replacement alone: which requests of a trace find their page, and nothing of devices, writes to
//! disk or time.
//!
//! The policies are the engine's own: those of [`mezzanine_ground::replacement`], and for the FaCE designs
//! the shipped tier with its queue. What they are given here is a cache of so many frames that takes in every
//! page that it misses, or of those that are read the ones that return. A request is a read or a write of one
//! page. Pages have small numbers, so that no loop has to hash anything: `mezzanine_trace::Dense` gives them
//! out.
//!
//! A [`Setting`] is a design with its frames and parameters. [`Cache`] runs one that writes in place,
//! [`Queue`] one that appends, [`Distances`] LRU with all numbers of frames at once, and [`Curve`] whatever
//! mixture of them a miss-ratio curve needs.

mod setting;

mod counts;

mod cache;
mod distances;
mod queue;

mod curve;

mod prod3;

pub use cache::Cache;
pub use counts::{Access, Counts, PAGES_MAX};
pub use curve::Curve;
pub use distances::Distances;
pub use prod3::prod3;
pub use queue::Queue;
pub use setting::{Design, Setting};
