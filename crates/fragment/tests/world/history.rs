//! What a place of a backing device has held, since when, and what readers have got of it.

struct Value {
    value: u64,
    came: u64,
    /// When the write of a later one was answered: until then who reads may get this one.
    replaced: Option<u64>,
}

/// The values of a place in the order in which the backing device had them. Steps only grow.
pub(crate) struct History {
    values: Vec<Value>,
    /// When a read of a later value than any read before has ended, and the number of that value.
    seen: Vec<(u64, usize)>,
}

impl History {
    /// A place that has this value from the beginning on.
    pub(crate) fn new(value: u64) -> Self {
        Self { values: vec![Value { value, came: 0, replaced: None }], seen: Vec::new() }
    }

    /// The backing device has carried out a write.
    pub(crate) fn set(&mut self, step: u64, value: u64) {
        self.values.push(Value { value, came: step, replaced: None });
    }

    /// That write was answered, and whoever made it is told so: if it has succeeded, or if it was carried out
    /// nevertheless.
    pub(crate) fn answered(&mut self, step: u64, value: u64) {
        let Some(number) = self.number(value) else { return };
        for before in self.values[..number].iter_mut().rev().take_while(|before| before.replaced.is_none()) {
            before.replaced = Some(step);
        }
    }

    fn number(&self, value: u64) -> Option<usize> {
        self.values.iter().rposition(|one| one.value == value)
    }

    pub(crate) fn now(&self) -> u64 {
        self.values[self.values.len() - 1].value
    }

    /// Whether it was to be read as this value at some moment from one step to another: the backing device
    /// had it, or had a later one that nobody had been answered.
    pub(crate) fn had(&self, value: u64, from: u64, to: u64) -> bool {
        self.number(value).is_some_and(|number| {
            let one = &self.values[number];
            one.came <= to && one.replaced.is_none_or(|replaced| replaced >= from)
        })
    }

    /// A read from one step to another has got this value: whether none that had ended before it began got a
    /// later one.
    pub(crate) fn is_in_order(&mut self, value: u64, from: u64, to: u64) -> bool {
        let number = self.number(value).expect("a value that it had");
        let before = self.seen.partition_point(|&(end, _)| end < from);
        let newest = before.checked_sub(1).map_or(0, |last| self.seen[last].1);
        if self.seen.last().is_none_or(|&(_, last)| number > last) {
            self.seen.push((to, number));
        }
        number >= newest
    }

    /// Whether the cache may keep this value as valid: it is the last, or the one before writes that were not
    /// answered.
    #[allow(dead_code, reason = "orders are compared when nothing is under way any more")]
    pub(crate) fn may_be_kept(&self, value: u64) -> bool {
        self.number(value).is_some_and(|number| self.values[number].replaced.is_none())
    }
}
