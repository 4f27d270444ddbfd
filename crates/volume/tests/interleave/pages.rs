//! What was promised about each page.

use std::collections::BTreeMap;
use std::ops::Range;

pub(crate) const PAGE: usize = 4096;
const SECTOR: usize = 512;

/// A file, by its place among those of the model, and a block in it; or a part of a block ([`part`]). A block
/// is changed whole by a model, or in its parts, and never by the other.
pub(crate) type Page = (usize, u64);

/// Where the parts of a page begin, and its end. No sector begins there.
const BOUNDS: [usize; 4] = [0, 992, 3008, PAGE];
/// Of a page.
pub(crate) const PARTS: u64 = BOUNDS.len() as u64 - 1;
/// A block of this number or above is a part of one.
const PART: u64 = 1 << 31;

/// A part of a page, counted from its beginning.
pub(crate) fn part((file, block): Page, number: u64) -> Page {
    assert!(number < PARTS && block < PART / PARTS, "no such part of a page");
    (file, PART + block * PARTS + number)
}

/// The bytes of its file that a page, or a part of one, takes.
pub(crate) fn extent((_, block): Page) -> Range<usize> {
    let Some(number) = block.checked_sub(PART) else {
        let start = block as usize * PAGE;
        return start..start + PAGE;
    };
    let (start, part) = ((number / PARTS) as usize * PAGE, (number % PARTS) as usize);
    start + BOUNDS[part]..start + BOUNDS[part + 1]
}

/// What a page was made, one after the other: versions, each its own; 0 is a page of zeros. One thread at a
/// time changes a page.
#[derive(Clone, Debug)]
pub(crate) struct History {
    versions: Vec<u64>,
    /// The newest change that is complete, or was read: whoever begins to read now finds nothing older.
    seen: usize,
    /// The newest change that was acknowledged as durable.
    durable: usize,
}

impl Default for History {
    fn default() -> Self {
        Self { versions: vec![0], seen: 0, durable: 0 }
    }
}

impl History {
    /// Where `version` stands in it, not before `floor`: the first place and the last.
    fn places(&self, version: u64, floor: usize) -> Option<(usize, usize)> {
        let mut places = (floor..self.versions.len()).filter(|&place| self.versions[place] == version);
        let first = places.next()?;
        Some((first, places.next_back().unwrap_or(first)))
    }
}

/// All pages that were ever changed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pages(BTreeMap<Page, History>);

/// A change of a page: its place in the page's history.
pub(crate) type Change = (Page, usize);

impl Pages {
    /// Begins to change a page. Returns the version that it gets, and the change.
    pub(crate) fn issue(&mut self, page: Page) -> (u64, Change) {
        let history = self.0.entry(page).or_default();
        let place = history.versions.len();
        history.versions.push(place as u64);
        (place as u64, (page, place))
    }

    /// Begins to turn pages of a file that were changed before into zeros, from `first` up to `end`.
    pub(crate) fn issue_zeros(&mut self, file: usize, first: u64, end: u64) -> Vec<Change> {
        let parts = PART + first * PARTS..PART + end.min(PART / PARTS) * PARTS;
        let mut changes = Vec::new();
        for range in [first..end.min(PART), parts] {
            for (page, history) in self.0.range_mut((file, range.start)..(file, range.end)) {
                changes.push((*page, history.versions.len()));
                history.versions.push(0);
            }
        }
        changes
    }

    pub(crate) fn completed(&mut self, changes: &[Change]) {
        for (page, place) in changes {
            let history = self.0.entry(*page).or_default();
            history.seen = history.seen.max(*place);
        }
    }

    pub(crate) fn acknowledged(&mut self, changes: &[Change]) {
        self.completed(changes);
        for (page, place) in changes {
            let history = self.0.entry(*page).or_default();
            history.durable = history.durable.max(*place);
        }
    }

