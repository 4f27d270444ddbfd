//! Page accesses with skew.

use mezzanine_engine::PageId;
use mezzanine_ground::random::Random;

/// One of `pages` blocks, by the continuous approximation of Zipf's law with exponent 0.9: rank =
/// pages * u^(1 / (1 - 0.9)). Ranks are spread over the blocks by a fixed odd multiplier.
pub(crate) fn zipf_block(random: &mut Random, pages: u64) -> u64 {
    let unit = (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
    let rank = (pages as f64 * unit.powi(10)) as u64;
    rank.wrapping_mul(0x9E37_79B1) % pages
}

/// The page of such a block.
pub(crate) fn zipf_page(random: &mut Random, pages: u64) -> PageId {
    PageId::volume(1, zipf_block(random, pages))
}
