//! Reference information that survives a crash.
//!
//! Second chances live from the reference bits of the directory, which are in memory. After a crash all pages
//! would count as not referenced until they have been looked up again ("Flash as cache extension for online
//! transactional workloads", section 6.8, Figure 14, has a slump of some 400 s). So every metadata segment
//! takes along the bits of a share of the frames, in turn: of eight times as many as the segment stands for,
//! whatever the size of the queue. So each page's bit is written eight times on its way from rear to front,
//! which is a byte a frame, and is at most an eighth of that way old. What a crash loses are the second
//! chances of pages that were referenced since for the first time.
//!
//! They are hints: a torn or missing bitmap is ignored, and a bit never decides which version of a page is
//! valid.

use crate::config::{Design, Geometry};
use crate::core::Tier;
use crate::directory::{REFERENCED, VALID};
use crate::format::SegmentHeader;
use crate::ids::EntryNumber;
use crate::planted::{self, Bug};

impl Geometry {
    /// Bytes of the bitmap at the end of a segment; 0 for designs that do not use references.
    pub(crate) fn share_bytes(&self) -> usize {
        if self.config().design == Design::FaceGsc { self.share_frames() as usize / 8 } else { 0 }
    }

    /// Frames of a share: those whose bits one segment takes along.
    fn share_frames(&self) -> u64 {
        self.config().segments.share_frames(self.frames_max(), self.segment_frames)
    }

    /// Segments that together cover all frames.
    pub(crate) fn shares(&self) -> u64 {
        self.frames_max().div_ceil(self.share_frames())
    }

    /// The frames of the share that goes with a segment: the first and their number.
    pub(crate) fn share_of(&self, number: u64) -> (u64, u64) {
        let share = self.share_frames();
        let turn = if planted::is(Bug::ReferencesOfOneShare) { 0 } else { number % self.shares() };
        let first = turn * share;
        let frames = if self.share_bytes() == 0 { 0 } else { self.frames_max() - first };
        (first, frames.min(share))
    }
}

impl Tier {
    /// The reference bits of `frames` frames from `first` on.
    pub(crate) fn reference_bits(&self, first: u64, frames: u64) -> Vec<u8> {
        let directory = self.directory();
        let mut bits = vec![0u8; frames.div_ceil(8) as usize];
        for index in 0..frames {
            let state = directory.state(EntryNumber((first + index) as u32));
            if state & (VALID | REFERENCED) == VALID | REFERENCED {
                bits[index as usize / 8] |= 1 << (index % 8);
            }
        }
        planted::outside("references: bits collected");
        bits
    }

    /// Gives pages the bits that a segment took along, unless their frames were overwritten since. At
    /// recovery, the oldest segment first. `referenced` counts the pages that are referenced by it.
    pub(crate) fn adopt_references(&self, header: &SegmentHeader, bits: &[u8], referenced: &mut u64) {
        let directory = self.directory();
        for index in 0..u64::from(header.share_frames) {
            let bit = bits[index as usize / 8] & (1 << (index % 8)) != 0;
            let entry = EntryNumber(header.share_first.wrapping_add(index as u32));
            if u64::from(entry.0) >= self.geometry.entries() {
                continue;
            }
            let state = directory.state(entry);
            let as_it_is = bit == (state & REFERENCED != 0);
            if state & VALID == 0 || as_it_is || self.position_of(entry) >= header.share_rear {
                continue;
            }
            let id = directory.id(entry);
            let shard = directory.lock(directory.hashed(&id), self.owner);
            if bit {
                shard.set_flags(entry, REFERENCED);
                planted::inside("recovery: one page's reference adopted");
                *referenced += 1;
            } else {
                shard.clear_flags(entry, REFERENCED);
                *referenced -= 1;
            }
        }
    }
}
