//! Page accesses with skew.

use mezzanine_engine::PageId;

/// A small generator (splitmix64), so that every run sees the same accesses.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// One of `pages` blocks, by the continuous approximation of Zipf's law with exponent 0.9: rank =
    /// pages * u^(1 / (1 - 0.9)). Ranks are spread over the blocks by a fixed odd multiplier.
    pub(crate) fn zipf_block(&mut self, pages: u64) -> u64 {
        let rank = (pages as f64 * self.unit().powi(10)) as u64;
        rank.wrapping_mul(0x9E37_79B1) % pages
    }

    /// The page of such a block.
    pub(crate) fn zipf_page(&mut self, pages: u64) -> PageId {
        PageId::volume(1, self.zipf_block(pages))
    }
}
