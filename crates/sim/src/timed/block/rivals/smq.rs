//! smq, the policy of dm-cache: stochastic multiqueue, which blocks are worth bringing in and which one
//! leaves.
//!
//! The kernel's `Documentation/admin-guide/device-mapper/cache-policies.rst`, and for numbers its
//! `drivers/md/dm-cache-policy-smq.c` as of Linux 4.12, in our own words:
//!
//! *A queue* has 64 levels of entries, oldest first in each. An entry that is used goes up so many levels,
//! and changes places with the oldest one there. From time to time entries are spread again, the same number
//! in each level; so a level is a rank. Of the hotspot queue the eight upper levels have their own number of
//! entries.
//!
//! *Hot spots* are areas of up to 16 blocks, so many that a quarter as many as the cache has blocks are
//! remembered, 1,024 at least, whether in the cache or not. Each goes up at most once in a second, by one
//! level, or by two or four where the queue does badly.
//!
//! *Bringing in.* A block that is missed comes in if its hot spot has a level of at least 64 less a
//! threshold: 64 if the queue of hot spots does well, 32 if it does fairly, 16 if badly. It does well if an
//! eighth of the requests of the last second were for the upper quarter of its levels, badly if less than a
//! sixteenth were. Before the first second is over nothing is brought in.
//!
//! *Leaving.* The oldest of the lowest level of the blocks in the cache, which go up by one level at most
//! once in ten seconds.
//!
//! Left out: dirty blocks, that blocks are kept free ahead of need, and that what is used does not leave
//! within a minute.

use super::NONE;
use super::links::Links;

const LEVELS: u32 = 64;
const HOTSPOT_TOP_LEVELS: u32 = 8;
const HOTSPOTS_MIN: u32 = 1024;
const HOTSPOT_BLOCKS_MAX: u32 = 16;
pub(super) const TICK_NS: u64 = 1_000_000_000;
const CACHE_PERIOD_TICKS: u64 = 10;

/// A queue of levels.
struct Queue {
    links: Links,
    level_of: Vec<u32>,
    entries: u32,
    top_levels: u32,
    in_top_levels: u32,
}

impl Queue {
    fn new(entries: u32, top_levels: u32, in_top_levels: u32) -> Self {
        Self {
            links: Links::new(entries as usize, LEVELS as usize),
            level_of: vec![0; entries as usize],
            entries: 0,
            top_levels,
            in_top_levels,
        }
    }

    fn push(&mut self, entry: u32) {
        self.level_of[entry as usize] = 0;
        self.links.push_last(0, entry);
        self.entries += 1;
    }

    fn move_to(&mut self, entry: u32, level: u32) {
        self.links.remove(self.level_of[entry as usize] as usize, entry);
        self.level_of[entry as usize] = level;
        self.links.push_last(level as usize, entry);
    }

    /// The entry was used.
    fn used(&mut self, entry: u32, levels_up: u32) {
        let level = self.level_of[entry as usize];
        let higher = (level + levels_up).min(LEVELS - 1);
        if higher > level {
            if let Some(other) = self.links.first(higher as usize) {
                self.move_to(other, level);
            }
        }
        self.move_to(entry, higher);
    }

    /// The oldest of the lowest level that has one.
    fn oldest(&self) -> Option<u32> {
        (0..LEVELS as usize).find_map(|level| self.links.first(level))
    }

    fn remove(&mut self, entry: u32) {
        self.links.remove(self.level_of[entry as usize] as usize, entry);
        self.entries -= 1;
    }

    /// How many entries a level has when they are spread.
    fn target(&self, level: u32) -> u32 {
        let share =
            |entries: u32, levels: u32, number: u32| entries / levels + u32::from(number < entries % levels);
        let lower = LEVELS - self.top_levels;
        if level >= lower {
            share(self.in_top_levels, self.top_levels, level - lower)
        } else {
            share(self.entries.saturating_sub(self.in_top_levels), lower, level)
        }
    }

