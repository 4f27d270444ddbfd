//! Which stretches of the queue have records of a database's pages, of a relation's, of a file's: so that a
//! range that is invalidated costs what is there of it, and not a pass over the directory.
//!
//! Page ids that begin with the same bytes are an *object*, for each of a few lengths: with PostgreSQL's ids
//! a database, one tablespace of it, a relation; with a volume's a file. (For PostgreSQL all forks of a
//! relation are one object, and what is asked of a fork goes through what there is of its siblings.) Objects
//! share places of a table by their hashes, which costs time and nothing else.
//!
//! An *appearance* says that in a *stretch* of positions, [`STRETCH`] of them, records of some object were
//! appended. Those of one object are a chain, the newest first, and all of them are a ring in the order in
//! which they came: the oldest make room for the newest.
//!
//! ```text
//!   objects            appearances, by number            the queue
//!   +--------+         ...  61  62  63  64  65           stretch 9   stretch 10   stretch 11
//!   | newest |---> 65        ^       ^       |            +---------+------------+-----------
//!   +--------+               '-------'-------'            | a b a c | b b b b c  | a a ...
//!                      stretch 9: a  b  c   10: b  c   11: a
//! ```
//!
//! What holds (invariant 14):
//! 1. Before a record of a page is given a place, its object has an appearance there, at each length, and the
//!    entry of its position has the id. Both under the control lock. So whoever takes that lock later finds
//!    every page of the object that was appended before, linked or not, along the chain: at the position of
//!    the record, or at one that follows.
//! 2. Stretches along a chain go back, and appearances are never taken out but by newer ones. Whoever comes
//!    to one that is gone knows: its number is too old. It looks at every position of what the ring forgot,
//!    or counts the object as present.

use mezzanine_ground::region::{Word, shared};

use crate::core::Tier;
use crate::ids::{IdRange, PageId, Position, mixed};
use crate::planted::{self, Bug};

/// Positions of a stretch: few, so that looking through one for a single page is cheap; not fewer, so that an
/// object that is busy has one appearance for many pages.
const STRETCH: u64 = 64;
/// Entries of the directory for which there is an appearance in the ring.
const ENTRIES_PER_APPEARANCE: usize = 8;
/// Entries of the directory for which there is an object in the table.
const ENTRIES_PER_OBJECT: usize = 128;
/// Beyond so many the table would leave the processor's caches.
const OBJECTS_MAX: usize = 1 << 16;
/// Bytes at the beginning of an id that name an object of the table. None name the object of all pages.
const LENGTHS: [usize; 3] = [4, 8, 12];
/// The longest.
const LENGTH_MAX: usize = LENGTHS[LENGTHS.len() - 1];

/// How many appearances there were, and the stretch that the last record was appended in. Changes under the
/// control lock.
#[repr(C, align(64))]
pub(crate) struct Appearing {
    /// Appearances so far: the number of the newest.
    count: Word,
    /// One more than the stretch that is being filled; 0 before there is one.
    stretch: Word,
    /// Appearances before that stretch.
    before_stretch: Word,
    /// How the id began that was noted last in it.
    last: [Word; 2],
    /// The object of all pages.
    all: Object,
}

/// An object, or several that share a hash.
#[repr(C)]
pub(crate) struct Object {
    /// The number of its newest appearance; 0 before there is one. Changes under the control lock.
    newest: Word,
    /// How often a range of it was invalidated.
    changes: Word,
}

/// An appearance: its stretch, in 32 bits, and above them how many numbers before it the object's one before
/// is, 0 if there is none.
#[repr(transparent)]
pub(crate) struct Appearance(Word);

shared!(Appearing, Object, Appearance);

/// How many objects and appearances there is room for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AppearancesLayout {
    appearing: usize,
    objects: usize,
    ring: usize,
    object_count: usize,
    ring_len: usize,
}

impl AppearancesLayout {
    pub(crate) fn compute(entries: usize, take: &mut impl FnMut(usize, usize) -> usize) -> Self {
        let object_count = (entries / ENTRIES_PER_OBJECT).clamp(16, OBJECTS_MAX);
        let ring_len = (entries / ENTRIES_PER_APPEARANCE).max(16);
        Self {
            appearing: take(size_of::<Appearing>(), 64),
            objects: take(object_count * size_of::<Object>(), 64),
            ring: take(ring_len * size_of::<Appearance>(), 64),
            object_count,
            ring_len,
        }
    }
}

/// What a walk along an object's appearances comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    /// A stretch, by its first position, and the number of the appearance before.
    Stretch(Position, u64),
    /// The ring has forgotten it, as everything at positions before this one.
    Forgotten(Position),
}

/// The first [`LENGTH_MAX`] bytes of an id.
#[inline]
fn beginning_of(id: &PageId) -> [u64; 2] {
    let ([first, second], _) = id.words();
    [u64::from_le(first), u64::from_le(second) & 0xFFFF_FFFF]
}