    /// What a sync that begins now promises, of one file or of all.
    pub(crate) fn complete(&self, file: Option<usize>) -> Vec<Change> {
        let wanted = self.0.iter().filter(|((of, _), _)| file.is_none_or(|file| *of == file));
        wanted.map(|(page, history)| (*page, history.seen)).collect()
    }

    /// Before a read: nothing older is right.
    pub(crate) fn floor(&self, page: Page) -> usize {
        self.0.get(&page).map_or(0, |history| history.seen)
    }

    /// Judges what was read of a page since `floor` was noted.
    pub(crate) fn judge_read(&mut self, page: Page, floor: usize, version: u64) {
        let history = self.0.entry(page).or_default();
        let Some((first, _)) = history.places(version, floor) else {
            panic!("{page:?}: read version {version} where {floor} is the oldest right one of {history:?}");
        };
        history.seen = history.seen.max(first);
    }

    /// Judges a page that was on disk alone, unsynced, when the power failed.
    pub(crate) fn judge_torn_left(&mut self, page: Page, found: &Found) {
        let durable = self.0.entry(page).or_default().durable;
        self.judge_torn(page, durable, found);
    }

    /// Judges a page that is not whole, and may be so: each of its sectors is of a right version, none older
    /// than `floor`.
    pub(crate) fn judge_torn(&mut self, page: Page, floor: usize, found: &Found) {
        let history = self.0.entry(page).or_default();
        let right = found.iter().all(|version| history.places(*version, floor).is_some());
        assert!(
            right,
            "{page:?}: sectors of versions {found:?}, where {floor} is the oldest right one of {history:?}"
        );
    }

    /// Judges what a page holds after the power has failed. From then on it stays that.
    pub(crate) fn judge_left(&mut self, page: Page, version: u64) {
        let history = self.0.entry(page).or_default();
        let Some((_, last)) = history.places(version, history.durable) else {
            panic!("{page:?}: version {version} after the power failed, of {history:?}");
        };
        *history = History { versions: vec![history.versions[last]], seen: 0, durable: 0 };
    }

    /// All pages there are.
    pub(crate) fn all(&self) -> Vec<Page> {
        self.0.keys().copied().collect()
    }

    /// Nobody changes a page any more, and each was read: its newest version was found.
    pub(crate) fn judge_newest(&self) {
        for (page, history) in &self.0 {
            let newest = history.versions.last();
            assert!(
                history.versions.get(history.seen) == newest,
                "{page:?} is not the newest at the end: {history:?}"
            );
        }
    }
}

/// The bytes of a page, or of a part of one.
pub(crate) fn bytes_of(page: Page, version: u64) -> Vec<u8> {
    filled(page, version, extent(page).len())
}

/// So many bytes of it.
fn filled((file, block): Page, version: u64, bytes: usize) -> Vec<u8> {
    if version == 0 {
        return vec![0; bytes];
    }
    let words = [(file as u64) << 32 | block, version];
    words.map(u64::to_le_bytes).concat().repeat(bytes / 16)
}

/// What a page holds: the version of each of its sectors, all the same if it is whole.
pub(crate) type Found = Vec<u64>;

/// The versions of a page's sectors, or of what of them is in a part of one.
pub(crate) fn versions_of(page: Page, bytes: &[u8]) -> Found {
    let start = extent(page).start;
    let mut found = Vec::with_capacity(PAGE / SECTOR);
    let mut rest = bytes;
    while !rest.is_empty() {
        let at = bytes.len() - rest.len();
        let (sector, after) = rest.split_at((SECTOR - (start + at) % SECTOR).min(rest.len()));
        rest = after;
        let version = sector[8..16].iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        assert!(
            sector == filled(page, version, sector.len()),
            "{page:?}: its sector {} is torn, or another page's, or a guard",
            found.len()
        );
        found.push(version);
    }
    found
}

/// The version of a page that is whole.
pub(crate) fn whole(page: Page, found: &Found) -> u64 {
    assert!(
        found.iter().all(|version| *version == found[0]),
        "{page:?} is torn: its sectors are of versions {found:?}"
    );
    found[0]
}
