//! Temperature-aware caching, TAC (M. Canim, G. Mihaila, B. Bhattacharjee, K. Ross, C. Lang, "SSD bufferpool extensions for database systems",
//! VLDB 2010): pages of the coldest extent leave, and nothing comes in that is not hotter.
//!
//! An *extent* is a fixed number of consecutive pages. Its *temperature* grows with each reference to one of its pages, whether the page is cached or not, by what that reference would cost
//! on disk: a random one much, one to the page after that of the extent's last reference little. Temperatures age: after every `ageing-period` references all are halved.
//! As long as a frame is free every page comes in; then only one whose extent is hotter than that of the page that would leave.
//!
//! Halving everything would stop whoever asks while it goes on. So the weight of new references is doubled instead, and a temperature has an exponent: see [`heat`].
//!
//! What the paper leaves open, or says in parts that we have not seen (docs/decisions/0011-cac-and-tac.md): the period and the weights are parameters; of equally cold
//! extents the one that was referenced longest ago gives up its page, and of its pages the one that came first; extents with no page here are remembered up to a
//! number, beyond which the one that has been away longest, and not referenced since, is forgotten.
//!
//! A reference changes nothing but its extent. Where an extent then belongs among the cached ones is looked at when it may be the coldest (`stairs`).
//!
//! 1. A frame in the order is in the ring of its page's extent, oldest first. An extent with frames is in `cached`, one without in `away`.
//! 2. Every extent that is known is in the chain of the bucket that its name hashes to; every other one on the chain of free ones or beyond `used`.
//! 3. No more than `remembered` extents are away.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;

use super::list::List;
use super::rising::Key;
use super::stairs::{Keys, LISTS, Stairs};
use super::{Laid, Memory, PageKey, Parameter, ParameterDefault, ParameterKind, Replacement, Shape, piece};
use crate::interleave::{AtomicU32, AtomicU64};
use crate::region::{Word, prefetch, shared};

#[repr(C)]
struct Head {
    /// References so far.
    time: Word,
    /// How often temperatures were halved, and the time when they were last.
    epoch: Word,
    halved: Word,
    /// Extents that have ever been taken, and the first free one of those, counted from 1.
    used: AtomicU32,
    free: AtomicU32,
    /// Extents that are remembered without a page here.
    away: AtomicU32,
    /// The extent that was looked for last.
    found: AtomicU32,
}

/// Links count from 1; 0 is none. Half a cache line: what a reference looks at is never in two.
#[repr(C)]
struct Extent {
    /// Its first page divided by its size, counted from 1; 0 if the extent is free.
    name: AtomicU64,
    temperature: AtomicU64,
    /// Time of the last reference.
    last: AtomicU64,
    /// Which page of the extent that was, counted from 1.
    position: AtomicU32,
    /// The newest frame of its ring, whose newer one is the oldest.
    newest: AtomicU32,
}

#[repr(C)]
struct Block {
    /// Its page's extent, counted from 1; 0 if the frame is not in the order.
    extent: AtomicU32,
    /// Which page of the extent that is, counted from 1.
    position: AtomicU32,
    older: AtomicU32,
    newer: AtomicU32,
}
shared!(Head, Extent, Block);

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
    extents: &'r [Extent],
    buckets: &'r [AtomicU32],
    /// By extent: the next in its bucket's chain, or in that of free extents.
    chains: &'r [AtomicU32],
    blocks: &'r [Block],
    /// Extents with frames, by temperature, then by the last reference.
    cached: Stairs<'r, 2>,
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

// A 15,000 rpm disk reads 409 times 4 KiB a second at random and 156 MB a second in sequence (Table 1 of "Flash as cache extension for online
// transactional workloads", 2015).
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

/// The temperature of a weight. The upper half of a temperature is its exponent and the lower its mantissa, whose highest bit is set, so that the
/// larger number is the higher temperature.
fn heat(weight: u32) -> u64 {
    let zeros = weight.leading_zeros();
    u64::from(31 - zeros) << 32 | u64::from(weight << zeros)
}

/// Two temperatures together. Bits that the mantissa has no room for are dropped.
#[inline(always)]
fn warmer(a: u64, b: u64) -> u64 {
    let (small, large) = (a.min(b), a.max(b));
    let mantissa = |temperature: u64| temperature & u64::from(u32::MAX);
    let further = (large >> 32) - (small >> 32);
    let sum = mantissa(large) + (mantissa(small) >> further.min(63));
    let carry = sum >> 32;
    ((large >> 32) + carry) << 32 | sum >> carry
}

/// Temperatures are halved no more often than this, which leaves room for the weight in the exponent.
const EPOCHS_MAX: u64 = u32::MAX as u64 - 64;