/// Where in a table of so many the object is that shares so many bytes of a beginning.
#[inline(always)]
fn object_at([first, second]: [u64; 2], length: usize, objects: usize) -> usize {
    let (first, second) = match length {
        4 => (first & 0xFFFF_FFFF, 0),
        8 => (first, 0),
        _ => (first, second),
    };
    let hash = mixed(first, second ^ length as u64);
    // The high half picks the place by multiplication, so that their number may be any.
    (((hash >> 32) * objects as u64) >> 32) as usize
}

impl Tier {
    fn appearing(&self) -> &Appearing {
        self.region.value(self.geometry.layout.appearances.appearing)
    }

    fn ring_of_appearances(&self) -> &[Appearance] {
        let layout = &self.geometry.layout.appearances;
        self.region.slice(layout.ring, layout.ring_len)
    }

    fn objects(&self) -> &[Object] {
        let layout = &self.geometry.layout.appearances;
        self.region.slice(layout.objects, layout.object_count)
    }

    fn object(&self, id: &PageId, length: usize) -> &Object {
        let objects = self.objects();
        &objects[object_at(beginning_of(id), length, objects.len())]
    }

    /// The smallest object that has all of a range.
    fn object_of(&self, range: &IdRange) -> &Object {
        let shared = range.shared_beginning();
        let length = LENGTHS.into_iter().rev().find(|&length| length <= shared);
        length.map_or(&self.appearing().all, |length| self.object(&range.start, length))
    }

    /// A record of the page is about to be appended at this position: later than all before. Under the
    /// control lock, or at recovery.
    #[inline(always)]
    pub(crate) fn note_appearance(&self, id: &PageId, position: Position) {
        let appearing = self.appearing();
        let beginning = beginning_of(id);
        let last = [appearing.last[0].get(), appearing.last[1].get()];
        let same_stretch = appearing.stretch.get() == position.number() / STRETCH + 1;
        // Most often it is a page of the same relation as before.
        if !same_stretch || last != beginning {
            self.note_another(beginning, position);
        }
    }

    #[inline(never)]
    fn note_another(&self, beginning: [u64; 2], position: Position) {
        let appearing = self.appearing();
        let stretch = position.number() / STRETCH;
        if appearing.stretch.get() != stretch + 1 {
            assert!(appearing.stretch.get() <= stretch, "invariant 14: records are appended in order");
            appearing.stretch.set(stretch + 1);
            appearing.before_stretch.set(appearing.count.get());
        }
        let before = appearing.before_stretch.get();
        let objects = self.objects();
        let of_table = LENGTHS.map(|length| &objects[object_at(beginning, length, objects.len())]);
        for object in of_table.into_iter().chain([&appearing.all]) {
            if object.newest.get() <= before {
                self.appear(object, stretch);
            }
        }
        appearing.last[0].set(beginning[0]);
        appearing.last[1].set(beginning[1]);
    }

    /// The object appears in the stretch that is being filled.
    fn appear(&self, object: &Object, stretch: u64) {
        let appearing = self.appearing();
        let ring = self.ring_of_appearances();
        let number = appearing.count.get() + 1;
        let newest = object.newest.get();
        let back = if newest == 0 { 0 } else { (number - newest).min(u64::from(u32::MAX)) };
        // First the number, by which whoever is reading what lay here finds that it is gone.
        appearing.count.set(number);
        ring[(number % ring.len() as u64) as usize].0.set(back << 32 | stretch & u64::from(u32::MAX));
        object.newest.set(number);
    }

    /// The appearance of this number, which there was.
    fn appearance(&self, number: u64) -> Found {
        let appearing = self.appearing();
        let ring = self.ring_of_appearances();
        let at = |number: u64| ring[(number % ring.len() as u64) as usize].0.get();
        // No stretch is later than this one, and none that is remembered is 2^32 stretches before.
        let whole = |word: u64| {
            let last = appearing.stretch.get() - 1;
            last - (last.wrapping_sub(word) & u64::from(u32::MAX))
        };
        let kept = |number: u64| number + ring.len() as u64 > appearing.count.get();
        let word = at(number);
        let stretch = whole(word);
        if kept(number) || planted::is(Bug::ForgottenAppearancesBelieved) {
            let back = word >> 32;
            let before = if back == 0 { 0 } else { number.saturating_sub(back) };
            return Found::Stretch(Position::from_number(stretch * STRETCH), before);
        }
        loop {
            let oldest = appearing.count.get() + 1 - ring.len() as u64;
            let stretch = whole(at(oldest));
            if kept(oldest) {
                return Found::Forgotten(Position::from_number((stretch + 1) * STRETCH));
            }
        }
    }

    /// All records of pages of the object, and of others maybe, lie before this position.
    fn end_of(&self, object: &Object) -> Position {
        match object.newest.get() {
            0 => Position::ZERO,
            newest => match self.appearance(newest) {
                Found::Stretch(begin, _) => begin + STRETCH,
                Found::Forgotten(end) => end,
            },
        }
    }

