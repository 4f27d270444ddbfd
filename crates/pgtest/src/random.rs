//! Numbers from a seed.

use mezzanine_ground::random;

/// A sequence of numbers.
#[derive(Debug, Clone)]
pub(crate) struct Random(random::Random);

impl Random {
    /// The sequence of a seed and of what it is for, so that one use does not move the numbers of another.
    pub(crate) fn new(seed: u64, purpose: u64) -> Self {
        Self(random::Random::new(seed ^ random::splitmix(purpose)))
    }

    /// The next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0.below(end)
    }

    /// One of these.
    pub(crate) fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        *self.0.pick(choices)
    }
}
