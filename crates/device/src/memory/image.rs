//! The contents of a device, in chunks that copies share until one of them changes.
//!
//! Whoever tries many continuations of one state copies it again and again; a copy costs a reference for each
//! chunk, and only what a continuation changes is copied in fact.
//!
//! Invariant: behind the end, the last chunk has zeros.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

/// A page of most configurations fits, and a write to one copies little beside it.
const CHUNK_BYTES: usize = 8192;

type Chunk = [u8; CHUNK_BYTES];

static ZEROS: Chunk = [0; CHUNK_BYTES];

/// The bytes of a device at one moment, and how far its zones are written. A clone is cheap.
#[derive(Default)]
pub struct Image {
    len: usize,
    /// Bytes written of each zone; none of a device without zones.
    pub(super) written: Vec<u64>,
    /// `None`: all zeros. Not a chunk that all share, whose count of references every thread would write to.
    chunks: Vec<Option<Arc<Chunk>>>,
}

impl Image {
    /// So many bytes, all zeros.
    pub fn zeroed(len: usize) -> Self {
        Self { len, written: Vec::new(), chunks: vec![None; len.div_ceil(CHUNK_BYTES)] }
    }

    /// How many bytes there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// A copy in one piece.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len);
        self.append_to(0..self.len, &mut bytes);
        bytes
    }

    /// The bytes of a range; a copy of them only if they are not in one chunk.
    ///
    /// # Panics
    /// When the range does not lie within.
    pub fn range(&self, range: Range<usize>) -> Cow<'_, [u8]> {
        self.check(&range);
        if range.is_empty() {
            return Cow::Borrowed(&[]);
        }
        let number = range.start / CHUNK_BYTES;
        if (range.end - 1) / CHUNK_BYTES == number {
            let start = number * CHUNK_BYTES;
            return Cow::Borrowed(&self.chunk(number)[range.start - start..range.end - start]);
        }
        let mut bytes = Vec::with_capacity(range.len());
        self.append_to(range, &mut bytes);
        Cow::Owned(bytes)
    }

    /// Whether these are the first bytes.
    pub fn starts_with(&self, bytes: &[u8]) -> bool {
        bytes.len() <= self.len && *self.range(0..bytes.len()) == *bytes
    }

    /// The bytes in pieces of `PIECE_BYTES`, the last one shorter if they do not suffice.
    pub fn pieces<const PIECE_BYTES: usize>(&self) -> impl Iterator<Item = &[u8]> {
        const { assert!(CHUNK_BYTES % PIECE_BYTES == 0, "no piece lies in two chunks") };
        (0..self.chunks.len())
            .flat_map(|number| self.chunk(number)[..self.len_of(number)].chunks(PIECE_BYTES))
    }

    /// Copies the bytes from `at` on into `buf`.
    ///
    /// # Panics
    /// When there are not so many.
    pub fn read(&self, at: usize, buf: &mut [u8]) {
        let mut rest = buf;
        for (number, range) in self.parts(at..at + rest.len()) {
            let (now, later) = rest.split_at_mut(range.len());
            now.copy_from_slice(&self.chunk(number)[range]);
            rest = later;
        }
    }

    /// Appends the bytes of a range to `bytes`.
    pub(super) fn append_to(&self, range: Range<usize>, bytes: &mut Vec<u8>) {
        self.parts(range).for_each(|(number, range)| bytes.extend_from_slice(&self.chunk(number)[range]));
    }

    /// Changes the bytes from `at` on.
    ///
    /// # Panics
    /// When there are not so many.
    pub fn write(&mut self, at: usize, mut bytes: &[u8]) {
        for (number, range) in self.parts(at..at + bytes.len()) {
            let (now, later) = bytes.split_at(range.len());
            self.chunk_mut(number)[range].copy_from_slice(now);
            bytes = later;
        }
    }

    /// Makes a range zeros.
    ///
    /// # Panics
    /// When the range does not lie within.
    pub fn zero(&mut self, range: Range<usize>) {
        for (number, range) in self.parts(range) {
            if range.len() == CHUNK_BYTES {
                self.chunks[number] = None;
            } else if self.chunks[number].is_some() {
                self.chunk_mut(number)[range].fill(0);
            }
        }
    }

    /// Inverts bits of the byte at `at`: those that `bits` has set.
    ///
    /// # Panics
    /// When there is no such byte.
    pub fn flip(&mut self, at: usize, bits: u8) {
        self.check(&(at..at + 1));
        self.chunk_mut(at / CHUNK_BYTES)[at % CHUNK_BYTES] ^= bits;
    }

    /// Changes the length; new bytes are zeros.
    pub fn resize(&mut self, len: usize) {
        if len < self.len {
            // To the end of its chunk: chunks behind that go as a whole.
            self.zero(len..self.len.min(len.next_multiple_of(CHUNK_BYTES)));
        }
        self.chunks.resize(len.div_ceil(CHUNK_BYTES), None);
        self.len = len;
    }

    fn check(&self, range: &Range<usize>) {
        assert!(range.start <= range.end && range.end <= self.len, "{range:?} of {} bytes", self.len);
    }

    /// The chunks that a range touches, and where in each.
    fn parts(&self, range: Range<usize>) -> impl Iterator<Item = (usize, Range<usize>)> + use<> {
        self.check(&range);
        (range.start / CHUNK_BYTES..range.end.div_ceil(CHUNK_BYTES)).map(move |number| {
            let start = number * CHUNK_BYTES;
            (number, range.start.saturating_sub(start)..(range.end - start).min(CHUNK_BYTES))
        })
    }

    fn len_of(&self, number: usize) -> usize {
        (self.len - number * CHUNK_BYTES).min(CHUNK_BYTES)
    }

    fn chunk(&self, number: usize) -> &Chunk {
        self.chunks[number].as_deref().unwrap_or(&ZEROS)
    }

    fn chunk_mut(&mut self, number: usize) -> &mut Chunk {
        Arc::make_mut(self.chunks[number].get_or_insert_with(|| Arc::new(ZEROS)))
    }
}

