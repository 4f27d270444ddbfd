//! How much room a metadata segment of the queue has, and of how many frames it takes the reference bits.
//!
//! Both follow from `segment_frames` alone, so what the segments take for each frame is the same at every
//! size: 72 bytes for records and 1 for reference bits, and a handful of spare segments besides.

/// Segments that take a page's reference bit along while the queue goes round once.
const TIMES_A_ROUND: u64 = 8;
/// In tiers of versions 2 and 3: most segments that together cover all frames, and the fewest frames of one,
/// those whose bits fill a block of 4 KiB.
const SIXTEENTHS: (u64, u64) = (16, 8 * 4096);

/// How metadata segments are laid out on flash. A tier keeps what it was formatted with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SegmentLayout {
    /// Each segment takes along the reference bits of eight times as many frames as it stands for, in turn,
    /// and has room for half a tombstone for each of its frames.
    #[default]
    Windows,
    /// Of tiers that were formatted in version 2 or 3 of the format: each segment takes along the bits of a
    /// sixteenth of all frames, which are more for each page the larger the queue is, and has room for a
    /// tombstone for each of its frames.
    Sixteenths,
}

impl SegmentLayout {
    /// What the superblock says.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Sixteenths => 0,
            Self::Windows => 1,
        }
    }

    pub(crate) const fn from_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::Sixteenths),
            1 => Some(Self::Windows),
            _ => None,
        }
    }

    /// Records that a segment of so many frames has room for, besides those of one group.
    pub(crate) const fn records(self, segment_frames: u64) -> u64 {
        match self {
            Self::Sixteenths => 2 * segment_frames,
            // Pages and groups are as many records as they are frames at most; the rest is for tombstones.
            Self::Windows => segment_frames + segment_frames / 2,
        }
    }

    /// Frames whose reference bits one segment takes along, of a queue of `frames` frames.
    pub(crate) fn share_frames(self, frames: u64, segment_frames: u64) -> u64 {
        let share = match self {
            Self::Sixteenths => frames.div_ceil(SIXTEENTHS.0).max(SIXTEENTHS.1),
            Self::Windows => TIMES_A_ROUND * segment_frames,
        };
        share.min(frames).next_multiple_of(64)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use crate::config::TierConfig;

    /// From a million frames up metadata segments are at most 1 % of flash with pages of 8 KiB, and 2 % with
    /// pages of 4 KiB, and the larger the tier, the less.
    #[test]
    fn segments_take_the_same_for_each_page_at_every_size() {
        for (page_size, most) in [(4096, 0.02), (8192, 0.01)] {
            let mut last = most;
            for shift in [20, 21, 23, 26, 29] {
                let geometry = TierConfig::new(page_size, 1 << shift).geometry().unwrap();
                let share = geometry.metadata_bytes() as f64 / geometry.flash_bytes() as f64;
                assert!(share <= last, "{page_size}, 2^{shift} frames: {share}, and {last} before");
                last = share;
                let bits = geometry.share_bytes() as u64 * 8;
                assert_eq!(bits, 8 * geometry.segment_frames);
            }
        }
    }
}
