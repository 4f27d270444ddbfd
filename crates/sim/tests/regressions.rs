//! Worlds in which something was wrong once, with what it was.
//!
//! A seed replays its story exactly in the version that it was found in; since then the draws have changed and it is one world
//! like others. The stories stay, because they say what a crash can do to a volume.

use mezzanine_sim::crash::{CUTS_PER_WORLD, World};

/// Seed, and what happened. All were found in version 0.1.0 before its release.
const STORIES: [(u64, &str); 12] = [
    (
        15,
        "power failed after the tier's table knew a new file and before its sidecar was written: nobody could attach it again",
    ),
    (
        2,
        "after the death of the process alone a file was read with bytes that a power cut then took back: attaching must flush",
    ),
    (60, "a drain was acknowledged and the length of the file was not durable: its last page was cut off"),
    (
        72,
        "a drain wrote a page to disk that was not yet durable on flash; after the cut an older clean copy answered, until its \
          frame left and the page jumped to the version that was never acknowledged",
    ),
    (
        141,
        "pages past the end from before a crash came back, because the file was opened and closed in between without a change",
    ),
    (
        267,
        "a discard zeroed the disk under a clean page of the tier; after the cut the page was read, then turned to zeros",
    ),
    (
        115,
        "the queue came round before any metadata segment was written: the scan began at a frame that was used again",
    ),
    (
        264,
        "a sync during a drain found no room, and stage-out, which makes room, was held still by the drain",
    ),
    (
        102_040,
        "a cut tore the second copy of the superblock; the next opening began with the first, and a second cut tore that",
    ),
    (
        100_230,
        "a drain saved the head of a page past the end of the file, and it came back when the file grew",
    ),
    (103_252, "a guard longer than its file: the cut kept the length and lost the bytes"),
    (905, "a discard was torn by the disk: the page was zeros and old contents by turns"),
];

#[test]
fn worlds_that_were_wrong_once_are_right() {
    for (seed, story) in STORIES {
        let outcome = World::run(seed, CUTS_PER_WORLD);
        assert!(outcome.violation.is_none(), "{story}:\n{:?}", outcome.violation);
    }
}
