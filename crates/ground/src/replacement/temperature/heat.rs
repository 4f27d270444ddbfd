//! How warm an extent is, as a number whose order is that of temperatures, and how references warm it.
//!
//! The upper half of a temperature is its exponent and the lower its mantissa, whose highest bit is set: so
//! much room has the exponent that all temperatures can be halved, every time, by doubling what the next
//! references weigh.

/// Temperatures are halved no more often than this, which leaves room for the weight in the exponent.
const HALVINGS_MAX: u64 = u32::MAX as u64 - 64;

/// Bits of the mantissa, after the highest, that tell steps apart.
const STEP_BITS: u32 = 5;

/// The temperature of a weight.
pub(super) fn heat(weight: u32) -> u64 {
    let zeros = weight.leading_zeros();
    u64::from(31 - zeros) << 32 | u64::from(weight << zeros)
}

/// What `heat` is worth beside temperatures that have been halved so often.
#[inline(always)]
pub(super) fn after_halvings(heat: u64, halvings: u64) -> u64 {
    heat + (halvings << 32)
}

/// Once more than so many halvings.
pub(super) fn one_more(halvings: u64) -> u64 {
    (halvings + 1).min(HALVINGS_MAX)
}

/// Two temperatures together. Bits that the mantissa has no room for are dropped.
#[inline(always)]
pub(super) fn warmer(a: u64, b: u64) -> u64 {
    let (small, large) = (a.min(b), a.max(b));
    let mantissa = |temperature: u64| temperature & u64::from(u32::MAX);
    let further = (large >> 32) - (small >> 32);
    let sum = mantissa(large) + (mantissa(small) >> further.min(63));
    let carry = sum >> 32;
    ((large >> 32) + carry) << 32 | sum >> carry
}

/// The step of a temperature, for [`BucketQueue`](super::super::bucket_queue::BucketQueue): 32 to each
/// doubling. With a doubling in as many references as there are frames, the coldest step has few extents, and
/// the lists of all steps reach up to 256 times its temperature.
#[inline(always)]
pub(super) fn step(temperature: u64) -> u64 {
    let (exponent, mantissa) = (temperature >> 32, temperature & 0x7FFF_FFFF);
    exponent << STEP_BITS | mantissa >> (31 - STEP_BITS)
}
