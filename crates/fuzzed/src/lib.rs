//! What is done with arbitrary bytes: one function per kind of input, called by the fuzz targets in `fuzz/`
//! with the bytes that the fuzzer found interesting, and by the tests of this crate with the bytes of seeds.
//!
//! Invariants checked: bytes from a device or from a client are input, so nothing panics, hangs or takes
//! memory out of proportion, whatever they are; what is accepted is encoded again to the same; a tier that
//! is accepted satisfies every structural rule, recovers the same a second time, can be used, and keeps
//! what it acknowledges afterwards.
//!
//! A function returns whether it accepted the bytes, so that tests can tell that both happen.
#![forbid(unsafe_code)]

mod patches;

mod structures;

mod host;

mod image;

mod volume;

mod trace;

mod nbd;

pub use image::image;
pub use nbd::nbd;
pub use structures::{group, region, segment, superblock};
pub use trace::trace;
pub use volume::{sidecar, volume};
