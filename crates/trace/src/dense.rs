//! Page numbers of a trace, made small.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Numbers pages from 0 in the order in which they first appear.
///
/// Memory: about 20 to 40 bytes for each distinct page, whatever the number of requests.
#[derive(Debug, Clone, Default)]
pub struct Dense {
    numbers: HashMap<u64, u32, Hashing>,
}

impl Dense {
    /// Without any page.
    pub fn new() -> Dense {
        Dense::default()
    }

    /// With room for so many pages.
    pub fn with_capacity(pages: usize) -> Dense {
        Dense { numbers: HashMap::with_capacity_and_hasher(pages, BuildHasherDefault::default()) }
    }

    /// The number of a page; a page that was not seen before gets the next one.
    ///
    /// # Panics
    /// At the 2^32nd distinct page.
    pub fn number(&mut self, page: u64) -> u32 {
        let next = self.numbers.len();
        *self
            .numbers
            .entry(page)
            .or_insert_with(|| u32::try_from(next).expect("fewer than 2^32 distinct pages"))
    }

    /// The number of a page that was seen.
    pub fn get(&self, page: u64) -> Option<u32> {
        self.numbers.get(&page).copied()
    }

    /// How many distinct pages were seen.
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Whether no page was seen.
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }
}

/// For maps whose keys are page numbers.
pub(crate) type Hashing = BuildHasherDefault<Folded>;

/// A product of 128 bits folded to 64: pages in a row, and pages of large strides, spread over the table, and
/// it costs one multiplication. No defence against somebody who chooses the pages.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Folded(u64);

impl Hasher for Folded {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word ^ 0xA076_1D64_78BD_642F) * 0x9E37_79B9_7F4A_7C15;
        self.0 = product as u64 ^ (product >> 64) as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
