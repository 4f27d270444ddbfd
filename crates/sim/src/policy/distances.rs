//! LRU with every number of frames at once (Mattson, Gecsei, Slutz, Traiger, "Evaluation techniques for
//! storage hierarchies", 1970).
//!
//! A request hits in an LRU cache of `n` frames exactly if at most `n` distinct pages, its own among them,
//! were requested since its page was requested before. That number is the *distance* of the request. One pass
//! counts the distances of all requests, and so every size of cache is known.
//!
//! Each page stands at the place of its last request; places are given out in rising order. So a distance is
//! the number of pages that stand from a page's place on. When places run out, the pages close ranks.
//!
//! 1. `place_of` and `page_at` are each other's inverse, and `standing` has the bits of exactly the places
//!    where a page stands.
//! 2. `sums` is a Fenwick tree over the words of `standing` (Fenwick, "A new data structure for cumulative
//!    frequency tables", 1994): node `n`, counted from 1, has the pages in as many words up to the `n`th as
//!    the lowest bit of `n` says.
//! 3. No page stands at `next` or after it.

use super::counts::{Access, Counts};

/// The distances of all requests so far.
#[derive(Default)]
pub struct Distances {
    /// By page: the place where it stands, counted from 1; 0 is nowhere yet.
    place_of: Vec<u32>,
    /// By place: the page that stands there, or did.
    page_at: Vec<u32>,
    standing: Vec<u64>,
    sums: Vec<u32>,
    next: u32,
    /// Pages that stand somewhere: all that were met.
    pages: u32,
    /// Reads and writes by distance, counted from 1; at 0 those that met their page for the first time.
    counts: [Vec<u64>; 2],
}

/// Fewest places.
const PLACES_MIN: usize = 1 << 10;

impl Distances {
    /// Without any request.
    pub fn new() -> Self {
        let mut empty = Self::default();
        empty.close_ranks();
        empty
    }

    /// Most bytes for each distinct page: its place, up to three places, and the counts of its distance, in
    /// arrays that grow by half.
    pub const BYTES_PER_PAGE: u64 = 48;

    /// Makes requests.
    pub fn run(&mut self, accesses: &[Access]) {
        for access in accesses {
            let distance = self.distance(access.page());
            let counts = &mut self.counts[usize::from(access.is_write())];
            if counts.len() <= distance {
                counts.resize((distance + 1).max(counts.len() + counts.len() / 2), 0);
            }
            counts[distance] += 1;
        }
    }

    /// The distance of a request for the page, which now has been made; 0 for the first.
    fn distance(&mut self, page: u32) -> usize {
        if self.place_of.len() <= page as usize {
            self.place_of.resize((page as usize + 1).max(self.place_of.len() + self.place_of.len() / 2), 0);
        }
        if self.next as usize == self.page_at.len() {
            self.close_ranks();
        }
        let distance = match self.place_of[page as usize].checked_sub(1) {
            Some(place) => {
                let distance = self.pages - self.before(place);
                self.standing[place as usize / 64] &= !(1 << (place % 64));
                self.add(place, u32::MAX);
                distance as usize
            }
            None => {
                self.pages += 1;
                0
            }
        };
        let place = self.next;
        self.next += 1;
        self.standing[place as usize / 64] |= 1 << (place % 64);
        self.add(place, 1);
        self.page_at[place as usize] = page;
        self.place_of[page as usize] = place + 1;
        distance
    }

    /// How many pages stand before a place.
    fn before(&self, place: u32) -> u32 {
        let word = place as usize / 64;
        let within = self.standing[word] & ((1 << (place % 64)) - 1);
        let mut sum = within.count_ones();
        let mut node = word;
        while node > 0 {
            sum += self.sums[node];
            node &= node - 1;
        }
        sum
    }

    /// Adds to the number of pages at a place, modulo 2^32.
    fn add(&mut self, place: u32, change: u32) {
        let mut node = place as usize / 64 + 1;
        while let Some(sum) = self.sums.get_mut(node) {
            *sum = sum.wrapping_add(change);
            node += node & node.wrapping_neg();
        }
    }

    /// Has the pages stand side by side, in the same order, with at least as many free places behind them.
    fn close_ranks(&mut self) {
        let mut ranks: Vec<u32> = Vec::with_capacity(self.pages as usize);
        for (word, standing) in self.standing.iter().enumerate() {
            let mut left = *standing;
            while left != 0 {
                ranks.push(self.page_at[word * 64 + left.trailing_zeros() as usize]);
                left &= left - 1;
            }
        }
        for (place, page) in ranks.iter().enumerate() {
            self.place_of[*page as usize] = place as u32 + 1;
        }
        self.next = ranks.len() as u32;
        let places = (ranks.len() * 2).max(PLACES_MIN).next_multiple_of(64);
        self.page_at = ranks;
        self.page_at.resize(places, 0);
        let full = self.next as usize / 64;
        self.standing = vec![0; places / 64];
        self.standing[..full].fill(u64::MAX);
        self.standing[full] = (1 << (self.next % 64)) - 1;
        // Each node hands on what it has to the next that covers it.
        self.sums = std::iter::once(0).chain(self.standing.iter().map(|word| word.count_ones())).collect();
        for node in 1..self.sums.len() {
            let covering = node + (node & node.wrapping_neg());
            if covering < self.sums.len() {
                self.sums[covering] += self.sums[node];
            }
        }
    }

    /// What an LRU cache of so many frames would have counted.
    pub fn counts(&self, frames: u64) -> Counts {
        let frames = usize::try_from(frames).unwrap_or(usize::MAX);
        let requests = |counts: &Vec<u64>| counts.iter().sum::<u64>();
        let hits = |counts: &Vec<u64>| counts.iter().skip(1).take(frames).sum::<u64>();
        let [reads, writes] = &self.counts;
        let misses = [requests(reads) - hits(reads), requests(writes) - hits(writes)];
        Counts::of([requests(reads), requests(writes)], misses)
    }
}

#[cfg(test)]
mod tests {
    use mezzanine_ground::random::Random;

    use super::*;

    #[test]
    fn distances_are_those_of_a_stack() {
        let mut distances = Distances::new();
        let mut stack: Vec<u32> = Vec::new();
        let mut random = Random::new(1);
        for request in 0..40_000u64 {
            // The pages become more, so that ranks are closed with and without room to spare.
            let page = random.below(10 + request / 40) as u32;
            let found = stack.iter().position(|other| *other == page);
            let expected = found.map_or(0, |at| stack.len() - at);
            assert_eq!(distances.distance(page), expected, "request {request}");
            if let Some(at) = found {
                stack.remove(at);
            }
            stack.push(page);
        }
    }
}
