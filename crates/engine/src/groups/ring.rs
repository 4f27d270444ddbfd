//! Where positions of the queue lie on flash.
//!
//! The frames in use are a ring. A position's frame is `(position + shift) % frames`; the shift is 0 until
//! the ring has been made larger or smaller (see `resize`), and then such that everything in the queue stayed
//! where it was.

use crate::ids::{EntryNumber, Position};
/// The frames in use, and where position 0 would lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ring {
    pub(crate) frames: u64,
    pub(crate) shift: u64,
}

impl Ring {
    /// As one word, so that both values are read at once.
    pub(crate) fn packed(self) -> u64 {
        self.shift << 32 | self.frames
    }

    #[inline]
    pub(crate) fn from_packed(word: u64) -> Self {
        Self { frames: word & u64::from(u32::MAX), shift: word >> 32 }
    }

    /// The ring of `frames` frames in which `position` lies on `frame`.
    pub(crate) fn with(frames: u64, position: Position, frame: u64) -> Self {
        Self { frames, shift: (frame + frames - position.number() % frames) % frames }
    }

    #[inline]
    pub(crate) fn entry_of(self, position: Position) -> EntryNumber {
        EntryNumber(((position.number() + self.shift) % self.frames) as u32)
    }

    /// Where the revolution of the position before `end` begins: the number of the position of its frame 0.
    /// For an `end` that is not the first position. A number, since the ring may begin before all positions.
    pub(crate) fn lap(self, end: Position) -> u64 {
        // Positions before the shift had frame 0 before there were any.
        (end - 1).number().wrapping_sub(self.entry_of(end - 1).0.into())
    }

    /// The largest position below `end` whose entry is `entry`, given the lap of `end`.
    #[inline]
    pub(crate) fn last_position(self, entry: EntryNumber, end: Position, lap: u64) -> Position {
        let position = lap.wrapping_add(entry.0.into());
        let later = position >= end.number();
        Position::from_number(if later { position.wrapping_sub(self.frames) } else { position })
    }

    /// Splits `frames` frames from `position` on at the end of the ring: (position, frames) runs.
    pub(crate) fn runs(self, position: Position, frames: u64) -> [(Position, u64); 2] {
        let to_end = self.frames - u64::from(self.entry_of(position).0);
        let first = frames.min(to_end);
        [(position, first), (position + first, frames - first)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_and_frames_agree_both_ways() {
        for frames in [1, 2, 7, 100] {
            for shift in 0..frames {
                let ring = Ring { frames, shift };
                assert_eq!(Ring::from_packed(ring.packed()), ring);
                for position in (0..3 * frames).map(Position::from_number) {
                    let entry = ring.entry_of(position);
                    for end in (1..=frames).map(|more| position + more) {
                        assert_eq!(ring.last_position(entry, end, ring.lap(end)), position);
                    }
                    assert_eq!(Ring::with(frames, position, entry.0.into()), ring);
                }
            }
        }
    }

    #[test]
    fn a_larger_or_smaller_ring_leaves_everything_where_it_is() {
        let ring = Ring { frames: 100, shift: 0 };
        let rear = Position::from_number(700);
        let larger = Ring::with(150, rear, 100);
        let smaller = Ring::with(60, rear + 60, 0);
        for back in 1..=100 {
            assert_eq!(larger.entry_of(rear - back), ring.entry_of(rear - back));
        }
        for back in 1..=60 {
            assert_eq!(smaller.entry_of(rear + 60 - back), ring.entry_of(rear + 60 - back));
        }
    }

    #[test]
    fn runs_end_where_the_ring_does() {
        let ring = Ring { frames: 10, shift: 3 };
        let [four, seven, twelve] = [4, 7, 12].map(Position::from_number);
        assert_eq!(ring.runs(four, 5), [(four, 3), (seven, 2)]);
        assert_eq!(ring.runs(seven, 5), [(seven, 5), (twelve, 0)]);
    }
}
