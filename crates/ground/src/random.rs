//! Numbers from seeds, the same on every machine and for as long as a seed is to mean what it meant: the
//! simulator's regressions, the population of benchmarks. The generators are those of `rand_xoshiro`; how a
//! seed becomes their state is decided here, and tests hold the first numbers of each.

use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};
use rand_xoshiro::{SplitMix64, Xoshiro256PlusPlus, Xoshiro256StarStar};

/// One step of SplitMix64: turns any number, also a small or a neighbouring one, into a well mixed one.
pub fn splitmix(seed: u64) -> u64 {
    SplitMix64::seed_from_u64(seed).next_u64()
}

/// What SplitMix64 draws from a state, for what is defined by it.
pub fn splitmix_sequence(state: u64) -> impl Iterator<Item = u64> {
    let mut generator = SplitMix64::seed_from_u64(state);
    std::iter::repeat_with(move || generator.next_u64())
}

/// xoshiro256** (Blackman and Vigna, "Scrambled linear pseudorandom number generators", 2018), seeded through
/// [`splitmix`].
#[derive(Debug, Clone)]
pub struct Random(Xoshiro256StarStar);

impl Random {
    /// A generator whose whole sequence follows from `seed`.
    pub fn new(seed: u64) -> Self {
        let mut word = seed;
        Self(Xoshiro256StarStar::from_seed(bytes_of(std::array::from_fn(|_| {
            word = splitmix(word);
            word
        }))))
    }

    /// The next 64 bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number from 0 up to and without `bound`. The bias of the multiplication is below 2^-32 for bounds
    /// that fit in 32 bits.
    ///
    /// # Panics
    /// When `bound` is 0: there is no such number.
    #[inline]
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

/// xoshiro256++, of the same family: one of many streams that a seed has.
#[derive(Debug, Clone)]
pub struct Stream(Xoshiro256PlusPlus);

impl Stream {
    /// The stream of `seed` with these labels. Different labels give streams that have nothing to do with
    /// each other, so that what they are drawn for can come in any order.
    pub fn new(seed: u64, labels: &[u64]) -> Self {
        let mut mixed = splitmix(seed);
        for &label in labels {
            mixed = splitmix(mixed ^ splitmix(label.wrapping_add(0x5851_F42D_4C95_7F2D)));
        }
        // The first number of the sequence has never been a part of the state.
        let mut words = SplitMix64::seed_from_u64(mixed);
        words.next_u64();
        Self(Xoshiro256PlusPlus::from_seed(bytes_of(std::array::from_fn(|_| words.next_u64()))))
    }

    /// The next 64 bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }
}

fn bytes_of(state: [u64; 4]) -> [u8; 32] {
    let mut bytes = [0; 32];
    for (bytes, word) in bytes.chunks_exact_mut(8).zip(state) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_numbers_that_it_always_gave() {
        let drawn = |seed| {
            let mut random = Random::new(seed);
            std::array::from_fn(|_| random.next_u64())
        };
        for (seed, first) in [
            (0, [1905207664160064169, 7642312046547803776, 7003759831383473959, 2435594535647819530]),
            (1, [14233695028433725123, 151843346328975388, 2778140871569557710, 16164111194036829938]),
            (
                1602176705526,
                [7694501066927035632, 3188175054137029863, 7149022917219633826, 11957899667375454027],
            ),
            (
                u64::MAX,
                [10227601306713020730, 4731357940663453196, 15990519531781816883, 10636981901014501863],
            ),
        ] {
            assert_eq!(drawn(seed), first, "seed {seed}");
        }
        let mut random = Random::new(9);
        let folded = (0..1_000_000).fold(0_u64, |folded, _| folded.rotate_left(5) ^ random.next_u64());
        assert_eq!(folded, 0xCA7B_1109_7A50_0F59);
    }

    #[test]
    fn what_is_made_of_the_numbers_is_what_it_always_was() {
        let mut random = Random::new(42);
        assert_eq!((random.below(10), random.below(1000), random.between(3, 9)), (3, 880, 7));
        assert!(!random.chance(1, 3));
        assert_eq!((random.magnitude(1 << 40), random.magnitude(100)), (65, 2));
        assert_eq!(random.pick(&[1, 2, 3, 4, 5]), &1);
    }

    #[test]
    fn a_stream_is_what_it_always_was() {
        let drawn = |seed, labels: &[u64]| {
            let mut stream = Stream::new(seed, labels);
            std::array::from_fn(|_| stream.next_u64())
        };
        for (seed, labels, first) in [
            (
                0,
                &[][..],
                [4517128181664181126, 16489448104679922314, 7800204339426311661, 12507365731359047544],
            ),
            (1, &[], [6136354729523004571, 12046088779574265109, 235313451642545215, 14836871716409671043]),
            (7, &[1, 2], [6777612328414446164, 3644961843211664918, 2711285082867556850, 335082207991726297]),
            (
                7,
                &[2, 1],
                [1617566517409284434, 16251927697474087544, 2714930145859827269, 18169159076076927266],
            ),
            (
                u64::MAX,
                &[u64::MAX],
                [10690427552114683709, 7677232236305815825, 3585463676695947107, 6515309672147657025],
            ),
        ] {
            assert_eq!(drawn(seed, labels), first, "seed {seed}, labels {labels:?}");
        }
        let mut stream = Stream::new(9, &[3]);
        let folded = (0..1_000_000).fold(0_u64, |folded, _| folded.rotate_left(5) ^ stream.next_u64());
        assert_eq!(folded, 0xFF3C_FE2B_1B74_BD35);
    }

    #[test]
    fn splitmix_is_the_published_one() {
        assert_eq!(splitmix(0), 0xE220_A839_7B1D_CDAF);
        assert_eq!(splitmix(1), 0x910A_2DEC_8902_5CC1);
        assert_eq!(splitmix(u64::MAX), 0xE4D9_7177_1B65_2C20);
        let first: Vec<u64> = splitmix_sequence(0).take(3).collect();
        assert_eq!(first, [0xE220_A839_7B1D_CDAF, 0x6E78_9E6A_A1B9_65F4, 0x06C4_5D18_8009_454F]);
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
