//! What a device was asked to do, and what a power cut may leave of it.
//!
//! A [`Recorder`] stands before a device and writes to a file what was written, given up and flushed, and
//! what its client says meanwhile (*marks*: "commit 17 was acknowledged"). A [`History`] reads that back, and
//! makes of any [`Cut`] the contents that a drive with a volatile cache may have after it: everything that
//! was flushed, and of the rest any part. [`Search`] draws cuts and asks whoever knows the database whether
//! it is in order there; where it is not, [`explain`] shrinks the cut to the writes that have to be lost for
//! it, and says between which of them a flush is absent.
//!
//! Invariants:
//! 1. What is answered is recorded before: a request that is recorded behind a flush was not answered when
//!    that flush began.
//! 2. A write is durable behind a flush that began when the write was recorded, or behind its own answer if
//!    it was written through. Nothing else is durable.
//! 3. What a recording that ends in the middle (its program was killed) has before its end is read as it is.
#![forbid(unsafe_code)]

mod cut;

mod explain;

mod history;

mod log;

mod recorder;

mod search;

pub use cut::{Cut, Fate};
pub use explain::{Absent, Explanation, explain};
pub use history::{Event, History, Kind, ReadError};
pub use recorder::Recorder;
pub use search::{Search, Verdict};

/// Bytes that a power cut leaves whole or absent.
pub const SECTOR_BYTES: u64 = 512;
