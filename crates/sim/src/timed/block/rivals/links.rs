//! Lists of numbered things, each in one list at most: least recently used first.

use super::NONE;

/// The links of all things, and the ends of all lists.
pub(super) struct Links {
    before: Vec<u32>,
    after: Vec<u32>,
    first: Vec<u32>,
    last: Vec<u32>,
    len: Vec<u32>,
}

impl Links {
    /// So many things, in no list, and so many lists.
    pub(super) fn new(things: usize, lists: usize) -> Self {
        Self {
            before: vec![NONE; things],
            after: vec![NONE; things],
            first: vec![NONE; lists],
            last: vec![NONE; lists],
            len: vec![0; lists],
        }
    }

    pub(super) fn len(&self, list: usize) -> u32 {
        self.len[list]
    }

    pub(super) fn first(&self, list: usize) -> Option<u32> {
        Some(self.first[list]).filter(|thing| *thing != NONE)
    }

    pub(super) fn last(&self, list: usize) -> Option<u32> {
        Some(self.last[list]).filter(|thing| *thing != NONE)
    }

    pub(super) fn after(&self, thing: u32) -> Option<u32> {
        Some(self.after[thing as usize]).filter(|thing| *thing != NONE)
    }

    pub(super) fn push_last(&mut self, list: usize, thing: u32) {
        let last = std::mem::replace(&mut self.last[list], thing);
        self.before[thing as usize] = last;
        self.after[thing as usize] = NONE;
        match last {
            NONE => self.first[list] = thing,
            last => self.after[last as usize] = thing,
        }
        self.len[list] += 1;
    }

    pub(super) fn push_first(&mut self, list: usize, thing: u32) {
        let first = std::mem::replace(&mut self.first[list], thing);
        self.after[thing as usize] = first;
        self.before[thing as usize] = NONE;
        match first {
            NONE => self.last[list] = thing,
            first => self.before[first as usize] = thing,
        }
        self.len[list] += 1;
    }

    /// Takes a thing out of the list that it is in.
    pub(super) fn remove(&mut self, list: usize, thing: u32) {
        let (before, after) = (self.before[thing as usize], self.after[thing as usize]);
        match before {
            NONE => self.first[list] = after,
            before => self.after[before as usize] = after,
        }
        match after {
            NONE => self.last[list] = before,
            after => self.before[after as usize] = before,
        }
        self.len[list] -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_are_where_they_were_put() {
        let mut links = Links::new(4, 2);
        links.push_last(0, 1);
        links.push_last(0, 2);
        links.push_first(0, 0);
        links.remove(0, 1);
        links.push_last(1, 1);
        let order = |links: &Links, list| {
            std::iter::successors(links.first(list), |thing| links.after(*thing)).collect::<Vec<_>>()
        };
        assert_eq!((order(&links, 0), order(&links, 1)), (vec![0, 2], vec![1]));
        assert_eq!((links.len(0), links.len(1), links.last(0), links.last(1)), (2, 1, Some(2), Some(1)));
    }
}
