//! A trace without a file, for comparing implementations.

use mezzanine_ground::random::splitmix_sequence;

/// Page numbers of the synthetic trace `prod3`, without an end.
///
/// splitmix64 from state 0 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014) draws
/// one word for each request. The product of its lowest three 16-bit numbers, divided by 2^32, is the page; 0
/// stands for 65,536. So small page numbers are requested often and large ones seldom, and there are no
/// others than 1 to 65,536. The first three are 16,639, 10,202 and 3,226; the first million have 48,269
/// distinct ones.
///
/// With the first million requests, caches of 1,000, 5,000 and 20,000 frames miss as often as
/// `tests/policy.rs` says, whoever implements them: everything is exact.
pub fn prod3() -> impl Iterator<Item = u64> {
    splitmix_sequence(0).map(|word| {
        let part = |shift: u32| (word >> shift) & 0xFFFF;
        match (part(0) * part(16) * part(32)) >> 32 {
            0 => 1 << 16,
            page => page,
        }
    })
}
