//! What is looked at, and when. Each checker knows the model and the devices, never the tier.

pub mod damage;
pub mod disk;
pub mod later;
pub mod mixes;
pub mod pages;
pub mod pairing;
pub mod recovery;
pub mod sidecars;
