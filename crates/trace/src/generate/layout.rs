//! Where tables and indexes lie in a database of so many pages.
//!
//! Rows have the length that the benchmark states and 28 bytes more, PostgreSQL's row header and line
//! pointer; an index entry has 24 bytes, and index pages are 70 % full. Relations follow each other without
//! gaps, each with its root first.

use super::stream::Steps;

const ROW_OVERHEAD_BYTES: u32 = 28;
const PAGE_HEADER_BYTES: u32 = 24;
const ENTRY_BYTES: u32 = 24;

/// The pages that were given out.
pub(super) struct Space {
    page_bytes: u32,
    next: u64,
    names: Vec<&'static str>,
}

impl Space {
    pub(super) fn new(page_bytes: u32) -> Space {
        Space { page_bytes, next: 0, names: Vec::new() }
    }

    /// Pages given out so far.
    pub(super) fn pages(&self) -> u64 {
        self.next
    }

    /// Names of the relations.
    pub(super) fn names(&self) -> &[&'static str] {
        &self.names
    }

    /// Rows of this length that fit a page.
    pub(super) fn rows_per_page(&self, row_bytes: u32) -> u64 {
        let room = self.page_bytes - PAGE_HEADER_BYTES;
        u64::from((room / (row_bytes + ROW_OVERHEAD_BYTES)).max(1))
    }

    fn entries_per_page(&self) -> u64 {
        u64::from(self.page_bytes * 7 / 10 / ENTRY_BYTES)
    }

    fn take(&mut self, pages: u64) -> u64 {
        let first = self.next;
        self.next += pages;
        first
    }

    /// A table without an order: rows by their number.
    pub(super) fn heap(&mut self, name: &'static str, rows: u64, row_bytes: u32) -> Heap {
        let rows_per_page = self.rows_per_page(row_bytes);
        let pages = rows.div_ceil(rows_per_page).max(1);
        self.names.push(name);
        Heap { relation: self.names.len() as u32, first: self.take(pages), pages, rows_per_page }
    }

    /// A B-tree over so many leaves: a table in the order of its key, or an index.
    pub(super) fn tree(&mut self, name: &'static str, leaves: u64) -> Tree {
        let leaves = leaves.max(1);
        let mut levels = Vec::new();
        let mut below = leaves;
        while below > 1 {
            below = below.div_ceil(self.entries_per_page());
            levels.push(below);
        }
        levels.reverse();
        self.names.push(name);
        let inner = levels.into_iter().map(|pages| (self.take(pages), pages)).collect();
        Tree { relation: self.names.len() as u32, inner, first: self.take(leaves), leaves }
    }

    /// An index of so many entries.
    pub(super) fn index(&mut self, name: &'static str, entries: u64) -> Tree {
        self.tree(name, entries.div_ceil(self.entries_per_page()))
    }
}

/// A table without an order.
#[derive(Debug, Clone, Copy)]
pub(super) struct Heap {
    relation: u32,
    first: u64,
    pages: u64,
    rows_per_page: u64,
}

impl Heap {
    /// The page of a row; rows that do not fit take the place of the oldest.
    pub(super) fn page(&self, row: u64) -> u64 {
        self.first + row / self.rows_per_page % self.pages
    }

    pub(super) fn read(&self, row: u64, steps: &mut Steps) {
        steps.read(self.relation, self.page(row));
    }

    pub(super) fn write(&self, row: u64, steps: &mut Steps) {
        steps.write(self.relation, self.page(row));
    }

    pub(super) fn relation(&self) -> u32 {
        self.relation
    }

    pub(super) fn pages(&self) -> u64 {
        self.pages
    }

    pub(super) fn first(&self) -> u64 {
        self.first
    }

    pub(super) fn rows(&self) -> u64 {
        self.pages * self.rows_per_page
    }
}

/// A B-tree.
#[derive(Debug, Clone)]
pub(super) struct Tree {
    relation: u32,
    /// First page and number of pages of the levels above the leaves, from the root.
    inner: Vec<(u64, u64)>,
    first: u64,
    leaves: u64,
}

impl Tree {
    pub(super) fn leaves(&self) -> u64 {
        self.leaves
    }

    pub(super) fn relation(&self) -> u32 {
        self.relation
    }

    /// The page of a leaf.
    pub(super) fn page(&self, leaf: u64) -> u64 {
        self.first + leaf % self.leaves
    }

    /// The leaf where entry `index` of `entries` is.
    pub(super) fn leaf_of(&self, index: u64, entries: u64) -> u64 {
        (u128::from(index) * u128::from(self.leaves) / u128::from(entries.max(1))) as u64
    }

    /// From the root to a leaf, which is read.
    pub(super) fn read(&self, leaf: u64, steps: &mut Steps) {
        self.descend(leaf, steps);
        steps.read(self.relation, self.page(leaf));
    }

    /// From the root to a leaf, which is changed.
    pub(super) fn write(&self, leaf: u64, steps: &mut Steps) {
        self.descend(leaf, steps);
        steps.write(self.relation, self.page(leaf));
    }

    fn descend(&self, leaf: u64, steps: &mut Steps) {
        for (first, pages) in &self.inner {
            steps.read(self.relation, first + leaf % self.leaves * pages / self.leaves);
        }
    }
}

/// The largest number from `min` to `max` for which the pages suffice; `None` if not even the smallest.
pub(super) fn largest(min: u64, max: u64, fits: impl Fn(u64) -> bool) -> Option<u64> {
    if !fits(min) {
        return None;
    }
    let (mut good, mut bad) = (min, max.saturating_add(1));
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        if fits(middle) { good = middle } else { bad = middle }
    }
    Some(good)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn relations_lie_behind_each_other_and_no_page_is_two_things() {
        let mut space = Space::new(4096);
        let heap = space.heap("heap", 1_000, 172);
        let tree = space.tree("tree", 20_000);
        let index = space.index("index", 1);
        assert_eq!((heap.first(), heap.pages()), (0, 50), "20 rows of 200 bytes a page");
        // 119 entries a page: 20,000 leaves below 169 below 2 below 1.
        assert_eq!(tree.inner, [(50, 1), (51, 2), (53, 169)]);
        assert_eq!((tree.page(0), tree.page(19_999)), (222, 20_221));
        assert_eq!((index.page(0), index.inner.len(), space.pages()), (20_222, 0, 20_223));
        assert_eq!(space.names(), ["heap", "tree", "index"]);
    }

    #[test]
    fn the_last_leaf_is_under_the_last_inner_pages() {
        let mut space = Space::new(4096);
        let tree = space.tree("tree", 20_000);
        for (leaf, inner) in [(0, [0, 1, 3]), (19_999, [0, 2, 171])] {
            let mut steps = Steps::default();
            tree.descend(leaf, &mut steps);
            assert_eq!(format!("{steps:?}").matches("page: ").count(), 3);
            for page in inner {
                assert!(format!("{steps:?}").contains(&format!("page: {page} ")), "{page} in {steps:?}");
            }
        }
    }

    #[test]
    fn rows_that_do_not_fit_take_the_place_of_the_oldest() {
        let mut space = Space::new(4096);
        let heap = space.heap("heap", 40, 172);
        assert_eq!([0, 19, 20, 39, 40, 60].map(|row| heap.page(row)), [0, 0, 1, 1, 0, 1]);
    }

    #[test]
    fn the_largest_that_fits_is_found() {
        assert_eq!(largest(1, 100, |n| n * n <= 50), Some(7));
        assert_eq!(largest(1, 5, |_| true), Some(5));
        assert_eq!(largest(3, 5, |_| false), None);
    }
}
