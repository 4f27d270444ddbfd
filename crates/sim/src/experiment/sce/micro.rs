//! The same 100 MiB of random requests four times (section 2 of the SCE paper, Figure 1).

use super::super::answers::Answers;
use super::super::published::Source;
use super::super::verdict::{Ours, Part};
use super::bed::FLASHCACHE;
use crate::timed::block::{BlockCache, BlockSetup, Traffic, Writes, run_passes};

const PASSES: usize = 4;
const ASKED_FOR_MIB: usize = 100;
/// In blocks of 4 KiB.
const REQUESTS: usize = ASKED_FOR_MIB << 8;
const MIB: u64 = 1 << 20;
/// flashcache, bcache, EnhanceIO.
const CACHES: [BlockCache; 3] =
    [FLASHCACHE, BlockCache::Bcache(Writes::Through), BlockCache::EnhanceIo(Writes::Through)];

/// Passes of each cache. Volume and card have a hundredth of the bed's size: what is asked for fits either
/// way.
fn moved(write_share: f64) -> [Vec<Traffic>; 3] {
    CACHES.map(|cache| {
        let setup = BlockSetup {
            cache,
            volume_bytes: 1600 * MIB,
            cache_bytes: 2000 * MIB,
            request_bytes: 4096,
            write_share,
            ..BlockSetup::default()
        };
        run_passes(&setup, PASSES, REQUESTS).expect("the passes can be run")
    })
}

/// Whether figures of the three caches are within 15 % of each other, as figures that are near are.
fn alike(what: &str, moved: &[Vec<Traffic>; 3], pass: usize, figure: fn(&Traffic) -> f64) -> Part {
    let of = [0, 1, 2].map(|cache| figure(&moved[cache][pass]));
    let (least, most) = (of.into_iter().fold(f64::MAX, f64::min), of.into_iter().fold(0.0, f64::max));
    Part {
        said: format!("{what}, time {}: {:.1}, {:.1} and {:.1} MiB", pass + 1, of[0], of[1], of[2]),
        holds: most <= 1.15 * least,
    }
}

pub(in crate::experiment) fn figure_1(_: &Source, answers: &mut Answers) {
    let (reads, writes) = (moved(0.0), moved(1.0));
    let share = |traffic: &Traffic| 100.0 * traffic.cache_read / ASKED_FOR_MIB as f64;
    answers.set("bcache", Ours::Value(share(&reads[1][PASSES - 1])));
    let last = PASSES - 1;
    answers.set(
        "others",
        Ours::Shape(vec![
            alike("reads, read from the volume", &reads, 0, |traffic| traffic.backing_read),
            alike("reads, written to the card", &reads, 0, |traffic| traffic.cache_written),
            alike("writes, written to the volume", &writes, 0, |traffic| traffic.backing_written),
            alike("writes, written to the card", &writes, 0, |traffic| traffic.cache_written),
            alike("writes, written to the volume", &writes, last, |traffic| traffic.backing_written),
            alike("writes, written to the card", &writes, last, |traffic| traffic.cache_written),
        ]),
    );
}
