//! A bucket of the directory's hash table: one cache line.
//!
//! ```text
//!   0                       12        16                                             64
//!   +-----------------------+---------+----------------------------------------------+
//!   | 12 tags of one byte   | chain   | 12 links: frame + 1, or 0                    |
//!   +-----------------------+---------+----------------------------------------------+
//! ```
//!
//! A tag is a byte of the page's hash; 0 is a free place. A lookup compares all tags at once and then goes
//! to the one entry that will nearly always be the page's: two cache lines, and branches that are foreseen
//! although what they depend on is still on its way from memory, so that lookups overlap. Pages that find
//! no place are chained through their entries.
//!
//! Words change under the shard's lock; lookups read them without it (see [`crate::directory`]).

use std::num::NonZeroU32;
use std::sync::atomic::Ordering::Relaxed;

use mezzanine_ground::interleave::AtomicU32;
use mezzanine_ground::region::equal_bytes;

/// Pages that a bucket has places for.
const PLACES: usize = 12;
/// Valid pages per bucket when every frame is valid. At this load one page in twenty is chained.
pub(crate) const PAGES_PER_BUCKET: usize = 10;
/// No frame.
pub(crate) const NO_LINK: u32 = 0;

/// One bucket. Zeros are an empty one.
#[repr(C, align(64))]
pub(crate) struct Bucket {
    /// Four tags each, and the first of the pages that found no place.
    head: [AtomicU32; 4],
    links: [AtomicU32; PLACES],
}
/// The word of `head` that is no tags.
const CHAIN: usize = PLACES / 4;
const _: () = assert!(size_of::<Bucket>() == 64);

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

/// The tag that a byte of a hash makes: never that of a free place.
#[inline]
pub(crate) fn tag_of(byte: u8) -> u8 {
    byte.max(1)
}

impl Bucket {
    /// The first of the pages that found no place.
    #[inline]
    pub(crate) fn chain(&self) -> &AtomicU32 {
        &self.head[CHAIN]
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

    /// Takes a free place for a link; false if there is none. Under the shard's lock.
    pub(crate) fn insert(&self, tag: u8, link: u32) -> bool {
        let Some(place) = self.places(0).next() else {
            return false;
        };
        self.links[place].store(link, Relaxed);
        self.set_tag(place, tag);
        true
    }

    /// Frees the place of a link; false if it has none. Under the shard's lock.
    pub(crate) fn remove(&self, link: u32) -> bool {
        let Some(place) = self.links.iter().position(|word| word.load(Relaxed) == link) else {
            return false;
        };
        self.set_tag(place, 0);
        self.links[place].store(NO_LINK, Relaxed);
        true
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
    use mezzanine_ground::region::Region;

    #[test]
    fn every_place_is_used_found_and_freed() {
        let region = Region::heap(4096);
        let bucket: &Bucket = region.value(0);
        let tag = |link: u32| [1, 255, 2, 1, 128, 127][link as usize % 6];
        for link in 1..=PLACES as u32 {
            assert!(bucket.insert(tag(link), link));
        }
        assert!(!bucket.insert(9, 99), "the bucket is full");
        for link in 1..=PLACES as u32 {
            assert!(bucket.candidates(tag(link)).any(|found| found == link));
            assert!(bucket.candidates(77).all(|found| found != link));
        }
        for link in (1..=PLACES as u32).rev() {
            assert!(bucket.remove(link));
            assert!(!bucket.remove(link), "it is there no more");
            assert!(bucket.candidates(tag(link)).all(|found| found != link));
            assert!(bucket.insert(tag(link), link + 100), "its place is free again");
            assert!(bucket.candidates(tag(link)).any(|found| found == link + 100));
        }
    }
}
