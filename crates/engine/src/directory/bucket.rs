//! A bucket of the directory's hash table: one cache line.
//!
//! ```text
//!   0                       12        16                                             64
//!   +-----------------------+---------+----------------------------------------------+
//!   | 12 tags of one byte   | changes | 12 links: frame + 1, or 0                    |
//!   +-----------------------+---------+----------------------------------------------+
//! ```
//!
//! A tag is a byte of the page's hash; 0 is a free place. A lookup compares all tags at once and then goes
//! to the one entry that will nearly always be the page's: two cache lines, and branches that are foreseen
//! although what they depend on is still on its way from memory, so that lookups overlap. The number that
//! tells lookups of changes lies in the bucket as well, so they read no line that others write to for pages
//! elsewhere.
//!
//! 1. If a bucket has more pages than places, the last place has the tag `CHAINED`, and its link is the first
//!    of a chain through the pages' entries.
//! 2. A chain has two pages or more. Who takes pages out without putting others in brings chained ones back
//!    to places ([`Bucket::settle`]), so of a bucket that once was too full nothing stays behind.
//!
//! Words change under the shard's lock; lookups read them without it (see [`crate::directory`]).

use std::num::NonZeroU32;
use std::sync::atomic::Ordering::Relaxed;

use mezzanine_ground::interleave::AtomicU32;
use mezzanine_ground::region::equal_bytes;

/// Pages that a bucket has places for.
const PLACES: usize = 12;
/// The place whose link is a chain, if there is one.
const LAST: usize = PLACES - 1;
/// Valid pages per bucket when every frame is valid. At this load one page in fourteen is chained.
pub(crate) const PAGES_PER_BUCKET: usize = 10;
/// No frame.
pub(crate) const NO_LINK: u32 = 0;

/// One bucket. Zeros are an empty one.
#[repr(C, align(64))]
pub(crate) struct Bucket {
    /// Four tags each, and the number of changes.
    head: [AtomicU32; 4],
    links: [AtomicU32; PLACES],
}
/// The word of `head` that is no tags.
const CHANGES: usize = PLACES / 4;
/// The tag of the last place when its link is a chain.
const CHAINED: u8 = u8::MAX;
const _: () = assert!(size_of::<Bucket>() == 64 && LAST % 4 == 3);

/// Places of a bucket, one bit each.
#[derive(Clone, Copy)]
struct Places(u32);

impl Iterator for Places {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        let place = self.0.trailing_zeros() as usize;
        self.0 &= self.0.wrapping_sub(1);
        (place < PLACES).then_some(place)
    }
}

/// The tag that a byte of a hash makes: never that of a free place or of a chain.
#[inline]
pub(crate) fn tag_of(byte: u8) -> u8 {
    byte.clamp(1, CHAINED - 1)
}

impl Bucket {
    /// Odd while the holder of the shard's lock links or unlinks pages of the bucket; one further after each
    /// step into or out of that.
    #[inline]
    pub(crate) fn changes(&self) -> &AtomicU32 {
        &self.head[CHANGES]
    }

    /// The first of the pages that found no place.
    #[inline]
    pub(crate) fn chain(&self) -> u32 {
        if self.is_chained() { self.links[LAST].load(Relaxed) } else { NO_LINK }
    }

    #[inline]
    fn is_chained(&self) -> bool {
        self.head[LAST / 4].load(Relaxed) >> (LAST % 4 * 8) == u32::from(CHAINED)
    }

    /// Places with `tag`.
    #[inline]
    fn places(&self, tag: u8) -> Places {
        Places(equal_bytes(&self.head, tag) & ((1 << PLACES) - 1))
    }

    /// The first of [`Self::candidates`], perhaps no link at all.
    #[inline]
    pub(crate) fn first(&self, tag: u8) -> Option<u32> {
        let equal = NonZeroU32::new(self.places(tag).0)?;
        Some(self.links[equal.trailing_zeros() as usize].load(Relaxed))
    }

    /// Links of pages whose tag is `tag`; those of other pages may be among them.
    #[inline]
    pub(crate) fn candidates(&self, tag: u8) -> impl Iterator<Item = u32> {
        self.places(tag).map(|place| self.links[place].load(Relaxed)).filter(|link| *link != NO_LINK)
    }

