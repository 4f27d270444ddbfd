//! Worlds in which something was wrong once, with what it was.
//!
//! A seed replays its story exactly in the version that it was found in; since then the draws have changed
//! and it is one world like others. The stories stay, because they say what a crash can do to a volume.

#![allow(clippy::unwrap_used)]

use mezzanine_sim::crash::volume::{Scenario, World};
use mezzanine_sim::crash::{CUTS_PER_WORLD, Kind, Outcome, Terms, server};

/// Seed, and what happened. All were found in version 0.1.0 before its release.
const STORIES: [(u64, &str); 53] = [
    (
        161_803_406_326,
        "not a bug of the volume: an opening after a crash changed nothing and was closed, which leaves flash as it was; the checker took it for closed \
          in order, where damage is always noticed",
    ),
    (161_803_414_066, "the same"),
    (
        20_261_880,
        "a superblock was written, the write reported an error, and the copy was whole in the device's cache; the next attempt took it for the better \
          one and wrote over the other, and a cut tore both",
    ),
    (
        20_261_168,
        "an opening that had not started met a flash device that could not be written, and refused a change that the disk could have taken",
    ),
    (
        8_314_462_740_877,
        "not a bug of the volume: the checker wrote a page in the middle of a job, of which it believed that there is room for it, and waited for \
          ever for that very job: pages with a second chance had filled staging memory meanwhile",
    ),
    (
        1_602_176_705_526,
        "not a bug of the volume: the opening of an older flash device drew the very nonce of the newest opening, as the checker gave both the same \
          seed, and was taken for that one",
    ),
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
    (178, "two guarded files had changed places, and each was taken for the other"),
    (101_767, "the same after a cut inside a drained close: another file's guard was read as a file's head"),
    (
        101_046,
        "a file and its sidecar were put back as they were before the last restart; the tier's table did not say yet that they \
          had been used since, and pages that had left the tier meanwhile were old",
    ),
    (
        100_039_183,
        "the only group that named a file rotted before another one said that it had been durable: it was refused as if the tier \
          were an older copy, though the group still lay there",
    ),
    (
        100_063_673,
        "the same with its summary gone, so that nothing tells the rotten tier from an older copy: the refusal did not say that it \
          may be either",
    ),
    (
        100_049_471,
        "after a failed sync of the disk a volume whose tier had been given up was drained: the second sync found nothing to do, and \
          what the first had lost was acknowledged",
    ),
    (
        300_000_415,
        "a tier in sync mode through knew files by numbers that nobody had any more; it was switched to durable, and waited for them: \
          no file could be changed again",
    ),
    (
        300_000_421,
        "power failed in the closing of a tier in sync mode through, after its superblock and before the sidecars: opened as durable, \
          it knew files whose sidecars did not, and refused them",
    ),
    (
        200_135_240,
        "a file shorter than its guard was taken for a stretched one at every opening, because its sidecar still had the guard: it \
          was cut to the length in it, though it had grown and been synced since",
    ),
    (
        200_091_234,
        "not a bug of the volume: the world asked a copy of the superblock whether `through` was possible, and that copy was \
          unreadable that once; the newer copy refused, and the world did not expect it",
    ),
    (
        600_035_546,
        "one thread synced the disk while another one's write to it was under way, and took the mark that the file has to be synced \
          away: the frames left flash, and the power cut took the pages from the disk",
    ),
    (
        600_066_898,
        "flash failed and the power with it, while the pages without a durable copy on flash went to disk; two openings later the \
          file was attached warm, and a clean copy that its sidecar distrusts answered",
    ),
    (
        600_074_720,
        "flash failed before a file's first change; the sidecar of the file that was given back still named its guard, and the file, \
          shorter than that, was cut to its old length at the next attachment",
    ),
    (
        700_103_361,
        "the simulator's own: a disk stayed broken in a cut to a length inside a unit, and with each operation that failed after that \
          the model doubled what the unit at the end may contain: more than the machine has memory for",
    ),
    (
        20_378_942,
        "the tier had let a clean page go, and no durable group stated the front that passed it; then the page was discarded, the process \
          ended before the tombstone, and the copy answered again, until its frame left and the page was zeros",
    ),
    (
        20_399_500,
        "flash failed in a discard of two bytes, so their zeros went to disk; the discard was acknowledged before a sync of it",
    ),
    (
        945_983_307,
        "a cut tore one copy of the superblock; in the next opening the other one could not be read for a moment, was taken for damaged as \
          well and was overwritten first, and that write failed: no copy was whole, and the tier was refused",
    ),
    (
        5_000_311,
        "flash could not be read from one moment of a recovery on: the records of the segment that names the last group with its host metadata were \
          missing, the table of files was taken for empty, and its files were refused as those of a newer tier",
    ),
    (700_289, "the same, and a tier whose metadata segment could not be read was refused as damaged"),
    (
        915,
        "not a bug of the volume: flash took a group and did not keep it, stage-out had written the page that it held since the sidecar named the version before, \
          and the power failed: a disk that is ahead of its sidecar, with a tier that knows nothing newer, is refused as one that was put back",
    ),
    (
        1515,
        "not a bug of the volume: a tier of 29 frames, which carries one lost page, met the second one in another bad sector before the first was written anew, \
          and took no more changes",
    ),
    (
        945_993_896,
        "a queue that was to shrink had room for one more summary before the cut; the table of files went into it, the group behind it \
          stayed empty, and closing the tier waited for that one: an assertion failed",
    ),
    (
        714_048_034,
        "pages in place: of two metadata segments that a recovery had written a failed flush left the second; the summaries that stood in \
          for the first were overwritten in the next life, and the tier was refused as damaged",
    ),
    (714_113_671, "the same, in the next opening"),
    (714_123_825, "the same in a tier that had been closed"),
    (
        714_110_191,
        "the same where the segments' slots had come round: the second of the new ones was torn, and lay as a gap among old ones that \
          nobody needs; all newer ones counted as torn",
    ),
    (
        714_097_556,
        "pages written in place: an opening after a crash forgot all clean pages, and nothing moved the front, behind which alone their \
          homes become free: no page came in any more",
    ),
    (714_150_817, "the same in a tier of 20 frames"),
    (
        40_716_301_005,
        "not a bug of the volume: the power failed between the cut of the disk and the sidecar that names what is left, and the group with \
          the new length rotted: a disk that is ahead of its sidecar, with a tier that knows nothing newer, as in 915",
    ),
    (
        40_716_325_445,
        "not a bug of the volume: a replacement that failed left it without a tier, the next one wiped the spare device and failed, too, and \
          then a disk failed: the world took the tier for in use, because writing had ended before the last attempt",
    ),
    (
        40_716_400_932,
        "not a bug of the volume: a queue of 55 frames, which must have 54, has no room for the name of a third lost page beside two others, \
          and took no more changes",
    ),
    (
        137_036_130_750,
        "not a bug of the volume: a process was killed, the flash device noted, and the next opening cut off: what was not synced was gone, and \
          the older device, which had it, was put back within the same opening: it read as it had when it was noted",
    ),
    (
        223_611_798_647,
        "the records of a segment were torn that was not the newest, and its groups stood in for it, until the front stood within it and \
          the frames of its first groups were others': the tier was refused as damaged",
    ),
    (
        7_182_834_519,
        "a sector of one copy of the superblock was bad for good; an opening's first change wrote there and left the other copy to the next flush, and \
         the power failed: what could be read was older than the file",
    ),
    (
        1_123_597_305,
        "the power failed between the two copies of an opening's superblock, and the newer one could not be read for a while: the other one looked \
         older than the file, and the advice was to format the tier",
    ),
];

