//! Randomness: the distributions of clauses 2.1.6 and 4.3.2, drawn from a stream of which a seed means the
//! same requests and the same population for ever.

use mezzanine_ground::random::Stream;

/// The A of NURand for customer last names (clause 2.1.6).
const A_LAST_NAME: u32 = 255;
/// The A of NURand for customer numbers.
const A_CUSTOMER: u32 = 1_023;
/// The A of NURand for items.
const A_ITEM: u32 = 8_191;

/// Base64's letters: at least 26 lower case letters, 26 upper case letters and the digits (clause 4.3.2.2),
/// and a power of two of them, so that a letter is six random bits.
const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-";

const SYLLABLES: [&str; 10] =
    ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];

/// What is drawn for a part of the population or for a client.
#[derive(Clone, Debug)]
pub struct Random(Stream);

impl Random {
    /// The stream of `seed` with these labels. Different labels give streams that have nothing to do with
    /// each other, so that parts of the population and clients can be generated in any order.
    pub fn stream(seed: u64, labels: &[u64]) -> Self {
        Self(Stream::new(seed, labels))
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number from `min` to `max`, both included, uniformly.
    pub fn uniform(&mut self, min: u32, max: u32) -> u32 {
        assert!(min <= max, "an empty range");
        let span = u64::from(max - min) + 1;
        // The high half of a 64 x 33 bit product: off from uniform by less than 2^-31.
        let offset = (u128::from(self.bits()) * u128::from(span)) >> 64;
        min + offset as u32
    }

    /// True in `percent` of 100 cases.
    pub fn percent(&mut self, percent: u32) -> bool {
        self.uniform(1, 100) <= percent
    }

    /// Fisher and Yates.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.uniform(0, last as u32) as usize);
        }
    }

    /// NURand(A, x, y) with the constant C (clause 2.1.6).
    fn non_uniform(&mut self, a: u32, constant: u32, min: u32, max: u32) -> u32 {
        let mixed = self.uniform(0, a) | self.uniform(min, max);
        (mixed + constant) % (max - min + 1) + min
    }

    /// Appends `min` to `max` random letters and digits: "a-string" (clause 4.3.2.2).
    pub fn letters(&mut self, min: u32, max: u32, out: &mut String) {
        let mut left = self.uniform(min, max);
        while left > 0 {
            let mut bits = self.bits();
            for _ in 0..left.min(10) {
                out.push(char::from(LETTERS[(bits & 63) as usize]));
                bits >>= 6;
            }
            left -= left.min(10);
        }
    }

    /// Appends `count` random digits: "n-string" (clause 4.3.2.2).
    pub fn digits(&mut self, count: u32, out: &mut String) {
        for _ in 0..count {
            out.push(char::from(b'0' + self.uniform(0, 9) as u8));
        }
    }
}

/// The constants C of NURand (clause 2.1.6): the same for all clients of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NurandConstants {
    /// For last names, 0 to 255.
    pub last_name: u32,
    /// For customers, 0 to 1,023.
    pub customer: u32,
    /// For items, 0 to 8,191.
    pub item: u32,
}

impl NurandConstants {
    /// The constants of the population with this seed.
    pub fn for_load(seed: u64) -> Self {
        let mut random = Random::stream(seed, &[0xC0]);
        Self {
            last_name: random.uniform(0, A_LAST_NAME),
            customer: random.uniform(0, A_CUSTOMER),
            item: random.uniform(0, A_ITEM),
        }
    }

    /// The constants of a run over a population loaded with `last_name_at_load`, from which the run's
    /// constant for last names must differ by 65 to 119, but by neither 96 nor 112 (clause 2.1.6.1).
    pub fn for_run(seed: u64, last_name_at_load: u32) -> Self {
        let mut random = Random::stream(seed, &[0xC1]);
        let last_name = loop {
            let candidate = random.uniform(0, A_LAST_NAME);
            if (65..=119).contains(&candidate.abs_diff(last_name_at_load))
                && ![96, 112].contains(&candidate.abs_diff(last_name_at_load))
            {
                break candidate;
            }
        };
        Self { last_name, customer: random.uniform(0, A_CUSTOMER), item: random.uniform(0, A_ITEM) }
    }

