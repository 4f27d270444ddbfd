//! Temperature-aware caching, TAC (M. Canim, G. Mihaila, B. Bhattacharjee, K. Ross, C. Lang, "SSD bufferpool
//! extensions for database systems", VLDB 2010): pages of the coldest extent leave, and nothing comes in that
//! is not hotter.
//!
//! An *extent* is a fixed number of consecutive pages. Its *temperature* grows with each reference to one of
//! its pages, whether the page is cached or not, by what that reference would cost on disk: a random one
//! much, one to the page after that of the extent's last reference little. Temperatures age: after every
//! `ageing-period` references all are halved. As long as a frame is free every page comes in; then only one
//! whose extent is hotter than that of the page that would leave.
//!
//! Halving everything would stop whoever asks while it goes on. So the weight of new references is doubled
//! instead, and a temperature has an exponent: see `heat`.
//!
//! What the paper leaves open, or says in parts that we have not seen (docs/decisions/0011-cac-and-tac.md):
//! the period and the weights are parameters; of equally cold extents the one that was referenced longest ago
//! gives up its page, and of its pages the one that came first; extents with no page here are remembered up
//! to a number, beyond which the one that has been away longest, and not referenced since, is forgotten.
//!
//! A reference changes nothing but its extent. Where an extent then belongs among the cached ones is looked
//! at when it may be the coldest (`bucket_queue`).
//!
//! 1. A frame in the order is in the ring of its page's extent, oldest first. An extent with frames is in
//!    `cached`, one without in `away`.
//! 2. No more than `remembered` extents are away.

mod extents;
mod heat;

use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;

use self::extents::{Extent, Extents};
use self::heat::{after_halvings, heat, one_more, step, warmer};
use super::bucket_queue::{BucketQueue, Keys, LISTS};
use super::lazy_heap::Key;
use super::list::List;
use super::parameter::{Field, Parameter, ParameterDefault, ParameterKind, checked_frames};
use super::{Laid, Memory, PageKey, Replacement, piece};
use crate::config::ConfigError;
use crate::interleave::AtomicU32;
use crate::region::{Word, prefetch, shared};

#[repr(C)]
struct Head {
    /// References so far.
    time: Word,
    /// How often temperatures were halved, and the time when they were last.
    halvings: Word,
    halved: Word,
    /// Extents that are remembered without a page here.
    away: AtomicU32,
}

/// Links count from 1; 0 is none.
#[repr(C)]
struct Block {
    /// Its page's extent, counted from 1; 0 if the frame is not in the order.
    extent: AtomicU32,
    /// Which page of the extent that is, counted from 1.
    position: AtomicU32,
    older: AtomicU32,
    newer: AtomicU32,
}
shared!(Head, Block);

/// The coldest extent gives up a page.
pub struct Temperature<'r> {
    extent_pages: u64,
    /// Its logarithm if it is a power of two: a division takes as long as a lookup.
    extent_shift: Option<u32>,
    period: u64,
    /// What a reference warms an extent by, at random and in sequence: see [`heat`].
    random_heat: u64,
    sequence_heat: u64,
    remembered: u32,
    head: &'r Head,
    extents: Extents<'r>,
    blocks: &'r [Block],
    /// Extents with frames, by temperature, then by the last reference.
    cached: BucketQueue<'r, 2>,
    /// Extents without frames; the next that is forgotten first.
    away: List<'r>,
}

const EXTENT_PAGES: Parameter = Parameter {
    name: "extent-pages",
    help: "Consecutive pages that have one temperature",
    kind: ParameterKind::Number(1, 1 << 31),
    default: ParameterDefault::Value(32),
};

const AGEING_PERIOD: Parameter = Parameter {
    name: "ageing-period",
    help: "References after which all temperatures are halved; with 0 they never are",
    kind: ParameterKind::References,
    default: ParameterDefault::FramesOver(1),
};

// A 15,000 rpm disk reads 409 times 4 KiB a second at random and 156 MB a second in sequence (Table 1 of
// "Flash as cache extension for online transactional workloads", 2015).
const RANDOM_WEIGHT: Parameter = Parameter {
    name: "random-weight",
    help: "By how much a random reference warms an extent, if one in sequence does by 1",
    kind: ParameterKind::Number(1, 1 << 16),
    default: ParameterDefault::Value(94),
};

const EXTENTS: Parameter = Parameter {
    name: "extents",
    help: "Extents without a page in the cache whose temperature is known",
    kind: ParameterKind::Pages,
    default: ParameterDefault::FramesOver(1),
};

