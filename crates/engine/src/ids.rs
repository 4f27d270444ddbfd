//! Names of pages.

use std::fmt;
use std::ops::{Add, AddAssign, Range, Sub};

use mezzanine_ground::fields::Field;

/// Length of a page id in bytes.
pub const PAGE_ID_BYTES: usize = 20;

/// Names a page: 20 opaque bytes, compared as one big-endian number.
///
/// PostgreSQL stores its buffer tag in it; volumes store file, block and zeros. Hosts that keep the
/// block number in the last significant place can name every page of a file as one range, which is
/// what [`IdRange`] relies on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageId([u8; PAGE_ID_BYTES]);

impl PageId {
    /// A page id from its bytes.
    pub const fn from_bytes(bytes: [u8; PAGE_ID_BYTES]) -> Self {
        Self(bytes)
    }

    /// The bytes of the id.
    pub const fn as_bytes(&self) -> &[u8; PAGE_ID_BYTES] {
        &self.0
    }

    /// The id of a page of a volume: file number, block number, zeros.
    pub fn volume(file: u64, block: u64) -> Self {
        let mut bytes = [0; PAGE_ID_BYTES];
        bytes[..8].copy_from_slice(&file.to_be_bytes());
        bytes[8..16].copy_from_slice(&block.to_be_bytes());
        Self(bytes)
    }

    /// The file number of a volume's page.
    pub fn file(&self) -> u64 {
        be_u64(&self.0[..8])
    }

    /// The block number of a volume's page.
    pub fn block(&self) -> u64 {
        be_u64(&self.0[8..16])
    }

    /// The id of a block of a relation's fork, as PostgreSQL names it: database, tablespace, relation number,
    /// fork number, block number. The database comes first, so that all of it is one range whatever
    /// tablespaces it has.
    pub fn relation(database: u32, tablespace: u32, relation: u32, fork: u32, block: u32) -> Self {
        let mut bytes = [0; PAGE_ID_BYTES];
        for (out, part) in bytes.chunks_exact_mut(4).zip([database, tablespace, relation, fork, block]) {
            out.copy_from_slice(&part.to_be_bytes());
        }
        Self(bytes)
    }

    /// Database, tablespace, relation number, fork number and block number of [`Self::relation`].
    pub fn relation_parts(&self) -> [u32; 5] {
        let mut parts = [0; 5];
        for (part, bytes) in parts.iter_mut().zip(self.0.chunks_exact(4)) {
            *part = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
        parts
    }

    /// `self + (count << shift)`, or `None` past the largest id.
    fn advanced(&self, count: u64, shift: u8) -> Option<Self> {
        // 160 bits as five 32-bit limbs, least significant first; the addend is spread over them.
        let mut out = self.0;
        let mut carry = 0u64;
        for limb in 0..5usize {
            let low = (limb * 32) as u32;
            let addend = part_of_shifted(count, shift, low);
            let at = PAGE_ID_BYTES - 4 * (limb + 1);
            let word = u32::from_be_bytes([out[at], out[at + 1], out[at + 2], out[at + 3]]);
            let sum = u64::from(word) + u64::from(addend) + carry;
            out[at..at + 4].copy_from_slice(&(sum as u32).to_be_bytes());
            carry = sum >> 32;
        }
        let overflow = carry != 0 || bits_beyond_160(count, shift);
        (!overflow).then_some(Self(out))
    }

    /// The id with zeros for so many bytes at its end.
    pub(crate) fn without_last(&self, bytes: usize) -> Self {
        let mut out = self.0;
        out[PAGE_ID_BYTES - bytes..].fill(0);
        Self(out)
    }

    /// The id before it; `None` before the smallest.
    fn before(&self) -> Option<Self> {
        let mut out = self.0;
        for byte in out.iter_mut().rev() {
            let borrows = *byte == 0;
            *byte = byte.wrapping_sub(1);
            if !borrows {
                return Some(Self(out));
            }
        }
        None
    }

    /// The id as words in this machine's byte order.
    #[inline]
    pub(crate) fn words(&self) -> ([u64; 2], u32) {
        let words = [u64::from_ne_bytes(part(&self.0, 0)), u64::from_ne_bytes(part(&self.0, 8))];
        (words, u32::from_ne_bytes(part(&self.0, 16)))
    }

    /// A number that consecutive pages of a file or fork have one after the other. Pages may share one.
    pub(crate) fn in_sequence(&self) -> u64 {
        let file = folded(be_u64(&self.0[..8]) ^ 0x9E37_79B9_7F4A_7C15, 0xD6E8_FEB8_6659_FD93) << 40;
        file.wrapping_add(be_u64(&self.0[8..16]))
            .wrapping_add(u64::from(u32::from_be_bytes(part(&self.0, 16))))
    }

    pub(crate) fn from_words(words: [u64; 2], end: u32) -> Self {
        let mut bytes = [0; PAGE_ID_BYTES];
        bytes[..8].copy_from_slice(&words[0].to_ne_bytes());
        bytes[8..16].copy_from_slice(&words[1].to_ne_bytes());
        bytes[16..].copy_from_slice(&end.to_ne_bytes());
        Self(bytes)
    }

    /// For memory only: it differs between byte orders.
    #[inline]
    pub(crate) fn hash(&self) -> u64 {
        // Products of 128 bits folded to 64: every bit of the factors reaches every bit of the result.
        const K: [u64; 3] = [0x9E37_79B9_7F4A_7C15, 0xD6E8_FEB8_6659_FD93, 0xA076_1D64_78BD_642F];
        let ([a, b], c) = self.words();
        folded(folded(a ^ K[0], b ^ K[1]) ^ u64::from(c), K[2])
    }
}

/// Two words as one in which every bit of both counts.
#[inline]
pub(crate) fn mixed(a: u64, b: u64) -> u64 {
    folded(a ^ 0x9E37_79B9_7F4A_7C15, b ^ 0xD6E8_FEB8_6659_FD93)
}

#[inline]
fn part<const N: usize>(bytes: &[u8; PAGE_ID_BYTES], from: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[from..from + N]);
    out
}

