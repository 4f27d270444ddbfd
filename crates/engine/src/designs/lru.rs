//! A yardstick: pages enter when they leave the host's memory, and the one leaves that was not referenced for
//! the longest time. What FaCE would be if it followed hits instead of the order of arrival, at the price of
//! writing at random.

use mezzanine_ground::replacement::lru::Config;

use super::InPlace;

pub(crate) const LRU: InPlace = InPlace::of(|frames, _| Ok(Config::new(frames)?.into()));
