//! A yardstick: pages enter when they leave the host's memory; a hand passes over them and takes one that was
//! not referenced since it passed last. Second chances as FaCE-GSC gives them, but in place.

use mezzanine_ground::replacement::clock::Config;

use super::InPlace;

pub(crate) const CLOCK: InPlace = InPlace::of(|frames, _| Ok(Config::new(frames)?.into()));