/// What TAC is configured by: its size, and what the paper says in parts that we have not seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    pub(super) frames: u32,
    extent_pages: u32,
    /// In references.
    ageing_period: u64,
    random_weight: u32,
    /// In extents.
    extents: u32,
}

impl Config {
    /// The defaults for so many frames.
    ///
    /// # Errors
    /// If there can be no policy of so many.
    pub fn new(frames: u64) -> Result<Self, ConfigError> {
        let frames = checked_frames(frames)?;
        Ok(Self {
            frames,
            extent_pages: EXTENT_PAGES.default_of(frames) as u32,
            ageing_period: AGEING_PERIOD.default_of(frames),
            random_weight: RANDOM_WEIGHT.default_of(frames) as u32,
            extents: EXTENTS.default_of(frames) as u32,
        })
    }

    /// The consecutive `pages` that have one temperature (the paper's extent). Default: 32.
    ///
    /// # Errors
    /// If they are none, or more than 2^31.
    pub fn with_extent_pages(self, pages: u64) -> Result<Self, ConfigError> {
        Ok(Self { extent_pages: EXTENT_PAGES.checked(pages)? as u32, ..self })
    }

    /// The `references` after which all temperatures are halved; with 0 they never are. Default: as many as
    /// there are frames.
    ///
    /// # Errors
    /// If they are more than can be counted.
    pub fn with_ageing_period(self, references: u64) -> Result<Self, ConfigError> {
        Ok(Self { ageing_period: AGEING_PERIOD.checked(references)?, ..self })
    }

    /// By how much a random reference warms an extent, where one in sequence does by 1: what it costs more
    /// on disk. Default: 94.
    ///
    /// # Errors
    /// If it is 0, or more than 65536.
    pub fn with_random_weight(self, weight: u64) -> Result<Self, ConfigError> {
        Ok(Self { random_weight: RANDOM_WEIGHT.checked(weight)? as u32, ..self })
    }

    /// The `extents` without a page in the cache whose temperature is known. Default: as many as there are
    /// frames.
    ///
    /// # Errors
    /// If they are more than there can be frames.
    pub fn with_extents(self, extents: u64) -> Result<Self, ConfigError> {
        Ok(Self { extents: EXTENTS.checked(extents)? as u32, ..self })
    }

    /// Extents that there is room for.
    fn extents_max(&self) -> u32 {
        // Each frame's page may be of another extent. Of those that are away two are known at least: that of
        // the page that comes in, and that of the one that leaves for it.
        let count = u64::from(self.frames) + u64::from(self.extents.max(2));
        u32::try_from(count).unwrap_or(u32::MAX - 1)
    }
}

impl<'r> Temperature<'r> {
    #[inline(always)]
    fn extent(&self, extent: u32) -> &'r Extent {
        self.extents.get(extent)
    }

    #[inline(always)]
    fn block(&self, frame: u32) -> &'r Block {
        &self.blocks[frame as usize]
    }

    /// What `cached` is ordered by.
    #[inline(always)]
    fn warmth(&self, extent: u32) -> Key<2> {
        let extent = self.extent(extent);
        [extent.temperature.load(Relaxed), extent.last.load(Relaxed)]
    }

    #[inline(always)]
    fn name(&self, page: PageKey) -> u64 {
        let extent = match self.extent_shift {
            Some(shift) => page.0 >> shift,
            None => page.0 / self.extent_pages,
        };
        extent + 1
    }

    /// Which page of its extent that is, counted from 1.
    #[inline(always)]
    fn position(&self, page: PageKey) -> u32 {
        match self.extent_shift {
            Some(_) => (page.0 & (self.extent_pages - 1)) as u32 + 1,
            None => (page.0 % self.extent_pages) as u32 + 1,
        }
    }

    #[inline]
    fn send_away(&self, extent: u32) {
        self.make_room();
        self.head.away.store(self.head.away.load(Relaxed) + 1, Relaxed);
        self.away.append(extent);
    }

    /// Forgets an extent, if no more may be away.
    #[inline(always)]
    fn make_room(&self) {
        if self.head.away.load(Relaxed) >= self.remembered {
            self.forget();
        }
    }

    /// Forgets the extent that is away longest.
    #[inline(never)]
    fn forget(&self) {
        let first = self.away.oldest().expect("invariant 2: as many are away as are remembered");
        self.away.remove(first);
        self.head.away.store(self.head.away.load(Relaxed) - 1, Relaxed);
        self.extents.forget(first);
    }

    /// Counts a reference to a page of an extent.
    #[inline(always)]
    fn warm(&self, extent: u32, position: u32) {
        let head = self.head;
        let time = head.time.get() + 1;
        head.time.set(time);
        let warmed = self.extent(extent);
        let in_sequence = position == warmed.position.load(Relaxed) + 1 && position > 1;
        warmed.position.store(position, Relaxed);
        let heat = if in_sequence { self.sequence_heat } else { self.random_heat };
        let temperature = warmer(warmed.temperature.load(Relaxed), after_halvings(heat, head.halvings.get()));
        warmed.temperature.store(temperature, Relaxed);
        warmed.last.store(time, Relaxed);
        if time - head.halved.get() == self.period {
            self.halve(time);
        }
    }

    /// Halves all temperatures, by doubling what the next references weigh.
    #[cold]
    fn halve(&self, time: u64) {
        self.head.halved.set(time);
        self.head.halvings.set(one_more(self.head.halvings.get()));
    }

    /// Takes a frame out of its extent's ring.
    #[inline]
    fn take(&self, frame: u32) {
        let block = self.block(frame);
        let extent = block.extent.load(Relaxed).checked_sub(1).expect("only what is in the order leaves it");
        block.extent.store(0, Relaxed);
        let (older, newer) = (block.older.load(Relaxed), block.newer.load(Relaxed));
        let ring = &self.extent(extent).newest;
        if newer == frame + 1 {
            ring.store(0, Relaxed);
            self.cached.remove(extent);
            self.send_away(extent);
            return;
        }
        self.block(older - 1).newer.store(newer, Relaxed);
        self.block(newer - 1).older.store(older, Relaxed);
        if ring.load(Relaxed) == frame + 1 {
            ring.store(older, Relaxed);
        }
    }
}

