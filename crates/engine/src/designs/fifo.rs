//! A yardstick: pages enter when they leave the host's memory, and leave in the order in which they came.
//! FaCE-Basic's order with one version of each page, written in place: what FaCE gains by appending shows
//! beside it.

use mezzanine_ground::replacement::fifo::Config;

use super::InPlace;

pub(crate) const FIFO: InPlace = InPlace::of(|frames, _| Ok(Config::new(frames)?.into()));