/// Bits of the mantissa of a temperature, after the highest, that tell steps apart. With 32 steps to a doubling, and a doubling in as many references as there are frames, the coldest
/// step has few extents; the lists of all steps reach up to 256 times its temperature.
const STEP_BITS: u32 = 5;

impl<'r> Temperature<'r> {
    fn count(shape: &Shape) -> u32 {
        // Each frame's page may be of another extent. Of those that are away two are known at least: that of the page that comes in, and that of the one
        // that leaves for it.
        let count = u64::from(shape.frames) + shape.value(&EXTENTS).max(2);
        u32::try_from(count).unwrap_or(u32::MAX - 1)
    }

    #[inline(always)]
    fn extent(&self, extent: u32) -> &'r Extent {
        &self.extents[extent as usize]
    }

    #[inline(always)]
    fn block(&self, frame: u32) -> &'r Block {
        &self.blocks[frame as usize]
    }

    #[inline(always)]
    fn chain(&self, extent: u32) -> &'r AtomicU32 {
        &self.chains[extent as usize]
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

    #[inline(always)]
    fn bucket(&self, name: u64) -> &'r AtomicU32 {
        &self.buckets[self.place(name)]
    }

    /// Which bucket a name's is.
    #[inline(always)]
    fn place(&self, name: u64) -> usize {
        // The high half of a product depends on all bits of the name (Knuth, "The art of computer programming", 6.4).
        let hash = name.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        ((hash * self.buckets.len() as u64) >> 32) as usize
    }

    #[inline(always)]
    fn find(&self, name: u64) -> Option<u32> {
        let found = self.head.found.load(Relaxed);
        if self.extent(found).name.load(Relaxed) == name {
            return Some(found);
        }
        self.look_up(name)
    }

    #[inline]
    fn look_up(&self, name: u64) -> Option<u32> {
        let mut link = self.bucket(name).load(Relaxed);
        while let Some(extent) = link.checked_sub(1) {
            if self.extent(extent).name.load(Relaxed) == name {
                self.head.found.store(extent, Relaxed);
                return Some(extent);
            }
            link = self.chain(extent).load(Relaxed);
        }
        None
    }

    /// An extent that is not known yet; it is cold, and neither cached nor away.
    fn make(&self, name: u64) -> u32 {
        let extent = self.free_extent();
        let made = self.extent(extent);
        made.name.store(name, Relaxed);
        made.temperature.store(0, Relaxed);
        made.last.store(0, Relaxed);
        made.position.store(0, Relaxed);
        let bucket = self.bucket(name);
        self.chain(extent).store(bucket.load(Relaxed), Relaxed);
        bucket.store(extent + 1, Relaxed);
        self.head.found.store(extent, Relaxed);
        extent
    }

    fn free_extent(&self) -> u32 {
        if let Some(free) = self.head.free.load(Relaxed).checked_sub(1) {
            self.head.free.store(self.chain(free).load(Relaxed), Relaxed);
            return free;
        }
        let used = self.head.used.load(Relaxed);
        self.head.used.store(used + 1, Relaxed);
        used
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
        let first = self.away.oldest().expect("invariant 3: as many are away as are remembered");
        self.away.remove(first);
        self.head.away.store(self.head.away.load(Relaxed) - 1, Relaxed);
        let forgotten = self.extent(first);
        let mut link = self.bucket(forgotten.name.load(Relaxed));
        forgotten.name.store(0, Relaxed);
        while link.load(Relaxed) != first + 1 {
            let next = link.load(Relaxed).checked_sub(1);
            link = self.chain(next.expect("invariant 2: an extent is in its bucket's chain"));
        }
        link.store(self.chain(first).load(Relaxed), Relaxed);
        self.chain(first).store(self.head.free.load(Relaxed), Relaxed);
        self.head.free.store(first + 1, Relaxed);
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
        let temperature = warmer(warmed.temperature.load(Relaxed), heat + (head.epoch.get() << 32));
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
        self.head.epoch.set((self.head.epoch.get() + 1).min(EPOCHS_MAX));
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
    const PARAMETERS: &'static [Parameter] = &[EXTENT_PAGES, AGEING_PERIOD, RANDOM_WEIGHT, EXTENTS];
    const LOOKS_AT_NEIGHBOURS: bool = true;

    fn bytes(shape: &Shape) -> usize {
        let extents = Self::count(shape);
        let pieces = piece::<Head>(1)
            + piece::<Extent>(extents as usize)
            + 2 * piece::<AtomicU32>(extents as usize)
            + piece::<Block>(shape.frames as usize);
        pieces + Stairs::<2>::bytes(extents, shape.frames) + List::bytes(extents, 1 + LISTS)
    }

    fn laid(memory: &mut Memory<'r>, shape: &Shape) -> Self {
        let extents = Self::count(shape);
        let extent_pages = shape.value(&EXTENT_PAGES);
        let (head, known) = (memory.one(), memory.take(extents as usize));
        let (buckets, chains) = (memory.take(extents as usize), memory.take(extents as usize));
        let blocks = memory.take(shape.frames as usize);
        let away = List::laid(memory, extents, 1 + LISTS);
        Self {
            extent_pages,
            extent_shift: extent_pages.is_power_of_two().then(|| extent_pages.trailing_zeros()),
            period: shape.value(&AGEING_PERIOD),
            random_heat: heat(shape.value(&RANDOM_WEIGHT) as u32),
            sequence_heat: heat(1),
            remembered: (extents - shape.frames).max(2),
            head,
            extents: known,
            buckets,
            chains,
            blocks,
            cached: Stairs::laid(memory, extents, shape.frames, away),
            away,
        }
    }
}