/// As above, in worlds whose devices report errors.
const STORIES_OF_ERRORS: [(u64, &str); 11] = [
    (
        20_408_094,
        "not a bug of the volume: a sidecar failed in a replacement, the next attempt formatted the same spare device and failed, and so           neither device was one that all files knew; every page was on disk",
    ),
    (
        845,
        "flash failed inside a discard: the tier was given up and the file detached, and then the discard made the sidecar \
          say `dirty` again: the file was refused as changed",
    ),
    (
        1264,
        "flash failed before the tier had durably forgotten an older number of a file: the sidecar of the detached file did \
          not know that number any more, and for ever the tier waited for a file that nobody has",
    ),
    (
        1293,
        "the guard could not be written, or only in part; closing then wrote a sidecar that knew of no guard, and the head of \
          the file was gone",
    ),
    (
        1063,
        "a tier of clean pages was given up and the disk written past it; then the disk failed too, and with the volume \
          read-only reads found the old pages in the tier again",
    ),
    (
        842,
        "the replacement of a sidecar failed and was in place all the same: it said `dirty`, a drained close did not take that \
          back, and the tier no longer knew the file",
    ),
    (
        282,
        "power failed while a failed flash device was being given up: an older clean copy answered after that, until its frame \
          left and the disk had a newer page",
    ),
    (
        1650,
        "the same with a guarded file: its first bytes came from the sidecar and the rest of their sector from the disk",
    ),
    (
        138,
        "a write to flash failed in a drain: the tier was given up in order, every page was on disk, and the drain failed all the same",
    ),
    (923, "the same with a failed flush and a tier of clean pages"),
    (
        1133,
        "one copy of the superblock was torn by a failed write and the other could not be read: called damaged, though the \
          next reading found it whole",
    ),
];

