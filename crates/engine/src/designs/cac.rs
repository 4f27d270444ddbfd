//! Cost-adjusted caching (X. Liu and K. Salem, "Hybrid storage management for database systems", VLDB 2013),
//! as far as its idea goes: what a page saves while it is in flash decides how long it stays.
//!
//! - Pages enter when they leave the host's memory, clean ones and dirty ones; each has one copy, in place.
//! - Greedy-Dual weighs what a read from flash saves, and for a dirty page what a write to flash saves as
//!   well, so that dirty pages stay longer. A page that a drain has made clean goes on counting as dirty
//!   until it is written again or leaves.
//! - A dirty page is written to disk when it leaves.
//!
//! What of CAC this is and what not is in docs/decisions/0011-cac-and-tac.md. The savings are the policy's
//! defaults.

use mezzanine_ground::replacement::greedy_dual::Config;

use super::InPlace;

pub(crate) const CAC: InPlace = InPlace::of(|frames, _| Ok(Config::new(frames)?.into()));