impl Keys<2> for Temperature<'_> {
    #[inline(always)]
    fn key(&self, extent: u32) -> Key<2> {
        self.warmth(extent)
    }

    /// As many to each doubling of a temperature as [`STEP_BITS`] can count.
    #[inline(always)]
    fn step(&self, [temperature, _]: Key<2>) -> u64 {
        let (exponent, mantissa) = (temperature >> 32, temperature & 0x7FFF_FFFF);
        exponent << STEP_BITS | mantissa >> (31 - STEP_BITS)
    }

    #[inline(always)]
    fn ahead(&self, extent: u32) {
        prefetch(self.extent(extent));
    }
}

impl Replacement for Temperature<'_> {
    #[inline(always)]
    fn will_be_referenced(&self, frame: Option<u32>, page: PageKey) {
        // Both the frame and the page's bucket say which extent it is. What is not to be asked says something that does not count.
        let is_there = u32::from(frame.is_some()).wrapping_neg();
        let of_frame = self.block(frame.unwrap_or(0)).extent.load(Relaxed);
        let of_page = self.buckets[self.place(self.name(page)) & !is_there as usize].load(Relaxed);
        if let Some(extent) = (of_frame & is_there | of_page & !is_there).checked_sub(1) {
            prefetch(self.extent(extent));
        }
    }

    #[inline(always)]
    fn missed(&self, page: PageKey) {
        let name = self.name(page);
        let extent = match self.find(name) {
            Some(extent) => {
                if self.extent(extent).newest.load(Relaxed) == 0 {
                    self.away.renew(extent);
                }
                extent
            }
            None => {
                // Before, because all may be taken.
                self.make_room();
                let extent = self.make(name);
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
        let temperature = self.find(self.name(page)).map_or(0, |extent| self.warmth(extent)[0]);
        temperature > self.warmth(coldest)[0]
    }

    #[inline(always)]
    fn inserted(&self, frame: u32, page: PageKey) {
        let name = self.name(page);
        let extent = match self.find(name) {
            Some(extent) => {
                if self.extent(extent).newest.load(Relaxed) == 0 {
                    self.away.remove(extent);
                    self.head.away.store(self.head.away.load(Relaxed) - 1, Relaxed);
                }
                extent
            }
            None => self.make(name),
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
        let (mut frames, mut away, mut known) = (0, 0, 0);
        for (index, bucket) in self.buckets.iter().enumerate() {
            let mut link = bucket.load(Relaxed);
            while let Some(extent) = link.checked_sub(1) {
                let name = self.extent(extent).name.load(Relaxed);
                assert!(std::ptr::eq(self.bucket(name), bucket), "TAC invariant 2: bucket {index}");
                let ring = self.check_ring(extent);
                assert_eq!(cached.contains(&extent), ring > 0, "TAC invariant 1: extent {extent}");
                assert_eq!(are_away.contains(&extent), ring == 0, "TAC invariant 1: extent {extent}");
                (frames, away, known) = (frames + ring, away + u32::from(ring == 0), known + 1);
                link = self.chain(extent).load(Relaxed);
            }
        }
        let mut link = self.head.free.load(Relaxed);
        while let Some(extent) = link.checked_sub(1) {
            assert_eq!(self.extent(extent).name.load(Relaxed), 0, "TAC invariant 2: {extent} is free");
            known += 1;
            link = self.chain(extent).load(Relaxed);
        }
        assert_eq!(known, self.head.used.load(Relaxed), "TAC invariant 2");
        assert_eq!(self.head.away.load(Relaxed), away, "TAC invariant 3");
        assert!(away <= self.remembered, "TAC invariant 3");
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
