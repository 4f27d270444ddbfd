//! Rules whose absence shows only in a situation made by hand: each is tested with the rule in and with the
//! rule out, and only the second may go wrong.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "../common/mod.rs"]
mod common;

mod jobs;

mod appearances;
mod bad_frames;
mod bad_segments;
mod drains;
mod fronts;
mod host_metadata;
mod known_end;
mod leaving;
mod lost_pages;
mod older_layout;
mod owners;
mod parts;
mod read_ahead;
mod recovery;
mod references;
mod refused;
mod resizes;
mod segments;
mod slots;
mod staging;
mod superblocks;

use common::Host;
use mezzanine_engine::format::SUMMARY_MAGIC;
use mezzanine_engine::{Design, PageId, SyncMode, TierConfig};

pub(crate) fn pairs() -> TierConfig {
    let mut config = TierConfig::new(4096, 512);
    (config.group_pages, config.survivors_max, config.staging_groups) = (2, 0, 8);
    config.design = Design::FaceGr;
    config
}

/// Of a tier that is filled to its end: no room is kept for the names of lost pages, which only a tier in
/// `durable` has.
pub(crate) fn filled() -> TierConfig {
    TierConfig { sync_mode: SyncMode::Drained, ..pairs() }
}

pub(crate) fn id(block: u64) -> PageId {
    PageId::volume(1, block)
}

/// Byte offset of the summary of the group with this sequence number.
pub(crate) fn summary(host: &Host, sequence: u64) -> usize {
    let frames = host.flash.0.chunks_exact(4096);
    let is = |frame: &[u8]| frame[..8] == SUMMARY_MAGIC && frame[48..56] == sequence.to_le_bytes();
    frames.enumerate().find(|(_, frame)| is(frame)).unwrap().0 * 4096
}
