//! The volatile cache: which writes a power cut may still undo, and the decision at the cut.
//!
//! There is one image, the live one. Every unflushed change keeps the bytes that it replaced, and a power cut
//! takes back what it does not keep, newest first. So a flush forgets a list, a reset copies nothing, and a
//! cut costs what was unflushed.
//!
//! A sector (512 bytes) that survives one write hides everything older on that sector: what a sector holds
//! after a cut is always something it held at some moment since the flush, whatever its neighbours hold.

use mezzanine_ground::random::Random;

use super::image::Image;
use super::window::{Fate, Survival, Unflushed};

/// The largest unit in bytes that a power cut leaves whole, unless a device promises more: smaller than any
/// page, so that every page can be torn.
pub const SECTOR_BYTES: u64 = 512;

/// One change that is not durable yet.
#[derive(Debug, Clone, Copy)]
struct Change {
    /// Which change of the device it is, counted from its making.
    number: u64,
    offset: u64,
    len: u64,
    /// Where in the arena the replaced bytes begin.
    saved_at: usize,
    len_before: u64,
    len_after: u64,
}

impl Change {
    fn resizes(&self) -> bool {
        self.len_before != self.len_after
    }

    fn shortens(&self) -> bool {
        self.len_after < self.len_before
    }
}

/// What a power cut did to the unflushed changes of one device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CutReport {
    /// Changes that survived whole.
    pub kept: u64,
    /// Changes that vanished.
    pub lost: u64,
    /// Writes of which some sectors survived and some vanished.
    pub torn: u64,
}

/// The unflushed changes of one device, oldest first.
#[derive(Debug, Clone)]
pub(super) struct Cache {
    changes: Vec<Change>,
    arena: Vec<u8>,
    /// The largest unit that a cut leaves whole, in bytes.
    pub(super) sector_bytes: u64,
    /// One bit per sector, set while a cut is decided: a surviving newer change has fixed the contents of
    /// this sector.
    settled: Vec<u64>,
}

/// How one cut treats what it finds. Extremes matter: most bugs need all lost but one, or all kept but one.
#[derive(Debug, Clone, Copy)]
enum Mood {
    LoseAll,
    KeepAll,
    /// Everything is kept but the change of this number.
    KeepAllBut(usize),
    LoseAllBut(usize),
    /// In the order of issue: before this number kept, this one torn, later ones lost.
    Ordered(usize),
    /// Each for itself, out of 16: kept below `keep`, torn below `keep + tear`.
    Independent {
        keep: u64,
        tear: u64,
    },
}

impl Mood {
    fn draw(random: &mut Random, changes: usize) -> Self {
        let one = random.below(changes.max(1) as u64) as usize;
        match random.below(10) {
            0 => Self::LoseAll,
            1 => Self::KeepAll,
            2 | 3 => Self::KeepAllBut(one),
            4 | 5 => Self::LoseAllBut(one),
            6 => Self::Ordered(one),
            _ => Self::Independent { keep: random.between(0, 15), tear: random.between(0, 4) },
        }
    }

    fn fate(self, random: &mut Random, number: usize) -> Fate {
        let exception = |random: &mut Random, whole| if random.chance(1, 2) { torn(random) } else { whole };
        match self {
            Self::LoseAll => Fate::Lost,
            Self::KeepAll => Fate::Kept,
            Self::KeepAllBut(one) if one == number => exception(random, Fate::Lost),
            Self::KeepAllBut(_) => Fate::Kept,
            Self::LoseAllBut(one) if one == number => exception(random, Fate::Kept),
            Self::LoseAllBut(_) => Fate::Lost,
            Self::Ordered(one) if number < one => Fate::Kept,
            Self::Ordered(one) if number == one => torn(random),
            Self::Ordered(_) => Fate::Lost,
            Self::Independent { keep, tear } => match random.below(16) {
                draw if draw < keep => Fate::Kept,
                draw if draw < keep + tear => torn(random),
                _ => Fate::Lost,
            },
        }
    }
}

/// A tear: a surviving head, a surviving tail, or sectors here and there.
fn torn(random: &mut Random) -> Fate {
    let sectors = random.magnitude(63);
    let head = (1u64 << sectors) - 1;
    Fate::Torn(match random.below(3) {
        0 => head,
        1 => !head,
        _ => random.next_u64(),
    })
}

impl Default for Cache {
    fn default() -> Self {
        Self { changes: Vec::new(), arena: Vec::new(), sector_bytes: SECTOR_BYTES, settled: Vec::new() }
    }
}

impl Cache {
    /// How many changes there are. Passed to [`Cache::settle`] as the moment up to which a flush reaches.
    pub(super) fn len(&self) -> usize {
        self.changes.len()
    }

    pub(super) fn clear(&mut self) {
        self.changes.clear();
        self.arena.clear();
    }