impl<'r> Laid<'r> for Temperature<'r> {
    type Config = Config;
    const FIELDS: &'static [Field<Config>] = &[
        Field {
            parameter: EXTENT_PAGES,
            get: |config| config.extent_pages.into(),
            with: Config::with_extent_pages,
        },
        Field {
            parameter: AGEING_PERIOD,
            get: |config| config.ageing_period,
            with: Config::with_ageing_period,
        },
        Field {
            parameter: RANDOM_WEIGHT,
            get: |config| config.random_weight.into(),
            with: Config::with_random_weight,
        },
        Field { parameter: EXTENTS, get: |config| config.extents.into(), with: Config::with_extents },
    ];
    const LOOKS_AT_NEIGHBOURS: bool = true;

    fn bytes(config: &Config) -> usize {
        let extents = config.extents_max();
        let pieces = piece::<Head>(1) + Extents::bytes(extents) + piece::<Block>(config.frames as usize);
        pieces + BucketQueue::<2>::bytes(extents, config.frames) + List::bytes(extents, 1 + LISTS)
    }

    fn laid(memory: &mut Memory<'r>, config: &Config) -> Self {
        let extents = config.extents_max();
        let extent_pages = u64::from(config.extent_pages);
        let (head, known) = (memory.one(), Extents::laid(memory, extents));
        let blocks = memory.take(config.frames as usize);
        let away = List::laid(memory, extents, 1 + LISTS);
        Self {
            extent_pages,
            extent_shift: extent_pages.is_power_of_two().then(|| extent_pages.trailing_zeros()),
            period: config.ageing_period,
            random_heat: heat(config.random_weight),
            sequence_heat: heat(1),
            remembered: (extents - config.frames).max(2),
            head,
            extents: known,
            blocks,
            cached: BucketQueue::laid(memory, extents, config.frames, away),
            away,
        }
    }
}

impl Keys<2> for Temperature<'_> {
    #[inline(always)]
    fn key(&self, extent: u32) -> Key<2> {
        self.warmth(extent)
    }

    #[inline(always)]
    fn step(&self, [temperature, _]: Key<2>) -> u64 {
        step(temperature)
    }

    #[inline(always)]
    fn ahead(&self, extent: u32) {
        prefetch(self.extent(extent));
    }
}

