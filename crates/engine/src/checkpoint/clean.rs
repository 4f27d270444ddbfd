//! Stretches of the queue in which a drain has found nothing that is newer than on disk: the next one leaves
//! them out.
//!
//! A page becomes dirty by being appended and in no other way, so a stretch that has left staging memory and
//! has no dirty page has none until the queue comes round to its entries again. Then its positions are
//! others. So a drain costs what is dirty, and what was appended since the one before; not what the tier
//! holds.

use mezzanine_ground::region::Word;

use crate::core::Tier;
use crate::ids::Position;
use crate::planted::{self, Bug};

/// Where it is kept which stretches are clean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CleanLayout {
    words: usize,
    count: usize,
    /// Positions of a stretch: a power of two.
    positions: u64,
}

impl CleanLayout {
    pub(crate) fn compute(entries: usize, take: &mut impl FnMut(usize, usize) -> usize) -> Self {
        // A small tier has small stretches, so that there are some.
        let positions = (entries / 64).clamp(8, 1024).next_power_of_two();
        let count = entries.div_ceil(positions) + 1;
        Self { words: take(count * size_of::<Word>(), 64), count, positions: positions as u64 }
    }
}

/// What a scan has seen of the stretch that it is in.
#[derive(Default)]
pub(super) struct Watch {
    /// The stretch that it has seen all of so far, and nothing dirty in it.
    begin: Option<Position>,
}

impl Watch {
    /// A dirty page was seen.
    pub(super) fn dirty(&mut self) {
        self.begin = None;
    }
}

impl Tier {
    /// The word of the stretch that begins at a position; `None` if none does.
    fn clean_word(&self, position: Position) -> Option<(&Word, u64)> {
        let layout = &self.geometry.layout.clean;
        if position.number() % layout.positions != 0 {
            return None;
        }
        let stretch = position.number() / layout.positions;
        let words = self.region.slice::<Word>(layout.words, layout.count);
        Some((&words[(stretch % layout.count as u64) as usize], stretch + 1))
    }

    /// A scan has come to a position, all before `until` is to be seen: where it goes on, which is further on
    /// if there is nothing dirty before.
    pub(super) fn scan_goes_on_at(&self, position: Position, until: Position, watch: &mut Watch) -> Position {
        let Some((word, stretch)) = self.clean_word(position) else { return position };
        let positions = self.geometry.layout.clean.positions;
        if let Some((begun, clean)) = watch.begin.take().and_then(|begin| self.clean_word(begin)) {
            begun.set(clean);
        }
        let known = word.get() == stretch || planted::is(Bug::CleanOnceCleanForEver) && word.get() != 0;
        if known && position + positions <= until {
            return position + positions;
        }
        watch.begin = Some(position);
        position
    }

    /// Whether a stretch begins at a position: where a scan that has seen enough may rest.
    pub(super) fn stretch_begins_at(&self, position: Position) -> bool {
        self.clean_word(position).is_some()
    }
}