    /// Records that `image[offset..offset + len]` is about to change, and the length with it.
    /// The caller has already grown the image with zeros to hold the range.
    /// It is the change of this `number`.
    pub(super) fn record(&mut self, image: &Image, number: u64, range: (u64, u64), lens: (u64, u64)) {
        let saved_at = self.arena.len();
        let ((offset, len), (len_before, len_after)) = (range, lens);
        image.append_to(offset as usize..(offset + len) as usize, &mut self.arena);
        self.changes.push(Change { number, offset, len, saved_at, len_before, len_after });
    }

    /// What a cut could still undo, oldest first.
    pub(super) fn window(&self) -> Vec<Unflushed> {
        let unflushed = |change: &Change| Unflushed {
            number: change.number,
            offset: change.offset,
            len: change.len,
            resizes: change.resizes(),
            shortens: change.shortens(),
        };
        self.changes.iter().map(unflushed).collect()
    }

    /// Makes the oldest `count` changes durable.
    pub(super) fn settle(&mut self, count: usize) {
        if count >= self.changes.len() {
            self.clear();
        } else {
            self.changes.drain(..count);
        }
    }

    /// Draws what survives.
    pub(super) fn draw(&self, random: &mut Random) -> Survival {
        if self.changes.is_empty() {
            return Survival::default();
        }
        let mood = Mood::draw(random, self.changes.len());
        let resizes = self.changes.iter().filter(|change| change.resizes()).count() as u64;
        let resizes = match mood {
            _ if resizes == 0 => 0,
            Mood::LoseAll => 0,
            Mood::KeepAll => resizes,
            _ => random.between(0, resizes),
        };
        let mut fates: Vec<_> =
            (0..self.changes.len()).rev().map(|number| mood.fate(random, number)).collect();
        fates.reverse();
        Survival { fates, resizes }
    }

    /// Lets of the unflushed changes `survival` survive, and gives `image` the contents and the length that
    /// follow.
    ///
    /// # Panics
    /// When there is not one fate for each change.
    pub(super) fn cut(&mut self, image: &mut Image, survival: &Survival) -> CutReport {
        assert_eq!(survival.fates.len(), self.changes.len(), "one fate for each unflushed change");
        let mut report = CutReport::default();
        if self.changes.is_empty() {
            return report;
        }
        // A file that shrank since the flush may get its old end back.
        let len = image.len() as u64;
        let longest = self.changes.iter().map(|change| change.len_before).fold(len, u64::max);
        image.resize(longest as usize);
        let (len, first_lost_resize) = self.surviving_len(len, survival.resizes);
        // A write behind a truncation that never happened has no blocks to be found in.
        let vanished_from =
            self.changes[first_lost_resize..].iter().filter(|c| c.resizes()).map(|c| c.len_after).min();
        self.settled.clear();
        self.settled.resize(image.len().div_ceil(self.sector_bytes as usize).div_ceil(64), 0);
        for number in (0..self.changes.len()).rev() {
            let change = self.changes[number];
            let mut fate = survival.fates[number];
            if change.shortens() {
                fate = if number < first_lost_resize { Fate::Kept } else { Fate::Lost };
            }
            match fate {
                Fate::Kept => report.kept += 1,
                Fate::Lost => report.lost += 1,
                Fate::Torn(_) => report.torn += 1,
            }
            let limit = vanished_from.filter(|_| number >= first_lost_resize).unwrap_or(u64::MAX);
            self.apply(image, change, fate, limit);
        }
        image.resize(len as usize);
        self.clear();
        report
    }

    /// Changes of the length are journalled in order and the first `surviving` of them survive. Returns the
    /// length after the last of these and the number of the first change whose resizing is lost.
    fn surviving_len(&self, len: u64, surviving: u64) -> (u64, usize) {
        let lost =
            self.changes.iter().enumerate().filter(|(_, change)| change.resizes()).nth(surviving as usize);
        match lost {
            Some((number, change)) => (change.len_before, number),
            None => (len, self.changes.len()),
        }
    }

    /// Keeps or takes back one change, sector by sector; sectors from byte `limit` on are taken back in any
    /// case.
    fn apply(&mut self, image: &mut Image, change: Change, fate: Fate, limit: u64) {
        let end = change.offset + change.len;
        let mut at = change.offset;
        while at < end {
            let sector = at / self.sector_bytes;
            let next = ((sector + 1) * self.sector_bytes).min(end);
            let (word, bit) = ((sector / 64) as usize, 1u64 << (sector % 64));
            if self.settled[word] & bit == 0 {
                let survives = at < limit
                    && match fate {
                        Fate::Kept => true,
                        Fate::Lost => false,
                        Fate::Torn(pattern) => {
                            pattern >> ((sector - change.offset / self.sector_bytes) % 64) & 1 == 1
                        }
                    };
                if survives {
                    self.settled[word] |= bit;
                } else {
                    let from = change.saved_at + (at - change.offset) as usize;
                    let saved = &self.arena[from..from + (next - at) as usize];
                    image.write(at as usize, saved);
                }
            }
            at = next;
        }
    }
}