impl Replacement for Temperature<'_> {
    #[inline(always)]
    fn will_be_referenced(&self, frame: Option<u32>, page: PageKey) {
        // Both the frame and the page's bucket say which extent it is. What is not to be asked says something
        // that does not count.
        let is_there = u32::from(frame.is_some()).wrapping_neg();
        let of_frame = self.block(frame.unwrap_or(0)).extent.load(Relaxed);
        let of_page = self.extents.first_of(self.name(page), frame.is_none());
        if let Some(extent) = (of_frame & is_there | of_page & !is_there).checked_sub(1) {
            prefetch(self.extent(extent));
        }
    }

    #[inline(always)]
    fn missed(&self, page: PageKey) {
        let name = self.name(page);
        let extent = match self.extents.find(name) {
            Some(extent) => {
                if self.extent(extent).newest.load(Relaxed) == 0 {
                    self.away.renew(extent);
                }
                extent
            }
            None => {
                // Before, because all may be taken.
                self.make_room();
                let extent = self.extents.add(name);
                self.send_away(extent);
                extent
            }
        };
        self.warm(extent, self.position(page));
    }

    #[inline(always)]
    fn admits(&self, page: PageKey) -> bool {
        let Some(coldest) = self.cached.smallest(self) else {
            return true;
        };
        let temperature = self.extents.find(self.name(page)).map_or(0, |extent| self.warmth(extent)[0]);
        temperature > self.warmth(coldest)[0]
    }

    #[inline(always)]
    fn inserted(&self, frame: u32, page: PageKey) {
        let name = self.name(page);
        let extent = match self.extents.find(name) {
            Some(extent) => {
                if self.extent(extent).newest.load(Relaxed) == 0 {
                    self.away.remove(extent);
                    self.head.away.store(self.head.away.load(Relaxed) - 1, Relaxed);
                }
                extent
            }
            None => self.extents.add(name),
        };
        let (block, ring) = (self.block(frame), &self.extent(extent).newest);
        assert!(block.extent.load(Relaxed) == 0, "a frame comes into the order once");
        block.position.store(self.position(page), Relaxed);
        block.extent.store(extent + 1, Relaxed);
        let (older, newer) = match ring.load(Relaxed).checked_sub(1) {
            Some(newest) => (newest + 1, self.block(newest).newer.load(Relaxed)),
            None => {
                self.cached.insert(extent, self);
                (frame + 1, frame + 1)
            }
        };
        block.older.store(older, Relaxed);
        block.newer.store(newer, Relaxed);
        self.block(older - 1).newer.store(frame + 1, Relaxed);
        self.block(newer - 1).older.store(frame + 1, Relaxed);
        ring.store(frame + 1, Relaxed);
    }

    #[inline(always)]
    fn referenced(&self, frame: u32) {
        let block = self.block(frame);
        let extent = block.extent.load(Relaxed).checked_sub(1).expect("a frame in the order has an extent");
        self.warm(extent, block.position.load(Relaxed));
    }

    #[inline(always)]
    fn victim(&self) -> Option<u32> {
        let coldest = self.cached.smallest(self)?;
        let newest = self.extent(coldest).newest.load(Relaxed) - 1;
        let oldest = self.block(newest).newer.load(Relaxed) - 1;
        self.take(oldest);
        Some(oldest)
    }

    fn removed(&self, frame: u32) {
        self.take(frame);
    }

    fn contains(&self, frame: u32) -> bool {
        self.block(frame).extent.load(Relaxed) != 0
    }

    fn check(&self) {
        let cached: BTreeSet<u32> = self.cached.check(self).into_iter().collect();
        let are_away: BTreeSet<u32> = self.away.iter().collect();
        let (mut frames, mut away) = (0, 0);
        for extent in self.extents.check() {
            let ring = self.check_ring(extent);
            assert_eq!(cached.contains(&extent), ring > 0, "TAC invariant 1: extent {extent}");
            assert_eq!(are_away.contains(&extent), ring == 0, "TAC invariant 1: extent {extent}");
            (frames, away) = (frames + ring, away + u32::from(ring == 0));
        }
        assert_eq!(self.head.away.load(Relaxed), away, "TAC invariant 2");
        assert!(away <= self.remembered, "TAC invariant 2");
        let ordered = self.blocks.iter().filter(|block| block.extent.load(Relaxed) != 0).count();
        assert_eq!(ordered as u32, frames, "TAC invariant 1");
    }
}

impl Temperature<'_> {
    /// Checks an extent's ring and returns its length.
    fn check_ring(&self, extent: u32) -> u32 {
        let newest = self.extent(extent).newest.load(Relaxed);
        let (mut at, mut count) = (newest, 0);
        while let Some(frame) = at.checked_sub(1) {
            let block = self.block(frame);
            assert_eq!(block.extent.load(Relaxed), extent + 1, "TAC invariant 1: frame {frame}");
            let position = block.position.load(Relaxed).into();
            assert!((1..=self.extent_pages).contains(&position), "TAC invariant 1: frame {frame}");
            let newer = block.newer.load(Relaxed);
            assert_eq!(self.block(newer - 1).older.load(Relaxed), at, "TAC invariant 1: frame {frame}");
            count += 1;
            at = if newer == newest { 0 } else { newer };
        }
        count
    }
}