    /// Takes a place for a link, or one in the chain; `next` is the word of a page's entry for the one behind
    /// it there. Under the shard's lock.
    pub(crate) fn insert<'e>(&self, tag: u8, link: u32, next: impl Fn(u32) -> &'e AtomicU32) {
        if let Some(place) = self.places(0).next() {
            self.links[place].store(link, Relaxed);
            self.set_tag(place, tag);
            return;
        }
        let last = &self.links[LAST];
        if !self.is_chained() {
            next(last.load(Relaxed)).store(NO_LINK, Relaxed);
            self.set_tag(LAST, CHAINED);
        }
        next(link).store(last.load(Relaxed), Relaxed);
        last.store(link, Relaxed);
    }

    /// Takes a link out; false if it was not there. Under the shard's lock.
    pub(crate) fn remove<'e>(&self, link: u32, next: impl Fn(u32) -> &'e AtomicU32) -> bool {
        let chained = self.is_chained();
        let places = if chained { LAST } else { PLACES };
        if let Some(place) = self.links[..places].iter().position(|word| word.load(Relaxed) == link) {
            self.set_tag(place, 0);
            self.links[place].store(NO_LINK, Relaxed);
            return true;
        }
        if !chained {
            return false;
        }
        let mut word = &self.links[LAST];
        loop {
            match word.load(Relaxed) {
                NO_LINK => return false,
                found if found == link => {
                    word.store(next(link).load(Relaxed), Relaxed);
                    return true;
                }
                other => word = next(other),
            }
        }
    }

    /// Brings pages from the chain to free places, by their tags. Under the shard's lock.
    pub(crate) fn settle<'e>(&self, next: impl Fn(u32) -> &'e AtomicU32, tag: impl Fn(u32) -> u8) {
        while self.is_chained() {
            let first = self.links[LAST].load(Relaxed);
            if first == NO_LINK {
                // All of it went at once.
                self.set_tag(LAST, 0);
                return;
            }
            let second = next(first).load(Relaxed);
            if second == NO_LINK {
                self.set_tag(LAST, tag(first));
                return;
            }
            let Some(place) = self.places(0).next() else { return };
            self.links[LAST].store(second, Relaxed);
            self.links[place].store(first, Relaxed);
            self.set_tag(place, tag(first));
        }
    }

    fn set_tag(&self, place: usize, tag: u8) {
        let (word, shift) = (&self.head[place / 4], place % 4 * 8);
        let others = word.load(Relaxed) & !(0xFF << shift);
        word.store(others | u32::from(tag) << shift, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mezzanine_ground::random::Random;
    use mezzanine_ground::region::Region;
    use std::collections::BTreeMap;

    const LINKS: u32 = 200;

    /// A bucket, and what its pages' entries have of it.
    struct Bench {
        region: Region,
        next: Vec<AtomicU32>,
        tags: Vec<u8>,
        /// The links that are in the bucket.
        linked: BTreeMap<u32, u8>,
    }

    impl Bench {
        fn new(tags: impl Fn(u32) -> u8) -> Self {
            let next = (0..=LINKS).map(|_| AtomicU32::new(NO_LINK)).collect();
            let tags = (0..=LINKS).map(tags).collect();
            Self { region: Region::heap(4096), next, tags, linked: BTreeMap::new() }
        }

        fn bucket(&self) -> &Bucket {
            self.region.value(0)
        }

        fn insert(&mut self, link: u32) {
            self.bucket().insert(self.tags[link as usize], link, |link| &self.next[link as usize]);
            self.linked.insert(link, self.tags[link as usize]);
            self.check();
        }

        fn remove(&mut self, link: u32, settles: bool) {
            let next = |link: u32| &self.next[link as usize];
            assert!(self.bucket().remove(link, next));
            assert!(!self.bucket().remove(link, next), "it is there no more");
            if settles {
                self.bucket().settle(next, |link| self.tags[link as usize]);
            }
            self.linked.remove(&link);
            if settles {
                self.check();
            }
        }

        fn chained(&self) -> Vec<u32> {
            let after = |link: u32| Some(link).filter(|link| *link != NO_LINK);
            let next = |link: &u32| after(self.next[*link as usize].load(Relaxed));
            std::iter::successors(after(self.bucket().chain()), next).collect()
        }

        /// Every link is found by its tag or in the chain, once, and the chain is as short as can be.
        fn check(&self) {
            let chained = self.chained();
            let beyond = self.linked.len().saturating_sub(LAST);
            assert_eq!(chained.len(), if beyond > 1 { beyond } else { 0 }, "of {} pages", self.linked.len());
            let mut found = chained;
            for tag in 1..CHAINED {
                found.extend(self.bucket().candidates(tag).filter(|link| self.linked[link] == tag));
            }
            found.sort_unstable();
            assert_eq!(found, self.linked.keys().copied().collect::<Vec<_>>());
        }
    }

    #[test]
    fn every_page_is_found_however_full_the_bucket_is() {
        let mut bench = Bench::new(|link| tag_of([1, 255, 2, 1, 128, 127, 0][link as usize % 7]));
        for link in 1..=LINKS {
            bench.insert(link);
        }
        for link in (1..=LINKS).rev().step_by(2).chain((1..=LINKS).step_by(2)) {
            bench.remove(link, true);
        }
        assert!(bench.linked.is_empty());
    }

    /// Around the load at which a chain comes and goes. A page that takes another one's place settles
    /// nothing.
    #[test]
    fn pages_that_come_and_go_leave_no_chain_behind() {
        let mut random = Random::new(1);
        let mut bench = Bench::new(|link| tag_of((link * 37) as u8));
        let mut longest = 0;
        for _ in 0..50_000 {
            let link = 1 + random.below(u64::from(LINKS)) as u32;
            let replaced = bench.linked.keys().nth(random.below(20) as usize).copied();
            match (bench.linked.contains_key(&link), replaced) {
                (true, _) => bench.remove(link, true),
                (false, Some(older)) => {
                    let replaces = random.below(2) == 0;
                    bench.remove(older, !replaces);
                    if replaces {
                        bench.insert(link);
                    }
                }
                (false, None) => bench.insert(link),
            }
            longest = longest.max(bench.chained().len());
        }
        assert!(longest > 3, "{longest}");
    }
}
