//! The generator behind every simulated fault: small, seedable, the same on every machine.

/// xoshiro256** (Blackman and Vigna, "Scrambled linear pseudorandom number generators", 2018), seeded through
/// splitmix64.
#[derive(Debug, Clone)]
pub struct Random {
    state: [u64; 4],
}

/// One step of splitmix64: turns any number, also a small or a neighbouring one, into a well mixed one.
pub fn splitmix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

impl Random {
    /// A generator whose whole sequence follows from `seed`.
    pub fn new(seed: u64) -> Self {
        let mut word = seed;
        let state = std::array::from_fn(|_| {
            word = splitmix(word);
            word
        });
        Self { state }
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        let result = self.state[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let shifted = self.state[1] << 17;
        self.state[2] ^= self.state[0];
        self.state[3] ^= self.state[1];
        self.state[1] ^= self.state[2];
        self.state[0] ^= self.state[3];
        self.state[2] ^= shifted;
        self.state[3] = self.state[3].rotate_left(45);
        result
    }

    /// A number from 0 up to and without `bound`. The bias of the multiplication is below 2^-32 for bounds
    /// that fit in 32 bits.
    ///
    /// # Panics
    /// When `bound` is 0: there is no such number.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "a random number below zero was asked for");
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// True in `numerator` of `denominator` cases.
    pub fn chance(&mut self, numerator: u64, denominator: u64) -> bool {
        self.below(denominator) < numerator
    }

    /// A number from 1 to `max` whose logarithm is evenly spread: small ones are as likely as large ones.
    pub fn magnitude(&mut self, max: u64) -> u64 {
        let bits = u64::from(64 - max.max(1).leading_zeros());
        let ceiling = 1u64.checked_shl(self.between(1, bits) as u32).map_or(u64::MAX, |power| power - 1);
        self.between(1, ceiling.min(max.max(1)))
    }

    /// One element, each as likely as the next.
    ///
    /// # Panics
    /// When there is none.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len() as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_one_sequence_and_neighbours_differ() {
        let draw = |seed| {
            let mut random = Random::new(seed);
            [random.next_u64(), random.next_u64(), random.next_u64()]
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn numbers_stay_in_their_range_and_reach_its_ends() {
        let mut random = Random::new(7);
        let mut seen = [false; 5];
        for _ in 0..1000 {
            seen[random.below(5) as usize] = true;
            assert!((1..=100).contains(&random.magnitude(100)));
            assert!((3..=4).contains(&random.between(3, 4)));
        }
        assert_eq!(seen, [true; 5]);
    }
}