#[inline]
fn folded(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

fn be_u64(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(bytes);
    u64::from_be_bytes(word)
}

/// The 32 bits of `count << shift` that start at bit `low`.
fn part_of_shifted(count: u64, shift: u8, low: u32) -> u32 {
    let shift = u32::from(shift);
    let wide = u128::from(count);
    if shift >= low {
        let up = shift - low;
        if up >= 32 { 0 } else { (wide << up) as u32 }
    } else {
        let down = low - shift;
        if down >= 64 { 0 } else { (wide >> down) as u32 }
    }
}

fn bits_beyond_160(count: u64, shift: u8) -> bool {
    count != 0 && u32::from(shift) + (64 - count.leading_zeros()) > 160
}

impl fmt::Debug for PageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PageId(")?;
        for byte in &self.0 {
            write!(f, "{byte:02x}")?;
        }
        write!(f, ")")
    }
}

/// The ids from `start` up to, not including, `start + (count << shift)`.
///
/// One page, a run of blocks, a fork, a relation or a whole database are all such ranges: for a
/// volume a run of blocks has `shift` 32 and a whole file `shift` 96 with `count` 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdRange {
    /// First id of the range.
    pub start: PageId,
    /// Number of steps of size `1 << shift`.
    pub count: u64,
    /// Size of a step as a power of two.
    pub shift: u8,
}

impl IdRange {
    /// `blocks` blocks of a volume's file, from `first` on.
    pub fn blocks(file: u64, first: u64, blocks: u64) -> Self {
        Self { start: PageId::volume(file, first), count: blocks, shift: 32 }
    }

    /// Every block of a volume's file from `first` on.
    pub fn blocks_from(file: u64, first: u64) -> Self {
        // u64::MAX - first leaves out the last conceivable block, which no file can have.
        Self::blocks(file, first, u64::MAX - first)
    }

    /// `blocks` blocks from `first` on of a fork that [`PageId::relation`] names.
    pub fn fork_blocks(
        database: u32,
        tablespace: u32,
        relation: u32,
        fork: u32,
        first: u32,
        blocks: u64,
    ) -> Self {
        Self {
            start: PageId::relation(database, tablespace, relation, fork, first),
            count: blocks.min(u64::from(u32::MAX) + 1 - u64::from(first)),
            shift: 0,
        }
    }

    /// Every block of a fork.
    pub fn fork(database: u32, tablespace: u32, relation: u32, fork: u32) -> Self {
        Self { start: PageId::relation(database, tablespace, relation, fork, 0), count: 1, shift: 32 }
    }

