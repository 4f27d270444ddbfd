//! Restarts: what recovery reads, from the sizes that a tier computes before it starts.

use mezzanine_engine::TierConfig;
use mezzanine_engine::format::RECORD_BYTES;

use super::answers::Answers;
use super::published::Source;
use super::verdict::Ours;

/// The paper's cache, page and least read bandwidth (section 6.8).
const CACHE_BYTES: u64 = 10_000_000_000;
const PAGE_BYTES: u32 = 4096;
const READ_MB_PER_S: f64 = 400.0;

pub(super) fn recovery(_: &Source, answers: &mut Answers) {
    let config = TierConfig::for_flash_bytes(PAGE_BYTES, CACHE_BYTES);
    let geometry = config.geometry().expect("the defaults fit their flash");
    // A record for each frame; room for as many again is laid out beside them.
    let directory = (geometry.frames() * RECORD_BYTES as u64) as f64 / 1e6;
    // Invariant 9: at most two segments' worth of groups, and those that were in staging memory.
    let frames = 2 * (u64::from(config.segment_frames) + geometry.group_frames())
        + u64::from(config.staging_groups) * geometry.group_frames();
    let scanned = (frames * u64::from(PAGE_BYTES)) as f64 / 1e6;
    answers.set("directory", Ours::Value(directory));
    answers.set("scanned", Ours::Value(scanned));
    answers.set("seconds", Ours::Value((directory + scanned) / READ_MB_PER_S));
    answers.set("entry", Ours::Value(geometry.bytes_per_frame()));
}
