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
    /// It was written through: no cut takes it back.
    durable: bool,
    /// Of a sequential zone.
    zone: Option<InZone>,
}

/// What a change is to the zone that it lies in.
#[derive(Debug, Clone, Copy)]
pub(super) struct InZone {
    pub(super) number: usize,
    /// Bytes that were written of the zone before.
    pub(super) written_before: u64,
    /// A reset, which happens or not.
    pub(super) whole: bool,
}

/// What becomes of the sectors of a change.
#[derive(Debug, Clone, Copy)]
enum Sectors {
    /// As the fate says.
    Of(Fate),
    /// So many from the first on survive.
    First(u64),
}

impl Sectors {
    /// Whether the sector with this number survives.
    fn survives(self, number: u64) -> bool {
        match self {
            Self::Of(Fate::Kept) => true,
            Self::Of(Fate::Lost) => false,
            Self::Of(Fate::Torn(pattern)) => pattern >> (number % 64) & 1 == 1,
            Self::First(count) => number < count,
        }
    }
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
        let (durable, zone) = (false, None);
        self.changes.push(Change { number, offset, len, saved_at, len_before, len_after, durable, zone });
    }

    /// The change that was recorded last is durable already; in a zone so is all that happened there before.
    pub(super) fn last_is_durable(&mut self) {
        let Some(zone) = self.changes.last().map(|last| last.zone) else { return };
        let zone_of = |change: &Change| change.zone.map(|zone| zone.number);
        let last = self.changes.len() - 1;
        for (number, change) in self.changes.iter_mut().enumerate() {
            change.durable |=
                number == last || zone.is_some() && zone_of(change) == zone.map(|zone| zone.number);
        }
    }

    /// The change that was recorded last lies in a sequential zone.
    pub(super) fn last_is_in_zone(&mut self, zone: InZone) {
        self.changes.last_mut().into_iter().for_each(|change| change.zone = Some(zone));
    }

    /// What becomes of each change: as drawn, but what was written through is kept, and of a zone nothing is
    /// kept behind what is lost or torn.
    fn outcomes(&self, fates: &[Fate]) -> Vec<Sectors> {
        let mut broken = Vec::new();
        let outcome = |(change, fate): (&Change, &Fate)| {
            let fate = if change.durable { Fate::Kept } else { *fate };
            let Some(zone) = change.zone else { return Sectors::Of(fate) };
            let outcome = match fate {
                _ if broken.contains(&zone.number) => Sectors::First(0),
                Fate::Torn(pattern) if zone.whole => {
                    Sectors::Of([Fate::Lost, Fate::Kept][(pattern & 1) as usize])
                }
                Fate::Torn(pattern) => Sectors::First(pattern % (change.len.div_ceil(self.sector_bytes) + 1)),
                fate => Sectors::Of(fate),
            };
            if !matches!(outcome, Sectors::Of(Fate::Kept)) {
                broken.push(zone.number);
            }
            outcome
        };
        self.changes.iter().zip(fates).map(outcome).collect()
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

    /// Makes the oldest changes durable once there are more than `bytes_max` of them, and then an eighth more
    /// than need be, so that a row of writes does not move the rest each time.
    pub(super) fn drain(&mut self, bytes_max: u64) {
        let begins = |changes: &[Change], end| changes.first().map_or(end, |first| first.saved_at);
        let end = self.arena.len();
        if (end - begins(&self.changes, end)) as u64 <= bytes_max {
            return;
        }
        let kept_from = end.saturating_sub((bytes_max - bytes_max / 8) as usize);
        let count = self.changes.partition_point(|change| change.saved_at < kept_from);
        self.settle(count);
        let gone = begins(&self.changes, self.arena.len());
        self.arena.drain(..gone);
        self.changes.iter_mut().for_each(|change| change.saved_at -= gone);
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
        let outcomes = self.outcomes(&survival.fates);
        for number in (0..self.changes.len()).rev() {
            let change = self.changes[number];
            let mut outcome = outcomes[number];
            if change.shortens() {
                outcome = Sectors::Of(if number < first_lost_resize { Fate::Kept } else { Fate::Lost });
            }
            match outcome {
                Sectors::Of(Fate::Kept) => report.kept += 1,
                Sectors::Of(Fate::Lost) | Sectors::First(0) => report.lost += 1,
                Sectors::Of(Fate::Torn(_)) | Sectors::First(_) => report.torn += 1,
            }
            if let Some(zone) = change.zone {
                let kept = matches!(outcome, Sectors::Of(Fate::Kept));
                let some =
                    if let Sectors::First(sectors) = outcome { sectors * self.sector_bytes } else { 0 };
                if !kept {
                    image.written[zone.number] = zone.written_before + some.min(change.len);
                }
            }
            let limit = vanished_from.filter(|_| number >= first_lost_resize).unwrap_or(u64::MAX);
            self.apply(image, change, outcome, limit);
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
    fn apply(&mut self, image: &mut Image, change: Change, outcome: Sectors, limit: u64) {
        let end = change.offset + change.len;
        let mut at = change.offset;
        while at < end {
            let sector = at / self.sector_bytes;
            let next = ((sector + 1) * self.sector_bytes).min(end);
            let (word, bit) = ((sector / 64) as usize, 1u64 << (sector % 64));
            if self.settled[word] & bit == 0 {
                let number = sector - change.offset / self.sector_bytes;
                let survives = at < limit && outcome.survives(number);
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