    /// Spreads the entries again, from the lowest level up: what is missing comes from above, the oldest
    /// first, and what is too much goes up, the youngest first.
    fn redistribute(&mut self) {
        for level in 0..LEVELS - 1 {
            let target = self.target(level);
            while self.links.len(level as usize) < target {
                let Some(from) = (level + 1..LEVELS).find(|above| self.links.len(*above as usize) > 0) else {
                    break;
                };
                let entry = self.links.first(from as usize).expect("it has some");
                self.move_to(entry, level);
            }
            while self.links.len(level as usize) > target {
                let entry = self.links.last(level as usize).expect("it has some");
                self.links.remove(level as usize, entry);
                self.level_of[entry as usize] = level + 1;
                self.links.push_first(level as usize + 1, entry);
            }
        }
    }
}

/// How a queue does: requests for its upper quarter, and others.
#[derive(Debug, Clone, Copy, Default)]
struct Confidence {
    upper: u64,
    others: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doing {
    Badly,
    Fairly,
    Well,
}

impl Confidence {
    fn count(&mut self, level: Option<u32>) {
        match level {
            Some(level) if level >= LEVELS * 3 / 4 => self.upper += 1,
            _ => self.others += 1,
        }
    }

    fn doing(&self) -> Doing {
        let all = self.upper + self.others;
        match self.upper {
            upper if 16 * upper < all || all == 0 => Doing::Badly,
            upper if 8 * upper < all => Doing::Fairly,
            _ => Doing::Well,
        }
    }
}

/// The policy.
pub(super) struct Smq {
    /// By area of the volume, its hot spot, and back.
    hotspot_of: Vec<u32>,
    area_of: Vec<u32>,
    hotspots: Queue,
    hotspot_used: Vec<bool>,
    blocks_per_area: u32,
    confidence: Confidence,
    jump: u32,
    promote_level: u32,
    cached: Queue,
    cached_used: Vec<bool>,
    ticks: u64,
}

impl Smq {
    /// For a volume and a cache of so many blocks.
    pub(super) fn new(volume_blocks: u32, cache_blocks: u32) -> Self {
        let hotspots = (cache_blocks / 4).max(HOTSPOTS_MIN);
        let mut per_area = HOTSPOT_BLOCKS_MAX;
        while per_area > 1 && u64::from(per_area) * u64::from(hotspots) > u64::from(volume_blocks) {
            per_area /= 2;
        }
        let in_top = (hotspots / LEVELS).min(cache_blocks / per_area);
        Self {
            hotspot_of: vec![NONE; volume_blocks.div_ceil(per_area) as usize],
            area_of: vec![NONE; hotspots as usize],
            hotspots: Queue::new(hotspots, HOTSPOT_TOP_LEVELS, in_top),
            hotspot_used: vec![false; hotspots as usize],
            blocks_per_area: per_area,
            confidence: Confidence::default(),
            jump: 1,
            promote_level: LEVELS,
            cached: Queue::new(cache_blocks, 0, 0),
            cached_used: vec![false; cache_blocks as usize],
            ticks: 0,
        }
    }

    /// A request for a block: what there is to know of its area. Whether a block that is missed is to come
    /// in.
    pub(super) fn requested(&mut self, block: u32) -> bool {
        let area = block / self.blocks_per_area;
        let mut hotspot = self.hotspot_of[area as usize];
        if hotspot == NONE {
            self.confidence.count(None);
            hotspot = self.remember(area);
        } else {
            self.confidence.count(Some(self.hotspots.level_of[hotspot as usize]));
            let is_again = std::mem::replace(&mut self.hotspot_used[hotspot as usize], true);
            self.hotspots.used(hotspot, if is_again { 0 } else { self.jump });
        }
        self.hotspots.level_of[hotspot as usize] >= self.promote_level
    }

