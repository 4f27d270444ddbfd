//! Division by numbers that a drive does not change: its planes, pages, units, frames.
//!
//! One multiplication in the place of a division (Robison, "N-bit unsigned division via N-bit multiply-add",
//! 2005, section 3). With D = 2^64 and M = floor((D - 1) / d), which is (D - e) / d for an e from 1 to d, let
//! n + 1 = q d + s with s from 1 to d, so that q is the quotient of n. Then (n + 1) M / D is
//! q + s / d - (n + 1) e / (d D), and what is taken off is above 0 and, for n and d of 32 bits, below 1 / d:
//! the whole part is q.

/// A number to divide by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Divisor {
    number: u32,
    /// M of the module.
    reciprocal: u64,
}

impl Divisor {
    /// # Panics
    /// If it is 0.
    pub(crate) fn new(number: u32) -> Self {
        assert!(number > 0, "nothing is divided by 0");
        Self { number, reciprocal: u64::MAX / u64::from(number) }
    }

    /// As `dividend / self`.
    #[inline]
    pub(crate) fn quotient(self, dividend: u32) -> u32 {
        ((u128::from(u64::from(dividend) + 1) * u128::from(self.reciprocal)) >> 64) as u32
    }

    /// As `dividend % self`.
    #[inline]
    pub(crate) fn remainder(self, dividend: u32) -> u32 {
        dividend - self.quotient(dividend) * self.number
    }

    /// As `dividend % self`, for counts: fast as long as they have 32 bits.
    #[inline]
    pub(crate) fn remainder_of_count(self, dividend: u64) -> u32 {
        match u32::try_from(dividend) {
            Ok(dividend) => self.remainder(dividend),
            Err(_) => (dividend % u64::from(self.number)) as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use mezzanine_ground::random::Random;

    use super::*;

    #[test]
    fn quotients_and_remainders_are_those_of_divisions() {
        let mut random = Random::new(1);
        let drawn: Vec<u32> = (0..2000).map(|_| random.magnitude(u64::from(u32::MAX)) as u32).collect();
        for number in (1..70).chain([u32::MAX, u32::MAX - 1, 1 << 31, (1 << 31) + 1]).chain(drawn) {
            let divisor = Divisor::new(number);
            let near = |factor: u32| {
                let multiple = number.saturating_mul(factor);
                [multiple.saturating_sub(1), multiple, multiple.saturating_add(1)]
            };
            let factors = [0, 1, 2, u32::MAX / number, random.next_u64() as u32 % (u32::MAX / number).max(1)];
            for dividend in factors.into_iter().flat_map(near).chain([u32::MAX, random.next_u64() as u32]) {
                assert_eq!(divisor.quotient(dividend), dividend / number, "{dividend} / {number}");
                assert_eq!(divisor.remainder(dividend), dividend % number, "{dividend} % {number}");
            }
            for count in [0, u64::from(u32::MAX), 1 << 32, u64::MAX, random.next_u64()] {
                let remainder = divisor.remainder_of_count(count);
                assert_eq!(u64::from(remainder), count % u64::from(number), "{count} % {number}");
            }
        }
    }
}
