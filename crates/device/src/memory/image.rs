//! The contents of a device, and which parts of them changed since they were copied from another.
//!
//! Whoever tries many continuations of one state copies it again and again; only what the last continuation
//! changed has to be put back.

use std::ops::{Deref, Range};
use std::sync::atomic::{AtomicU64, Ordering};

/// Changes are remembered in parts of so many bytes.
const CHUNK_BYTES: usize = 4096;

/// Tells images apart.
static NEXT_IDENTITY: AtomicU64 = AtomicU64::new(0);

/// Bytes of a device.
#[derive(Debug)]
pub(super) struct Image {
    bytes: Vec<u8>,
    identity: u64,
    /// Counts changes.
    version: u64,
    /// Identity and version of the image that this one was copied from last.
    copy_of: Option<(u64, u64)>,
    /// One bit for each chunk that may differ from that.
    touched: Vec<u64>,
}

impl Image {
    pub(super) fn zeroed(len: usize) -> Self {
        let identity = NEXT_IDENTITY.fetch_add(1, Ordering::Relaxed);
        Self { bytes: vec![0; len], identity, version: 0, copy_of: None, touched: Vec::new() }
    }

    /// A range that is about to change.
    pub(super) fn change(&mut self, range: Range<usize>) -> &mut [u8] {
        self.touch(range.clone());
        &mut self.bytes[range]
    }

    /// Changes the length; new bytes are zeros.
    pub(super) fn resize(&mut self, len: usize) {
        let before = self.bytes.len();
        if len != before {
            self.touch(len.min(before)..len.max(before));
            self.bytes.resize(len, 0);
        }
    }

    /// Changes everything to `bytes`.
    pub(super) fn replace(&mut self, bytes: impl FnOnce(&mut Vec<u8>)) {
        self.version += 1;
        self.copy_of = None;
        self.bytes.clear();
        bytes(&mut self.bytes);
    }

    /// Changes everything to what `other` has.
    pub(super) fn copy_from(&mut self, other: &Self) {
        let source = Some((other.identity, other.version));
        self.version += 1;
        if self.copy_of == source {
            self.bytes.resize(other.bytes.len(), 0);
            for (number, word) in self.touched.iter().enumerate() {
                let mut rest = *word;
                while rest != 0 {
                    let chunk = number * 64 + rest.trailing_zeros() as usize;
                    rest &= rest - 1;
                    let end = ((chunk + 1) * CHUNK_BYTES).min(self.bytes.len());
                    let range = (chunk * CHUNK_BYTES).min(end)..end;
                    self.bytes[range.clone()].copy_from_slice(&other.bytes[range]);
                }
            }
        } else {
            self.bytes.clone_from(&other.bytes);
            self.copy_of = source;
        }
        self.touched.clear();
    }

    fn touch(&mut self, range: Range<usize>) {
        self.version += 1;
        if self.copy_of.is_none() || range.is_empty() {
            return;
        }
        let (first, last) = (range.start / CHUNK_BYTES, (range.end - 1) / CHUNK_BYTES);
        if self.touched.len() <= last / 64 {
            self.touched.resize(last / 64 + 1, 0);
        }
        (first..=last).for_each(|chunk| self.touched[chunk / 64] |= 1 << (chunk % 64));
    }
}

impl Deref for Image {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::super::random::Random;
    use super::*;

    #[test]
    fn a_copy_is_the_same_whatever_either_was_before() {
        let mut random = Random::new(3);
        let mut sources = [Image::zeroed(100_000), Image::zeroed(70_001)];
        let mut copy = Image::zeroed(0);
        for round in 0..2000 {
            let source = &mut sources[random.below(2) as usize];
            for image in [source, &mut copy] {
                for _ in 0..random.below(3) {
                    match random.below(8) {
                        0 => image.resize(random.below(120_000) as usize),
                        1 => image.replace(|bytes| bytes.resize(50_000, round as u8)),
                        _ if image.is_empty() => {}
                        _ => {
                            let start = random.below(image.len() as u64) as usize;
                            let end = (start + random.magnitude(9000) as usize).min(image.len());
                            image.change(start..end).fill(round as u8);
                        }
                    }
                }
            }
            let source = &sources[random.below(2) as usize];
            copy.copy_from(source);
            assert!(copy[..] == source[..], "round {round}");
        }
    }
}