/// Whether they are known to be the same without a look at the bytes.
fn is_shared(one: &Option<Arc<Chunk>>, other: &Option<Arc<Chunk>>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        (one, other) => one.is_none() && other.is_none(),
    }
}

impl Clone for Image {
    fn clone(&self) -> Self {
        Self { len: self.len, written: self.written.clone(), chunks: self.chunks.clone() }
    }

    /// Touches no chunk that is shared already.
    fn clone_from(&mut self, other: &Self) {
        self.len = other.len;
        self.written.clone_from(&other.written);
        self.chunks.resize(other.chunks.len(), None);
        for (chunk, other) in self.chunks.iter_mut().zip(&other.chunks) {
            if !is_shared(chunk, other) {
                chunk.clone_from(other);
            }
        }
    }
}

impl PartialEq for Image {
    fn eq(&self, other: &Self) -> bool {
        let same = |number: usize| {
            is_shared(&self.chunks[number], &other.chunks[number])
                || self.chunk(number) == other.chunk(number)
        };
        self.len == other.len && (0..self.chunks.len()).all(same)
    }
}

impl Eq for Image {}

impl From<&[u8]> for Image {
    fn from(bytes: &[u8]) -> Self {
        let chunk = |bytes: &[u8]| {
            if *bytes == ZEROS[..bytes.len()] {
                return None;
            }
            let mut chunk = Arc::new(ZEROS);
            Arc::make_mut(&mut chunk)[..bytes.len()].copy_from_slice(bytes);
            Some(chunk)
        };
        Self { len: bytes.len(), written: Vec::new(), chunks: bytes.chunks(CHUNK_BYTES).map(chunk).collect() }
    }
}

impl std::fmt::Debug for Image {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Image of {} bytes", self.len)
    }
}

#[cfg(test)]
mod tests {
    use mezzanine_ground::random::Random;

    use super::*;

    /// Every operation against plain bytes, on images that are copies of each other.
    #[test]
    fn images_are_what_plain_bytes_are_whatever_they_share() {
        let mut random = Random::new(3);
        let mut images = [100_000, 70_001, 0, 8192].map(|len| (Image::zeroed(len), vec![0u8; len]));
        let mut equal_pairs = 0;
        for round in 0..4000 {
            let (from, to) = (random.below(4) as usize, random.below(4) as usize);
            let source = (images[from].0.clone(), images[from].1.clone());
            let (image, bytes) = &mut images[to];
            let start = random.below(bytes.len() as u64 + 1) as usize;
            let end = (start + random.magnitude(30_000) as usize).min(bytes.len());
            let new = vec![random.below(3) as u8; end - start];
            match random.below(8) {
                0 => {
                    let len = random.below(120_000) as usize;
                    image.resize(len);
                    bytes.resize(len, 0);
                }
                1 => *image = Image::from(&bytes[..]),
                2 => (*image, *bytes) = source,
                3 => {
                    image.clone_from(&source.0);
                    bytes.clone_from(&source.1);
                }
                4 => {
                    image.zero(start..end);
                    bytes[start..end].fill(0);
                }
                5 if start < bytes.len() => {
                    image.flip(start, 5);
                    bytes[start] ^= 5;
                }
                _ => {
                    image.write(start, &new);
                    bytes[start..end].copy_from_slice(&new);
                }
            }
            let (start, end) = (start.min(bytes.len()), end.min(bytes.len()));
            let mut read = vec![9; end - start];
            image.read(start, &mut read);
            assert!(read == bytes[start..end], "round {round}");
            assert!(*image.range(start..end) == bytes[start..end], "round {round}");
            assert_eq!(image.starts_with(&new), bytes.starts_with(&new), "round {round}");
            let pieces = || bytes.chunks(512);
            assert!(image.pieces::<512>().eq(pieces()), "round {round}");
            for (image, bytes) in &images {
                assert!(image.len() == bytes.len() && image.to_vec() == *bytes, "round {round}");
                let equal = *image == images[from].0;
                assert_eq!(equal, *bytes == images[from].1, "round {round}");
                equal_pairs += u64::from(equal);
            }
        }
        assert!(equal_pairs > 4000 + 500, "{equal_pairs}");
    }
}
