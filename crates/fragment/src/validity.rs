//! The validity bitmap of a cached fragment: a bit for each of its blocks (section 3.4 of the paper).

use std::ops::Range;

use mezzanine_ground::region::Word;

/// A bitmap in the region. Read and changed under the lock of its fragment's shard.
#[derive(Clone, Copy)]
pub(crate) struct Validity<'r>(pub(crate) &'r [Word]);

/// The bits of a range that lie in one word, by that word's number.
fn masks(blocks: Range<u32>) -> impl Iterator<Item = (usize, u64)> {
    let Range { start, end } = blocks;
    let words = start / 64..if start < end { end.div_ceil(64) } else { start / 64 };
    words.map(move |word| {
        let (low, high) = (start.max(word * 64) - word * 64, end.min((word + 1) * 64) - word * 64);
        (word as usize, mask(low..high))
    })
}

/// The bits of a range of at most 64.
pub(crate) fn mask(bits: Range<u32>) -> u64 {
    if bits.is_empty() {
        return 0;
    }
    (u64::MAX >> (64 - (bits.end - bits.start))) << bits.start
}

/// The ranges of bits that are set, in order.
pub(crate) fn runs(mut bits: u64) -> impl Iterator<Item = Range<u32>> {
    std::iter::from_fn(move || {
        (bits != 0).then(|| {
            let start = bits.trailing_zeros();
            let length = (!(bits >> start)).trailing_zeros();
            bits &= !mask(start..start + length);
            start..start + length
        })
    })
}

impl Validity<'_> {
    pub(crate) fn set(&self, blocks: Range<u32>) {
        for (word, mask) in masks(blocks) {
            self.0[word].set(self.0[word].get() | mask);
        }
    }

    pub(crate) fn clear(&self, blocks: Range<u32>) {
        for (word, mask) in masks(blocks) {
            self.0[word].set(self.0[word].get() & !mask);
        }
    }

    /// The blocks of a range that were valid are not, and the others are; nothing behind the range is valid.
    pub(crate) fn invert(&self, blocks: Range<u32>) {
        let end = self.0.len() as u32 * u64::BITS;
        self.clear(blocks.end..end);
        for (word, mask) in masks(blocks) {
            self.0[word].set(self.0[word].get() ^ mask);
        }
    }

    pub(crate) fn all(&self, blocks: Range<u32>) -> bool {
        masks(blocks).all(|(word, mask)| self.0[word].get() & mask == mask)
    }

    pub(crate) fn any(&self, blocks: Range<u32>) -> bool {
        masks(blocks).any(|(word, mask)| self.0[word].get() & mask != 0)
    }

    /// Whether the first block of a range is valid, and where in the range that ends.
    pub(crate) fn run(&self, blocks: Range<u32>) -> (bool, u32) {
        let is_valid = |block: u32| self.0[block as usize / 64].get() >> (block % 64) & 1 == 1;
        let first = is_valid(blocks.start);
        let mut at = blocks.start;
        while at < blocks.end {
            let word = self.0[at as usize / 64].get();
            // What differs from the first is set here, and what lies before this block is not.
            let other = (if first { !word } else { word }) >> (at % 64);
            if other != 0 {
                return (first, (at + other.trailing_zeros()).min(blocks.end));
            }
            at = (at / 64 + 1) * 64;
        }
        (first, blocks.end)
    }

    /// Writes all bits, in the form of a record.
    pub(crate) fn store(&self, bytes: &mut [u8]) {
        for (word, place) in self.0.iter().zip(bytes.chunks_exact_mut(8)) {
            place.copy_from_slice(&word.get().to_le_bytes());
        }
    }

    /// Reads all bits from the form of a record.
    pub(crate) fn load(&self, bytes: &[u8]) {
        for (word, eight) in self.0.iter().zip(bytes.chunks_exact(8)) {
            word.set(u64::from_le_bytes(eight.try_into().expect("eight bytes")));
        }
    }

    /// How many blocks of a range are valid.
    pub(crate) fn count_of(&self, blocks: Range<u32>) -> u32 {
        masks(blocks).map(|(word, mask)| (self.0[word].get() & mask).count_ones()).sum()
    }

    pub(crate) fn count(&self) -> u32 {
        self.0.iter().map(|word| word.get().count_ones()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use mezzanine_ground::random::Random;
    use mezzanine_ground::region::Region;

    #[test]
    fn a_bitmap_is_a_list_of_bits() {
        let region = Region::heap(4096);
        let bitmap = Validity(region.slice(0, 3));
        let mut model = [false; 192];
        let mut random = Random::new(3);
        for _ in 0..2000 {
            let start = random.below(193) as u32;
            let end = random.between(start.into(), 192) as u32;
            let valid = random.chance(1, 2);
            if valid {
                bitmap.set(start..end)
            } else {
                bitmap.clear(start..end)
            }
            model[start as usize..end as usize].fill(valid);
            let (low, high) = (random.below(192) as u32, 192);
            let range = low as usize..high as usize;
            assert_eq!(bitmap.all(low..high), model[range.clone()].iter().all(|&bit| bit));
            assert_eq!(bitmap.any(low..high), model[range.clone()].iter().any(|&bit| bit));
            let first = model[low as usize];
            let length = model[range].iter().take_while(|&&bit| bit == first).count() as u32;
            assert_eq!(bitmap.run(low..high), (first, low + length));
            let valid = model[low as usize..].iter().filter(|&&bit| bit).count();
            assert_eq!(bitmap.count_of(low..high) as usize, valid);
            assert_eq!(bitmap.count() as usize, model.iter().filter(|&&bit| bit).count());
        }
        assert!(bitmap.all(5..5) && !bitmap.any(192..192));
    }

    #[test]
    fn runs_are_the_ranges_of_a_word() {
        assert_eq!(runs(0).count(), 0);
        assert_eq!(runs(u64::MAX).map(|run| (run.start, run.end)).collect::<Vec<_>>(), [(0, 64)]);
        assert_eq!(runs(0b1011_0001).collect::<Vec<_>>(), [0..1, 4..6, 7..8]);
        assert_eq!(runs(1 << 63).map(|run| (run.start, run.end)).collect::<Vec<_>>(), [(63, 64)]);
    }
}
