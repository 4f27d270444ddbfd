//! What goes into a cache, and what is counted.

use serde::Serialize;

/// Most distinct pages of a trace: their numbers have 31 bits.
pub const PAGES_MAX: u32 = 1 << 31;

/// One request: a page's number, and in the highest bit whether it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access(u32);

impl Access {
    /// A read of a page.
    ///
    /// # Panics
    /// If the number is not below [`PAGES_MAX`].
    #[inline]
    pub fn read(page: u32) -> Self {
        assert!(page < PAGES_MAX, "page numbers have 31 bits");
        Self(page)
    }

    /// A write of a page.
    ///
    /// # Panics
    /// If the number is not below [`PAGES_MAX`].
    #[inline]
    pub fn write(page: u32) -> Self {
        Self(Self::read(page).0 | PAGES_MAX)
    }

    /// The page's number.
    #[inline(always)]
    pub fn page(self) -> u32 {
        self.0 & !PAGES_MAX
    }

    /// Whether the page is written.
    #[inline(always)]
    pub fn is_write(self) -> bool {
        self.0 & PAGES_MAX != 0
    }
}

/// How many requests there were, and how many of them found their page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Reads and writes.
    pub requests: u64,
    /// Requests whose page was there.
    pub hits: u64,
    /// Requests whose page was not.
    pub misses: u64,
    /// Requests that were reads.
    pub reads: u64,
    /// Of those, without their page.
    pub read_misses: u64,
    /// Requests that were writes.
    pub writes: u64,
    /// Of those, without their page.
    pub write_misses: u64,
    /// Reads that missed and whose page did not come in, because it does not return.
    pub turned_away: u64,
}

impl Counts {
    /// From the numbers of reads and writes, and those of them that missed.
    pub(super) fn of([reads, writes]: [u64; 2], [read_misses, write_misses]: [u64; 2]) -> Self {
        let (requests, misses) = (reads + writes, read_misses + write_misses);
        Self {
            requests,
            hits: requests - misses,
            misses,
            reads,
            read_misses,
            writes,
            write_misses,
            turned_away: 0,
        }
    }

    /// Misses per request; 0 without requests.
    pub fn miss_ratio(&self) -> f64 {
        if self.requests == 0 { 0.0 } else { self.misses as f64 / self.requests as f64 }
    }
}
