//! Places of a medium that went bad, and stay so.

use std::ops::Range;

/// What a read of a bad place finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bad {
    /// An error (EIO), whatever is written there. A read that covers such a place fails as a whole.
    Unreadable,
    /// An error until the place is written again, whole: the drive gives such a sector another place of the
    /// medium.
    UnreadableUntilWritten,
    /// Other bytes than were written, whatever they were, and no error.
    Garbled,
}

/// The bad places of one device: byte ranges that do not overlap, in ascending order.
#[derive(Debug, Default, Clone)]
pub(super) struct BadPlaces {
    places: Vec<(Range<u64>, Bad)>,
}

impl BadPlaces {
    pub(super) fn add(&mut self, range: Range<u64>, bad: Bad) {
        self.remove(&range, |_| true);
        self.places.push((range, bad));
        self.places.sort_by_key(|(range, _)| range.start);
    }

    pub(super) fn clear(&mut self) {
        self.places.clear();
    }

    /// Whether a read of this range is an error.
    pub(super) fn fails(&self, range: &Range<u64>) -> bool {
        self.within(range).any(|(_, bad)| bad != Bad::Garbled)
    }

    /// Garbles bytes that were read from `offset` on.
    pub(super) fn garble(&self, offset: u64, bytes: &mut [u8]) {
        let whole = offset..offset + bytes.len() as u64;
        for (part, _) in self.within(&whole).filter(|(_, bad)| *bad == Bad::Garbled) {
            for byte in &mut bytes[(part.start - offset) as usize..(part.end - offset) as usize] {
                *byte = !*byte;
            }
        }
    }

    /// A range was written.
    pub(super) fn written(&mut self, range: &Range<u64>) {
        if !self.places.is_empty() {
            self.remove(range, |bad| bad == Bad::UnreadableUntilWritten);
        }
    }

    fn within<'s>(&'s self, range: &'s Range<u64>) -> impl Iterator<Item = (Range<u64>, Bad)> + 's {
        let parts = self
            .places
            .iter()
            .map(|(place, bad)| (place.start.max(range.start)..place.end.min(range.end), *bad));
        parts.filter(|(part, _)| !part.is_empty())
    }

    /// Takes a range out of the places of some kinds.
    fn remove(&mut self, range: &Range<u64>, kind: impl Fn(Bad) -> bool) {
        let mut left = Vec::with_capacity(self.places.len() + 1);
        for (place, bad) in self.places.drain(..) {
            if !kind(bad) {
                left.push((place, bad));
                continue;
            }
            for part in [place.start..place.end.min(range.start), place.start.max(range.end)..place.end] {
                if !part.is_empty() {
                    left.push((part, bad));
                }
            }
        }
        self.places = left;
    }
}
