//! A block is erased no earlier than what it held was given up (T4).
//!
//! Drives that have just started have few erased blocks, so a plane that has been idle collects before it can
//! program. It did so from when on it was idle. Once the block had the newest page of the map, which was
//! given up only when the next one, on another plane, would be in flash: a power cut between found neither,
//! and the page before that one named places that were others' by then. A durable drive died of it in one of
//! 600,000 such cuts; drives without a durable cache lost what was flushed in one of 100,000. The seeds are
//! of lives that it happened to.
#![allow(clippy::unwrap_used)]

use drives::{Ranges, SMALL, drawn};
use lives::{Life, SHORT, Trust, first_wrong_of};
use mezzanine_ssd::CacheKind;

mod drives;
mod lives;

/// Drives that are full.
const FULL: Ranges = Ranges { left_out_one_in: 1000, whole_blocks_one_in: 0, ..SMALL };

const LIVES: [(CacheKind, u64); 3] =
    [(CacheKind::Durable, 15_626), (CacheKind::Volatile, 291), (CacheKind::None, 95)];

fn cuts() -> u64 {
    std::env::var("MEZZANINE_CUTS").map_or(20_000, |text| text.parse().expect("a number")) / 10
}

#[test]
fn nothing_is_lost_to_an_erase_before_its_time() {
    for (kind, seed) in LIVES {
        let new = |seed| Life::new(seed, Trust::of(kind), |random| drawn(random, &FULL, kind));
        assert_eq!(first_wrong_of(&SHORT, seed, cuts(), new), None, "{kind:?}");
    }
}

#[cfg(feature = "planted")]
#[test]
fn an_erase_before_its_time_is_noticed_by_what_is_lost() {
    for (kind, seed) in LIVES {
        let new = |seed| {
            let mut life = Life::new(seed, Trust::of(kind), |random| drawn(random, &FULL, kind));
            life.recorder.plant(Some(mezzanine_ssd::power::PlantedFault::ErasedTooEarly));
            life
        };
        let wrong = first_wrong_of(&SHORT, seed, 60, new);
        println!("{kind:?}, {wrong:?}");
        assert!(wrong.is_some(), "{kind:?}, seed {seed}: an erase before its time went unnoticed");
    }
}