    /// The number of a last name, below `names`.
    pub fn last_name(&self, random: &mut Random, names: u32) -> u32 {
        random.non_uniform(A_LAST_NAME, self.last_name, 0, names - 1)
    }

    /// A customer, from 1 to `customers`.
    pub fn customer(&self, random: &mut Random, customers: u32) -> u32 {
        random.non_uniform(A_CUSTOMER, self.customer, 1, customers)
    }

    /// An item, from 1 to `items`.
    pub fn item(&self, random: &mut Random, items: u32) -> u32 {
        random.non_uniform(A_ITEM, self.item, 1, items)
    }
}

/// The last name with this number, 0 to 999 (clause 4.3.2.3).
pub(crate) fn last_name(number: u32) -> String {
    assert!(number < 1_000, "there are a thousand last names");
    let mut name = String::with_capacity(15);
    for digit in [number / 100, number / 10 % 10, number % 10] {
        name.push_str(SYLLABLES[digit as usize]);
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_names_are_built_from_three_syllables() {
        assert_eq!(last_name(371), "PRICALLYOUGHT");
        assert_eq!(last_name(40), "BARPRESBAR");
        assert_eq!(last_name(999), "EINGEINGEING");
    }

    #[test]
    fn uniform_reaches_both_ends_and_is_flat() {
        let mut random = Random::stream(1, &[]);
        let mut counts = [0_u32; 10];
        for _ in 0..100_000 {
            counts[random.uniform(3, 12) as usize - 3] += 1;
        }
        // The standard deviation of a count is 95.
        assert!(counts.iter().all(|count| count.abs_diff(10_000) < 500), "{counts:?}");
    }

    #[test]
    fn streams_with_different_labels_differ() {
        let first = |labels: &[u64]| Random::stream(7, labels).bits();
        let all = [first(&[]), first(&[0]), first(&[1]), first(&[0, 1]), first(&[1, 0])];
        for (index, one) in all.iter().enumerate() {
            assert!(!all[..index].contains(one));
        }
        assert_eq!(first(&[1, 2]), first(&[1, 2]));
    }

    #[test]
    fn nurand_stays_in_range_and_is_as_skewed_as_the_bitwise_or_makes_it() {
        let constants = NurandConstants::for_run(3, 100);
        let mut random = Random::stream(5, &[]);
        let mut counts = vec![0_u32; 100_000];
        for _ in 0..1_000_000 {
            let item = constants.item(&mut random, 100_000);
            assert!((1..=100_000).contains(&item));
            counts[item as usize - 1] += 1;
        }
        counts.sort_unstable_by(|a, b| b.cmp(a));
        // Exact from the definition: 71.0 % and, for the hottest hundredth, 30.5 %. The constant only rotates
        // the items.
        let share = |hottest: usize| f64::from(counts[..hottest].iter().sum::<u32>()) / 1e6;
        assert!((share(10_000) - 0.710).abs() < 0.02, "share of the hottest tenth: {}", share(10_000));
        assert!((share(1_000) - 0.305).abs() < 0.02, "share of the hottest hundredth: {}", share(1_000));
    }

    #[test]
    fn the_runs_constant_for_last_names_keeps_its_distance_from_the_loads() {
        for seed in 0..200 {
            let load = NurandConstants::for_load(seed);
            let run = NurandConstants::for_run(seed, load.last_name);
            let delta = run.last_name.abs_diff(load.last_name);
            assert!((65..=119).contains(&delta) && delta != 96 && delta != 112, "seed {seed}: {delta}");
        }
    }

    #[test]
    fn strings_keep_their_lengths() {
        let mut random = Random::stream(9, &[]);
        let mut seen = [false; 13];
        for _ in 0..1_000 {
            let mut text = String::new();
            random.letters(12, 24, &mut text);
            assert!(text.bytes().all(|byte| LETTERS.contains(&byte)));
            seen[text.len() - 12] = true;
        }
        assert!(seen.iter().all(|&seen| seen));
        let mut text = String::new();
        random.digits(16, &mut text);
        assert!(text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_digit()));
    }
}