    /// Every fork of a relation.
    pub fn relation(database: u32, tablespace: u32, relation: u32) -> Self {
        Self { start: PageId::relation(database, tablespace, relation, 0, 0), count: 1, shift: 64 }
    }

    /// Every relation of a database in every tablespace.
    pub fn database(database: u32) -> Self {
        Self { start: PageId::relation(database, 0, 0, 0, 0), count: 1, shift: 128 }
    }

    /// Whether `id` lies in the range.
    pub fn contains(&self, id: &PageId) -> bool {
        *id >= self.start && self.end().is_none_or(|end| *id < end)
    }

    /// The first id and the last; `None` if the range has none.
    pub(crate) fn first_and_last(&self) -> Option<(PageId, PageId)> {
        if self.count == 0 {
            return None;
        }
        let largest = PageId([u8::MAX; PAGE_ID_BYTES]);
        let last = self.end().map_or(Some(largest), |end| end.before());
        last.map(|last| (self.start, last))
    }

    /// How many bytes at the beginning all ids of the range share.
    pub(crate) fn shared_beginning(&self) -> usize {
        let Some((first, last)) = self.first_and_last() else { return PAGE_ID_BYTES };
        first.0.iter().zip(&last.0).take_while(|(first, last)| first == last).count()
    }

    /// Every id of a range of at most `most` single ids; `None` for larger ranges and those whose steps are
    /// ranges themselves.
    pub(crate) fn few_ids(&self, most: u64) -> Option<Vec<PageId>> {
        if self.shift > 0 || self.count > most {
            return None;
        }
        Some((0..self.count).map_while(|step| self.start.advanced(step, 0)).collect())
    }

    /// The first id past the range; `None` if the range reaches the largest id.
    pub fn end(&self) -> Option<PageId> {
        self.start.advanced(self.count, self.shift)
    }
}

/// A page-sized place on flash, counted from the tier's first one. Not an entry of the directory: where pages
/// are written in place, an entry says in which frame its page lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Frame(pub(crate) u32);

impl Frame {
    /// What stands for one in records of pages that lie in the queue itself.
    pub(crate) const NONE: Self = Self(0);

    /// The one with this number, for what is kept as numbers.
    pub const fn from_number(number: u32) -> Self {
        Self(number)
    }

    /// Its number.
    pub const fn number(self) -> u32 {
        self.0
    }
}

/// An entry of the directory, counted from the first one. Where pages lie in the queue it is that of the
/// frame with the same number; in place it says in which frame its page lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EntryNumber(pub(crate) u32);

impl EntryNumber {
    /// The frame of a page, or of a summary, that lies in the queue itself.
    #[inline(always)]
    pub(crate) const fn frame_in_queue(self) -> Frame {
        Frame(self.0)
    }

    /// The one so many behind it, if there is one.
    #[inline(always)]
    pub(crate) const fn after(self, steps: u64) -> Self {
        Self(self.0 + steps as u32)
    }

    /// All entries of a directory of so many, in turn.
    pub(crate) fn all(entries: u64) -> impl Iterator<Item = Self> {
        (0..entries as u32).map(Self)
    }
}

