//! Numbers of fragments in a miniature: the engine keeps something of a fragment only while it is in the
//! cache or a candidate, so a number whose fragment is neither is given to another one, and nothing is lost.

use super::sample::hash;

/// No fragment's key: no volume has so many.
const NOBODY: u64 = u64::MAX;

/// Which fragment has which number.
pub(super) struct Numbers {
    /// By number.
    keys: Vec<u64>,
    /// Open addressing: a number and one, or 0. At most half of the places are taken.
    index: Vec<u32>,
    /// Numbers from here on were not looked at since the last round.
    next: usize,
}

impl Numbers {
    /// None of so many numbers is anybody's.
    pub(super) fn new(count: u32) -> Self {
        let places = places(count);
        Self { keys: vec![NOBODY; count as usize], index: vec![0; places], next: 0 }
    }

    /// Bytes of memory that so many numbers take.
    pub(super) fn bytes(count: u32) -> u64 {
        u64::from(count) * size_of::<u64>() as u64 + (places(count) * size_of::<u32>()) as u64
    }

    /// The fragment's number, if it has one.
    pub(super) fn find(&self, key: u64) -> Option<u32> {
        match self.index[self.place_of(key)] {
            0 => None,
            number => Some(number - 1),
        }
    }

    /// The fragment's number: a new one, if it has none. `keeps` says of which numbers the engine keeps
    /// something; it is asked for all of them when they have been given out.
    ///
    /// # Panics
    /// If something is kept of all of them.
    pub(super) fn get(&mut self, key: u64, keeps: impl FnOnce() -> Vec<bool>) -> u32 {
        if let Some(number) = self.find(key) {
            return number;
        }
        let number = self.free().or_else(|| {
            self.take_back(&keeps());
            self.free()
        });
        let number = number.expect("sizing, invariant 2: there are more numbers than the engine can keep");
        self.keys[number] = key;
        let place = self.place_of(key);
        self.index[place] = number as u32 + 1;
        number as u32
    }

    /// The fragments that have numbers, and those.
    pub(super) fn all(&self) -> impl Iterator<Item = (u64, u32)> + '_ {
        self.keys.iter().zip(0..).filter(|(key, _)| **key != NOBODY).map(|(key, number)| (*key, number))
    }

    fn free(&mut self) -> Option<usize> {
        let found = self.keys[self.next..].iter().position(|key| *key == NOBODY);
        let number = found.map(|distance| self.next + distance);
        self.next = number.map_or(self.keys.len(), |number| number + 1);
        number
    }

    fn take_back(&mut self, keeps: &[bool]) {
        assert_eq!(keeps.len(), self.keys.len());
        self.index.fill(0);
        self.next = 0;
        for (number, keeps) in keeps.iter().enumerate() {
            let key = self.keys[number];
            if *keeps && key != NOBODY {
                let place = self.place_of(key);
                self.index[place] = number as u32 + 1;
            } else {
                self.keys[number] = NOBODY;
            }
        }
    }

    /// Where the index has the key, or has room for it.
    fn place_of(&self, key: u64) -> usize {
        let mask = self.index.len() - 1;
        let mut place = hash(key) as usize & mask;
        while self.index[place] != 0 && self.keys[self.index[place] as usize - 1] != key {
            place = (place + 1) & mask;
        }
        place
    }
}

fn places(count: u32) -> usize {
    (2 * count as usize).next_power_of_two()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_keeps_its_number_and_others_are_found_no_more() {
        let mut numbers = Numbers::new(8);
        let given: Vec<u32> = (100..108).map(|key| numbers.get(key, || panic!("there are 8"))).collect();
        assert_eq!(given, [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(numbers.get(103, || panic!("it has one")), 3);
        let kept = [2, 5, 7];
        let keeps = || (0..8).map(|number| kept.contains(&number)).collect();
        assert_eq!(numbers.get(200, keeps), 0);
        for key in 100..108 {
            let number = key as u32 - 100;
            assert_eq!(numbers.find(key), kept.contains(&number).then_some(number));
        }
        let more: Vec<u32> = (201..205).map(|key| numbers.get(key, || panic!("4 are left"))).collect();
        assert_eq!(more, [1, 3, 4, 6]);
        assert_eq!(numbers.all().count(), 8);
    }

    #[test]
    #[should_panic(expected = "more numbers than the engine can keep")]
    fn too_few_numbers_are_noticed() {
        let mut numbers = Numbers::new(1);
        numbers.get(1, Vec::new);
        numbers.get(2, || vec![true]);
    }
}