#[test]
fn worlds_with_errors_that_were_wrong_once_are_right() {
    for (seed, story) in STORIES_OF_ERRORS {
        let scenario = Scenario { errors: true, ..Scenario::draw(seed) };
        let outcome = World::of(scenario).live(CUTS_PER_WORLD);
        assert!(outcome.violation.is_none(), "{story}:\n{:?}", outcome.violation);
    }
}

/// As above, in worlds with several runners.
const STORIES_OF_RUNNERS: [(u64, &str); 5] = [
    (
        6_674_300_135_024,
        "not a bug of the volume: an older flash device that was put back had a torn group, and was called damaged, which it was as well; the \
          checker knew that answer where histories are put together and not here",
    ),
    (
        20_365_166,
        "not a bug of the volume: one runner gave the tier up while another asked for another size of it, and was told that there is none",
    ),
    (
        31_000_444,
        "a flush of flash failed, and another runner's write, which flash refused for that, was reported first: the tier was given up, and \
          writing was not ended as it is when the flush is reported first",
    ),
    (
        1250,
        "not a bug of the volume: the power failed in the closing of a volume whose disk had everything, so it was closed without, and the \
          world took the tier for drained",
    ),
    (
        645,
        "not a bug of the volume: the cut that was planned for an opening came in the first job of a runner, and the world, which planned the \
          next one then, turned the power on again",
    ),
];

#[test]
fn worlds_with_runners_that_were_wrong_once_are_right() {
    for (seed, story) in STORIES_OF_RUNNERS {
        let outcome = World::of_runners(seed, &Terms::default()).live(CUTS_PER_WORLD);
        assert!(outcome.violation.is_none(), "{story}:\n{:?}", outcome.violation);
    }
}

