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

/// Whether figures of caches are within 15 % of each other, as figures that are near are.
fn alike<const N: usize>(
    what: &str,
    moved: [&Vec<Traffic>; N],
    pass: usize,
    figure: fn(&Traffic) -> f64,
) -> Part {
    let of = moved.map(|passes| figure(&passes[pass]));
    let (least, most) = (of.into_iter().fold(f64::MAX, f64::min), of.into_iter().fold(0.0, f64::max));
    let list: Vec<String> = of.iter().map(|mib| format!("{mib:.1}")).collect();
    Part { said: format!("{what}, time {}: {} MiB", pass + 1, list.join(", ")), holds: most <= 1.15 * least }
}

pub(in crate::experiment) fn figure_1(_: &Source, answers: &mut Answers) {
    let (reads, writes) = (moved(0.0), moved(1.0));
    let share = |traffic: &Traffic| 100.0 * traffic.cache_read / ASKED_FOR_MIB as f64;
    answers.set("bcache", Ours::Value(share(&reads[1][PASSES - 1])));
    let last = PASSES - 1;
    let written_to_card = |traffic: &Traffic| traffic.cache_written;
    answers.set(
        "others",
        Ours::Shape(vec![
            alike("reads, read from the volume", reads.each_ref(), 0, |traffic| traffic.backing_read),
            // That bcache brings in a fifth less is the difference that the paper found.
            alike("reads, written to the card by the other two", [&reads[0], &reads[2]], 0, written_to_card),
            alike("writes, written to the volume", writes.each_ref(), 0, |traffic| traffic.backing_written),
            alike("writes, written to the card", writes.each_ref(), 0, written_to_card),
            alike("writes, written to the volume", writes.each_ref(), last, |traffic| {
                traffic.backing_written
            }),
            alike("writes, written to the card", writes.each_ref(), last, written_to_card),
        ]),
    );
}
