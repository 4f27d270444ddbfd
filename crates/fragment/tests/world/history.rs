//! What a place of a backing device has held, and since when.

/// The values of a place, each with the step at which it came. Steps only grow.
pub(crate) struct History(Vec<(u64, u64)>);

impl History {
    /// A place that has this value from the beginning on.
    pub(crate) fn new(value: u64) -> Self {
        Self(vec![(0, value)])
    }

    pub(crate) fn set(&mut self, step: u64, value: u64) {
        self.0.push((step, value));
    }

    pub(crate) fn now(&self) -> u64 {
        self.0[self.0.len() - 1].1
    }

    /// Whether it had this value at some moment from one step to another.
    pub(crate) fn had(&self, value: u64, from: u64, to: u64) -> bool {
        let before = self.0.iter().rposition(|&(step, _)| step <= from).unwrap_or(0);
        self.0[before..].iter().any(|&(step, had)| step <= to && had == value)
    }
}