/// Numbers that only rise over a tier's life, each a type of its own, so that none is taken for another. The
/// arithmetic is that of the numbers: what they may come to, `bounds` says.
macro_rules! rising_numbers {
    ($($(#[$doc:meta])+ $name:ident;)+) => {$(
        $(#[$doc])+
        #[repr(transparent)]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u64);

        impl $name {
            /// The one with number 0.
            pub const ZERO: Self = Self(0);
            /// Behind all that there are.
            pub const END: Self = Self(u64::MAX);

            /// The one with this number, for hosts that are not written in Rust, and for what is kept as
            /// numbers.
            #[inline(always)]
            pub const fn from_number(number: u64) -> Self {
                Self(number)
            }

            /// Its number.
            #[inline(always)]
            pub const fn number(self) -> u64 {
                self.0
            }

            /// The one after it.
            #[inline(always)]
            #[must_use]
            pub const fn next(self) -> Self {
                Self(self.0 + 1)
            }

            /// How many lie from an earlier one up to this one; `None` if the other one is later.
            #[inline]
            pub const fn distance_from(self, earlier: Self) -> Option<u64> {
                self.0.checked_sub(earlier.0)
            }

            /// Each of a range, in turn.
            #[inline]
            pub fn each(range: Range<Self>) -> impl DoubleEndedIterator<Item = Self> {
                (range.start.0..range.end.0).map(Self)
            }
        }

        /// So many behind it.
        impl Add<u64> for $name {
            type Output = Self;

            #[inline(always)]
            fn add(self, count: u64) -> Self {
                Self(self.0 + count)
            }
        }

        impl AddAssign<u64> for $name {
            #[inline(always)]
            fn add_assign(&mut self, count: u64) {
                self.0 += count;
            }
        }

        /// So many before it.
        impl Sub<u64> for $name {
            type Output = Self;

            #[inline(always)]
            fn sub(self, count: u64) -> Self {
                Self(self.0 - count)
            }
        }

        /// How many lie from one that is known to be no later up to this one.
        impl Sub for $name {
            type Output = u64;

            #[inline(always)]
            fn sub(self, earlier: Self) -> u64 {
                self.0 - earlier.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        /// It is kept as its number.
        impl Field for $name {
            const BYTES: usize = <u64 as Field>::BYTES;

            #[inline]
            fn put(self, place: &mut [u8]) {
                self.0.put(place);
            }

            #[inline]
            fn get(place: &[u8]) -> Self {
                Self(Field::get(place))
            }
        }
    )+};
}

rising_numbers! {
    /// Where a page was appended: the number of frames that had been appended to the queue before it.
    ///
    /// Positions only grow; the frame is the position modulo the number of frames.
    Position;
    /// The number of a group: one more than that of the group before it.
    Sequence;
    /// The number of a page's version within the tier's life, below 2^48; a second chance keeps it. None has
    /// number 0, and of two versions of a page the one of the later epoch is the newer one, then the one with
    /// the larger number.
    Version;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_hold_their_ids_and_no_others() {
        let run = IdRange::blocks(7, 10, 5);
        assert!(run.contains(&PageId::volume(7, 10)));
        assert!(run.contains(&PageId::volume(7, 14)));
        assert!(!run.contains(&PageId::volume(7, 9)));
        assert!(!run.contains(&PageId::volume(7, 15)));
        assert!(!run.contains(&PageId::volume(8, 10)));
        assert_eq!(run.end(), Some(PageId::volume(7, 15)));
        let file = IdRange { start: PageId::volume(7, 0), count: 1, shift: 96 };
        assert!(file.contains(&PageId::volume(7, u64::MAX)));
        assert!(!file.contains(&PageId::volume(8, 0)));
        let tail = IdRange::blocks_from(7, 3);
        assert!(tail.contains(&PageId::volume(7, u64::MAX - 1)));
        assert!(!tail.contains(&PageId::volume(8, 0)));
    }

    #[test]
    fn forks_relations_and_databases_are_ranges() {
        let page = PageId::relation(5, 1663, 16_384, 1, 77);
        assert_eq!(page.relation_parts(), [5, 1663, 16_384, 1, 77]);
        assert!(IdRange::fork(5, 1663, 16_384, 1).contains(&page));
        assert!(!IdRange::fork(5, 1663, 16_384, 0).contains(&page));
        assert!(IdRange::relation(5, 1663, 16_384).contains(&page));
        assert!(!IdRange::relation(5, 1663, 16_385).contains(&page));
        assert!(IdRange::database(5).contains(&page));
        assert!(!IdRange::database(4).contains(&page));
        assert!(IdRange::database(u32::MAX).contains(&PageId::relation(u32::MAX, 9, 9, 9, 9)));
        let tail = IdRange::fork_blocks(5, 1663, 16_384, 1, 77, u64::MAX);
        assert!(tail.contains(&page));
        assert!(tail.contains(&PageId::relation(5, 1663, 16_384, 1, u32::MAX)));
        assert!(!tail.contains(&PageId::relation(5, 1663, 16_384, 2, 0)));
        assert!(!tail.contains(&PageId::relation(5, 1663, 16_384, 1, 76)));
    }

    #[test]
    fn a_range_past_the_largest_id_has_no_end() {
        let all = IdRange { start: PageId::from_bytes([0xFF; 20]), count: 1, shift: 0 };
        assert_eq!(all.end(), None);
        assert!(all.contains(&PageId::from_bytes([0xFF; 20])));
        let wide = IdRange { start: PageId::volume(0, 0), count: 2, shift: 159 };
        assert_eq!(wide.end(), None);
    }
}
