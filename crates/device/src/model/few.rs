//! A list that has one element most of the time, and then takes no memory of its own.

/// Elements in the order in which they were added.
#[derive(Debug, Clone)]
pub(super) struct Few<T> {
    /// Without it, and with `more`, the first was removed.
    first: Option<T>,
    more: Vec<T>,
}

impl<T> Few<T> {
    pub(super) fn new() -> Self {
        Self { first: None, more: Vec::new() }
    }

    pub(super) fn push(&mut self, element: T) {
        if self.is_empty() { self.first = Some(element) } else { self.more.push(element) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.first.is_none() && self.more.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.first.iter().chain(&self.more)
    }

    /// The first element for which `is_it` is true.
    pub(super) fn find_mut(&mut self, is_it: impl Fn(&T) -> bool) -> Option<&mut T> {
        match &mut self.first {
            Some(first) if is_it(first) => Some(first),
            _ => self.more.iter_mut().find(|element| is_it(element)),
        }
    }

    /// Removes the elements for which `keep` is false; it is asked in their order.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        self.first.take_if(|element| !keep(element));
        self.more.retain(keep);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_kept_whatever_is_removed() {
        for removed in 0..8_u32 {
            let (mut few, mut all) = (Few::new(), Vec::new());
            for element in 0..3_u32 {
                few.push(element);
                all.push(element);
            }
            few.retain(|element| removed >> element & 1 == 0);
            all.retain(|element| removed >> element & 1 == 0);
            few.push(99);
            all.push(99);
            assert!(few.iter().eq(&all), "{few:?} for {all:?}");
            for element in [0, 1, 2, 99] {
                let found = few.find_mut(|other| *other == element).copied();
                assert_eq!(found, all.contains(&element).then_some(element));
            }
            few.retain(|_| false);
            assert!(few.is_empty());
        }
    }
}
