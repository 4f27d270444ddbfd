//! Second-touch admission: a bounded memory of the clean pages that were offered lately.
//!
//! Most clean pages that miss never come back, and each costs a write of flash. With second-touch admission
//! ([`crate::TierConfig::returning_only`]) the first offer of a page is remembered and the page dropped; if
//! it is offered again while that is remembered, it is taken. The lists of pages that have left in 2Q and ARC
//! are such memories ("2Q: A low overhead high performance buffer management replacement algorithm", 1994,
//! section 2, there A1out), and so is the rejection of first accesses in CacheLib ("The CacheLib caching
//! engine: design and experiences at scale", 2020, section 4).
//!
//! A page's hash leads to a *set*, one word with the fingerprints of four pages, the newest in the lowest
//! place:
//!
//! ```text
//!   63        48 47        32 31        16 15         0
//!   +-----------+------------+------------+------------+
//!   |  oldest   |            |            |   newest   |      0 is no page
//!   +-----------+------------+------------+------------+
//! ```
//!
//! 1. A page that is remembered stays where it is; one that is not pushes the oldest of its set out. So the
//!    memory is first in, first out, set by set.
//! 2. A page that is not remembered passes for one that is with a probability of at most 4 / 65,535. Then it
//!    is taken at its first offer, as all pages are without this memory.
//! 3. A word is loaded once and stored once, without a lock. Of two threads that change one set at once the
//!    one that stores last may undo what the other remembered: that page has to be offered once more.
//!
//! Nothing that is durable depends on it: a clean page may always be dropped, and always be taken. It begins
//! empty with every region.

use mezzanine_ground::region::{Region, Word};

use crate::ids::PageId;

/// Fingerprints in a set.
const WAYS: u64 = 4;
/// Bits of a fingerprint.
const BITS: u32 = u64::BITS / WAYS as u32;

/// Pages that were offered lately, in a region.
#[derive(Clone, Copy)]
pub struct SecondTouch<'r> {
    sets: &'r [Word],
}

impl<'r> SecondTouch<'r> {
    /// Bytes of a memory of so many pages, rounded up to whole sets.
    pub fn bytes(pages: u64) -> usize {
        Self::sets_for(pages) * size_of::<Word>()
    }

    fn sets_for(pages: u64) -> usize {
        pages.div_ceil(WAYS) as usize
    }

    /// The memory of so many pages at an offset of a region; it is empty if all of that is zero.
    ///
    /// # Panics
    /// If the region is too small.
    pub fn laid(region: &'r Region, offset: usize, pages: u64) -> Self {
        Self { sets: region.slice(offset, Self::sets_for(pages)) }
    }

    /// Whether the page was offered lately; from now on it was.
    ///
    /// # Panics
    /// If the memory has room for no page.
    pub fn admits(&self, id: &PageId) -> bool {
        let hash = id.hash();
        let set = &self.sets[(((hash >> 32) * self.sets.len() as u64) >> 32) as usize];
        let fingerprint = (hash & ((1 << BITS) - 1)).max(1);
        let pages = set.get();
        if (0..WAYS as u32).any(|way| (pages >> (way * BITS)) & ((1 << BITS) - 1) == fingerprint) {
            return true;
        }
        set.set(pages << BITS | fingerprint);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::SecondTouch;
    use crate::ids::PageId;
    use mezzanine_ground::region::Region;

    fn id(block: u64) -> PageId {
        PageId::volume(3, block)
    }

    /// Offers pages and returns how many of them were admitted.
    fn offer(second_touch: SecondTouch<'_>, blocks: impl Iterator<Item = u64>) -> u64 {
        blocks.filter(|block| second_touch.admits(&id(*block))).count() as u64
    }

    #[test]
    fn a_set_remembers_the_last_four_pages_in_the_order_in_which_they_came_first() {
        let region = Region::heap(SecondTouch::bytes(4));
        let second_touch = SecondTouch::laid(&region, 0, 4);
        let offers = [(0, false), (1, false), (0, true), (2, false), (3, false), (0, true), (1, true)];
        // The fifth pushes out 0, which was offered last but came first; then 0 comes anew and pushes out 1.
        let later = [(4, false), (3, true), (0, false), (1, false), (4, true), (0, true), (2, false)];
        for (nth, (block, returns)) in offers.into_iter().chain(later).enumerate() {
            assert_eq!(second_touch.admits(&id(block)), returns, "offer {nth}, of page {block}");
        }
    }

    #[test]
    fn as_many_pages_are_remembered_as_there_is_room_for_and_no_more() {
        const PAGES: u64 = 4096;
        assert_eq!([0, 1, 4, 5, PAGES].map(SecondTouch::bytes), [0, 8, 8, 16, 2 * PAGES as usize]);
        let region = Region::heap(SecondTouch::bytes(PAGES));
        let second_touch = SecondTouch::laid(&region, 0, PAGES);
        offer(second_touch, 0..20 * PAGES);
        // Looked at without offering, from the words themselves: each place has a page.
        let taken = |word: u64| (0..4).filter(|way| word >> (16 * way) & 0xFFFF != 0).count() as u64;
        assert_eq!(second_touch.sets.iter().map(|set| taken(set.get())).sum::<u64>(), PAGES);
        // Pages of which many more came since are forgotten, those that came last are remembered: how many
        // follows from the sets, which are not filled evenly.
        let newest = 20 * PAGES - PAGES / 4..20 * PAGES;
        let remembered = offer(second_touch, newest.clone());
        assert!(remembered * 100 >= 95 * (PAGES / 4), "{remembered} of {newest:?}");
        let forgotten = offer(second_touch, 0..10 * PAGES);
        assert!(forgotten <= 20, "{forgotten} pages of long ago");
    }

    #[test]
    fn a_stranger_seldom_passes_for_a_page_that_returns_and_always_the_same_one_does() {
        const PAGES: u64 = 1 << 14;
        const OFFERS: u64 = 1_000_000;
        let count = || {
            let region = Region::heap(SecondTouch::bytes(PAGES));
            offer(SecondTouch::laid(&region, 0, PAGES), 0..OFFERS)
        };
        let passed = count();
        // 4 in 65,535 are 61; five standard deviations more and fewer.
        assert!((22..=100).contains(&passed), "{passed} of {OFFERS}");
        assert_eq!(count(), passed);
    }
}
