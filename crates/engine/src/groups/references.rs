//! Reference information that survives a crash.
//!
//! Second chances live from the reference bits of the directory, which are in memory. After a crash all pages
//! would count as not referenced until they have been looked up again ("Flash as cache extension for online
//! transactional workloads", section 6.8, Figure 14, has a slump of some 400 s). So every metadata segment
//! takes along the bits of one sixteenth of the frames, in turn: they are at most a sixteenth of the queue's
//! way round old and cost a hundredth of what the segments cost.
//!
//! They are hints: a torn or missing bitmap is ignored, and a bit never decides which version of a page is
//! valid.

use crate::config::{Design, Geometry};
use crate::core::Tier;
use crate::directory::{REFERENCED, VALID};
use crate::format::SegmentHeader;
use crate::ids::EntryNumber;
use crate::planted;

/// Most segments that together cover all frames.
pub(crate) const SHARES_MAX: u64 = 16;
/// Fewest frames of a share: those whose bits fill a block of 4 KiB.
const SHARE_FRAMES_MIN: u64 = 8 * 4096;

/// Frames whose bits one segment of a queue of `frames` frames takes along.
pub(crate) fn share_frames(frames: u64) -> u64 {
    frames.div_ceil(SHARES_MAX).max(SHARE_FRAMES_MIN).min(frames).next_multiple_of(64)
}

impl Geometry {
    /// Bytes of the bitmap at the end of a segment; 0 for designs that do not use references.
    pub(crate) fn share_bytes(&self) -> usize {
        if self.config().design == Design::FaceGsc { share_frames(self.frames_max()) as usize / 8 } else { 0 }
    }

    /// Segments that together cover all frames.
    pub(crate) fn shares(&self) -> u64 {
        self.frames_max().div_ceil(share_frames(self.frames_max()))
    }

    /// The frames of the share that goes with a segment: the first and their number.
    pub(crate) fn share_of(&self, number: u64) -> (u64, u64) {
        let share = share_frames(self.frames_max());
        let first = (number % self.shares()) * share;
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
    /// recovery. Returns how many pages are referenced by it.
    pub(crate) fn adopt_references(&self, header: &SegmentHeader, bits: &[u8]) -> u64 {
        let directory = self.directory();
        let mut referenced = 0;
        for index in 0..u64::from(header.share_frames) {
            let entry = EntryNumber(header.share_first.wrapping_add(index as u32));
            if u64::from(entry.0) >= self.geometry.entries() || directory.state(entry) & VALID == 0 {
                continue;
            }
            let id = directory.id(entry);
            let shard = directory.lock(directory.hashed(&id), self.owner);
            if self.position_of(entry) >= header.share_rear {
                continue;
            }
            if bits[index as usize / 8] & (1 << (index % 8)) != 0 {
                shard.set_flags(entry, REFERENCED);
                planted::inside("recovery: one page's reference adopted");
                referenced += 1;
            } else {
                shard.clear_flags(entry, REFERENCED);
            }
        }
        referenced
    }
}