    /// Whether a crash may find pages of the range, linked or not: there is a record of one that the durable
    /// front has not passed. With a slot directory it is slots that say so.
    pub(crate) fn may_have_any_of(&self, range: &IdRange) -> bool {
        let front = || self.control().passed.durable_front();
        let end = || self.end_of(self.object_of(range));
        // The front first: a page lies behind it then, and if it moves on, its object has a newer appearance.
        let seen = if planted::is(Bug::FrontReadLast) { Err(end()) } else { Ok(front()) };
        planted::outside("range invalidation: front read, end not");
        let (front, end) = match seen {
            Ok(front) => (front, end()),
            Err(end) => (front(), end),
        };
        self.geometry.slot_directory().is_some() || end > front
    }

    /// The same of one page.
    pub(crate) fn may_have(&self, id: &PageId) -> bool {
        let front = self.control().passed.durable_front();
        self.end_of(self.object(id, LENGTH_MAX)) > front
    }

    /// Counts that pages of the range are being invalidated, whether or not the tier has any: offers of what
    /// was read from disk before are stale.
    pub(crate) fn range_changed(&self, range: &IdRange) {
        if !planted::is(Bug::RangeUncounted) {
            self.object_of(range).changes.count(1);
        }
    }

    /// How often ranges were invalidated that the page may lie in. Lengths that it shares with others count
    /// for all of them.
    pub(crate) fn range_changes(&self, id: &PageId) -> u32 {
        let of = |length| self.object(id, length).changes.get() as u32;
        let all = self.appearing().all.changes.get() as u32;
        LENGTHS.into_iter().map(of).fold(all, u32::wrapping_add)
    }

    /// Shows `visit` every page of the range that was appended before the call, whether or not it is linked,
    /// and where: the id of the entry at a position that the front has not passed. Pages that were superseded
    /// come as well, and one page comes as often as it was appended. It ends when `visit` says so, with true.
    ///
    /// What is appended meanwhile may be missed. So may a page that moves, if the caller does not keep it
    /// from moving.
    pub(crate) fn any_appended_of(
        &self,
        range: &IdRange,
        mut visit: impl FnMut(PageId, Position) -> bool,
    ) -> bool {
        let control = self.control();
        let Some((first, last)) = range.first_and_last() else { return false };
        let front = control.ends.front();
        let directory = self.directory();
        let mut look = |begin: Position, end: Position| {
            // The front after the rear, so that no more lies between than there are frames.
            let end = end.min(control.ends.rear());
            let begin = begin.max(control.ends.front());
            let ring = self.ring();
            let runs = ring.runs(begin, end.distance_from(begin).unwrap_or(0));
            runs.into_iter().any(|(begin, frames)| {
                let entry = ring.entry_of(begin);
                (0..frames).any(|step| {
                    let id = directory.id(entry.after(step));
                    // The head of a group has no id; taken for one, it is no page's.
                    first <= id && id <= last && visit(id, begin + step)
                })
            })
        };
        let mut number = self.object_of(range).newest.get();
        while number > 0 {
            match self.appearance(number) {
                Found::Stretch(begin, _) if begin + STRETCH <= front => return false,
                Found::Stretch(begin, before) => {
                    if look(begin, begin + STRETCH) {
                        return true;
                    }
                    number = before;
                }
                Found::Forgotten(end) => return look(front, end),
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// The places in a table of 8,192 of the objects that such ids have.
    fn places(ids: impl Iterator<Item = PageId>, length: usize) -> usize {
        ids.map(|id| object_at(beginning_of(&id), length, 8192)).collect::<HashSet<usize>>().len()
    }

    #[test]
    fn files_and_relations_have_places_of_their_own() {
        // Of 1,024 that are thrown at random, 63 fall on others.
        let least = 1024 - 100;
        assert!(places((1..=1024).map(|file| PageId::volume(file, 0)), 8) > least);
        assert!(places((1..=1024).map(|file| PageId::volume(file, 7)), 12) > least);
        let relation = |number: u32| PageId::relation(5, 1663, 16_384 + number, 0, 3);
        assert!(places((0..1024).map(relation), 12) > least);
        assert!(places((0..1024).map(|number| PageId::relation(number, 1663, 1, 0, 0)), 4) > least);
    }

    #[test]
    fn a_range_has_the_object_that_all_its_ids_share() {
        let shared = |range: IdRange| range.shared_beginning();
        assert_eq!(shared(IdRange::database(5)), 4);
        assert_eq!(shared(IdRange::relation(5, 1663, 16_384)), 12);
        assert_eq!(shared(IdRange::fork(5, 1663, 16_384, 1)), 16);
        assert_eq!(shared(IdRange::blocks_from(7, 3)), 8);
        assert_eq!(shared(IdRange { start: PageId::volume(0, 0), count: 1, shift: 159 }), 0);
        let last = PageId::from_bytes([0xFF; 20]);
        assert_eq!(IdRange { start: last, count: 1, shift: 0 }.first_and_last(), Some((last, last)));
        assert_eq!(IdRange { start: last, count: 0, shift: 0 }.first_and_last(), None);
        assert_eq!(
            IdRange::blocks(7, 1, 1).first_and_last().map(|(_, last)| last < PageId::volume(7, 2)),
            Some(true)
        );
    }
}