/// A part of a world: the seed, the cuts, what is left out, what alone happens, and what it was.
type Part = (u64, u64, &'static str, &'static str, &'static str);

/// Leads these lives again, in which the power still fails and nothing is wrong any more.
fn are_right(kind: Kind, parts: &[Part]) -> Vec<Outcome> {
    let lives = parts.iter().map(|(seed, cuts, without, only, story)| {
        let without = without.split(',').map(|name| name.parse().unwrap()).collect();
        let terms = Terms { without, only: Some(only.parse().unwrap()), ..Terms::default() };
        let outcome = kind.run(*seed, *cuts, &terms);
        assert!(outcome.violation.is_none(), "{story}:\n{:?}", outcome.violation);
        assert!(outcome.cuts > 0, "of seed {seed} nothing is left: the excerpt is of another version");
        outcome
    });
    lives.collect()
}

/// What happened in a part of a world with several runners.
const PARTS_OF_RUNNERS: [Part; 1] = [(
    271_828_321_871,
    2,
    "guards,later,runners,ages",
    "5:7+28+47+53,6:5+33+54+57!396.2,8:",
    "a page was staged out while its file was current, and written past the tier then; the next sidecar that says `dirty` named what \
      stage-out had written, and the file was refused as older than its sidecar",
)];

#[test]
fn parts_of_worlds_with_runners_that_were_wrong_once_are_right() {
    are_right(Kind::Runners, &PARTS_OF_RUNNERS);
}

/// As above, in worlds of servers.
const STORIES_OF_SERVERS: [(u64, &str); 10] = [
    (
        141_421_366_335,
        "not a bug of the server: a tier with a page that was lost before could not be written and was given up, and the checker did not know that \
          in the place of that page on disk is what no server accepts, as it had said",
    ),
    (
        21,
        "a start in sync mode durable with a new tier had the power fail between the control file, which then said that the files lack \
          pages, and the marker: no start found the tier that was meant",
    ),
    (
        1478,
        "the same between the control file and the superblock, where a drained tier was emptied because the server had gone on without it",
    ),
    (
        263,
        "a server's first start had the power fail in the first superblock: half of one was refused as something of others",
    ),
    (
        900_432,
        "one flipped bit in the number of the format in one superblock made the tier one of a newer format, though the other was whole",
    ),
    (
        20_347_388,
        "not a bug of the host: harm to flash had taken the newest group, which looks like a torn write, and the next checkpoint brought the \
          version before to disk; the world excused that where a page was read, and not where disks are compared",
    ),
    (20_374_833, "the same"),
    (
        40_716_318_317,
        "both copies of a superblock were lost after flash had said that they were durable; the tier was to be emptied, and took the metadata \
          segments of the epoch that nobody knew for those of its next one: refused as damaged, with all on disk and in the log",
    ),
    (
        271_828_255_203,
        "a start that made a tier was cut off, and the next one made it; the directory of between was put back, whose marker names that tier as \
          one to be made, and the start refused it as another directory's",
    ),
    (
        314_159_342_219,
        "not a bug of the server: it went on without a tier whose device failed in its start, and the directory of before that was put back: \
          the tier, which had not changed, was rightly adopted",
    ),
];

#[test]
fn worlds_of_servers_that_were_wrong_once_are_right() {
    for (seed, story) in STORIES_OF_SERVERS {
        let outcome = server::World::run(seed, CUTS_PER_WORLD);
        assert!(outcome.violation.is_none(), "{story}:\n{:?}", outcome.violation);
    }
}

/// As above, in worlds of databases.
const STORIES_OF_DATABASES: [(u64, &str); 2] = [
    (
        602_214_197_404,
        "pages were written again while they were to leave, until the list of those was full of what they had left there: looking for a job named \
      victims and put them back, without end",
    ),
    (
        7_182_841_172,
        "not a bug of the engine: a flash device of an earlier moment with the same redo pointer was accepted, and had not the pages that stage-out \
         had torn on disk since; a server tells such devices apart by its sessions, which this database does not draw",
    ),
];

#[test]
fn worlds_of_databases_that_were_wrong_once_are_right() {
    for (seed, story) in STORIES_OF_DATABASES {
        let outcome = Kind::Database.run(seed, CUTS_PER_WORLD, &Terms::default());
        assert!(outcome.violation.is_none(), "{story}:\n{:?}", outcome.violation);
    }
}

/// As above, in worlds of histories that are put together.
const STORIES_OF_HISTORIES: [(u64, &str); 3] = [
    (
        915_965_601_071,
        "not a bug of the volume: flash answered no read any more before the first change of an opening, and the tier was given up, as disk had \
          everything; the table of what an error may cost did not say that",
    ),
    (
        662_607_053_259,
        "not a bug of the volume: the power failed in a discard, which changes the disk before flash says so, and the next opening read zeros; the \
      file and sidecar of before the discard, which nobody had acknowledged, were accepted beside flash that knew nothing of it",
    ),
    (
        6_674_300_112_484,
        "not a bug of the volume: a crash took an unsynced extension back in the midst of what was written there, and the checker, which took the disk \
      for longer than it was, held that the tier had something that disk had not",
    ),
];

#[test]
fn worlds_of_histories_that_were_wrong_once_are_right() {
    for (seed, story) in STORIES_OF_HISTORIES {
        let outcome = Kind::Histories.run(seed, CUTS_PER_WORLD, &Terms::default());
        assert!(outcome.violation.is_none(), "{story}:\n{:?}", outcome.violation);
    }
}

/// The same of such a world.
const PARTS_OF_HISTORIES: [Part; 3] = [
    (
        77_001_153_786,
        4,
        "ages,guards",
        "4:6,18:!28.7,19:,21:,23:,24:",
        "flash that nobody needed any more came beside older files, which it took; a power cut came between the first and the second, and from then \
      on it was in use, and what it had known of the second was taken for needed",
    ),
    (
        20_261_218_307,
        3,
        "guards,ahead",
        "29:88+179+193+223+226+232+255+267-269!269.2,42:!2.2",
        "not a bug of the volume: a write went to disk alone, since the opening took no pages yet, after the flash device had been copied; that copy \
      beside the newest file, whose sidecar had learned of no group since, read that write, and the checker knew the moments that it had kept, \
      and not those between them",
    ),
    (
        20_261_218_307,
        3,
        "ahead",
        "29:88+179+193+223+225+232+236+242-243+267-269!269.2,42:!2.2",
        "not a bug of the volume: the same with a header guard on the file, whose head is in the sidecar; the checker looked for it under the guard",
    ),
];

#[test]
fn parts_of_worlds_of_histories_that_were_wrong_once_are_right() {
    let lives = are_right(Kind::Histories, &PARTS_OF_HISTORIES);
    assert!(lives.iter().all(|life| life.coverage.mixes > 0), "nothing was put together");
}

/// The same of a world of a volume.
const PARTS: [Part; 3] = [
    (
        123_400_014_871,
        4,
        "fingerprints,later",
        "40:!33.5,49:14!32.2,52:1-2,53:",
        "not a bug of the volume: a replacement failed, and so did the flush by which the old device said that nobody needs it; it was taken by what it \
      had not flushed, a power cut took that back, and nobody decided anew between the two devices",
    ),
    (
        123_400_098_877,
        3,
        "files,guards,fingerprints,later",
        "24:,31:,63:!0.2,64:165+181+206,65:,67:",
        "the same",
    ),
    (
        20_270_107_823,
        3,
        "later",
        "4:,6:30,7:!4.1,16:3!3.1,17:",
        "a flash device was replaced, its file drained from the next one, and the power failed in a second replacement, by the first device, of which \
      nobody needed anything; that knew a file of this name, and refused the one without a sidecar",
    ),
];

#[test]
fn parts_of_worlds_that_were_wrong_once_are_right() {
    are_right(Kind::Volume, &PARTS);
}

#[test]
fn worlds_that_were_wrong_once_are_right() {
    for (seed, story) in STORIES {
        let outcome = World::run(seed, CUTS_PER_WORLD);
        assert!(outcome.violation.is_none(), "{story}:\n{:?}", outcome.violation);
    }
}