    /// A new hot spot, in place of the oldest of the lowest level.
    fn remember(&mut self, area: u32) -> u32 {
        let hotspot = if self.hotspots.entries < self.area_of.len() as u32 {
            self.hotspots.entries
        } else {
            let oldest = self.hotspots.oldest().expect("there are 1,024 at least");
            self.hotspots.remove(oldest);
            self.hotspot_of[self.area_of[oldest as usize] as usize] = NONE;
            self.hotspot_used[oldest as usize] = false;
            oldest
        };
        self.area_of[hotspot as usize] = area;
        self.hotspot_of[area as usize] = hotspot;
        self.hotspots.push(hotspot);
        hotspot
    }

    /// What is in this block of the cache was used.
    pub(super) fn hit(&mut self, cached: u32) {
        if !std::mem::replace(&mut self.cached_used[cached as usize], true) {
            self.cached.used(cached, 1);
        }
    }

    /// This block of the cache is used from now on.
    pub(super) fn came_in(&mut self, cached: u32) {
        self.cached.push(cached);
    }

    /// The block of the cache whose contents leave.
    pub(super) fn leave(&mut self) -> Option<u32> {
        let oldest = self.cached.oldest()?;
        self.cached.remove(oldest);
        self.cached_used[oldest as usize] = false;
        Some(oldest)
    }

    /// A second is over.
    pub(super) fn tick(&mut self) {
        self.ticks += 1;
        self.hotspot_used.fill(false);
        let (threshold, jump) = match self.confidence.doing() {
            Doing::Badly => (LEVELS / 4, 4),
            Doing::Fairly => (LEVELS / 2, 2),
            Doing::Well => (LEVELS, 1),
        };
        (self.promote_level, self.jump) = (LEVELS - threshold, jump);
        self.hotspots.redistribute();
        self.confidence = Confidence::default();
        if self.ticks % CACHE_PERIOD_TICKS == 0 {
            self.cached_used.fill(false);
            self.cached.redistribute();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_ranks_once_they_are_spread() {
        let mut queue = Queue::new(128, 8, 8);
        (0..128).for_each(|entry| queue.push(entry));
        queue.redistribute();
        // 8 in the upper 8 levels, 120 in 56 below: three in the first eight, two in each other.
        let of = |level: u32| queue.links.len(level as usize);
        assert_eq!([of(0), of(7), of(8), of(55), of(56), of(63)], [3, 3, 2, 2, 1, 1]);
        // What came last is highest.
        assert_eq!((queue.level_of[127], queue.level_of[0], queue.oldest()), (63, 0, Some(0)));
        // An entry that goes up changes places.
        queue.used(0, 4);
        assert_eq!((queue.level_of[0], queue.level_of[12]), (4, 0));
        assert_eq!([0, 4].map(|level| queue.links.len(level)), [3, 3]);
    }

    #[test]
    fn nothing_comes_in_in_the_first_second_and_then_what_is_hot() {
        // 2,048 blocks in areas of two, 1,024 hot spots.
        let mut smq = Smq::new(2048, 4096);
        assert_eq!((smq.blocks_per_area, smq.area_of.len()), (2, 1024));
        assert!((0..2048).all(|block| !smq.requested(block)), "the first second is not over");
        smq.tick();
        // No request was for the upper levels: level 48 of 64 is asked for. The last areas are the highest.
        assert_eq!(smq.promote_level, 48);
        assert!(smq.requested(2047) && !smq.requested(0));
        assert_eq!(smq.jump, 4);
        // Of requests for the highest areas alone the queue does well: everything comes in.
        (0..100).for_each(|_| assert!(smq.requested(2047)));
        smq.tick();
        assert_eq!((smq.promote_level, smq.jump), (0, 1));
        assert!(smq.requested(0));
    }

    #[test]
    fn what_was_not_used_leaves_first() {
        let mut smq = Smq::new(64, 4);
        (0..4).for_each(|cached| smq.came_in(cached));
        smq.hit(0);
        smq.hit(1);
        assert_eq!([smq.leave(), smq.leave()], [Some(2), Some(3)]);
        assert_eq!([smq.leave(), smq.leave(), smq.leave()], [Some(0), Some(1), None]);
    }
}
